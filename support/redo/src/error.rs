//! What can go wrong.

use core::fmt;

use txnkit_ids::Lsn;

use crate::record::MAX_PAYLOAD;
use crate::store::StoreError;

/// The log could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedoError {
    /// The payload is longer than a record can hold; nothing was appended.
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The position lies beyond all that was appended.
    NotAppended {
        /// The position asked for.
        asked: Lsn,
        /// Where the log ends.
        end: Lsn,
    },
    /// The store failed while the log was written or made durable. Nobody can tell what is durable beyond
    /// [`flushed`](crate::RedoLog::flushed), so the log takes nothing more: open it again.
    Failed(StoreError),
    /// The store could not be read; try again.
    Unreadable(StoreError),
    /// What was durable once cannot be read any more: not a torn tail, which is cut, but damage. Nothing was changed. Restore the bytes from a copy,
    /// or cut the log there yourself if what is lost may be lost.
    Damaged {
        /// Where the first record starts that cannot be read.
        at: Lsn,
        /// Up to where the log was durable, as a later record says.
        durable: Lsn,
    },
    /// No record starts there.
    NoRecord {
        /// The position asked for.
        asked: Lsn,
    },
    /// Another session flushes, and waiting is impossible here (no `std`); call again.
    WouldBlock,
}

impl fmt::Display for RedoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { len } => write!(
                f,
                "a record of {len} bytes cannot be appended: at most {MAX_PAYLOAD} fit; split it"
            ),
            Self::NotAppended { asked, end } => write!(
                f,
                "cannot flush to {asked}: the log ends at {end}; check where the position came from"
            ),
            Self::Failed(error) => write!(
                f,
                "the redo log has failed and takes nothing more: {error}; open it again"
            ),
            Self::Unreadable(error) => write!(f, "the redo log could not be read: {error}"),
            Self::Damaged { at, durable } => write!(
                f,
                "the redo log is damaged: there is no whole record at {at}, but it was durable up to {durable}; restore it from a copy"
            ),
            Self::NoRecord { asked } => write!(
                f,
                "no record starts at {asked}; ask for a position that append returned, or for the log's start"
            ),
            Self::WouldBlock => f.write_str(
                "another session flushes the redo log and waiting is not possible here; call again",
            ),
        }
    }
}

impl core::error::Error for RedoError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Failed(error) | Self::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}
