//! The members under their lock: who is in, what a snapshot collects, how an id leaves.

use core::fmt;

use alloc::vec::Vec;

use txnkit_ids::{Xid, Xid32};
use txnkit_sync::Padded;
use txnkit_sync::atomic::{AtomicU64, Ordering};
use txnkit_sync::lock::{RawRwLock, RwLock};

use super::ids::Ids;
use super::layout::{Fields, Layout};
use super::session::ListSession;
use super::snapshot::ListSnapshot;
use crate::error::{AssignError, RegisterError};
use crate::traits::{Membership, Snapshots};

/// A transaction array of 2011: lists of ids collected under a reader-writer lock `L`, out of memory laid out as `Y` says.
///
/// Every operation blocks on that lock or on the id lock; the docs of each say on which.
pub struct ListArray<Y: Layout, L: RawRwLock> {
    layout: Y,
    /// The array lock. It is taken before the id lock where both are.
    members: Padded<RwLock<Members, L>>,
    ids: Padded<Ids<L>>,
    /// The highest horizon that was ever returned.
    horizon: Padded<AtomicU64>,
    sessions: usize,
    first: Xid,
}

struct Members {
    /// The slots of the registered sessions, sorted.
    registered: Vec<u32>,
    free: Vec<u32>,
    /// The id after the last completed one: nothing from here on has ended.
    xmax: Xid,
}

/// The whole id of a half that a session shows. An id that breaks the rule of 2^31 counts as older than all.
fn widen(half: Xid32, xmax: Xid) -> Xid {
    half.widen_near(xmax).unwrap_or(Xid::FIRST_NORMAL)
}

/// Lowers `oldest` to `xid` if that is older.
#[inline]
fn lower(oldest: &mut Xid32, xid: Option<Xid32>) {
    if let Some(xid) = xid.filter(|xid| xid.precedes(*oldest)) {
        *oldest = xid;
    }
}

impl<Y: Layout, L: RawRwLock> ListArray<Y, L> {
    /// An array for so many sessions, whose first id is `first`, or the next one that is not special.
    pub fn new(sessions: usize, first: Xid) -> Self {
        let sessions = sessions.min(u32::MAX as usize);
        let first = if first.is_special() {
            first.next().unwrap_or(first)
        } else {
            first
        };
        let members = Members {
            registered: Vec::with_capacity(sessions),
            free: (0..sessions as u32).rev().collect(),
            xmax: first,
        };
        Self {
            layout: Y::new(sessions),
            members: Padded::new(RwLock::new(members)),
            ids: Padded::new(Ids::new(first)),
            horizon: Padded::new(AtomicU64::new(first.get())),
            sessions,
            first,
        }
    }

    pub(super) fn fields(&self, slot: u32) -> Fields<'_> {
        self.layout.fields(slot)
    }

    /// The registered sessions' fields.
    #[inline]
    fn registered<'a>(&'a self, members: &'a Members) -> impl Iterator<Item = Fields<'a>> {
        members
            .registered
            .iter()
            .map(|&slot| self.layout.fields(slot))
    }

    /// Hands out an id that `show` makes visible.
    pub(super) fn hand_out(&self, show: impl FnOnce(Xid32)) -> Result<Xid, AssignError> {
        self.ids.hand_out(show, || self.horizon())
    }

    /// Fills `snapshot` with what runs, registers its xmin for `slot`, and returns the horizon if this design derives it by
    /// the way.
    ///
    /// One pass under the shared lock. Ids from xmax on need not be listed, nor their children, which are younger still.
    pub(super) fn collect(&self, slot: u32, snapshot: &mut ListSnapshot) -> Option<Xid> {
        snapshot.tops.clear();
        snapshot.children.clear();
        snapshot.overflowed = false;
        let members = self.members.read();
        let xmax = members.xmax.low32();
        let (mut xmin, mut global_xmin) = (xmax, xmax);
        for fields in self
            .registered(&members)
            .filter(|fields| !fields.in_vacuum())
        {
            if Y::GLOBAL_XMIN {
                lower(&mut global_xmin, fields.registered());
            }
            let Some(xid) = fields.running().filter(|xid| xid.precedes(xmax)) else {
                continue;
            };
            lower(&mut xmin, Some(xid));
            snapshot.tops.push(xid.get());
            if fields.overflowed.load(Ordering::Relaxed) {
                snapshot.overflowed = true;
            } else if !snapshot.overflowed {
                snapshot.children.extend(fields.shown_children());
            }
        }
        self.layout.fields(slot).register(xmin);
        snapshot.xmax = members.xmax;
        drop(members);
        lower(&mut global_xmin, Some(xmin));
        snapshot.xmin = widen(xmin, snapshot.xmax);
        Y::GLOBAL_XMIN.then(|| widen(global_xmin, snapshot.xmax))
    }

    /// Does `xid` run now? One pass under the shared lock.
    pub(super) fn running_now(&self, xid: Xid) -> Membership {
        let members = self.members.read();
        if xid >= members.xmax {
            return Membership::Running;
        }
        let half = xid.low32();
        let is = |shown: Xid32| shown == half && widen(shown, members.xmax) == xid;
        let mut overflowed = false;
        for fields in self.registered(&members) {
            // A child is younger than its top.
            let Some(top) = fields.running().filter(|top| !half.precedes(*top)) else {
                continue;
            };
            if is(top) || fields.shown_children().any(|child| is(Xid32::new(child))) {
                return Membership::Running;
            }
            overflowed |= fields.overflowed.load(Ordering::Relaxed);
        }
        if overflowed {
            Membership::AskParent
        } else {
            Membership::Completed
        }
    }

    /// Takes the ids of `slot` out of the running set; `youngest` is the last of them.
    pub(super) fn end(&self, slot: u32, youngest: Xid) {
        self.members.write().end(self.layout.fields(slot), youngest);
    }

    /// Takes the children of `slot` from `from` on out of the running set; `youngest` is the last of them.
    pub(super) fn end_children(&self, slot: u32, from: Xid, youngest: Xid) {
        let mut members = self.members.write();
        self.layout.fields(slot).clear_children(from.low32());
        members.ended(youngest);
    }

    /// Ends what still runs in `slot`, releases its xmin and frees it.
    pub(super) fn leave(&self, slot: u32, youngest: Option<Xid>) {
        let fields = self.layout.fields(slot);
        fields.release();
        let mut members = self.members.write();
        if let Some(youngest) = youngest {
            members.end(fields, youngest);
        }
        if let Ok(at) = members.registered.binary_search(&slot) {
            members.registered.remove(at);
            members.free.push(slot);
        }
    }
}

impl Members {
    /// Clears the ids and remembers the last one that ended.
    fn end(&mut self, fields: Fields<'_>, youngest: Xid) {
        fields.clear_ids();
        self.ended(youngest);
    }

    fn ended(&mut self, youngest: Xid) {
        self.xmax = self.xmax.max(youngest.next().unwrap_or(Xid::MAX));
    }
}

impl<Y: Layout, L: RawRwLock> Snapshots for ListArray<Y, L> {
    type Session<'a>
        = ListSession<'a, Y, L>
    where
        Self: 'a;

    /// Blocks on the array lock, exclusively: the list of members is kept sorted.
    fn register(&self) -> Result<Self::Session<'_>, RegisterError> {
        let mut members = self.members.write();
        let slot = members.free.pop().ok_or(RegisterError {
            sessions: self.sessions,
        })?;
        let at = members.registered.partition_point(|&other| other < slot);
        members.registered.insert(at, slot);
        drop(members);
        Ok(ListSession::new(
            self,
            slot,
            ListSnapshot::from_first(self.first, self.sessions),
        ))
    }

    /// Blocks on the array lock, shared: one pass over the members.
    fn horizon(&self) -> Xid {
        let members = self.members.read();
        let mut oldest = members.xmax.low32();
        for fields in self
            .registered(&members)
            .filter(|fields| !fields.in_vacuum())
        {
            lower(&mut oldest, fields.running());
            lower(&mut oldest, fields.registered());
        }
        let oldest = widen(oldest, members.xmax).get();
        drop(members);
        // Two callers may return in another order than they looked. AcqRel, its own partner: who returns what another one found
        // also has what that one acquired from those who released their xmin.
        let before = self.horizon.fetch_max(oldest, Ordering::AcqRel);
        Xid::new(before.max(oldest))
    }

    /// Blocks on the id lock, shared.
    fn next_xid(&self) -> Xid {
        self.ids.next()
    }

    /// Wait-free.
    fn sessions(&self) -> usize {
        self.sessions
    }

    /// Blocks on the id lock, exclusively. No id at or after `stop` is handed out once this has returned.
    fn set_stop(&self, stop: Xid) {
        self.ids.set_stop(stop);
    }
}

impl<Y: Layout, L: RawRwLock> fmt::Debug for ListArray<Y, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListArray")
            .field("sessions", &self.sessions)
            .field("first", &self.first)
            .finish_non_exhaustive()
    }
}
