//! Pins, and the connection's handle that makes them.
//!
//! # Rules
//!
//! 1. A session has a buffer pinned once in the state word, however often its caller has: further pins stay in `private`. The
//!    first is one `fetch_add` (Acquire), which pairs with the Release that made the page valid, and with every Release since. Its place in
//!    `private` is taken before and given back before the pin is, so that nothing is stored between the two operations that matters.
//! 2. The pin counts if what the `fetch_add` found is tagged and the buffer's page, read after it, is the one wanted: from then on no
//!    evictor's compare-and-swap succeeds (rule 3 of `evict`). Else it is a *stray*, which reads nothing of the page and is given back through
//!    rule 3 like any other.
//! 3. Unpin is one `fetch_sub` (Release), which pairs with the evictor's and the cleaner's Acquire. On every path that lowers the
//!    count: was there a cleanup waiter and does one pin remain? Then wake it.
//! 4. Usage is raised at unpin: when the pin found it below its cap, the last unpin tries one compare-and-swap that lowers the count and raises
//!    usage, and if that fails lowers the count only. So usage never passes its cap, and a pin is never more than one operation.
//! 5. The count cannot overflow: sessions are bounded, and each adds one at most, its strays and its victims included.
//! 6. A tagged page that is not valid is on its way in: its reader holds the content lock alone. Who wants it waits for that lock, shared, then
//!    looks whether the page is valid. If the read failed the buffer is no longer tagged, and the pin is a stray.
//! 7. Pin and shared lock can be had by one `fetch_add`, and given back by one `fetch_sub`: both are counts in one word.

use core::cell::Cell;
use core::fmt;

use txnkit_sync::atomic::Ordering;
use txnkit_sync::{broken, ord};

use crate::error::{FlushError, LockError, PinError};
use crate::evict::Unpin;
use crate::form::Memory;
use crate::mapping::hash;
use crate::page::{Exclusive, Shared, Word};
use crate::pool::Pool;
use crate::private::{LOCKED, LOCKED_EXCLUSIVE, LOCKED_SHARED, Lowered, Pin, Private, RAISE};
use crate::state::{
    DIRTY, EXCLUSIVE, MAX_USAGE, PIN, SHARED, TAGGED, USAGE, VALID, WRITING, usage,
};
use crate::stats::Counters;
use crate::store::PageStore;
use crate::traits::{LockMode, NO_PAGE, PinSession, Stats, pin_and_lock};

/// A registered session: see [`PinSession`] for what it can do.
pub struct Session<'a, S: PageStore<W>, M: Memory<W>, const W: usize> {
    pub(crate) pool: &'a Pool<S, M, W>,
    /// The slot.
    pub(crate) me: u32,
    pub(crate) private: Private,
    /// The buffers claimed from the hand that are not looked at yet.
    pub(crate) batch: Cell<(u64, u64)>,
    pub(crate) stats: Counters,
}

/// What a try to pin a buffer for a page came to.
enum Tried {
    /// The pin counts; whether the session had it before, and what the state was.
    Pinned(Pin, Found),
    /// The buffer is not the page's.
    Stray,
}

/// How a pin was found.
#[derive(Clone, Copy)]
enum Found {
    /// In the session's own memory: the page is there.
    Private,
    /// In the shared state, which was this.
    Shared(u64),
}

impl<'a, S: PageStore<W>, M: Memory<W>, const W: usize> Session<'a, S, M, W> {
    /// The session of slot `me`, which the caller has marked in use.
    pub(crate) fn new(pool: &'a Pool<S, M, W>, me: u32) -> Self {
        Self {
            pool,
            me,
            private: Private::new(pool.next_stamp()),
            batch: Cell::new((0, 0)),
            stats: Counters::default(),
        }
    }

    /// As [`pin`](PinSession::pin), looking at buffer `buffer` first, where the caller found the page before. Wait-free if it still is there.
    ///
    /// # Errors
    /// As of [`pin`](PinSession::pin).
    #[inline]
    pub fn pin_recent(&self, buffer: u32, page: u64) -> Result<Pin, PinError> {
        if (buffer as usize) < self.pool.memory.descriptors().len()
            && let Tried::Pinned(pin, found) = self.try_pin(buffer, page, PIN)?
            && let Some(pin) = self.accept(pin, found, page)?
        {
            return Ok(pin);
        }
        self.pin(page)
    }

    /// Pins `buffer` for `page`, adding `by` to its state: a pin, or a pin and a shared lock. Rules 1 and 2.
    #[inline(always)]
    fn try_pin(&self, buffer: u32, page: u64, by: u64) -> Result<Tried, PinError> {
        let descriptor = self.pool.descriptor(buffer);
        if let Some(pin) = self.private.find(buffer) {
            // Held, so the page stays the same.
            if descriptor.page.load(Ordering::Relaxed) != page {
                return Ok(Tried::Stray);
            }
            if !self.private.raise(&pin) {
                return Err(self.too_many(page));
            }
            return Ok(Tried::Pinned(pin, Found::Private));
        }
        let Some(pin) = self.private.take(buffer) else {
            return Err(self.too_many(page));
        };
        // Pairs with the Releases that made the page valid (`evict`), that unlocked it (`lock`), and of TAGGED (`evict`): the page number.
        let old = descriptor
            .state
            .fetch_add(by, ord!("bufpin.session.pin", Acquire));
        let tagged = old & TAGGED != 0 || broken!("bufpin.session.untagged-accepted");
        let same = descriptor.page.load(Ordering::Relaxed) == page
            || broken!("bufpin.session.page-unchecked");
        if tagged && same {
            if usage(old) < MAX_USAGE {
                self.private.note(&pin, RAISE);
            }
            return Ok(Tried::Pinned(pin, Found::Shared(old)));
        }
        self.give_back_stray(pin, by);
        Ok(Tried::Stray)
    }

    /// Rule 2's way back.
    #[cold]
    fn give_back_stray(&self, pin: Pin, by: u64) {
        let buffer = pin.buffer();
        self.private.lower(&pin);
        if broken!("bufpin.session.silent-stray") {
            self.pool
                .descriptor(buffer)
                .state
                .fetch_sub(by, Ordering::Relaxed);
        } else {
            // Relaxed: nothing of the page was read.
            self.pool.lower(buffer, by, Ordering::Relaxed);
        }
    }

    /// A counted pin of a page that is there, or is waited for; none if it did not come.
    #[inline(always)]
    fn accept(&self, pin: Pin, found: Found, page: u64) -> Result<Option<Pin>, PinError> {
        match found {
            Found::Shared(state) if state & VALID == 0 => self.wait_until_valid(pin, page),
            _ => {
                self.stats.hits.raise();
                Ok(Some(pin))
            }
        }
    }

    /// Rule 6: waits for the reader of the page.
    #[cold]
    fn wait_until_valid(&self, pin: Pin, page: u64) -> Result<Option<Pin>, PinError> {
        let buffer = pin.buffer();
        if !broken!("bufpin.session.invalid-accepted") {
            if self.pool.lock(self.me, buffer, SHARED).is_err() {
                self.unpin(pin);
                return Err(PinError::WouldBlock { page });
            }
            let state = self.pool.descriptor(buffer).state.load(Ordering::Relaxed);
            // Nothing was read: the lock was only waited for.
            self.pool.lower(buffer, SHARED, Ordering::Relaxed);
            if state & VALID == 0 {
                self.unpin(pin);
                return Ok(None);
            }
        }
        self.stats.hits.raise();
        Ok(Some(pin))
    }

    /// The page was not found without a lock: looks again under it, or reads it in. See `evict`.
    #[cold]
    fn pin_missing(&self, page: u64) -> Result<Pin, PinError> {
        if page == NO_PAGE {
            return Err(PinError::Reserved);
        }
        loop {
            if let Some(pin) = self.pin_under_lock(page)? {
                return Ok(pin);
            }
            let victim = self.victim(page)?;
            if let Some(pin) = self.install(victim, page)? {
                self.stats.misses.raise();
                return Ok(pin);
            }
            // Somebody else has brought it in meanwhile.
        }
    }

    /// The page as the mapping has it under its lock. Rule 3 of `mapping`.
    fn pin_under_lock(&self, page: u64) -> Result<Option<Pin>, PinError> {
        let partition = self.pool.partition(hash(page));
        let Some(buffer) = partition.find(page) else {
            return Ok(None);
        };
        // Never a stray: untagging needs the lock.
        let tried = self.try_pin(buffer, page, PIN)?;
        drop(partition);
        match tried {
            Tried::Pinned(pin, found) => self.accept(pin, found, page),
            Tried::Stray => Ok(None),
        }
    }

    /// Gives back the session's only pin in the state word. Rules 3 and 4.
    #[inline(always)]
    fn give_back(&self, buffer: u32, by: u64, raise: bool) {
        let state = &self.pool.descriptor(buffer).state;
        if raise {
            let old = state.load(Ordering::Relaxed);
            if usage(old) < MAX_USAGE {
                // Release pairs as that of the `fetch_sub`.
                let new = old - by + USAGE;
                let raised = state.compare_exchange(
                    old,
                    new,
                    ord!("bufpin.session.unpin", Release),
                    Ordering::Relaxed,
                );
                if raised.is_ok() {
                    return self.pool.lowered(buffer, old, new);
                }
            }
        }
        // Pairs with the Acquires of `evict` and `cleanup`: whoever has the buffer for itself then comes after what was read here.
        self.pool
            .lower(buffer, by, ord!("bufpin.session.unpin", Release));
    }

    /// Gives back the lock noted on a pin, and `also`.
    #[inline]
    fn give_back_lock(&self, buffer: u32, notes: u64, also: u64, changed: bool) {
        if notes & LOCKED_EXCLUSIVE != 0 {
            self.pool.unlock_exclusive(buffer, also, changed);
        } else {
            let raise = also != 0 && notes & RAISE != 0;
            self.give_back(buffer, SHARED + also, raise);
        }
    }

    #[cold]
    pub(crate) fn too_many(&self, page: u64) -> PinError {
        PinError::TooManyPins {
            page,
            held: self.private.held(),
        }
    }

    /// Writes the page of `buffer` if it is dirty. Says whether it did.
    fn flush(&self, buffer: u32) -> Result<bool, FlushError> {
        let descriptor = self.pool.descriptor(buffer);
        // Pairs with the Release of `unlock_writing`: a page found clean is in the store for the caller, too.
        let state = descriptor
            .state
            .load(ord!("bufpin.session.flush-look", Acquire));
        if state & DIRTY == 0 {
            return Ok(false);
        }
        // The page may leave meanwhile, but not without being written.
        let page = descriptor.page.load(Ordering::Relaxed);
        let pin = match self.try_pin(buffer, page, PIN) {
            Ok(Tried::Pinned(pin, Found::Private)) => pin,
            Ok(Tried::Pinned(pin, Found::Shared(_))) => {
                // This is no use of the page.
                self.private.forget(&pin, RAISE);
                pin
            }
            Ok(Tried::Stray) => return Ok(false),
            Err(_) => {
                return Err(FlushError::TooManyPins {
                    held: self.private.held(),
                });
            }
        };
        let _unpin = Unpin::new(self, Some(pin));
        if self.pool.lock(self.me, buffer, WRITING).is_err() {
            return Err(FlushError::WouldBlock { page });
        }
        self.write_locked(buffer)
            .map_err(|(page, error)| FlushError::Write { page, error })
    }

    /// As [`lock_exclusive`](PinSession::lock_exclusive), if nobody else has the page locked. Does not wait. May fail because somebody
    /// looked into the buffer for another page.
    ///
    /// # Errors
    /// [`LockError`]; [`LockError::WouldBlock`] if it is locked.
    pub fn try_lock_exclusive<'s>(
        &'s self,
        pin: &'s Pin,
    ) -> Result<Exclusive<'s, Self>, LockError> {
        let words = self.lock_noted(pin, LOCKED_EXCLUSIVE, |buffer| {
            let locked = self.pool.try_lock(buffer, EXCLUSIVE);
            locked.then_some(()).ok_or(LockError::WouldBlock)
        })?;
        Ok(Exclusive::new(self, words, pin.duplicate(), false))
    }

    /// Checks that the pin can be locked, has `lock` do it, and notes it.
    #[inline(always)]
    fn lock_noted(
        &self,
        pin: &Pin,
        note: u64,
        lock: impl FnOnce(u32) -> Result<(), LockError>,
    ) -> Result<&[Word], LockError> {
        if !self.private.holds(pin) {
            return Err(LockError::NotHeld);
        }
        if self.private.notes(pin) & LOCKED != 0 {
            return Err(LockError::AlreadyLocked);
        }
        lock(pin.buffer())?;
        self.private.note(pin, note);
        Ok(&self.pool.frame(pin.buffer()).0)
    }
}

impl<S: PageStore<W>, M: Memory<W>, const W: usize> PinSession for Session<'_, S, M, W> {
    /// A page that is in the pool: lock-free, one locked instruction, none if this session has it pinned already. Else blocks on the store, on the
    /// session that reads the page, and for some instructions on the lock of a part of the mapping.
    #[inline]
    fn pin(&self, page: u64) -> Result<Pin, PinError> {
        for buffer in self.pool.candidates(hash(page)) {
            if let Tried::Pinned(pin, found) = self.try_pin(buffer, page, PIN)?
                && let Some(pin) = self.accept(pin, found, page)?
            {
                return Ok(pin);
            }
        }
        self.pin_missing(page)
    }

    /// Wait-free: one locked instruction, two when it races with others for the usage count, none if the session has other pins of the page.
    #[inline]
    fn unpin(&self, pin: Pin) {
        let buffer = pin.buffer();
        match self.private.lower(&pin) {
            Lowered::Held | Lowered::Foreign => {}
            Lowered::Last(notes) if notes & LOCKED == 0 => {
                self.give_back(buffer, PIN, notes & RAISE != 0);
            }
            // A guard of it was forgotten.
            Lowered::Last(notes) => self.give_back_lock(buffer, notes, PIN, true),
        }
    }

    /// One locked instruction if the lock is free.
    #[inline]
    fn lock(&self, pin: &Pin, mode: LockMode) -> Result<&[Word], LockError> {
        let (mode, note) = match mode {
            LockMode::Shared => (SHARED, LOCKED_SHARED),
            LockMode::Exclusive => (EXCLUSIVE, LOCKED_EXCLUSIVE),
        };
        self.lock_noted(pin, note, |buffer| self.pool.lock(self.me, buffer, mode))
    }

    /// Wait-free: one locked instruction.
    #[inline]
    fn unlock(&self, pin: &Pin, changed: bool) {
        let notes = self.private.notes(pin);
        if notes & LOCKED != 0 {
            self.private.forget(pin, LOCKED);
            self.give_back_lock(pin.buffer(), notes, 0, changed);
        }
    }

    /// Wait-free: one locked instruction for both.
    #[inline]
    fn unlock_and_unpin(&self, pin: Pin, changed: bool) {
        let notes = self.private.notes(&pin);
        if notes & LOCKED == 0 || self.private.pins(&pin) > 1 {
            self.unlock(&pin, changed);
            return self.unpin(pin);
        }
        self.private.lower(&pin);
        self.give_back_lock(pin.buffer(), notes, PIN, changed);
    }

    /// One locked instruction for both if the page is in the pool, not pinned by this session, and not locked alone.
    #[inline]
    fn pin_shared(&self, page: u64) -> Result<Shared<'_, Self>, PinError> {
        for buffer in self.pool.candidates(hash(page)) {
            if let Tried::Pinned(pin, found) = self.try_pin(buffer, page, PIN + SHARED)? {
                let Found::Shared(state) = found else {
                    self.unpin(pin);
                    break;
                };
                if state & VALID == 0 || state & EXCLUSIVE != 0 {
                    // Waited for in the ordinary way.
                    self.pool.lower(buffer, SHARED, Ordering::Relaxed);
                    self.unpin(pin);
                    break;
                }
                self.stats.hits.raise();
                self.private.note(&pin, LOCKED_SHARED);
                let words = &self.pool.frame(buffer).0;
                return Ok(Shared::new(self, words, pin, true));
            }
        }
        let (words, pin) = pin_and_lock(self, page, LockMode::Shared)?;
        Ok(Shared::new(self, words, pin, true))
    }

    fn held(&self) -> usize {
        self.private.held()
    }

    /// Wait-free for each of them.
    fn release_all(&mut self) -> usize {
        let held = self.private.held();
        while let Some(pin) = self.private.any() {
            let notes = self.private.notes(&pin);
            while let Lowered::Held = self.private.lower(&pin) {}
            if notes & LOCKED == 0 {
                self.give_back(pin.buffer(), PIN, notes & RAISE != 0);
            } else {
                self.give_back_lock(pin.buffer(), notes, PIN, true);
            }
        }
        self.private.restamp(self.pool.next_stamp());
        held
    }

    /// Blocks on the store, and on whoever has a dirty page locked alone.
    fn flush_all(&self) -> Result<usize, FlushError> {
        if self.private.any_locked() {
            return Err(FlushError::Locked);
        }
        let mut written = 0;
        for buffer in 0..self.pool.memory.descriptors().len() {
            written += usize::from(self.flush(buffer as u32)?);
        }
        Ok(written)
    }

    fn take_stats(&self) -> Stats {
        self.stats.take()
    }
}

/// Gives back what is left, then frees the slot.
impl<S: PageStore<W>, M: Memory<W>, const W: usize> Drop for Session<'_, S, M, W> {
    fn drop(&mut self) {
        self.release_all();
        // Pairs with the Acquire in `register`: nothing of this session's waiting comes after the next one's.
        self.pool
            .slot(self.me)
            .in_use
            .store(false, ord!("bufpin.session.leave", Release));
    }
}

impl<S: PageStore<W>, M: Memory<W>, const W: usize> fmt::Debug for Session<'_, S, M, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("slot", &self.me)
            .field("pins", &self.private)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
