//! The horizon that pruning uses.

use txn_manager::{Core, Mechanisms, Xid};
use txnkit_sync::Padded;
use txnkit_sync::atomic::{AtomicU64, Ordering};

/// A kept horizon is computed anew when this many ids have been handed out since.
const HORIZON_AGE: u64 = 32;

/// The horizon that pruning uses: kept for a while, because computing it costs and an old one is only less effective.
#[derive(Debug)]
pub struct Horizon {
    /// Relaxed throughout: a stale horizon is a valid one, and no other data hang on it.
    value: Padded<AtomicU64>,
    computed_at: Padded<AtomicU64>,
}

impl Default for Horizon {
    fn default() -> Self {
        Self {
            value: Padded::new(AtomicU64::new(0)),
            computed_at: Padded::new(AtomicU64::new(0)),
        }
    }
}

impl Horizon {
    /// The kept one, possibly old.
    pub fn kept(&self) -> Xid {
        Xid::new(self.value.load(Ordering::Relaxed))
    }

    /// One that is not older than [`HORIZON_AGE`] ids; `now` is a recent id.
    pub(super) fn fresh<M: Mechanisms>(&self, core: &Core<M>, now: Xid) -> Xid {
        let computed_at = self.computed_at.load(Ordering::Relaxed);
        let stale = now.get() >= computed_at + HORIZON_AGE;
        // One session computes it, the others go on with what there is.
        if stale
            && self
                .computed_at
                .compare_exchange(computed_at, now.get(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.value
                .fetch_max(core.prune_limit().get(), Ordering::Relaxed);
        }
        self.kept()
    }
}
