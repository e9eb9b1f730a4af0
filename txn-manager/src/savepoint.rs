//! Savepoints: the places in a transaction to which it can be rolled back.
//!
//! # Rules
//!
//! 1. A savepoint has no id until something is written in it; then those around it get theirs first, so that an id is younger than its parent's.
//! 2. Every level remembers the first id that was handed out since it was set, to itself or within it. Ids rise, so what was handed out
//!    since is all from there on, and rolling back ends those ids and no others.
//! 3. A rollback keeps the savepoint, without an id: what is written next gets a new one. Releasing one leaves its ids to the level around it.

use alloc::vec::Vec;

use txnkit_ids::Xid;

/// A place in the running transaction. Worth nothing once it is released, rolled back past, or the transaction has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Savepoint {
    /// How many savepoints were set around it.
    depth: usize,
    /// Which of all savepoints that the session ever set.
    number: u64,
}

#[derive(Debug)]
struct Level {
    number: u64,
    xid: Option<Xid>,
    first: Option<Xid>,
}

/// A transaction's savepoints, the innermost last.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    levels: Vec<Level>,
    set: u64,
}

impl Levels {
    pub(crate) fn set(&mut self) -> Savepoint {
        self.set += 1;
        self.levels.push(Level {
            number: self.set,
            xid: None,
            first: None,
        });
        Savepoint {
            depth: self.levels.len() - 1,
            number: self.set,
        }
    }

    /// Is there no savepoint, so that the top-level id is the one to write with?
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// The id of the innermost level; the levels without one get theirs from `assign`, the outermost first.
    pub(crate) fn xid<E>(
        &mut self,
        mut assign: impl FnMut() -> Result<Xid, E>,
    ) -> Result<Option<Xid>, E> {
        // Those without an id are the innermost ones (rule 1).
        let without = self
            .levels
            .iter()
            .rev()
            .take_while(|level| level.xid.is_none());
        let from = self.levels.len() - without.count();
        for at in from..self.levels.len() {
            let xid = assign()?;
            self.levels[at].xid = Some(xid);
            for level in self.levels[..=at].iter_mut().rev() {
                if level.first.is_some() {
                    break; // and so have all around it
                }
                level.first = Some(xid);
            }
        }
        Ok(self.levels.last().and_then(|level| level.xid))
    }

    /// Is it still one of the transaction's?
    pub(crate) fn holds(&self, savepoint: Savepoint) -> bool {
        let level = self.levels.get(savepoint.depth);
        level.is_some_and(|level| level.number == savepoint.number)
    }

    /// The first id that a rollback to `savepoint` ends.
    pub(crate) fn first(&self, savepoint: Savepoint) -> Option<Xid> {
        self.levels[savepoint.depth].first
    }

    /// Forgets what is within `savepoint`, whose ids have ended.
    pub(crate) fn roll_back(&mut self, savepoint: Savepoint) {
        self.levels.truncate(savepoint.depth + 1);
        let level = &mut self.levels[savepoint.depth];
        (level.xid, level.first) = (None, None);
    }

    /// Forgets `savepoint` and what is within it; the ids run on as part of what is around it.
    pub(crate) fn release(&mut self, savepoint: Savepoint) {
        self.levels.truncate(savepoint.depth);
    }

    pub(crate) fn clear(&mut self) {
        self.levels.clear();
    }
}
