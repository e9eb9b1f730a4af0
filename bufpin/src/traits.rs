//! The mechanism as traits: what the front and every baseline can do, and what one behavioural suite tests of them all.
//!
//! # Pins and locks
//!
//! A *buffer* holds one page at a time. A *pin* keeps a page in its buffer: as long as somebody has it pinned it is neither evicted nor
//! moved. To look at a pinned page one has to *lock* it, shared to read, exclusively to write. A page that was written is *dirty* until it
//! is in the store again. What callers have to keep to:
//!
//! 1. A pin is short: it is given back at the latest when the transaction ends. [`PinSession::held`] tells of forgotten ones.
//! 2. A session that locks several pages at a time locks them in an order that all sessions agree on: nothing here finds a circle.
//! 3. What was read under the lock may be changed as soon as the lock is given back; the pin keeps the page, not its words.

use crate::error::{FlushError, LockError, PinError, RegisterError};
use crate::page::{Exclusive, Shared, Word};
use crate::private::Pin;

/// The number that is no page's; every other one may be.
pub const NO_PAGE: u64 = u64::MAX;

/// How a page is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Beside other readers.
    Shared,
    /// Alone.
    Exclusive,
}

/// What a session has done since it was registered, or since [`PinSession::take_stats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Pins of pages that were in the pool.
    pub hits: u64,
    /// Pages that had to be read.
    pub misses: u64,
    /// Pages that were put out of their buffer to make room.
    pub evictions: u64,
    /// Pages that were written.
    pub write_backs: u64,
}

/// A pool of buffers over a store of pages.
pub trait Pins: Send + Sync {
    /// One connection's handle.
    type Session<'a>: PinSession
    where
        Self: 'a;

    /// Takes a free slot.
    ///
    /// # Errors
    /// [`RegisterError`] when every slot is in use.
    fn register(&self) -> Result<Self::Session<'_>, RegisterError>;

    /// How many buffers there are.
    fn buffers(&self) -> usize;
}

/// One connection's handle: `Send`, so that a connection can move between threads; not `Sync`.
///
/// Dropping it gives back all its pins and locks and frees the slot. A [`Pin`] is given back by [`unpin`](Self::unpin) only: one that is
/// dropped stays held. Methods take `&self`, so that several pages can be locked at a time.
pub trait PinSession: Send + Sized {
    /// Pins `page`, which is read in first if it is not in the pool.
    ///
    /// # Errors
    /// [`PinError`].
    fn pin(&self, page: u64) -> Result<Pin, PinError>;

    /// Gives a pin back. A pin of another session, or one that `release_all` has given back already, is ignored.
    fn unpin(&self, pin: Pin);

    /// Locks a pinned page, without a guard: what the guards are made from. The words can be read through a guard only.
    ///
    /// # Errors
    /// [`LockError`].
    fn lock(&self, pin: &Pin, mode: LockMode) -> Result<&[Word], LockError>;

    /// Gives the lock back that this session has on the page, if any; `changed` says that the page was written.
    fn unlock(&self, pin: &Pin, changed: bool);

    /// Gives lock and pin back at once.
    fn unlock_and_unpin(&self, pin: Pin, changed: bool) {
        self.unlock(&pin, changed);
        self.unpin(pin);
    }

    /// Locks a pinned page beside other readers. Blocks on a writer.
    ///
    /// # Errors
    /// [`LockError`].
    #[inline]
    fn lock_shared<'s>(&'s self, pin: &'s Pin) -> Result<Shared<'s, Self>, LockError> {
        let words = self.lock(pin, LockMode::Shared)?;
        Ok(Shared::new(self, words, pin.duplicate(), false))
    }

    /// Locks a pinned page alone. Blocks on every holder, and on a write-back.
    ///
    /// # Errors
    /// [`LockError`].
    #[inline]
    fn lock_exclusive<'s>(&'s self, pin: &'s Pin) -> Result<Exclusive<'s, Self>, LockError> {
        let words = self.lock(pin, LockMode::Exclusive)?;
        Ok(Exclusive::new(self, words, pin.duplicate(), false))
    }

    /// Pins `page` and locks it beside other readers; both are given back when the guard is dropped.
    ///
    /// # Errors
    /// [`PinError`].
    fn pin_shared(&self, page: u64) -> Result<Shared<'_, Self>, PinError> {
        let (words, pin) = pin_and_lock(self, page, LockMode::Shared)?;
        Ok(Shared::new(self, words, pin, true))
    }

    /// Pins `page` and locks it alone; both are given back when the guard is dropped.
    ///
    /// # Errors
    /// [`PinError`].
    fn pin_exclusive(&self, page: u64) -> Result<Exclusive<'_, Self>, PinError> {
        let (words, pin) = pin_and_lock(self, page, LockMode::Exclusive)?;
        Ok(Exclusive::new(self, words, pin, true))
    }

    /// How many pins the session holds, pins of one page counted each.
    fn held(&self) -> usize;

    /// Gives back all pins and locks that the session still has, and says how many pins that were. A page that was locked exclusively counts
    /// as changed. No guard can be alive when this is called, only forgotten ones.
    fn release_all(&mut self) -> usize;

    /// Writes every dirty page, and says how many those were. What was dirty when this was called is in the store when it returns;
    /// write-backs of other sessions are waited for.
    ///
    /// # Errors
    /// [`FlushError`].
    fn flush_all(&self) -> Result<usize, FlushError>;

    /// What the session has done so far; counting starts anew.
    fn take_stats(&self) -> Stats;
}

/// A pin and the lock, one after the other; neither if the lock could not be had.
pub(crate) fn pin_and_lock<S: PinSession>(
    session: &S,
    page: u64,
    mode: LockMode,
) -> Result<(&[Word], Pin), PinError> {
    let pin = session.pin(page)?;
    match session.lock(&pin, mode) {
        Ok(words) => Ok((words, pin)),
        Err(error) => {
            session.unpin(pin);
            Err(match error {
                LockError::AlreadyLocked => PinError::AlreadyLocked { page },
                LockError::NotHeld | LockError::WouldBlock => PinError::WouldBlock { page },
            })
        }
    }
}
