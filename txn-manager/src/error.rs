//! What can go wrong, one type an operation, each saying what to do.

use core::error::Error;
use core::fmt;

use multixact::MultiXactError;
use procarray::{AssignError, Deadlock, WouldBlock};
use slru::StatusError;
use snapmap::SnapshotTooOld;
use txnkit_ids::{Lsn, Xid};

use crate::redo::RedoError;

/// A call that does not fit the session's state; nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateError {
    /// `begin` inside a transaction: commit or abort it first.
    AlreadyBegun {
        /// Its id, if it has one.
        xid: Option<Xid>,
    },
    /// No transaction is under way: call `begin`.
    NotBegun,
    /// No statement is under way: call `statement`.
    NoStatement,
    /// The savepoint was released, rolled back past, or is not this transaction's.
    NoSavepoint,
    /// The commit record is written, so the transaction can only be committed: call `commit` again.
    InDoubt {
        /// The commit record's position.
        lsn: Lsn,
    },
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyBegun { xid: Some(xid) } => {
                write!(f, "transaction {xid} is under way in this session; commit or abort it first")
            }
            Self::AlreadyBegun { xid: None } => {
                f.write_str("a transaction without an id is under way in this session; commit or abort it first")
            }
            Self::NotBegun => f.write_str("no transaction is under way in this session; call begin first"),
            Self::NoStatement => f.write_str("no statement is under way in this session; call statement first"),
            Self::NoSavepoint => f.write_str("there is no such savepoint in this transaction any more; it was released or rolled back past"),
            Self::InDoubt { lsn } => {
                write!(f, "the commit record is written at {lsn}, only its status is missing; call commit again")
            }
        }
    }
}

impl Error for StateError {}

/// What a row or an id is could not be told.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The call does not fit the session's state.
    State(StateError),
    /// The status store failed; abort the transaction or try again.
    Status(StatusError),
    /// Rows that the snapshot should see may have been removed: abort the transaction and begin again.
    TooOld(SnapshotTooOld),
    /// Waiting is impossible here; try again.
    WouldBlock,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(error) => error.fmt(f),
            Self::Status(error) => write!(
                f,
                "an id's status could not be read: {error}; abort the transaction or try again"
            ),
            Self::TooOld(error) => error.fmt(f),
            Self::WouldBlock => WouldBlock.fmt(f),
        }
    }
}

impl Error for ReadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Status(error) => Some(error),
            Self::TooOld(error) => Some(error),
            Self::State(_) | Self::WouldBlock => None,
        }
    }
}

impl From<StateError> for ReadError {
    fn from(error: StateError) -> Self {
        Self::State(error)
    }
}

impl From<StatusError> for ReadError {
    fn from(error: StatusError) -> Self {
        Self::Status(error)
    }
}

impl From<SnapshotTooOld> for ReadError {
    fn from(error: SnapshotTooOld) -> Self {
        Self::TooOld(error)
    }
}

impl From<WouldBlock> for ReadError {
    fn from(_: WouldBlock) -> Self {
        Self::WouldBlock
    }
}

/// A transaction could not get its id, or its change could not be logged.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The call does not fit the session's state.
    State(StateError),
    /// No id could be handed out.
    Assign(AssignError),
    /// The redo log did not take the change; abort the transaction.
    Redo(RedoError),
    /// A savepoint's parent could not be recorded; abort the transaction.
    Parent(StatusError),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(error) => error.fmt(f),
            Self::Assign(error) => error.fmt(f),
            Self::Redo(error) => error.fmt(f),
            Self::Parent(error) => write!(
                f,
                "the savepoint's place in its transaction could not be recorded: {error}; abort the transaction"
            ),
        }
    }
}

impl Error for WriteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::State(_) => None,
            Self::Assign(error) => Some(error),
            Self::Redo(error) => Some(error),
            Self::Parent(error) => Some(error),
        }
    }
}

impl From<StateError> for WriteError {
    fn from(error: StateError) -> Self {
        Self::State(error)
    }
}

impl From<AssignError> for WriteError {
    fn from(error: AssignError) -> Self {
        Self::Assign(error)
    }
}

impl From<RedoError> for WriteError {
    fn from(error: RedoError) -> Self {
        Self::Redo(error)
    }
}

/// A transaction is not committed yet.
#[derive(Debug)]
#[non_exhaustive]
pub enum CommitError {
    /// The call does not fit the session's state.
    State(StateError),
    /// The redo log has no commit record. The transaction is still running: abort it.
    Redo(RedoError),
    /// The redo log has the commit record but the status could not be set. The transaction is still running and can only be
    /// committed: call `commit` again, which writes no second record.
    InDoubt {
        /// The transaction.
        xid: Xid,
        /// The commit record's position.
        lsn: Lsn,
        /// What the status store found.
        source: StatusError,
    },
    /// Waiting is impossible here; call `commit` again.
    WouldBlock,
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(error) => error.fmt(f),
            Self::Redo(error) => write!(f, "not committed, still running: {error}"),
            Self::InDoubt { xid, lsn, source } => write!(
                f,
                "transaction {xid} has its commit record at {lsn} but its status could not be set: {source}; call commit again"
            ),
            Self::WouldBlock => WouldBlock.fmt(f),
        }
    }
}

impl Error for CommitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Redo(error) => Some(error),
            Self::InDoubt { source, .. } => Some(source),
            Self::State(_) | Self::WouldBlock => None,
        }
    }
}

impl From<StateError> for CommitError {
    fn from(error: StateError) -> Self {
        Self::State(error)
    }
}

impl From<RedoError> for CommitError {
    fn from(error: RedoError) -> Self {
        Self::Redo(error)
    }
}

impl From<WouldBlock> for CommitError {
    fn from(_: WouldBlock) -> Self {
        Self::WouldBlock
    }
}

/// A transaction is not aborted yet.
#[derive(Debug)]
#[non_exhaustive]
pub enum AbortError {
    /// The call does not fit the session's state.
    State(StateError),
    /// The status could not be set; the transaction is still running. Call `abort` again or drop the session.
    Status(StatusError),
    /// Waiting is impossible here; call `abort` again.
    WouldBlock,
}

impl fmt::Display for AbortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(error) => error.fmt(f),
            Self::Status(error) => {
                write!(
                    f,
                    "the abort's status could not be set: {error}; call abort again or drop the session"
                )
            }
            Self::WouldBlock => WouldBlock.fmt(f),
        }
    }
}

impl Error for AbortError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Status(error) => Some(error),
            Self::State(_) | Self::WouldBlock => None,
        }
    }
}

impl From<StateError> for AbortError {
    fn from(error: StateError) -> Self {
        Self::State(error)
    }
}

impl From<WouldBlock> for AbortError {
    fn from(_: WouldBlock) -> Self {
        Self::WouldBlock
    }
}

/// A transaction's end was not awaited.
#[derive(Debug)]
#[non_exhaustive]
pub enum WaitError {
    /// This and other transactions wait for each other, and this is the youngest of them: abort it.
    Deadlock(Deadlock),
    /// It still runs: abort, or wait again.
    Timeout {
        /// Who was waited for.
        xid: Xid,
        /// For how long, in nanoseconds.
        waited_ns: u64,
    },
    /// The session's own transaction ends only when the session ends it.
    Own {
        /// The own id.
        xid: Xid,
    },
    /// Nobody has this id yet; check where it came from.
    NotHandedOut {
        /// Who was to be waited for.
        xid: Xid,
        /// The first id not handed out.
        next: Xid,
    },
    /// Whether it runs could not be told.
    Read(ReadError),
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadlock(deadlock) => deadlock.fmt(f),
            Self::Timeout { xid, waited_ns } => write!(
                f,
                "transaction {xid} still runs after {} ms; abort this transaction, or wait again",
                waited_ns / 1_000_000
            ),
            Self::Own { xid } => {
                write!(
                    f,
                    "transaction {xid} is this session's own and ends only by its own commit or abort; do not wait for it"
                )
            }
            Self::NotHandedOut { xid, next } => {
                write!(
                    f,
                    "transaction {xid} cannot be waited for: the next id is {next}; check where the id came from"
                )
            }
            Self::Read(error) => error.fmt(f),
        }
    }
}

impl Error for WaitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Deadlock(deadlock) => Some(deadlock),
            Self::Read(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ReadError> for WaitError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<StatusError> for WaitError {
    fn from(error: StatusError) -> Self {
        Self::Read(error.into())
    }
}

/// A row lock could not be decided; nothing was changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError {
    /// The transaction has no id and could not get one.
    Write(WriteError),
    /// A locker's state could not be told.
    Read(ReadError),
    /// The set of the row's lockers could not be read, or a new one not be made.
    Sets(MultiXactError),
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(error) => error.fmt(f),
            Self::Read(error) => error.fmt(f),
            Self::Sets(error) => write!(f, "a row's lockers: {error}"),
        }
    }
}

impl Error for LockError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Write(error) => Some(error),
            Self::Read(error) => Some(error),
            Self::Sets(error) => Some(error),
        }
    }
}

impl From<WriteError> for LockError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl From<ReadError> for LockError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<MultiXactError> for LockError {
    fn from(error: MultiXactError) -> Self {
        Self::Sets(error)
    }
}

/// No session could be made: a mechanism has no place left. Drop a session, or build the mechanism with more places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionError {
    /// The transaction array.
    Array(procarray::RegisterError),
    /// The table of lock sets.
    Locks(multixact::RegisterError),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array(error) => write!(f, "transaction array: {error}"),
            Self::Locks(error) => write!(f, "table of lock sets: {error}"),
        }
    }
}

impl Error for SessionError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Array(error) => Some(error),
            Self::Locks(error) => Some(error),
        }
    }
}

impl From<procarray::RegisterError> for SessionError {
    fn from(error: procarray::RegisterError) -> Self {
        Self::Array(error)
    }
}

impl From<multixact::RegisterError> for SessionError {
    fn from(error: multixact::RegisterError) -> Self {
        Self::Locks(error)
    }
}
