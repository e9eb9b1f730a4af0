//! One connection: its transaction, its snapshot, what it sees.

use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;
use core::mem;
use std::time::Instant;

use multixact::{LockSession, LockSets};
use procarray::{
    AssignError, EndError, Membership, SnapshotSession, SnapshotView, Snapshots, Waiter, WouldBlock,
};
use slru::{Status, StatusStore};
use snapmap::{AgeMap, SnapshotTooOld, Stamp};
use txnkit_ids::{Lsn, Xid, XidRun};

use crate::error::{AbortError, CommitError, ReadError, StateError, WaitError, WriteError};
use crate::manager::{Core, Mechanisms};
use crate::redo::Redo;
use crate::savepoint::{Levels, Savepoint};

/// How long a transaction's snapshot lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Every statement takes a snapshot of its own; between statements the session holds nothing back.
    ReadCommitted,
    /// The first statement's snapshot serves the whole transaction.
    RepeatableRead,
}

/// What is known of an id at this moment, whatever any snapshot says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XidState {
    /// The session's own running transaction.
    Own,
    /// Another session's, still running: wait for it with [`Session::wait_for`].
    Running,
    /// Ended, and what it did counts.
    Committed,
    /// Ended, and what it did never happened.
    Aborted,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Idle,
    Active(Isolation),
    /// The commit record is in the redo log at this position, the status is not set yet.
    InDoubt(Lsn),
}

/// One connection's handle: one transaction at a time. `Send`, not `Sync`.
///
/// Dropping it aborts its transaction. A transaction whose commit record is written already
/// ([`CommitError::InDoubt`]) is committed instead, if its status can be set by then.
pub struct Session<'a, M: Mechanisms + 'a> {
    pub(crate) core: &'a Core<M>,
    array: <M::Array as Snapshots>::Session<'a>,
    pub(crate) locks: <M::Locks as LockSets>::Session<'a>,
    state: State,
    /// Is the array's last snapshot this transaction's, and registered?
    has_snapshot: bool,
    /// When it was taken.
    stamp: Stamp,
    savepoints: Levels,
    waiter: Waiter<'a>,
}

impl<'a, M: Mechanisms> Session<'a, M> {
    pub(crate) fn new(
        core: &'a Core<M>,
        array: <M::Array as Snapshots>::Session<'a>,
        locks: <M::Locks as LockSets>::Session<'a>,
        waiter: Waiter<'a>,
    ) -> Self {
        Self {
            core,
            array,
            locks,
            state: State::Idle,
            has_snapshot: false,
            stamp: Stamp::default(),
            savepoints: Levels::default(),
            waiter,
        }
    }

    /// Starts a transaction, without an id: it gets one when it first writes. Wait-free.
    ///
    /// # Errors
    /// [`StateError`] when a transaction is under way.
    pub fn begin(&mut self, isolation: Isolation) -> Result<(), StateError> {
        match self.state {
            State::Idle => {
                self.state = State::Active(isolation);
                Ok(())
            }
            State::Active(_) => Err(StateError::AlreadyBegun {
                xid: self.array.xid(),
            }),
            State::InDoubt(lsn) => Err(StateError::InDoubt { lsn }),
        }
    }

    /// The running transaction's isolation, `None` outside one.
    pub fn isolation(&self) -> Option<Isolation> {
        self.active().ok()
    }

    /// Starts a statement: a fresh snapshot under [`ReadCommitted`](Isolation::ReadCommitted), else the transaction's first.
    /// Progress is that of [`SnapshotSession::snapshot`].
    ///
    /// # Errors
    /// [`ReadError::State`] outside a transaction; [`ReadError::WouldBlock`] only where waiting is impossible.
    pub fn statement(&mut self) -> Result<(), ReadError> {
        let isolation = self.active()?;
        if self.has_snapshot && isolation == Isolation::RepeatableRead {
            return Ok(());
        }
        // Releasing first registers the new snapshot's own xmin instead of keeping the old one's.
        self.release_snapshot();
        // The stamp first: a snapshot that is taken for older than it is may be refused early, the other way round it would be too late.
        self.stamp = self.core.ages.stamp();
        let xmin = self.array.snapshot()?.xmin();
        self.core.ages.taken(|| self.core.now_ns(), xmin);
        self.has_snapshot = true;
        Ok(())
    }

    /// Moves the map of snapshot ages on, by this statement's snapshot; a clock reading, and little more within a bucket. Somebody has to, at least once a bucket,
    /// right after a statement has begun; otherwise no snapshot is ever too old.
    ///
    /// # Errors
    /// [`StateError`] outside a statement.
    pub fn advance_ages(&self) -> Result<(), StateError> {
        self.active()?;
        if !self.has_snapshot {
            return Err(StateError::NoStatement);
        }
        let core = self.core;
        core.ages
            .advance(core.now_ns(), || self.array.taken().xmin());
        Ok(())
    }

    /// Is this statement's snapshot still good for what was read before this call? [`visible`](Self::visible) asks by itself; ask this where a row was not found.
    /// Progress is that of [`AgeMap::check`].
    ///
    /// # Errors
    /// [`SnapshotTooOld`]: abort the transaction and begin again.
    pub fn check_age(&self) -> Result<(), SnapshotTooOld> {
        self.core.ages.check(self.array.taken().xmin(), self.stamp)
    }

    /// Ends a statement: under [`ReadCommitted`](Isolation::ReadCommitted) the horizon is held back no longer. Wait-free.
    pub fn end_statement(&mut self) {
        if matches!(self.state, State::Active(Isolation::ReadCommitted)) {
            self.release_snapshot();
        }
    }

    /// The id to write with: the transaction's, or within a savepoint that one's; handed out at the first call.
    ///
    /// Progress is that of [`SnapshotSession::assign`], but for one id in many, which blocks on the redo log to reserve more.
    ///
    /// # Errors
    /// [`WriteError::State`] outside a transaction, [`WriteError::Assign`] when no id can be handed out, [`WriteError::Redo`] when none can be
    /// reserved.
    pub fn xid(&mut self) -> Result<Xid, WriteError> {
        self.active()?;
        if self.array.xid().is_none() {
            self.locks.begin_use();
        }
        if self.savepoints.is_empty() {
            return hand_out(self.core, || self.array.assign());
        }
        let (core, array) = (self.core, &mut self.array);
        let inner = self.savepoints.xid(|| {
            let child = hand_out(core, || array.assign_child())?;
            let top = array.assign()?;
            // Before anybody can meet the child's id.
            core.parents.set(child, top).map_err(WriteError::Parent)?;
            Ok::<_, WriteError>(child)
        })?;
        match inner {
            Some(xid) => Ok(xid),
            None => hand_out(self.core, || self.array.assign()),
        }
    }

    /// Sets a savepoint: what is done from now on can be undone alone. Wait-free but for memory.
    ///
    /// # Errors
    /// [`StateError`] outside a transaction.
    pub fn savepoint(&mut self) -> Result<Savepoint, StateError> {
        self.active()?;
        Ok(self.savepoints.set())
    }

    /// Undoes what was done since `savepoint`, which stays set: ids handed out since are aborted and leave the array at one instant, and whoever waits
    /// for one of them goes on. Blocks on what [`SnapshotSession::end_children`] and [`StatusStore::set_tree`] block on.
    ///
    /// # Errors
    /// [`AbortError::State`] when there is no such savepoint any more; else nothing was undone yet, call it again.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), AbortError> {
        self.active()?;
        if !self.savepoints.holds(savepoint) {
            return Err(StateError::NoSavepoint.into());
        }
        if let Some(first) = self.savepoints.first(savepoint) {
            let status = &self.core.status;
            let ended = self.array.end_children(first, |aborted| {
                let top = aborted[0].first();
                let rest = aborted[0].from(Xid::new(top.get() + 1));
                let rest: Vec<XidRun> = rest
                    .into_iter()
                    .chain(aborted[1..].iter().copied())
                    .collect();
                status
                    .set_tree(top, &rest, Status::Aborted, Lsn::INVALID)
                    .map_err(AbortError::Status)
            });
            ended.map_err(not_ended)?;
            if let Some(top) = self.array.xid() {
                self.core.waits.wake(top);
            }
        }
        self.savepoints.roll_back(savepoint);
        Ok(())
    }

    /// Forgets `savepoint` and those set since; what was done in them is now the transaction's or the savepoint's around it. Wait-free.
    ///
    /// # Errors
    /// [`StateError`] when there is no such savepoint any more.
    pub fn release(&mut self, savepoint: Savepoint) -> Result<(), StateError> {
        self.active()?;
        if !self.savepoints.holds(savepoint) {
            return Err(StateError::NoSavepoint);
        }
        self.savepoints.release(savepoint);
        Ok(())
    }

    /// Gives a changed row's image to the redo log. Blocks on what the log blocks on.
    ///
    /// # Errors
    /// As [`xid`](Self::xid); [`WriteError::Redo`] when the log does not take the record: abort the transaction.
    pub fn change(&mut self, image: &[u8]) -> Result<Lsn, WriteError> {
        let xid = self.xid()?;
        Ok(self.core.redo.change(xid, image)?)
    }

    /// Does this statement see a row version created by `xmin` and deleted or replaced by `xmax`
    /// ([`Xid::INVALID`]: by nobody)? A session sees its own changes at once.
    ///
    /// # Errors
    /// [`ReadError::State`] outside a statement; [`ReadError::Status`] when the status store cannot tell; [`ReadError::TooOld`] when what the snapshot
    /// should see may have been removed.
    pub fn visible(&self, xmin: Xid, xmax: Xid) -> Result<bool, ReadError> {
        self.active()?;
        if !self.has_snapshot {
            return Err(StateError::NoStatement.into());
        }
        let visible = self.sees(xmin)? && !self.sees(xmax)?;
        // After the row was read, which the caller did before this call.
        self.check_age()?;
        Ok(visible)
    }

    /// Own ids first: the snapshot counts them as running. Then the snapshot, and only for what has ended for it the status,
    /// because a status is set before its id leaves the array.
    fn sees(&self, xid: Xid) -> Result<bool, ReadError> {
        if let Some(committed) = fixed_outcome(xid) {
            return Ok(committed);
        }
        if self.array.owns(xid) {
            return Ok(true);
        }
        let snapshot = self.array.taken();
        let runs = match snapshot.membership(xid) {
            Membership::Running => true,
            Membership::Completed => false,
            Membership::AskParent => {
                let top = self.core.parents.parent(xid)?;
                top.is_some_and(|top| snapshot.membership(top) == Membership::Running)
            }
        };
        if runs {
            return Ok(false);
        }
        Ok(self.core.status.get(xid)? == Status::Committed)
    }

    /// What became of `xid`, as of now: the question behind a row lock. Progress is that of
    /// [`SnapshotSession::is_running`] and [`StatusStore::get`].
    ///
    /// # Errors
    /// [`ReadError::Status`] when the status store cannot tell, [`ReadError::WouldBlock`] only where waiting is impossible.
    pub fn state_of(&mut self, xid: Xid) -> Result<XidState, ReadError> {
        if let Some(committed) = fixed_outcome(xid) {
            return Ok(if committed {
                XidState::Committed
            } else {
                XidState::Aborted
            });
        }
        if self.array.owns(xid) {
            return Ok(XidState::Own);
        }
        // First "does it run?", then "did it commit?": the other way round an id that commits in between would look aborted.
        if self.runs(xid)? {
            return Ok(XidState::Running);
        }
        Ok(match self.core.status.get(xid)? {
            Status::Committed => XidState::Committed,
            // In progress by its status but not running: its session went away without a word.
            Status::Aborted | Status::InProgress | Status::SubCommitted => XidState::Aborted,
        })
    }

    fn runs(&mut self, xid: Xid) -> Result<bool, ReadError> {
        runs(self.core, &mut self.array, xid)
    }

    /// Waits until `xid` has ended, at most `timeout_ns` nanoseconds; 0 asks without waiting. Blocks on that transaction.
    ///
    /// # Errors
    /// [`WaitError::Deadlock`] when this and other transactions wait for each other and this is the youngest of them: abort it.
    /// [`WaitError::Timeout`] when `xid` still runs; [`WaitError::Own`] and [`WaitError::NotHandedOut`] for ids whose end
    /// cannot be awaited; [`WaitError::Read`] when it cannot be told whether it runs.
    pub fn wait_for(&mut self, xid: Xid, timeout_ns: u64) -> Result<(), WaitError> {
        if self.array.owns(xid) {
            return Err(WaitError::Own { xid });
        }
        if !self.runs(xid)? {
            return Ok(());
        }
        let next = self.core.array.next_xid();
        if xid >= next {
            return Err(WaitError::NotHandedOut { xid, next });
        }
        let started = Instant::now();
        // Who ends or rolls back part of a transaction wakes those who wait for its top-level id, by which deadlocks are found too.
        let top = self.core.parents.parent(xid)?.unwrap_or(xid);
        let waiting = self.waiter.wait_for(self.array.xid(), top);
        // Asked again only now: the wait has been announced.
        while runs(self.core, &mut self.array, xid)? {
            let waited = started.elapsed().as_nanos() as u64;
            if waited >= timeout_ns {
                let waited_ns = waited;
                return Err(WaitError::Timeout { xid, waited_ns });
            }
            if let Some(deadlock) = waiting.deadlock() {
                return Err(WaitError::Deadlock(deadlock));
            }
            waiting.park(timeout_ns - waited);
        }
        Ok(())
    }

    /// Commits, in the order that the crate's page explains, and returns the id if there was one. Without an id nothing is
    /// written and nobody is told. Blocks on the redo log and on what [`SnapshotSession::end`] blocks on.
    ///
    /// # Errors
    /// The transaction is still under way: after [`CommitError::Redo`] abort it, after [`CommitError::InDoubt`] or
    /// [`CommitError::WouldBlock`] call `commit` again.
    pub fn commit(&mut self) -> Result<Option<Xid>, CommitError> {
        let mut logged = match self.state {
            State::Idle => return Err(StateError::NotBegun.into()),
            State::Active(_) => None,
            State::InDoubt(lsn) => Some(lsn),
        };
        let core = self.core;
        let ended = self.array.end(|top, children: &[XidRun]| {
            let lsn = match logged {
                Some(lsn) => lsn,
                None => *logged.insert(core.redo.commit(top, children)?),
            };
            core.status
                .set_tree(top, children, Status::Committed, lsn)
                .map_err(|source| CommitError::InDoubt {
                    xid: top,
                    lsn,
                    source,
                })
        });
        if let Some(lsn) = logged {
            self.state = State::InDoubt(lsn);
        }
        self.finish(ended)
    }

    /// Aborts and returns the id if there was one. Blocks on the redo log and on what [`SnapshotSession::end`] blocks on.
    ///
    /// # Errors
    /// The transaction is still under way: after [`AbortError::Status`] call `abort` again or drop the session (an id that neither runs
    /// nor has a status is aborted); after [`AbortError::State`] see there.
    pub fn abort(&mut self) -> Result<Option<Xid>, AbortError> {
        match self.state {
            State::Idle => return Err(StateError::NotBegun.into()),
            State::Active(_) => {}
            State::InDoubt(lsn) => return Err(StateError::InDoubt { lsn }.into()),
        }
        let core = self.core;
        let ended = self.array.end(|top, children: &[XidRun]| {
            core.redo.abort(top, children);
            core.status
                .set_tree(top, children, Status::Aborted, Lsn::INVALID)
                .map_err(AbortError::Status)
        });
        self.finish(ended)
    }

    /// The id has left the array: its waiters can go on, and the session is free again.
    fn finish<E: From<WouldBlock>>(
        &mut self,
        ended: Result<Option<Xid>, EndError<E>>,
    ) -> Result<Option<Xid>, E> {
        let xid = ended.map_err(not_ended)?;
        if let Some(xid) = xid {
            self.core.waits.wake(xid);
        }
        self.savepoints.clear();
        self.locks.end();
        self.release_snapshot();
        self.state = State::Idle;
        Ok(xid)
    }

    fn release_snapshot(&mut self) {
        if mem::take(&mut self.has_snapshot) {
            self.array.release();
        }
    }

    fn active(&self) -> Result<Isolation, StateError> {
        match self.state {
            State::Active(isolation) => Ok(isolation),
            State::Idle => Err(StateError::NotBegun),
            State::InDoubt(lsn) => Err(StateError::InDoubt { lsn }),
        }
    }
}

/// Hands out an id, reserving more of them where they end.
fn hand_out<M: Mechanisms>(
    core: &Core<M>,
    mut assign: impl FnMut() -> Result<Xid, AssignError>,
) -> Result<Xid, WriteError> {
    let mut refused_at = None;
    loop {
        match assign() {
            // Refused there twice, it was not for want of reserved ids.
            Err(AssignError::Stopped { next, stop }) if refused_at != Some(stop) => {
                refused_at = Some(stop);
                core.reserved.extend(&core.array, &core.redo, next)?;
            }
            assigned => return Ok(assigned?),
        }
    }
}

/// Does `xid` run now?
fn runs<M: Mechanisms>(
    core: &Core<M>,
    array: &mut impl SnapshotSession,
    xid: Xid,
) -> Result<bool, ReadError> {
    // What has ended for any snapshot ever taken has ended for good, and that answer touches no shared memory.
    if array.taken().membership(xid) == Membership::Completed {
        return Ok(false);
    }
    Ok(match array.is_running(xid)? {
        Membership::Running => true,
        Membership::Completed => false,
        // A child that was rolled back has its status already, and may pass for running as long as its parent runs.
        Membership::AskParent if core.status.get(xid)? == Status::Aborted => false,
        Membership::AskParent => match core.parents.parent(xid)? {
            Some(top) => array.is_running(top)? == Membership::Running,
            None => false,
        },
    })
}

fn not_ended<E: From<WouldBlock>>(error: EndError<E>) -> E {
    match error {
        EndError::NotRecorded(error) => error,
        _ => WouldBlock.into(),
    }
}

/// Ids that need no look-up: committed for ever, or no id at all.
fn fixed_outcome(xid: Xid) -> Option<bool> {
    if xid >= Xid::FIRST_NORMAL {
        None
    } else {
        Some(xid != Xid::INVALID)
    }
}

impl<M: Mechanisms> Drop for Session<'_, M> {
    fn drop(&mut self) {
        let xid = self.array.xid();
        let ended = match self.state {
            State::Idle => return,
            State::Active(_) => self.abort().is_ok(),
            State::InDoubt(_) => self.commit().is_ok(),
        };
        if let (false, Some(xid)) = (ended, xid) {
            // No status could be set. An id that leaves the array without one is aborted; its waiters are told as ever.
            let _ = self.array.end(|_, _| Ok::<_, Infallible>(()));
            self.core.waits.wake(xid);
        }
    }
}

impl<'a, M: Mechanisms + 'a> fmt::Debug for Session<'a, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("xid", &self.array.xid())
            .field("state", &self.state)
            .field("has_snapshot", &self.has_snapshot)
            .finish_non_exhaustive()
    }
}
