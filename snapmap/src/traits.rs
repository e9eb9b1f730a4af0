//! What every map from time to xmin does.

use core::fmt;

use txnkit_ids::Xid;

use crate::SnapshotTooOld;

/// A bucket of the caller's clock, named by its end: the first instant that is no longer in it. 0 comes before every bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(u64);

impl Stamp {
    /// The bucket that ends at this instant, in units of the caller's clock.
    #[inline]
    pub const fn new(end: u64) -> Self {
        Self(end)
    }

    /// When the bucket ends, in units of the caller's clock.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One row of a map: a snapshot taken at the end of `bucket` or later has at least `next_xmin` for its xmin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapped {
    /// The bucket in which the row was made.
    pub bucket: Stamp,
    /// The xmin that a snapshot taken at that moment would have got.
    pub next_xmin: Xid,
}

/// A map that lets a pruner remove what only snapshots older than a threshold could still need, and tells those snapshots.
///
/// The clock is the caller's: nanoseconds, minutes, or a count of transactions; any `u64` that does not fall. When it does, nothing
/// breaks: an instant before one seen already changes nothing.
///
/// # What the caller does
///
/// 1. Now and then, at least once a bucket: [`advance`](Self::advance).
/// 2. To take a snapshot: [`stamp`](Self::stamp), then the snapshot, then [`taken`](Self::taken). The stamp is kept with the snapshot.
/// 3. To prune: [`limit`](Self::limit), and only then remove; nothing but what ended before the limit and no snapshot from the limit on can see.
/// 4. To read: read the row, then [`check`](Self::check), and only then use what was read, a row that is not there included.
///
/// Tables whose rows must not go early (a catalog, say) are pruned by the horizon alone; reading them needs no check.
pub trait AgeMap: Sync {
    /// The bucket in which the map stands. Call it *before* the snapshot is taken.
    fn stamp(&self) -> Stamp;

    /// A snapshot with this xmin was taken at `now`. Nothing where the map does not live on snapshots; `now` is then not called.
    #[inline]
    fn taken(&self, now: impl FnOnce() -> u64, xmin: Xid) {
        let _ = (now, xmin);
    }

    /// Moves the map on to the bucket of `now`, which the caller has just read from its clock.
    ///
    /// `next_xmin` says what xmin a snapshot taken at this moment would get (*not* the horizon, which old snapshots hold back). It is called only when a
    /// bucket has begun, and under no lock.
    fn advance(&self, now: u64, next_xmin: impl FnOnce() -> Xid);

    /// Up to where a pruner may remove at `now`: what ended before this id and is seen by nobody from this id on. Never before `horizon`, further where
    /// the map allows it; snapshots with an older xmin are refused from then on, which is published before this returns.
    fn limit(&self, now: u64, horizon: Xid) -> Xid;

    /// May what was read through a snapshot with this xmin be used?
    ///
    /// # Errors
    /// [`SnapshotTooOld`]: it may lack rows that the snapshot should see.
    fn check(&self, xmin: Xid, taken_at: Stamp) -> Result<(), SnapshotTooOld>;
}
