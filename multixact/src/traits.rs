//! What every table of lock sets does.

use alloc::vec::Vec;

use txnkit_ids::{MultiXactId, Xid};

use crate::error::{MultiXactError, RegisterError};
use crate::mode::Member;

/// What has become of a member's transaction: the caller knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XidState {
    /// It runs.
    Running,
    /// It committed.
    Committed,
    /// It did not.
    Aborted,
}

/// A table of lock sets: a set of members under one number, which never changes once it is made.
pub trait LockSets: Send + Sync {
    /// One connection's handle.
    type Session<'a>: LockSession
    where
        Self: 'a;

    /// Takes a free place.
    ///
    /// # Errors
    /// [`RegisterError`] when every place is in use.
    fn register(&self) -> Result<Self::Session<'_>, RegisterError>;

    /// The members of a set, sorted by id and mode.
    ///
    /// # Errors
    /// [`MultiXactError`]. [`TooOld`](MultiXactError::TooOld) when it was forgotten, before or meanwhile: then no member runs, if every one of them had begun to
    /// [use](LockSession::begin_use) sets and only what was not in use was truncated. Whoever has to know an updater holds back the
    /// truncation, as its horizon does.
    fn members(&self, id: MultiXactId) -> Result<Vec<Member>, MultiXactError>;

    /// Does a member of the set still run? A `false` is final.
    ///
    /// # Errors
    /// As [`members`](Self::members).
    fn is_running(
        &self,
        id: MultiXactId,
        mut state: impl FnMut(Xid) -> XidState,
    ) -> Result<bool, MultiXactError> {
        let members = self.members(id)?;
        Ok(members
            .iter()
            .any(|member| state(member.xid) == XidState::Running))
    }

    /// The next number that a set will get.
    fn next_id(&self) -> MultiXactId;

    /// The oldest set that a session in a transaction may look at, or put into a row: no number before it needs to be kept for *running*
    /// transactions. Rows may still hold older ones. Only rises.
    fn oldest_in_use(&self) -> MultiXactId;

    /// Forgets the sets before `oldest`, which no row holds any more. Going back changes nothing.
    ///
    /// # Errors
    /// [`MultiXactError::NotCreated`] when `oldest` lies after the next number; [`MultiXactError::Pool`]: call again.
    fn truncate(&self, oldest: MultiXactId) -> Result<(), MultiXactError>;

    /// How many members the sets that are kept take, gaps included.
    fn members_in_use(&self) -> u64;
}

/// One connection's handle. `Send`, not `Sync`; dropping it ends its use of sets and frees its place.
pub trait LockSession: Send {
    /// Says that the running transaction will lock rows, by its own id or by sets: from now to [`end`](Self::end) none from the next number on are taken for
    /// unused, so none that it makes or is a member of. Before the first row is locked.
    fn begin_use(&mut self);

    /// A set with these members, an equal one that exists or a new one.
    ///
    /// # Errors
    /// [`MultiXactError`]; no set was made.
    fn create(&mut self, members: &[Member]) -> Result<MultiXactId, MultiXactError>;

    /// A set with `member` and those members of the set `id` that still matter: the running ones, and the updater if it committed. `id` itself
    /// if `member` is in it already.
    ///
    /// # Errors
    /// [`MultiXactError`]; no set was made.
    fn expand(
        &mut self,
        id: MultiXactId,
        member: Member,
        state: impl FnMut(Xid) -> XidState,
    ) -> Result<MultiXactId, MultiXactError>;

    /// The transaction has ended.
    fn end(&mut self);
}
