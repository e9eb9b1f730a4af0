//! Waiting for a transaction's end, and deadlocks among those who wait.
//!
//! # Words
//!
//! Of each waiter's slot: *own*: the top-level id of its transaction, 0 if it has none; *target*: the id it waits for; *turn*: odd while it
//! waits. Of each bucket of ids: *waiting*: how many wait for one of them.
//!
//! # Rules
//!
//! 1. Only a slot's owner writes own, target and turn. To wait: waiting + 1; own, target; turn odd (Release); `fence(SeqCst)`. To stop: turn
//!    even, waiting - 1.
//! 2. Having published that it waits, and not before, a waiter asks whether the id runs, and parks if it does. An ender lets its id leave the array,
//!    `fence(SeqCst)`, looks at the bucket's count and, if somebody waits, at all slots, and unparks who waits for its id. The fences are ordered
//!    one way or the other: the waiter finds the id ended, or the ender finds the waiter. No wake-up is lost.
//! 3. An *edge* own → target is read between two equal odd turns, so its two ends belong together. Who has published its edge
//!    follows them from its own target on until it comes to itself: a cycle. When a cycle closes, the one whose fence is last sees all its edges.
//! 4. A cycle counts only if, after its last edge was read, no turn has changed: then all waited at one instant. (If one had stopped before another began, who
//!    saw the second begin, by the Acquire of its turn, would have seen the first stopped.) An edge whose target runs lasts until a timeout, so
//!    such a cycle is a deadlock.
//! 5. The victim is the youngest id of the cycle, so that all who find it agree and one transaction dies, not two. Who finds the cycle and is not
//!    the victim unparks it; the victim, awake, finds the cycle itself, since it sees all that its waker saw.
//!
//! Who may break them: nobody. A waiter without an id of its own is in no cycle: nobody can wait for it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use txnkit_ids::Xid;
use txnkit_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use txnkit_sync::park::{DefaultPark, Park};
use txnkit_sync::{Padded, array_of, broken, fence_at, ord};

use crate::error::RegisterError;

/// Ids dealt one after another fall into different buckets, so that an ender seldom looks for waiters where there are none of its own.
const BUCKETS: usize = 64;

/// Who waits for whose end: for any transaction array, used beside it.
///
/// ```
/// use procarray::{Membership, ProcArray, SnapshotSession, Snapshots, Waits, Xid};
///
/// let array = ProcArray::new(2, Xid::FIRST_NORMAL);
/// let waits: Waits = Waits::new(2);
/// let (mut holder, mut asker) = (array.register()?, array.register()?);
/// let xid = holder.assign()?;
///
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let mut waiter = waits.register().unwrap();
///         let waiting = waiter.wait_for(asker.xid(), xid); // first say so, then ask
///         while asker.is_running(xid).unwrap() == Membership::Running {
///             assert!(waiting.deadlock().is_none());
///             waiting.park(1_000_000_000);
///         }
///     });
///     holder.end(|_, _| Ok::<_, ()>(())).unwrap();
///     waits.wake(xid); // after the id has left the array
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Waits<P = DefaultPark> {
    slots: Box<[Padded<Slot<P>>]>,
    waiting: [Padded<AtomicU32>; BUCKETS],
}

struct Slot<P> {
    in_use: AtomicBool,
    own: AtomicU64,
    target: AtomicU64,
    turn: AtomicU64,
    park: P,
}

/// Two ends of one edge, and the turn they belong to.
#[derive(Debug, Clone, Copy)]
struct Edge {
    slot: usize,
    turn: u64,
    own: u64,
    target: u64,
}

impl<P: Park> Waits<P> {
    /// Room for so many waiters at a time.
    pub fn new(sessions: usize) -> Self {
        let slot = || Slot {
            in_use: AtomicBool::new(false),
            own: AtomicU64::new(0),
            target: AtomicU64::new(0),
            turn: AtomicU64::new(0),
            park: txnkit_sync::new_park!(P),
        };
        Self {
            slots: (0..sessions).map(|_| Padded::new(slot())).collect(),
            waiting: array_of!(Padded::new(AtomicU32::new(0)); BUCKETS),
        }
    }

    /// A place to wait at, for one session as long as it lives. Lock-free.
    ///
    /// # Errors
    /// [`RegisterError`] when every place is in use.
    pub fn register(&self) -> Result<Waiter<'_, P>, RegisterError> {
        let free = |slot: &Padded<Slot<P>>| {
            // Acquire pairs with the Release in the drop of the slot's last owner.
            slot.in_use
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        };
        match self.slots.iter().position(free) {
            Some(at) => Ok(Waiter { waits: self, at }),
            None => Err(RegisterError {
                sessions: self.slots.len(),
            }),
        }
    }

    /// Wakes everybody who waits for `xid`, which must have left the array. Wait-free: a fence and a load when nobody waits for an
    /// id of its bucket, else a look at every slot.
    #[inline]
    pub fn wake(&self, xid: Xid) {
        // Pairs with the fence in `wait_for`.
        fence_at!("procarray.waits.wake-fence", SeqCst);
        if self.bucket(xid.get()).load(Ordering::Relaxed) != 0 {
            self.wake_all(xid);
        }
    }

    #[cold]
    fn wake_all(&self, xid: Xid) {
        for slot in &self.slots {
            // Who stands here for another reason by now wakes for nothing.
            if slot.target.load(Ordering::Relaxed) == xid.get() {
                slot.park.unpark();
            }
        }
    }

    fn bucket(&self, xid: u64) -> &AtomicU32 {
        &self.waiting[xid as usize % BUCKETS]
    }

    /// The edge that starts at `own` (rule 3).
    fn edge_of(&self, own: u64) -> Option<Edge> {
        let is_its = |edge: &Edge| edge.own == own && own != 0;
        (0..self.slots.len()).find_map(|at| self.edge(at).filter(is_its))
    }

    fn edge(&self, at: usize) -> Option<Edge> {
        let slot = &self.slots[at];
        // Acquire pairs with the Release of the odd turn in `wait_for`: own and target are that turn's or a later one's.
        let turn = slot.turn.load(ord!("procarray.waits.turn", Acquire));
        let edge = Edge {
            slot: at,
            turn,
            own: slot.own.load(Ordering::Relaxed),
            target: slot.target.load(Ordering::Relaxed),
        };
        (turn % 2 == 1 && self.stands(&edge)).then_some(edge)
    }

    /// Does its owner still wait?
    fn stands(&self, edge: &Edge) -> bool {
        // Pairs with the Release fence in `wait_for`: who read a word of a later turn sees that this one is over.
        fence_at!("procarray.waits.reader-fence", Acquire);
        self.slots[edge.slot].turn.load(Ordering::Relaxed) == edge.turn
            || broken!("procarray.waits.no-recheck")
    }

    /// The cycle through the edge of the slot `me`, if there is one.
    fn cycle(&self, me: usize) -> Option<Vec<Edge>> {
        let mut cycle: Vec<Edge> = Vec::new();
        let mut next = self.edge(me)?;
        loop {
            cycle.push(next);
            next = self.edge_of(next.target)?;
            if next.slot == me {
                break;
            }
            if cycle.iter().any(|edge| edge.slot == next.slot) {
                return None; // one that this waiter is only behind of
            }
        }
        let all_stand = cycle.iter().all(|edge| self.stands(edge));
        (all_stand || broken!("procarray.waits.no-last-look")).then_some(cycle)
    }
}

/// A session's place to wait at. Dropping it frees the place.
pub struct Waiter<'a, P: Park = DefaultPark> {
    waits: &'a Waits<P>,
    at: usize,
}

impl<P: Park> Waiter<'_, P> {
    /// Says that the transaction `own` (`None`: one that has no id) waits for `target` from now to the drop of what is returned. Ask only
    /// then whether `target` runs. Wait-free.
    pub fn wait_for(&mut self, own: Option<Xid>, target: Xid) -> Waiting<'_, P> {
        let slot = &self.waits.slots[self.at];
        self.waits
            .bucket(target.get())
            .fetch_add(1, Ordering::Relaxed);
        let turn = slot.turn.load(Ordering::Relaxed) + 1;
        // Pairs with the Acquire fence in `stands`: who reads a word stored below sees the even turn before it.
        fence_at!("procarray.waits.writer-fence", Release);
        slot.own.store(own.map_or(0, Xid::get), Ordering::Relaxed);
        slot.target.store(target.get(), Ordering::Relaxed);
        // Pairs with the Acquire load in `edge`.
        slot.turn
            .store(turn, ord!("procarray.waits.publish", Release));
        // Pairs with the fence in `wake`, and with itself in another waiter: of those who close a cycle the last sees all.
        fence_at!("procarray.waits.publish-fence", SeqCst);
        Waiting {
            waits: self.waits,
            at: self.at,
            target,
        }
    }
}

impl<P: Park> Drop for Waiter<'_, P> {
    fn drop(&mut self) {
        // Pairs with the Acquire in `register`.
        self.waits.slots[self.at]
            .in_use
            .store(false, Ordering::Release);
    }
}

/// A wait under way; it ends when this is dropped.
pub struct Waiting<'a, P: Park = DefaultPark> {
    waits: &'a Waits<P>,
    at: usize,
    target: Xid,
}

impl<P: Park> Waiting<'_, P> {
    /// Must this transaction die because it and others wait for each other in a cycle, and it is the youngest of them?
    ///
    /// Ask before every [`park`](Self::park). If another one is the youngest it is woken to find out. Wait-free: a look at every slot for each edge
    /// from here on.
    pub fn deadlock(&self) -> Option<Deadlock> {
        let cycle = self.waits.cycle(self.at)?;
        let victim = cycle.iter().max_by_key(|edge| edge.own)?;
        if victim.slot == self.at {
            let waits = |edge: &Edge| (Xid::new(edge.own), Xid::new(edge.target));
            return Some(Deadlock {
                cycle: cycle.iter().map(waits).collect(),
            });
        }
        if !broken!("procarray.waits.victim-not-told") {
            self.waits.slots[victim.slot].park.unpark();
        }
        None
    }

    /// Blocks until somebody wakes this waiter, at most `timeout_ns` nanoseconds; says whether it was woken. It may be woken for nothing:
    /// ask again whether the target runs.
    ///
    /// Returns at once where parking is impossible ([`Park::CAN_BLOCK`]).
    pub fn park(&self, timeout_ns: u64) -> bool {
        self.waits.slots[self.at].park.park_timeout(timeout_ns)
    }
}

impl<P: Park> Drop for Waiting<'_, P> {
    fn drop(&mut self) {
        let slot = &self.waits.slots[self.at];
        let turn = slot.turn.load(Ordering::Relaxed) + 1;
        slot.turn.store(turn, Ordering::Relaxed);
        self.waits
            .bucket(self.target.get())
            .fetch_sub(1, Ordering::Relaxed);
    }
}

/// Transactions wait for each other in a cycle, and this one, the youngest, has to give way: abort it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadlock {
    /// Who waits for whom: (waiter, awaited), from the victim on; the last awaits the victim.
    pub cycle: Vec<(Xid, Xid)>,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadlock: ")?;
        for (at, (waiter, awaited)) in self.cycle.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{waiter} waits for {awaited}")?;
        }
        f.write_str("; abort this transaction, the youngest of them")
    }
}

impl core::error::Error for Deadlock {}

impl<P: Park> fmt::Debug for Waits<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edges = (0..self.slots.len()).filter_map(|at| self.edge(at));
        let edges = edges.map(|edge| (Xid::new(edge.own), Xid::new(edge.target)));
        f.debug_map().entries(edges).finish()
    }
}

impl<P: Park> fmt::Debug for Waiter<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter")
            .field("place", &self.at)
            .finish_non_exhaustive()
    }
}

impl<P: Park> fmt::Debug for Waiting<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}
