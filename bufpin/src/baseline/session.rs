//! A connection's handle to a pool of 9.6's outline.

use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use txnkit_sync::atomic::Ordering;
use txnkit_sync::lock::{RawRwLock, ReadGuard, WriteGuard};

use super::header::{DIRTY, Header, Look, TAGGED, VALID};
use super::pool::{BaselinePool, Density, Descriptor};
use crate::error::{FlushError, LockError, PinError, StoreError};
use crate::page::Word;
use crate::private::{LOCKED, LOCKED_EXCLUSIVE, LOCKED_SHARED, Lowered, Pin, Private};
use crate::stats::Counters;
use crate::store::PageStore;
use crate::traits::{LockMode, NO_PAGE, PinSession, Pins, Stats};

/// A registered session: see [`PinSession`] for what it can do.
pub struct BaselineSession<'a, S: PageStore<W>, H: Header, L: RawRwLock, D: Density, const W: usize>
{
    pool: &'a BaselinePool<S, H, L, D, W>,
    slot: usize,
    private: Private,
    /// The content locks held, with their buffers: few.
    locks: RefCell<Vec<(u32, Content<'a, L>)>>,
    stats: Counters,
}

/// A content lock that is held, and is given back when dropped.
enum Content<'a, L: RawRwLock> {
    Shared(#[expect(dead_code, reason = "held for its drop")] ReadGuard<'a, (), L>),
    Exclusive(#[expect(dead_code, reason = "held for its drop")] WriteGuard<'a, (), L>),
}

/// Unpins a claimed or pinned buffer when dropped; also when the store panics.
struct Unpin<'s, S: PinSession>(&'s S, Option<Pin>);

impl<S: PinSession> Unpin<'_, S> {
    fn keep(mut self) -> Option<Pin> {
        self.1.take()
    }
}

impl<S: PinSession> Drop for Unpin<'_, S> {
    fn drop(&mut self) {
        if let Some(pin) = self.1.take() {
            self.0.unpin(pin);
        }
    }
}

impl<'a, S: PageStore<W>, H: Header, L: RawRwLock, D: Density, const W: usize>
    BaselineSession<'a, S, H, L, D, W>
{
    /// The session of slot `slot`, which the caller has marked in use.
    pub(super) fn new(pool: &'a BaselinePool<S, H, L, D, W>, slot: usize) -> Self {
        Self {
            pool,
            slot,
            private: Private::new(pool.stamps.fetch_add(1, Ordering::Relaxed)),
            locks: RefCell::new(Vec::new()),
            stats: Counters::default(),
        }
    }

    #[inline]
    fn descriptor(&self, buffer: u32) -> &'a Descriptor<H, L> {
        self.pool.descriptor(buffer)
    }

    fn too_many(&self, page: u64) -> PinError {
        PinError::TooManyPins {
            page,
            held: self.private.held(),
        }
    }

    /// Pins the page's buffer, if it has one, under the shared lock of its partition.
    #[inline]
    fn find(&self, page: u64) -> Result<Option<(Pin, u32)>, PinError> {
        let partition = self.pool.partition(page).read();
        match partition.get(&page) {
            Some(&buffer) => self.pin_buffer(buffer, page).map(Some),
            None => Ok(None),
        }
    }

    /// Pins a buffer that cannot change its page now. Returns the flags, too.
    #[inline]
    fn pin_buffer(&self, buffer: u32, page: u64) -> Result<(Pin, u32), PinError> {
        if let Some(pin) = self.private.find(buffer) {
            let raised = self.private.raise(&pin);
            return raised
                .then_some((pin, VALID))
                .ok_or_else(|| self.too_many(page));
        }
        let pin = self
            .private
            .take(buffer)
            .ok_or_else(|| self.too_many(page))?;
        Ok((pin, self.descriptor(buffer).header.pin()))
    }

    /// A pinned buffer whose page is not valid: waits for whoever reads it, or reads.
    #[cold]
    fn make_valid(&self, pin: Pin, page: u64) -> Result<Pin, PinError> {
        let descriptor = self.descriptor(pin.buffer());
        let unpin = Unpin(self, Some(pin));
        let io = descriptor.io.lock();
        if descriptor.header.flags() & VALID == 0 {
            self.read(&unpin, page)?;
        } else {
            self.stats.hits.raise();
        }
        drop(io);
        unpin.keep().ok_or(PinError::Reserved)
    }

    /// Reads the page of a pinned buffer. Under its io lock.
    fn read(&self, unpin: &Unpin<'_, Self>, page: u64) -> Result<(), PinError> {
        let Some(buffer) = unpin.1.as_ref().map(Pin::buffer) else {
            return Ok(());
        };
        let mut words = [0; W];
        self.pool
            .store
            .read(page, &mut words)
            .map_err(|error| PinError::Read { page, error })?;
        self.pool.frames[buffer as usize].fill(&words);
        self.descriptor(buffer).header.change(VALID, 0);
        self.stats.misses.raise();
        Ok(())
    }

    /// The page was not in the table.
    #[cold]
    fn pin_missing(&self, page: u64) -> Result<Pin, PinError> {
        if page == NO_PAGE {
            return Err(PinError::Reserved);
        }
        let victim = self.victim(page)?;
        let Some(buffer) = victim.1.as_ref().map(Pin::buffer) else {
            return Err(self.too_many(page));
        };
        let descriptor = self.descriptor(buffer);
        let mut partition = self.pool.partition(page).write();
        if let Some(&other) = partition.get(&page) {
            let (pin, flags) = self.pin_buffer(other, page)?;
            drop(partition);
            drop(victim);
            return self.accept(pin, flags, page);
        }
        partition.insert(page, buffer);
        descriptor.page.store(page, Ordering::Relaxed);
        descriptor.header.change(TAGGED, 0);
        // Nobody else has the buffer pinned, so the lock is free.
        let io = descriptor.io.lock();
        drop(partition);
        self.read(&victim, page)?;
        drop(io);
        victim.keep().ok_or(PinError::Reserved)
    }

    /// A pin, once the page is valid.
    #[inline]
    fn accept(&self, pin: Pin, flags: u32, page: u64) -> Result<Pin, PinError> {
        if flags & VALID == 0 {
            return self.make_valid(pin, page);
        }
        self.stats.hits.raise();
        Ok(pin)
    }

    /// A pinned buffer without a page.
    fn victim(&self, page: u64) -> Result<Unpin<'_, Self>, PinError> {
        let buffers = self.pool.buffers();
        let mut in_vain = 0;
        while in_vain < buffers {
            let hand = self.pool.hand.fetch_add(1, Ordering::Relaxed);
            let buffer = (hand % buffers as u64) as u32;
            let flags = match self.descriptor(buffer).header.look() {
                Look::Passed => {
                    in_vain += 1;
                    continue;
                }
                Look::Lowered => {
                    in_vain = 0;
                    continue;
                }
                Look::Claimed(flags) => flags,
            };
            let Some(pin) = self.private.take(buffer) else {
                self.descriptor(buffer).header.unpin();
                return Err(self.too_many(page));
            };
            let claimed = Unpin(self, Some(pin));
            if self.put_out(buffer, flags)? {
                return Ok(claimed);
            }
            in_vain += 1;
        }
        Err(PinError::AllPinned { page, buffers })
    }

    /// Takes the page out of a claimed buffer, if nobody has come meanwhile.
    fn put_out(&self, buffer: u32, flags: u32) -> Result<bool, PinError> {
        let descriptor = self.descriptor(buffer);
        if flags & DIRTY != 0 {
            // Not waited for: who evicts may hold locks that the holder waits for.
            let Some(_shared) = descriptor.content.try_read() else {
                return Ok(false);
            };
            self.write_back(buffer)
                .map_err(|(page, error)| PinError::WriteBack { page, error })?;
        }
        if flags & TAGGED == 0 {
            return Ok(descriptor.header.retire());
        }
        let page = descriptor.page.load(Ordering::Relaxed);
        let mut partition = self.pool.partition(page).write();
        let retired = descriptor.header.retire();
        if retired {
            partition.remove(&page);
            self.stats.evictions.raise();
        }
        Ok(retired)
    }

    /// Writes the page of a pinned buffer if it is dirty; says whether it did. Under the content lock, shared.
    fn write_back(&self, buffer: u32) -> Result<bool, (u64, StoreError)> {
        let descriptor = self.descriptor(buffer);
        let _io = descriptor.io.lock();
        if descriptor.header.flags() & DIRTY == 0 {
            return Ok(false);
        }
        let page = descriptor.page.load(Ordering::Relaxed);
        self.pool
            .store
            .write(page, &self.pool.frames[buffer as usize].copy())
            .map_err(|error| (page, error))?;
        descriptor.header.change(0, DIRTY);
        self.stats.write_backs.raise();
        Ok(true)
    }

    /// Gives back a content lock that is noted on a pin.
    #[inline]
    fn drop_lock(&self, buffer: u32, changed: bool) {
        let mut locks = self.locks.borrow_mut();
        let Some(at) = locks.iter().position(|(locked, _)| *locked == buffer) else {
            return;
        };
        let header = &self.descriptor(buffer).header;
        if changed && header.flags() & DIRTY == 0 {
            header.change(DIRTY, 0);
        }
        locks.swap_remove(at);
    }
}

impl<S: PageStore<W>, H: Header, L: RawRwLock, D: Density, const W: usize> PinSession
    for BaselineSession<'_, S, H, L, D, W>
{
    #[inline]
    fn pin(&self, page: u64) -> Result<Pin, PinError> {
        match self.find(page)? {
            Some((pin, flags)) => self.accept(pin, flags, page),
            None => self.pin_missing(page),
        }
    }

    #[inline]
    fn unpin(&self, pin: Pin) {
        if let Lowered::Last(notes) = self.private.lower(&pin) {
            if notes & LOCKED != 0 {
                // A guard of it was forgotten.
                self.drop_lock(pin.buffer(), notes & LOCKED_EXCLUSIVE != 0);
            }
            self.descriptor(pin.buffer()).header.unpin();
        }
    }

    #[inline]
    fn lock(&self, pin: &Pin, mode: LockMode) -> Result<&[Word], LockError> {
        if !self.private.holds(pin) {
            return Err(LockError::NotHeld);
        }
        if self.private.notes(pin) & LOCKED != 0 {
            return Err(LockError::AlreadyLocked);
        }
        let buffer = pin.buffer();
        let content = &self.descriptor(buffer).content;
        let (held, note) = match mode {
            LockMode::Shared => (Content::Shared(content.read()), LOCKED_SHARED),
            LockMode::Exclusive => (Content::Exclusive(content.write()), LOCKED_EXCLUSIVE),
        };
        self.locks.borrow_mut().push((buffer, held));
        self.private.note(pin, note);
        Ok(&self.pool.frames[buffer as usize].0)
    }

    #[inline]
    fn unlock(&self, pin: &Pin, changed: bool) {
        let notes = self.private.notes(pin);
        if notes & LOCKED != 0 {
            self.private.forget(pin, LOCKED);
            self.drop_lock(pin.buffer(), changed && notes & LOCKED_EXCLUSIVE != 0);
        }
    }

    fn held(&self) -> usize {
        self.private.held()
    }

    fn release_all(&mut self) -> usize {
        let held = self.private.held();
        while let Some(pin) = self.private.any() {
            self.unpin(pin);
        }
        self.private
            .restamp(self.pool.stamps.fetch_add(1, Ordering::Relaxed));
        held
    }

    fn flush_all(&self) -> Result<usize, FlushError> {
        if self.private.any_locked() {
            return Err(FlushError::Locked);
        }
        let mut written = 0;
        for buffer in 0..self.pool.buffers() as u32 {
            let descriptor = self.descriptor(buffer);
            if descriptor.header.flags() & DIRTY == 0 {
                continue;
            }
            let pinned = self.pin_buffer(buffer, NO_PAGE);
            let (pin, _) = pinned.map_err(|_| FlushError::TooManyPins {
                held: self.private.held(),
            })?;
            let _unpin = Unpin(self, Some(pin));
            let _shared = descriptor.content.read();
            let wrote = self
                .write_back(buffer)
                .map_err(|(page, error)| FlushError::Write { page, error })?;
            written += usize::from(wrote);
        }
        Ok(written)
    }

    fn take_stats(&self) -> Stats {
        self.stats.take()
    }
}

/// Gives back what is left, then frees the slot.
impl<S: PageStore<W>, H: Header, L: RawRwLock, D: Density, const W: usize> Drop
    for BaselineSession<'_, S, H, L, D, W>
{
    fn drop(&mut self) {
        self.release_all();
        // Pairs with the Acquire in `register`.
        self.pool.slots[self.slot].store(false, Ordering::Release);
    }
}

impl<S: PageStore<W>, H: Header, L: RawRwLock, D: Density, const W: usize> fmt::Debug
    for BaselineSession<'_, S, H, L, D, W>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BaselineSession")
            .field("slot", &self.slot)
            .field("pins", &self.private)
            .finish_non_exhaustive()
    }
}
