//! What can go wrong with an old snapshot.

use core::fmt;

use txnkit_ids::Xid;

use crate::Stamp;

/// The snapshot is too old: rows that it should see may have been removed. Take a new snapshot and begin again.
///
/// PostgreSQL's SQLSTATE for it was 72000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotTooOld {
    /// The snapshot's xmin.
    pub xmin: Xid,
    /// The bucket in which it was taken.
    pub taken_at: Stamp,
    /// What ended before this id may have been removed.
    pub refused_before: Xid,
}

impl fmt::Display for SnapshotTooOld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "snapshot too old: taken in the bucket that ends at {}, it sees rows as of transaction {}, but what ended before {} may have been removed; \
             take a new snapshot and begin again",
            self.taken_at, self.xmin, self.refused_before
        )
    }
}

impl core::error::Error for SnapshotTooOld {}
