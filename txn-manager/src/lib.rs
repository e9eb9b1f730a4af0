#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

extern crate alloc;

mod error;
mod lock;
mod manager;
mod redo;
mod reserve;
mod savepoint;
mod session;

pub use error::{
    AbortError, CommitError, LockError, ReadError, SessionError, StateError, WaitError, WriteError,
};
pub use lock::{RowLock, RowMark};
pub use manager::{Core, Mechanisms, TxnManager};
pub use multixact::{LockSets, Member, Mode, MultiXactError, MultiXactId};
pub use procarray::{AssignError, Deadlock, RegisterError, Snapshots};
pub use redo::{NoRedo, Redo, RedoError};
pub use savepoint::Savepoint;
pub use session::{Isolation, Session, XidState};
pub use slru::{Status, StatusError, StatusStore};
pub use snapmap::{AgeMap, SnapMap, SnapshotTooOld};
pub use txnkit_ids::{Lsn, Xid, XidRun};
