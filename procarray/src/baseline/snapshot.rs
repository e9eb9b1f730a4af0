//! A running set as two lists, searched from one end to the other.

use alloc::vec::Vec;

use txnkit_ids::Xid;

use crate::traits::{Membership, SnapshotView};

/// The ids that were running at one instant: top-level ids and children in a list each, in the order of the sessions.
///
/// The lists hold low halves; `xmin` and `xmax` are whole, and less than 2^31 apart, so that a half stands for one id only.
#[derive(Debug, Clone)]
pub struct ListSnapshot {
    pub(super) xmin: Xid,
    pub(super) xmax: Xid,
    /// Top-level ids from xmin to below xmax.
    pub(super) tops: Vec<u32>,
    /// Children; worthless after an overflow.
    pub(super) children: Vec<u32>,
    pub(super) overflowed: bool,
}

impl ListSnapshot {
    /// The set in which every id from `first` on is running, with room for `sessions` transactions.
    pub(super) fn from_first(first: Xid, sessions: usize) -> Self {
        Self {
            xmin: first,
            xmax: first,
            tops: Vec::with_capacity(sessions),
            children: Vec::new(),
            overflowed: false,
        }
    }

    /// Did some transaction have more children than were shown, so that answers can be [`Membership::AskParent`]?
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }
}

/// A loop that stops at the find and looks at one id at a time, as it was.
#[inline]
fn find(ids: &[u32], wanted: u32) -> bool {
    for &id in ids {
        if id == wanted {
            return true;
        }
    }
    false
}

impl SnapshotView for ListSnapshot {
    fn xmin(&self) -> Xid {
        self.xmin
    }

    fn xmax(&self) -> Xid {
        self.xmax
    }

    fn membership(&self, xid: Xid) -> Membership {
        if xid < self.xmin {
            return Membership::Completed;
        }
        if xid >= self.xmax {
            return Membership::Running;
        }
        let low = xid.low32().get();
        if !self.overflowed && find(&self.children, low) || find(&self.tops, low) {
            Membership::Running
        } else if self.overflowed {
            Membership::AskParent
        } else {
            Membership::Completed
        }
    }
}
