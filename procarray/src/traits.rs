//! The mechanism as traits: what the front and every baseline can do, and what one behavioural suite tests of them all.
//!
//! # Who is running
//!
//! An id handed out by [`SnapshotSession::assign`] *runs* until [`SnapshotSession::end`] returns. A *snapshot* is the set of
//! ids running at one instant; its owner sees what every other id did, and nothing of those. A session that has taken a snapshot
//! registers its `xmin`, the oldest id running for it, until it calls [`SnapshotSession::release`]; the *horizon* is the
//! oldest xmin that any session has or can still get, so what ended before it can be removed for good.

use txnkit_ids::{Xid, XidRun};

use crate::error::{AssignError, EndError, RegisterError, WouldBlock};

/// What is known of one id: has it ended, as of a snapshot or as of now?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// The id has ended; its final status can be read in the status store.
    Completed,
    /// The id runs, or is not handed out yet.
    Running,
    /// The id is a sub-transaction's and the set overflowed: ask again with its top-level parent's id, which is always exact.
    AskParent,
}

/// The set of running ids at one instant.
///
/// The set holds *all* running ids, those of the session that took it included: a visibility test asks "is it mine?" first.
pub trait SnapshotView {
    /// The oldest id that was running; every id before it has ended.
    fn xmin(&self) -> Xid;

    /// The first id that counts as running whether or not it does.
    fn xmax(&self) -> Xid;

    /// Was `xid` running when the snapshot was taken?
    fn membership(&self, xid: Xid) -> Membership;

    /// As [`membership`](Self::membership), asking `parent` for the top-level parent where that is needed.
    ///
    /// An id whose parent is not known (`None`) counts as ended: parents are recorded before a child's id is used.
    fn is_running_with(&self, xid: Xid, mut parent: impl FnMut(Xid) -> Option<Xid>) -> bool {
        match self.membership(xid) {
            Membership::Running => true,
            Membership::Completed => false,
            Membership::AskParent => {
                parent(xid).is_some_and(|top| self.membership(top) == Membership::Running)
            }
        }
    }
}

/// A transaction array: hands out ids, knows which run, gives snapshots and the horizon.
pub trait Snapshots: Send + Sync {
    /// One connection's handle.
    type Session<'a>: SnapshotSession + Send
    where
        Self: 'a;

    /// Takes a free slot.
    ///
    /// # Errors
    /// [`RegisterError`] when every slot is in use.
    fn register(&self) -> Result<Self::Session<'_>, RegisterError>;

    /// The oldest xmin that a snapshot in use, or one taken from now on, can have. The value returned only rises.
    ///
    /// Every id before it has ended for everybody: row versions that such ids deleted can be removed.
    fn horizon(&self) -> Xid;

    /// The first id that is not handed out yet.
    fn next_xid(&self) -> Xid;

    /// How many sessions can be registered at a time.
    fn sessions(&self) -> usize;

    /// From `stop` on no id is handed out; before the first call there is no such limit.
    ///
    /// Sessions that ask at the same moment may each still get one id at or after `stop`: fewer than there are
    /// [`sessions`](Self::sessions). Keep that much distance from where it hurts.
    fn set_stop(&self, stop: Xid);
}

/// One connection's handle: at most one transaction and one registered snapshot at a time.
///
/// `Send`, so that a connection can move between threads; not `Sync`. Dropping it ends a running transaction without a status
/// (an id that neither runs nor has a status is aborted), releases the snapshot and frees the slot.
pub trait SnapshotSession {
    /// The session's own copy of a snapshot.
    type Snapshot: SnapshotView + Clone + Send;

    /// The transaction's top-level id; the first call hands it out, later ones return the same.
    ///
    /// # Errors
    /// [`AssignError`] at the id limit.
    fn assign(&mut self) -> Result<Xid, AssignError>;

    /// A new id for a sub-transaction of the running transaction (whose own id is handed out first, so that it is smaller).
    ///
    /// # Errors
    /// [`AssignError`] at the id limit, or when the session can remember no more children.
    fn assign_child(&mut self) -> Result<Xid, AssignError>;

    /// The transaction's top-level id, if it has one.
    fn xid(&self) -> Option<Xid>;

    /// Is `xid` the running transaction's own, as top or as child?
    fn owns(&self, xid: Xid) -> bool;

    /// Takes a current snapshot and registers its xmin, unless an older one is registered already.
    ///
    /// Any transaction whose `end` returned before this call counts as ended; snapshots of all sessions are totally
    /// ordered by inclusion.
    ///
    /// # Errors
    /// [`WouldBlock`] only where waiting is impossible (no `std`).
    fn snapshot(&mut self) -> Result<&Self::Snapshot, WouldBlock>;

    /// The snapshot taken last; before the first one, that of an array in which nothing has ended since the start.
    fn taken(&self) -> &Self::Snapshot;

    /// Says that no snapshot of this session is in use any more: it holds the horizon back no longer.
    fn release(&mut self);

    /// Does `xid` run *now*? Ask this before the status store: "not running" means that the final status is readable.
    ///
    /// # Errors
    /// [`WouldBlock`] only where waiting is impossible (no `std`).
    fn is_running(&mut self, xid: Xid) -> Result<Membership, WouldBlock>;

    /// Ends the transaction: `record` makes its final status readable, then its ids leave the running set, all at one instant.
    ///
    /// `record` gets the top-level id and its children as runs of consecutive ids. It runs before anything is changed or locked:
    /// when it fails or panics the ids still run. Without an id nothing is called and `Ok(None)` comes back.
    /// The registered snapshot stays registered.
    ///
    /// # Errors
    /// [`EndError::NotRecorded`] with what `record` returned; [`EndError::WouldBlock`] only where waiting is impossible.
    fn end<E>(
        &mut self,
        record: impl FnOnce(Xid, &[XidRun]) -> Result<(), E>,
    ) -> Result<Option<Xid>, EndError<E>>;

    /// Ends the transaction's children from the id `from` on, while it goes on itself: a sub-transaction that is rolled back, with all that
    /// began in it. `record` makes their final status readable, then they leave the running set, all at one instant.
    ///
    /// Without such children nothing is called. What holds for `record` in [`end`](Self::end) holds here. Where a set overflowed
    /// ([`Membership::AskParent`]) such a child may pass for running as long as its parent runs: what it did is unseen either way.
    ///
    /// # Errors
    /// As [`end`](Self::end); the children still run, and `record` is called again when this is.
    fn end_children<E>(
        &mut self,
        from: Xid,
        record: impl FnOnce(&[XidRun]) -> Result<(), E>,
    ) -> Result<(), EndError<E>>;
}
