//! What can go wrong with a status.

use core::fmt;

use txnkit_ids::Xid;

use crate::{Layout, PoolError, Status, StoreError};

/// A status could not be read or recorded. [`kind`](Self::kind) says why.
///
/// With `alloc` this is one pointer wide, so that carrying it costs a look-up nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct StatusError {
    #[cfg(feature = "alloc")]
    kind: alloc::boxed::Box<StatusErrorKind>,
    #[cfg(not(feature = "alloc"))]
    kind: StatusErrorKind,
}

/// Why a status could not be read or recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatusErrorKind {
    /// The id is never handed out, so it has no status or none that can be set.
    Special {
        /// The id.
        xid: Xid,
    },
    /// The id's page was truncated away.
    TooOld {
        /// The id.
        xid: Xid,
        /// The first id whose page is kept.
        oldest: Xid,
    },
    /// The id lies in the future: read, it is past the page after the latest one; set, it is more than 2^31 ids ahead of it.
    Future {
        /// The id.
        xid: Xid,
        /// The last id that could be asked for.
        last: Xid,
    },
    /// Another status is recorded for good. The caller's order of events is wrong.
    Recorded {
        /// The id.
        xid: Xid,
        /// What is recorded.
        recorded: Status,
        /// What was to be recorded.
        wanted: Status,
    },
    /// A tree can only be committed or aborted.
    NotFinal {
        /// The status asked for.
        wanted: Status,
    },
    /// The one cannot be recorded as the other's parent: it is not older, too much older, never handed out, or another one is recorded.
    NotParent {
        /// The child.
        child: Xid,
        /// What was to be its parent.
        parent: Xid,
    },
    /// A log cannot begin after its own next id.
    Backwards {
        /// The oldest id given.
        oldest: Xid,
        /// The next id given.
        next: Xid,
    },
    /// The store failed. Ask again, or mend the store.
    Store {
        /// The id whose status was wanted; none when the whole log was at work.
        xid: Option<Xid>,
        /// What the store says.
        error: StoreError,
    },
    /// An earlier sync failed, so nobody knows what the store holds. Open it anew and recover from the redo log.
    SyncFailed,
    /// Another thread is at work and this build has no way to wait. Call again.
    WouldBlock,
}

impl StatusError {
    /// Why.
    #[inline]
    pub fn kind(&self) -> &StatusErrorKind {
        &self.kind
    }
}

/// What the logs make of a pool's errors.
impl StatusError {
    /// `xid` is the id that was asked for, if it was one; `oldest` the first one that is kept.
    pub(crate) fn of_pool(error: PoolError, xid: Option<Xid>, oldest: Xid) -> Self {
        match error {
            PoolError::TooOld => StatusErrorKind::TooOld {
                xid: xid.unwrap_or(oldest),
                oldest,
            },
            PoolError::Store(error) => StatusErrorKind::Store { xid, error },
            PoolError::SyncFailed => StatusErrorKind::SyncFailed,
            PoolError::WouldBlock => StatusErrorKind::WouldBlock,
        }
        .into()
    }

    /// For an id beyond `last_page`.
    #[cold]
    pub(crate) fn future(layout: Layout, xid: Xid, last_page: u64) -> Self {
        let last = Xid::new(layout.first_of(last_page + 1).get() - 1);
        StatusErrorKind::Future { xid, last }.into()
    }
}

impl From<StatusErrorKind> for StatusError {
    #[cold]
    fn from(kind: StatusErrorKind) -> Self {
        #[cfg(feature = "alloc")]
        let kind = alloc::boxed::Box::new(kind);
        Self { kind }
    }
}

impl fmt::Debug for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind().fmt(f)
    }
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind().fmt(f)
    }
}

impl core::error::Error for StatusError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self.kind() {
            StatusErrorKind::Store { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for StatusErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Special { xid } => write!(f, "transaction id {xid} is never handed out and has no status of its own"),
            Self::TooOld { xid, oldest } => write!(
                f,
                "status of transaction {xid} is not kept any more; the oldest one kept is {oldest}"
            ),
            Self::Future { xid, last } => {
                write!(f, "transaction id {xid} is in the future; the last one that could be asked for is {last}")
            }
            Self::Recorded { xid, recorded, wanted } => write!(
                f,
                "transaction {xid} cannot become {wanted:?}: {recorded:?} is recorded for it"
            ),
            Self::NotFinal { wanted } => {
                write!(f, "a transaction ends as Committed or Aborted, not as {wanted:?}")
            }
            Self::NotParent { child, parent } => write!(
                f,
                "transaction {parent} cannot be recorded as the parent of {child}: a parent is an older id that was handed out, and there is one at most"
            ),
            Self::Backwards { oldest, next } => {
                write!(f, "a log of transactions {oldest} to {next} ends before it begins")
            }
            Self::Store { xid: Some(xid), error } => {
                write!(f, "could not access status of transaction {xid}: {error}")
            }
            Self::Store { xid: None, error } => write!(f, "could not make statuses durable: {error}"),
            Self::SyncFailed => f.write_str(
                "an earlier sync failed, so what the store holds is not known; open it anew and recover from the redo log",
            ),
            Self::WouldBlock => f.write_str("another thread is at work and waiting is not possible here; call again"),
        }
    }
}

impl core::error::Error for StatusErrorKind {}
