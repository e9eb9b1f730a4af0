//! What all sessions share.

use core::fmt;

use procarray::{ProcArray, RegisterError, Snapshots, Waits};
use slru::{MemoryStore, Parents, StatusLog, StatusStore};
use txnkit_ids::Xid;

use crate::redo::{NoRedo, Redo};
use crate::reserve::Reserved;
use crate::session::Session;

/// Status pages in use at a time: the newest million ids' statuses are found without asking the page store.
const STATUS_PAGES: usize = 32;

/// Which implementation of each mechanism a manager stands on: a tuple of them.
pub trait Mechanisms {
    /// Who is running.
    type Array: Snapshots;
    /// What became of an id.
    type Status: StatusStore;
    /// The redo log.
    type Redo: Redo;
}

impl<P: Snapshots, S: StatusStore, R: Redo> Mechanisms for (P, S, R) {
    type Array = P;
    type Status = S;
    type Redo = R;
}

/// Pages of sub-transactions' parents in use at a time: those of the newest 32 thousand ids.
const PARENT_PAGES: usize = 16;

/// A transaction manager over any implementation of each mechanism; [`TxnManager`] is the usual choice of them.
///
/// Shared by reference: one `Core`, one [`Session`] for each connection.
pub struct Core<M: Mechanisms> {
    pub(crate) array: M::Array,
    pub(crate) status: M::Status,
    pub(crate) redo: M::Redo,
    pub(crate) parents: Parents<MemoryStore>,
    pub(crate) waits: Waits,
    pub(crate) reserved: Reserved,
}

/// The manager over the front of every mechanism, in memory and without a redo log.
pub type TxnManager = Core<(ProcArray, StatusLog<MemoryStore>, NoRedo)>;

impl<P: Snapshots, S: StatusStore, R: Redo> Core<(P, S, R)> {
    /// Puts the three together.
    ///
    /// Every id below the array's next one must have its final status in `status`, or count as aborted.
    pub fn new(array: P, status: S, redo: R) -> Self {
        Self {
            parents: Parents::new(MemoryStore::new(), PARENT_PAGES, array.next_xid()),
            waits: Waits::new(array.sessions()),
            reserved: Reserved::new(&array),
            array,
            status,
            redo,
        }
    }
}

impl<M: Mechanisms> Core<M> {
    /// A session for one connection; dropping it aborts its transaction. Blocks on what [`Snapshots::register`] blocks on.
    ///
    /// # Errors
    /// [`RegisterError`] when the array has no free slot.
    pub fn session(&self) -> Result<Session<'_, M>, RegisterError> {
        Ok(Session::new(
            self,
            self.array.register()?,
            self.waits.register()?,
        ))
    }

    /// Row versions deleted by a committed id before this one are seen by nobody and can be removed.
    /// The value only rises.
    pub fn horizon(&self) -> Xid {
        let horizon = self.array.horizon();
        // For nobody does an id before it run any more, so nobody asks for its parent. Memory is its store, which cannot fail.
        let _ = self.parents.truncate(horizon);
        horizon
    }

    /// The transaction array.
    pub fn array(&self) -> &M::Array {
        &self.array
    }

    /// The status store.
    pub fn status(&self) -> &M::Status {
        &self.status
    }

    /// The redo log.
    pub fn redo(&self) -> &M::Redo {
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

impl<M: Mechanisms> fmt::Debug for Core<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").finish_non_exhaustive()
    }
}
