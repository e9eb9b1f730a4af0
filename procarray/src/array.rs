//! The array itself: its memory, its sessions' slots, ids.

use core::fmt;

use txnkit_ids::Xid;
use txnkit_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use txnkit_sync::park::{DefaultPark, Park};
use txnkit_sync::{Padded, ord};

use crate::done::{BITS, DoneMap, fresh, new_old_word, skip_special};
use crate::error::{AssignError, RegisterError};
use crate::form::{Fixed, Form};
use crate::horizon::Horizon;
use crate::session::Session;
use crate::slot::{Slot, new_slot};
use crate::traits::Snapshots;

/// The words of the default window: 4096 ids, 512 bytes.
pub const WINDOW_WORDS: usize = 64;

/// A transaction array in either [form](Form): [`ProcArray`] or [`FixedProcArray`].
pub struct Array<F: Form> {
    pub(crate) done: DoneMap<F>,
    pub(crate) horizon: Horizon,
    /// The leader's word, see `ends`.
    pub(crate) ends: Padded<AtomicU32>,
    ids: Padded<Ids>,
    /// One more than the highest slot ever registered.
    high_water: Padded<AtomicU32>,
    slots: F::Slots,
}

/// Handing out ids.
#[derive(Debug)]
struct Ids {
    next: AtomicU64,
    stop: AtomicU64,
}

/// The array with memory from the allocator, sized when it is built.
///
/// `W` is the window's length in words of 64 ids, a power of two. A larger window costs every session `8 * W` bytes and lets
/// transactions run longer before their ids move to the list of old ones; copying costs by the ids between the oldest
/// running one and the newest ended one, whatever `W` is.
#[cfg(feature = "alloc")]
pub type ProcArray<const W: usize = WINDOW_WORDS, P = DefaultPark> =
    Array<crate::form::Growing<W, P>>;

/// The array of const capacity: `N` sessions, `OLD` old words (at least `N`), a window of `W` words. Fits in a `static`.
///
/// ```
/// use procarray::{FixedProcArray, SnapshotSession, Snapshots, Xid};
///
/// static ARRAY: FixedProcArray<4, 8, 4> = FixedProcArray::new(Xid::FIRST_NORMAL);
///
/// let mut session = ARRAY.register().unwrap();
/// assert_eq!(session.assign(), Ok(Xid::FIRST_NORMAL));
/// ```
pub type FixedProcArray<
    const N: usize,
    const OLD: usize = 64,
    const W: usize = WINDOW_WORDS,
    P = DefaultPark,
> = Array<Fixed<N, OLD, W, P>>;

/// What place `at` of a window of `len` words holds when every id before `first`, and none after, has ended.
const fn initial_word(first: u64, at: usize, len: usize) -> u64 {
    let base = first / BITS;
    let word = base + ((at as u64).wrapping_sub(base) & (len as u64 - 1));
    let ended = if word == base {
        (1 << (first % BITS)) - 1
    } else {
        0
    };
    fresh(word) | ended
}

/// A window as it stands before anything has ended since `first`.
macro_rules! initial_window {
    ($first:expr, $len:expr) => {{
        let mut window = txnkit_sync::array_of!(AtomicU64::new(0); $len);
        let mut at = 0;
        while at < $len {
            window[at] = AtomicU64::new(initial_word($first, at, $len));
            at += 1;
        }
        window
    }};
}

impl<F: Form> Array<F> {
    txnkit_sync::const_fn! {
        fn assemble(first: u64, window: F::Window, old: F::OldWords, slots: F::Slots) -> Self {
            Self {
                done: DoneMap::new(first, window, old),
                horizon: Horizon::new(),
                ends: Padded::new(AtomicU32::new(0)),
                ids: Padded::new(Ids { next: AtomicU64::new(first), stop: AtomicU64::new(u64::MAX) }),
                high_water: Padded::new(AtomicU32::new(0)),
                slots,
            }
        }
    }

    /// Changes whenever transactions have ended: equal counts mean equal running sets. Wait-free.
    pub fn completion_count(&self) -> u64 {
        self.done.stable_count() / 2
    }

    /// Hands out an id whose low half is not special.
    #[inline]
    pub(crate) fn hand_out(&self) -> Result<u64, AssignError> {
        let Ids { next, stop } = &*self.ids;
        let (at, limit) = (next.load(Ordering::Relaxed), stop.load(Ordering::Relaxed));
        if at >= limit {
            return Err(AssignError::Stopped {
                next: Xid::new(at),
                stop: Xid::new(limit),
            });
        }
        loop {
            // Release: who gets a later id and ends it shows its leader the ASSIGNING mark stored before this. Acquire: the same,
            // from the other side. Both halves of this one operation pair with each other; see rule 7 of `done`.
            let xid = next.fetch_add(1, ord!("procarray.array.hand-out", AcqRel));
            if !Xid::new(xid).is_special() {
                return Ok(xid);
            }
        }
    }

    pub(crate) fn slot(&self, at: u32) -> &Slot<F> {
        &self.slots.as_ref()[at as usize]
    }

    /// The slots that were ever registered.
    pub(crate) fn registered_slots(&self) -> &[Padded<Slot<F>>] {
        &self.slots.as_ref()[..self.high_water.load(Ordering::Relaxed) as usize]
    }
}

impl<F: Form> Snapshots for Array<F> {
    type Session<'a> = Session<'a, F>;

    /// Lock-free: looks at each slot once.
    fn register(&self) -> Result<Session<'_, F>, RegisterError> {
        for (at, slot) in self.slots.as_ref().iter().enumerate() {
            // Acquire pairs with the Release in the drop of the slot's last session.
            let free = !slot.in_use.load(Ordering::Relaxed)
                && slot
                    .in_use
                    .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok();
            if free {
                self.high_water.fetch_max(at as u32 + 1, Ordering::Relaxed);
                return Ok(Session::new(self, at as u32));
            }
        }
        Err(RegisterError {
            sessions: self.sessions(),
        })
    }

    /// Wait-free: one look at every slot that was ever registered.
    fn horizon(&self) -> Xid {
        let xmins = || self.registered_slots().iter().map(|slot| &slot.xmin);
        Xid::new(self.horizon.compute(self.done.oldest(), xmins))
    }

    /// Wait-free.
    fn next_xid(&self) -> Xid {
        Xid::new(skip_special(self.ids.next.load(Ordering::Relaxed)))
    }

    /// Wait-free.
    fn sessions(&self) -> usize {
        self.slots.as_ref().len()
    }

    /// Wait-free.
    fn set_stop(&self, stop: Xid) {
        self.ids.stop.store(stop.get(), Ordering::Relaxed);
    }
}

impl<F: Form> fmt::Debug for Array<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcArray")
            .field("next", &self.next_xid())
            .field("oldest_running", &self.done.oldest())
            .field("sessions", &self.sessions())
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "alloc")]
impl ProcArray {
    /// An array for `sessions` sessions whose first id is `first` (or the next one that is not special).
    pub fn new(sessions: usize, first: Xid) -> Self {
        Self::with_window(sessions, first)
    }
}

#[cfg(feature = "alloc")]
impl<const W: usize, P: Park> ProcArray<W, P> {
    /// As [`ProcArray::new`], with a window of `W` words and parking `P`.
    pub fn with_window(sessions: usize, first: Xid) -> Self {
        /// Old words per session beside the one that a top-level id may need.
        const OLD_WORDS_PER_SESSION: usize = 4;
        const { assert!(W.is_power_of_two(), "the window's length is a power of two") };
        let first = skip_special(first.get());
        let window = initial_window!(first, W);
        let old_words = (OLD_WORDS_PER_SESSION * sessions).max(WINDOW_WORDS);
        let old = (0..old_words).map(|_| new_old_word()).collect();
        Self::assemble(
            first,
            window,
            old,
            (0..sessions).map(|_| Padded::new(new_slot())).collect(),
        )
    }
}

impl<const N: usize, const OLD: usize, const W: usize, P: Park> FixedProcArray<N, OLD, W, P> {
    txnkit_sync::const_fn! {
        /// An array whose first id is `first` (or the next one that is not special).
        pub fn new(first: Xid) -> Self {
            const { assert!(W.is_power_of_two(), "the window's length is a power of two") };
            const { assert!(OLD >= N, "there is a place in the old list for every session's id") };
            let first = skip_special(first.get());
            let window = initial_window!(first, W);
            let old = txnkit_sync::array_of!(new_old_word(); OLD);
            Self::assemble(first, window, old, txnkit_sync::array_of!(Padded::new(new_slot()); N))
        }
    }
}
