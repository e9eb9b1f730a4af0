//! What all sessions share.

use core::fmt;

use procarray::{ProcArray, RegisterError, Snapshots};
use slru::{MemoryStore, StatusLog, StatusStore};
use txnkit_ids::Xid;

use crate::redo::{NoRedo, Redo};
use crate::session::Session;
use crate::waiters::Waiters;

/// Status pages in use at a time: the newest million ids' statuses are found without asking the page store.
const STATUS_PAGES: usize = 32;

/// A transaction manager over any transaction array, status store and redo log; [`TxnManager`] is the usual choice of the three.
///
/// Shared by reference: one `Core`, one [`Session`] for each connection.
pub struct Core<P, S, R> {
    pub(crate) array: P,
    pub(crate) status: S,
    pub(crate) redo: R,
    pub(crate) waiters: Waiters,
}

/// The manager over the front of every mechanism, in memory and without a redo log.
pub type TxnManager = Core<ProcArray, StatusLog<MemoryStore>, NoRedo>;

impl<P: Snapshots, S: StatusStore, R: Redo> Core<P, S, R> {
    /// Puts the three together.
    ///
    /// Every id below the array's next one must have its final status in `status`, or count as aborted.
    pub fn new(array: P, status: S, redo: R) -> Self {
        Self {
            array,
            status,
            redo,
            waiters: Waiters::new(),
        }
    }

    /// A session for one connection; dropping it aborts its transaction. Blocks on what [`Snapshots::register`] blocks on.
    ///
    /// # Errors
    /// [`RegisterError`] when the array has no free slot.
    pub fn session(&self) -> Result<Session<'_, P, S, R>, RegisterError> {
        Ok(Session::new(self, self.array.register()?))
    }

    /// Row versions deleted by a committed id before this one are seen by nobody and can be removed.
    /// The value only rises.
    pub fn horizon(&self) -> Xid {
        self.array.horizon()
    }

    /// The transaction array.
    pub fn array(&self) -> &P {
        &self.array
    }

    /// The status store.
    pub fn status(&self) -> &S {
        &self.status
    }

    /// The redo log.
    pub fn redo(&self) -> &R {
        &self.redo
    }
}

impl TxnManager {
    /// An empty manager for `sessions` sessions at a time, whose statuses live in memory.
    pub fn in_memory(sessions: usize) -> Self {
        let array = ProcArray::new(sessions, Xid::FIRST_NORMAL);
        let status = StatusLog::new(MemoryStore::new(), STATUS_PAGES, Xid::FIRST_NORMAL);
        Self::new(array, status, NoRedo)
    }
}

impl<P, S, R> fmt::Debug for Core<P, S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").finish_non_exhaustive()
    }
}
