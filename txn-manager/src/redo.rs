//! The redo hook: what the manager asks of a redo log, and the log that keeps nothing.

use core::error::Error;
use core::fmt;

use txnkit_ids::{Lsn, Xid, XidRun};

/// A redo log, as far as transactions need one.
///
/// Called by the session that ends or changes something, never under a lock of the manager's. Whether
/// [`commit`](Self::commit) returns before or after the record is durable is the log's choice: that is the difference between
/// asynchronous and synchronous commit.
pub trait Redo: Send + Sync {
    /// Appends the record that makes `xid` and its children committed, and returns its position.
    ///
    /// # Errors
    /// An `Err` promises that the record is not in the log and will never be: the transaction is aborted next.
    fn commit(&self, xid: Xid, children: &[XidRun]) -> Result<Lsn, RedoError>;

    /// Notes that `xid` and its children aborted. Recovery takes an id without a commit record for aborted, so this may be lost.
    fn abort(&self, xid: Xid, children: &[XidRun]);

    /// Notes that ids before `end` may be in use, durably before it returns: after a crash ids are handed out from the last such `end` on.
    ///
    /// # Errors
    /// An `Err` promises nothing: the note may or may not be in the log. It is asked for again.
    fn reserve_ids(&self, end: Xid) -> Result<(), RedoError>;

    /// Appends a change made by `xid` and returns its position.
    ///
    /// # Errors
    /// An `Err` promises that the record is not in the log.
    fn change(&self, xid: Xid, image: &[u8]) -> Result<Lsn, RedoError>;
}

/// No redo log: nothing survives the process.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRedo;

impl Redo for NoRedo {
    fn commit(&self, _: Xid, _: &[XidRun]) -> Result<Lsn, RedoError> {
        Ok(Lsn::INVALID)
    }

    fn abort(&self, _: Xid, _: &[XidRun]) {}

    fn reserve_ids(&self, _: Xid) -> Result<(), RedoError> {
        Ok(())
    }

    fn change(&self, _: Xid, _: &[u8]) -> Result<Lsn, RedoError> {
        Ok(Lsn::INVALID)
    }
}

/// A redo record could not be appended; the log does not hold it.
///
/// Abort the transaction, and see the source for what is wrong with the log.
#[derive(Debug)]
pub struct RedoError {
    source: Box<dyn Error + Send + Sync>,
}

impl RedoError {
    /// Wraps what the log found, for instance an I/O error or a message.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            source: source.into(),
        }
    }
}

impl fmt::Display for RedoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the redo log took no record: {}; abort the transaction",
            self.source
        )
    }
}

impl Error for RedoError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}
