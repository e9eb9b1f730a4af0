//! Row locks: who has locked a row, and whether one more may.
//!
//! # Rules
//!
//! 1. A row version carries a [`RowMark`]: nobody, one locker, or the number of a set of them. It is read and replaced under a latch of the caller's; what
//!    is decided here holds for the mark it was decided on.
//! 2. A locker that has ended without changing the row does not count. One that has changed it and committed has replaced the row: the newest version decides.
//! 3. A locker counts by the id it wrote with: what a rolled-back savepoint locked is free again.
//! 4. The session says that it uses lock sets when it gets its id, which is before it reads the row: so no set in it is forgotten meanwhile.

use alloc::vec::Vec;

use multixact::{LockSession, LockSets, Member, Mode, MultiXactId};
use txnkit_ids::Xid;

use crate::error::LockError;
use crate::manager::Mechanisms;
use crate::session::{Session, XidState};

/// Who has locked or replaced a row version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RowMark {
    /// Nobody.
    #[default]
    Free,
    /// One transaction, or none any more.
    One(Member),
    /// Those in this lock set.
    Many(MultiXactId),
}

/// What comes of asking for a row lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowLock {
    /// It is granted as soon as the row carries this mark: put it there before the latch is given back.
    Granted(RowMark),
    /// This transaction holds a lock that excludes it: give the latch back, wait for its end, and ask again.
    Busy(Xid),
    /// This transaction has changed the row and committed: go on from the newest version, or under repeatable read abort.
    Replaced(Xid),
}

impl<M: Mechanisms> Session<'_, M> {
    /// May this transaction lock a row that carries `mark` in this mode? Get its id ([`xid`](Self::xid)) before the row is read.
    ///
    /// Does not wait for other transactions. Progress is that of [`state_of`](Self::state_of) and, where the row has several lockers, of
    /// [`LockSets::members`] and [`LockSession::create`].
    ///
    /// # Errors
    /// [`LockError`]; nothing was changed.
    pub fn lock_row(&mut self, mark: RowMark, mode: Mode) -> Result<RowLock, LockError> {
        let me = Member {
            xid: self.xid()?,
            mode,
        };
        let lockers = self.lockers(mark)?;
        let mut kept = Vec::with_capacity(lockers.len() + 1);
        let mut covered = false;
        for held in lockers {
            match self.state_of(held.xid)? {
                // Not the last word: another one may have replaced the row meanwhile.
                XidState::Own if covers(held, me) => covered = true,
                // The stronger lock of the same id takes the weaker one's place.
                XidState::Own if held.xid == me.xid && covers(me, held) => {}
                XidState::Own => kept.push(held),
                XidState::Running if held.mode.conflicts(mode) => {
                    return Ok(RowLock::Busy(held.xid));
                }
                XidState::Running => kept.push(held),
                XidState::Committed if held.mode.is_update() => {
                    return Ok(RowLock::Replaced(held.xid));
                }
                XidState::Committed | XidState::Aborted => {}
            }
        }
        if covered {
            return Ok(RowLock::Granted(mark));
        }
        if kept.is_empty() {
            return Ok(RowLock::Granted(RowMark::One(me)));
        }
        kept.push(me);
        Ok(RowLock::Granted(RowMark::Many(self.locks.create(&kept)?)))
    }

    /// Everybody in a row's mark, ended or not: at most one of them changes the row.
    ///
    /// # Errors
    /// [`LockError::Sets`] when the set cannot be read.
    pub fn lockers(&self, mark: RowMark) -> Result<Vec<Member>, LockError> {
        Ok(match mark {
            RowMark::Free => Vec::new(),
            RowMark::One(member) => Vec::from([member]),
            RowMark::Many(id) => self.core.locks.members(id)?,
        })
    }
}

/// Does what `held` locks include what `asked` wants, for as long as `asked` needs it?
fn covers(held: Member, asked: Member) -> bool {
    let excludes_as_much = Mode::ALL
        .iter()
        .all(|&other| held.mode.conflicts(other) || !asked.mode.conflicts(other));
    // An older id of the same transaction is rolled back only together with the younger one.
    held.xid <= asked.xid && excludes_as_much && (held.mode.is_update() || !asked.mode.is_update())
}
