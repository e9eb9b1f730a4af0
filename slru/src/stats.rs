//! What happened in a pool, under the names of PostgreSQL's `pg_stat_slru`.
//!
//! What happens under a bank's lock is counted there. A look without a lock writes nothing that others read, so it is counted by who looks, in a
//! [`Reader`] of his own, and becomes part of the pool's figures when that is dropped.

use core::cell::Cell;
use core::ops::AddAssign;

/// Figures of a pool since it was made, in pages but for the last two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlruStats {
    /// New pages, which the store had nothing of.
    pub blks_zeroed: u64,
    /// Looks and sets that found their page in the pool. Of looks without a lock only those of dropped [`Reader`]s.
    pub blks_hit: u64,
    /// Pages read from the store.
    pub blks_read: u64,
    /// Pages written to the store.
    pub blks_written: u64,
    /// Pages whose existence was asked for.
    pub blks_exists: u64,
    /// Flushes of everything.
    pub flushes: u64,
    /// Truncations.
    pub truncates: u64,
}

impl SlruStats {
    pub(crate) const NONE: Self = Self {
        blks_zeroed: 0,
        blks_hit: 0,
        blks_read: 0,
        blks_written: 0,
        blks_exists: 0,
        flushes: 0,
        truncates: 0,
    };
}

impl AddAssign for SlruStats {
    fn add_assign(&mut self, other: Self) {
        self.blks_zeroed += other.blks_zeroed;
        self.blks_hit += other.blks_hit;
        self.blks_read += other.blks_read;
        self.blks_written += other.blks_written;
        self.blks_exists += other.blks_exists;
        self.flushes += other.flushes;
        self.truncates += other.truncates;
    }
}

/// Something whose looks can be counted.
pub(crate) trait Counted {
    /// Adds looks without a lock to the figures.
    fn add_hits(&self, hits: u64);
}

/// One session's looks at a log, counted. `Send`, not `Sync`.
///
/// It answers as the log does, at the cost of one addition to memory of its own. Its hits are in the log's figures once it is dropped.
#[expect(private_bounds, reason = "only this crate's logs have figures")]
pub struct Reader<'a, T: Counted> {
    log: &'a T,
    hits: Cell<u64>,
}

#[expect(private_bounds, reason = "only this crate's logs have figures")]
impl<'a, T: Counted> Reader<'a, T> {
    pub(crate) const fn new(log: &'a T) -> Self {
        Self {
            log,
            hits: Cell::new(0),
        }
    }

    /// The log.
    pub const fn log(&self) -> &'a T {
        self.log
    }

    /// How many looks were answered from the pool without a lock.
    pub fn hits(&self) -> u64 {
        self.hits.get()
    }

    #[inline]
    pub(crate) fn count(&self) {
        self.hits.set(self.hits.get() + 1);
    }
}

impl<T: Counted> Drop for Reader<'_, T> {
    fn drop(&mut self) {
        self.log.add_hits(self.hits.get());
    }
}

impl<T: Counted> core::fmt::Debug for Reader<'_, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Reader")
            .field("hits", &self.hits)
            .finish_non_exhaustive()
    }
}
