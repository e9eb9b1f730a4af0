//! A session's own copy of the running set.

use core::fmt;

use txnkit_ids::Xid;

use crate::done::{BITS, bit_of, not_ended, skip_special, word_of};
use crate::form::Form;
use crate::traits::{Membership, SnapshotView};

/// The ids that were running at one instant, as a bit per id in a window, and older ones as (word, bits) pairs.
///
/// Plain memory of its owner: testing an id touches nothing shared. For the default window it is 512 bytes and a list
/// of 16 bytes for each 64 consecutive ids that hold one which has been running for more than 4096 ids. Clone it to keep it beyond the next
/// [`snapshot`](crate::SnapshotSession::snapshot) of its session; it stays usable as long as the session does not
/// [`release`](crate::SnapshotSession::release).
pub struct Snapshot<F: Form> {
    /// The completion count the copy belongs to; odd while it belongs to none.
    pub(crate) count: u64,
    /// The version of the old list that `old` is a copy of.
    pub(crate) old_version: u64,
    pub(crate) xmin: u64,
    /// The newest id that had ended.
    pub(crate) latest: u64,
    /// The first word number the window held; smaller ones are in `old` or done.
    pub(crate) base: u64,
    /// Old ids below this that are not in `old` may be children of a running transaction.
    pub(crate) lossy_below: u64,
    pub(crate) words: F::WindowCopy,
    pub(crate) old: F::OldCopy,
}

impl<F: Form> Snapshot<F> {
    /// A count that no array ever has while stable.
    const NEVER: u64 = u64::MAX;

    /// The copy of a session that has taken none: every id counts as running.
    pub(crate) const EMPTY: Self = Self {
        count: Self::NEVER,
        old_version: Self::NEVER,
        xmin: 0,
        latest: 0,
        base: 0,
        lossy_below: 0,
        words: F::EMPTY_COPY,
        old: F::NO_OLD,
    };

    /// Makes of a torn copy, or another session's, one for which every id runs.
    pub(crate) fn clear(&mut self) {
        self.count = Self::NEVER;
        (self.xmin, self.latest) = (0, 0);
    }

    /// Says that what was copied belongs together: the set at `count`, the old list at `old_version`.
    pub(crate) fn validate(&mut self, count: u64, old_version: u64) {
        self.count = count;
        self.old_version = old_version;
    }

    /// Did the array run out of room for old ids, so that some answers are [`Membership::AskParent`]?
    pub fn overflowed(&self) -> bool {
        self.xmin < self.lossy_below
    }

    #[cold]
    fn old_membership(&self, xid: u64) -> Membership {
        let old = self.old.as_ref();
        match old.binary_search_by_key(&word_of(xid), |&(word, _)| word) {
            Ok(at) if old[at].1 & bit_of(xid) != 0 => Membership::Running,
            Ok(_) => Membership::Completed,
            Err(_) if xid < self.lossy_below => Membership::AskParent,
            Err(_) => Membership::Completed,
        }
    }
}

impl<F: Form> SnapshotView for Snapshot<F> {
    fn xmin(&self) -> Xid {
        Xid::new(self.xmin)
    }

    fn xmax(&self) -> Xid {
        Xid::new(skip_special(self.latest + 1))
    }

    #[inline]
    fn membership(&self, xid: Xid) -> Membership {
        let xid = xid.get();
        if xid < self.xmin {
            return Membership::Completed;
        }
        if xid > self.latest {
            return not_ended(xid);
        }
        if word_of(xid) < self.base {
            return self.old_membership(xid);
        }
        let words = self.words.as_ref();
        if words[word_of(xid) as usize & (words.len() - 1)] & bit_of(xid) == 0 {
            Membership::Running
        } else {
            Membership::Completed
        }
    }
}

impl<F: Form> Clone for Snapshot<F> {
    fn clone(&self) -> Self {
        Self {
            words: self.words.clone(),
            old: self.old.clone(),
            ..*self
        }
    }
}

impl<F: Form> fmt::Debug for Snapshot<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Running<'a, F: Form>(&'a Snapshot<F>);
        impl<F: Form> fmt::Debug for Running<'_, F> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let snapshot = self.0;
                let old = snapshot.old.as_ref().iter().flat_map(|&(word, running)| {
                    (0..BITS)
                        .map(move |i| word * BITS + i)
                        .filter(move |&id| running & bit_of(id) != 0)
                });
                let window = (snapshot.xmin.max(snapshot.base * BITS)..snapshot.xmax().get())
                    .filter(|&id| snapshot.membership(Xid::new(id)) == Membership::Running);
                f.debug_list().entries(old.chain(window)).finish()
            }
        }
        f.debug_struct("Snapshot")
            .field("xmin", &self.xmin())
            .field("xmax", &self.xmax())
            .field("running", &Running(self))
            .field("overflowed", &self.overflowed())
            .finish()
    }
}
