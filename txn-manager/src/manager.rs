//! What all sessions share.

use core::fmt;
use std::time::Instant;

use multixact::{LockSets, LockTable};
use procarray::{ProcArray, Snapshots, Waits};
use slru::{MemoryStore, Parents, StatusLog, StatusStore};
use snapmap::{AgeMap, SnapMap};
use txnkit_ids::Xid;

use crate::error::SessionError;
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
    /// Who shares a row lock.
    type Locks: LockSets;
    /// How old a snapshot may get.
    type Ages: AgeMap + Send;
    /// The redo log.
    type Redo: Redo;
}

impl<P, S, L, A, R> Mechanisms for (P, S, L, A, R)
where
    P: Snapshots,
    S: StatusStore,
    L: LockSets,
    A: AgeMap + Send,
    R: Redo,
{
    type Array = P;
    type Status = S;
    type Locks = L;
    type Ages = A;
    type Redo = R;
}

/// Pages of lock sets' positions, and of their members, in use at a time.
const LOCK_PAGES: usize = 16;

/// Pages of sub-transactions' parents in use at a time: those of the newest 32 thousand ids.
const PARENT_PAGES: usize = 16;

/// A transaction manager over any implementation of each mechanism; [`TxnManager`] is the usual choice of them.
///
/// Shared by reference: one `Core`, one [`Session`] for each connection.
pub struct Core<M: Mechanisms> {
    pub(crate) array: M::Array,
    pub(crate) status: M::Status,
    pub(crate) locks: M::Locks,
    pub(crate) ages: M::Ages,
    pub(crate) redo: M::Redo,
    pub(crate) parents: Parents<MemoryStore>,
    pub(crate) waits: Waits,
    pub(crate) reserved: Reserved,
    started: Instant,
}

/// The manager over the front of every mechanism, in memory and without a redo log.
pub type TxnManager = Core<(
    ProcArray,
    StatusLog<MemoryStore>,
    LockTable<MemoryStore>,
    SnapMap,
    NoRedo,
)>;

impl<P, S, L, A, R> Core<(P, S, L, A, R)>
where
    P: Snapshots,
    S: StatusStore,
    L: LockSets,
    A: AgeMap + Send,
    R: Redo,
{
    /// Puts the five together. `locks` has a place for every session of `array`; the clock of `ages` is [`now_ns`](Self::now_ns).
    ///
    /// Every id below the array's next one must have its final status in `status`, or count as aborted.
    pub fn new(array: P, status: S, locks: L, ages: A, redo: R) -> Self {
        Self {
            started: Instant::now(),
            parents: Parents::new(MemoryStore::new(), PARENT_PAGES, array.next_xid()),
            waits: Waits::new(array.sessions()),
            reserved: Reserved::new(&array),
            array,
            status,
            locks,
            ages,
            redo,
        }
    }
}

impl<M: Mechanisms> Core<M> {
    /// A session for one connection; dropping it aborts its transaction. Blocks on what [`Snapshots::register`] blocks on.
    ///
    /// # Errors
    /// [`SessionError`] when a mechanism has no free place.
    pub fn session(&self) -> Result<Session<'_, M>, SessionError> {
        let array = self.array.register()?;
        Ok(Session::new(
            self,
            array,
            self.locks.register()?,
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

    /// As [`horizon`](Self::horizon), or further where snapshots are old enough to be refused from now on: row versions deleted by a committed
    /// id before it can be removed. Progress is that of [`Snapshots::horizon`] and [`AgeMap::limit`].
    pub fn prune_limit(&self) -> Xid {
        self.ages.limit(self.now_ns(), self.horizon())
    }

    /// The clock by which snapshots age: nanoseconds since this was made.
    pub fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// The table of lock sets.
    pub fn locks(&self) -> &M::Locks {
        &self.locks
    }

    /// The map from time to xmin.
    pub fn ages(&self) -> &M::Ages {
        &self.ages
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
    /// An empty manager for `sessions` sessions at a time, all in memory; snapshots may get as old as they like.
    pub fn in_memory(sessions: usize) -> Self {
        let array = ProcArray::new(sessions, Xid::FIRST_NORMAL);
        let status = StatusLog::new(MemoryStore::new(), STATUS_PAGES, Xid::FIRST_NORMAL);
        let store = MemoryStore::new;
        let locks = LockTable::new(store(), store(), LOCK_PAGES, LOCK_PAGES, sessions);
        Self::new(array, status, locks, SnapMap::off(), NoRedo)
    }
}

impl<M: Mechanisms> fmt::Debug for Core<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").finish_non_exhaustive()
    }
}
