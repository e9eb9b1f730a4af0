//! A buffer for a page that is not in the pool: the sweep, the write-back, the change of page, the read.
//!
//! # Rules
//!
//! 1. The sweep goes round the buffers with a hand from which sessions claim batches. A pinned buffer is passed; of an unpinned one with usage
//!    left one step of usage is taken off; one with neither is pinned in the same compare-and-swap that finds it so (Acquire, as 3).
//!    After as many looks in vain as there are buffers, each buffer is looked at once more, by number, so that no batch of another
//!    session hides one; then every buffer is pinned, and that is the error.
//! 2. A dirty victim is written by who holds the content lock to write: beside readers, so that the copy is one state of the page, and
//!    against another writer-back, so that no older copy overwrites a newer one. The dirty bit goes with that lock, in one operation, if the write
//!    succeeded. The lock is never waited for by an evictor, who may hold others: a page that is locked is passed.
//! 3. The page is put out under the lock of its partition, by one compare-and-swap from "one pin, not dirty" to "one pin, locked
//!    alone, no page" (Acquire, which pairs with the Release of every unpin). If that fails somebody has come: the victim is left as it is.
//! 4. A buffer without a page is locked alone until it is filled or given back. Its page word says [`NO_PAGE`], its version is odd.
//! 5. Under the lock of the new page's partition the page is searched again: somebody may have brought it in. Else the page number is stored,
//!    then TAGGED is set (Release, pairs with the pin's Acquire), then the mapping gets it. The lock is not held while the page is read.
//! 6. The page is there once VALID is set and the content lock given back, in one operation (Release, pairs with the pin's Acquire and with
//!    the Acquire of those who wait for the lock). If the read fails, TAGGED goes, under the partition's lock, together with
//!    the entry; those who wait find that and try for themselves.
//! 7. If the store panics, all is as if it had failed.

use txnkit_sync::atomic::Ordering;
use txnkit_sync::{broken, inject, ord};

use crate::error::{PinError, StoreError};
use crate::form::Memory;
use crate::mapping::hash;
use crate::pool::Pool;
use crate::private::{Pin, RAISE};
use crate::session::Session;
use crate::state::{DIRTY, EXCLUSIVE, PIN, TAGGED, USAGE, USAGES, VALID, WRITING, pins, usage};
use crate::store::PageStore;
use crate::traits::{NO_PAGE, PinSession};

/// How many buffers a session claims from the hand at a time, at most.
const BATCH: u64 = 16;

/// What a look of the sweep came to.
enum Look {
    /// Pinned by somebody.
    Passed,
    /// Usage was lowered.
    Lowered,
    /// Pinned for this session.
    Claimed(Pin),
}

/// A buffer pinned by this session alone, locked alone, without a page. Dropped, it is given back.
pub(crate) struct Empty<'s, 'a, S: PageStore<W>, M: Memory<W>, const W: usize> {
    session: &'s Session<'a, S, M, W>,
    pin: Option<Pin>,
}

impl<S: PageStore<W>, M: Memory<W>, const W: usize> Drop for Empty<'_, '_, S, M, W> {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            self.session.pool.unlock_exclusive(pin.buffer(), 0, false);
            self.session.unpin(pin);
        }
    }
}

impl<'a, S: PageStore<W>, M: Memory<W>, const W: usize> Session<'a, S, M, W> {
    /// A buffer for `page`. Rules 1 to 4.
    pub(crate) fn victim<'s>(&'s self, page: u64) -> Result<Empty<'s, 'a, S, M, W>, PinError> {
        if self.private.is_full() {
            return Err(self.too_many(page));
        }
        let buffers = self.pool.memory.descriptors().len();
        let mut in_vain = 0;
        while in_vain < 2 * buffers {
            let buffer = match in_vain.checked_sub(buffers) {
                None => self.next_buffer(),
                Some(at) => at as u32,
            };
            match self.look(buffer, page)? {
                Look::Passed => in_vain += 1,
                Look::Lowered => in_vain = 0,
                Look::Claimed(pin) => match self.empty(pin)? {
                    Some(empty) => return Ok(empty),
                    None => in_vain += 1,
                },
            }
        }
        Err(PinError::AllPinned { page, buffers })
    }

    /// The next buffer the hand points to, out of this session's batch.
    fn next_buffer(&self) -> u32 {
        let buffers = self.pool.memory.descriptors().len() as u64;
        let (mut next, mut end) = self.batch.get();
        if next == end {
            // A small pool goes round buffer by buffer.
            let batch = (buffers / BATCH).clamp(1, BATCH);
            next = self.pool.hand.fetch_add(batch, Ordering::Relaxed);
            end = next + batch;
        }
        self.batch.set((next + 1, end));
        (next % buffers) as u32
    }

    /// Rule 1's look at one buffer.
    fn look(&self, buffer: u32, page: u64) -> Result<Look, PinError> {
        let state = &self.pool.descriptor(buffer).state;
        let mut found = state.load(Ordering::Relaxed);
        loop {
            if pins(found) != 0 {
                return Ok(Look::Passed);
            }
            if usage(found) != 0 {
                let lowered = found - USAGE;
                match state.compare_exchange(found, lowered, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return Ok(Look::Lowered),
                    Err(changed) => found = changed,
                }
                continue;
            }
            // Not held by this session, since nobody has it pinned.
            let Some(pin) = self.private.take(buffer) else {
                return Err(self.too_many(page));
            };
            // Pairs with the Release of TAGGED in `install`: the page number; and of the last unlock: the words to write back.
            match state.compare_exchange(
                found,
                found + PIN,
                ord!("bufpin.evict.claim", Acquire),
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(Look::Claimed(pin)),
                Err(changed) => {
                    self.private.lower(&pin);
                    found = changed;
                }
            }
        }
    }

    /// Puts the page out of a claimed buffer, if nobody has come meanwhile. Rules 2 to 4.
    fn empty<'s>(&'s self, pin: Pin) -> Result<Option<Empty<'s, 'a, S, M, W>>, PinError> {
        let buffer = pin.buffer();
        let claimed = Unpin::new(self, Some(pin));
        inject!("bufpin.evict.claimed");
        if self.pool.descriptor(buffer).state.load(Ordering::Relaxed) & DIRTY != 0 {
            if !self.pool.try_lock(buffer, WRITING) {
                return Ok(None);
            }
            self.write_locked(buffer)
                .map_err(|(page, error)| PinError::WriteBack { page, error })?;
        }
        let Some(evicted) = self.pool.retire(buffer) else {
            return Ok(None);
        };
        if evicted {
            self.stats.evictions.raise();
        }
        Ok(Some(Empty {
            session: self,
            pin: claimed.keep(),
        }))
    }

    /// Writes the page of a buffer this session has locked to write and pinned, if it is dirty, and unlocks it. Says whether it did.
    pub(crate) fn write_locked(&self, buffer: u32) -> Result<bool, (u64, StoreError)> {
        let mut writing = Writing {
            pool: self.pool,
            buffer,
            written: false,
        };
        let descriptor = self.pool.descriptor(buffer);
        if descriptor.state.load(Ordering::Relaxed) & DIRTY == 0 {
            return Ok(false);
        }
        let page = descriptor.page.load(Ordering::Relaxed);
        let words = self.pool.frame(buffer).copy();
        inject!("bufpin.evict.writing");
        self.pool
            .store
            .write(page, &words)
            .map_err(|error| (page, error))?;
        writing.written = true;
        drop(writing);
        self.stats.write_backs.raise();
        Ok(true)
    }

    /// Fills an empty buffer with `page`; none if the page is in the pool by now. Rules 5 and 6.
    pub(crate) fn install(
        &self,
        mut empty: Empty<'_, 'a, S, M, W>,
        page: u64,
    ) -> Result<Option<Pin>, PinError> {
        let Some(buffer) = empty.pin.as_ref().map(Pin::buffer) else {
            return Ok(None);
        };
        let descriptor = self.pool.descriptor(buffer);
        let mut partition = self.pool.partition(hash(page));
        if partition.find(page).is_some() {
            return Ok(None);
        }
        self.pool.set_page(buffer, page);
        // Pairs with the Acquire of a pin and of a claim: who finds TAGGED reads this page number.
        descriptor
            .state
            .fetch_or(TAGGED, ord!("bufpin.evict.tag", Release));
        partition.insert(buffer);
        drop(partition);

        // Dropped in the reverse order: the buffer stays pinned until it is filled or untagged.
        let unpin = Unpin::new(self, empty.pin.take());
        let mut reading = Reading {
            pool: self.pool,
            buffer,
            page,
            read: false,
        };
        let mut words = [0; W];
        self.pool
            .store
            .read(page, &mut words)
            .map_err(|error| PinError::Read { page, error })?;
        self.pool.frame(buffer).fill(&words);
        reading.read = true;
        drop(reading);
        let pin = unpin.keep();
        if let Some(pin) = &pin {
            self.private.note(pin, RAISE);
        }
        Ok(pin)
    }
}

/// A pin that is given back when dropped, unless it is kept; also when the store panics.
pub(crate) struct Unpin<'s, S: PinSession>(&'s S, Option<Pin>);

impl<'s, S: PinSession> Unpin<'s, S> {
    pub(crate) fn new(session: &'s S, pin: Option<Pin>) -> Self {
        Self(session, pin)
    }

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

/// The content lock held to write; given back when dropped.
struct Writing<'p, S, M: Memory<W>, const W: usize> {
    pool: &'p Pool<S, M, W>,
    buffer: u32,
    written: bool,
}

impl<S, M: Memory<W>, const W: usize> Drop for Writing<'_, S, M, W> {
    fn drop(&mut self) {
        self.pool.unlock_writing(self.buffer, self.written);
    }
}

/// A page on its way in. Dropped, it is there, or, unless it was read, gone again.
struct Reading<'p, S, M: Memory<W>, const W: usize> {
    pool: &'p Pool<S, M, W>,
    buffer: u32,
    page: u64,
    read: bool,
}

impl<S, M: Memory<W>, const W: usize> Drop for Reading<'_, S, M, W> {
    fn drop(&mut self) {
        let (pool, buffer) = (self.pool, self.buffer);
        if self.read {
            pool.version(buffer).end_write();
            // Pairs with the Acquires of pins and shared locks: the words.
            return pool.lower(
                buffer,
                EXCLUSIVE - VALID,
                ord!("bufpin.evict.valid", Release),
            );
        }
        let mut partition = pool.partition(hash(self.page));
        pool.set_page(buffer, NO_PAGE);
        if !broken!("bufpin.evict.failed-left-in") {
            partition.remove(buffer);
        }
        pool.version(buffer).end_write();
        let by = if broken!("bufpin.evict.failed-left-locked") {
            TAGGED
        } else {
            EXCLUSIVE + TAGGED
        };
        // Relaxed: nobody uses the buffer before this session has unpinned it, which is a Release.
        pool.lower(buffer, by, Ordering::Relaxed);
    }
}

impl<S, M: Memory<W>, const W: usize> Pool<S, M, W> {
    /// Stores which page a buffer is for. Under the content lock held alone, the buffer untagged or its partition locked.
    fn set_page(&self, buffer: u32, page: u64) {
        self.descriptor(buffer).page.store(page, Ordering::Relaxed);
        self.version(buffer).set_page(page);
    }

    /// Takes the page out of a buffer pinned by the caller alone, and locks the buffer alone. Rules 3 and 4.
    ///
    /// Says whether there was a page; `None` if somebody has come, and nothing was done.
    fn retire(&self, buffer: u32) -> Option<bool> {
        let descriptor = self.descriptor(buffer);
        let mut found = descriptor.state.load(Ordering::Relaxed);
        // Pinned, so it stays tagged or untagged, and with the same page.
        let tagged = found & TAGGED != 0;
        let mut partition =
            tagged.then(|| self.partition(hash(descriptor.page.load(Ordering::Relaxed))));
        loop {
            let alone = pins(found) == 1 || broken!("bufpin.evict.pins-unchecked");
            let dirty = found & DIRTY != 0 && !broken!("bufpin.evict.dirty-unchecked");
            if !alone || dirty {
                return None;
            }
            let emptied = (found & !(TAGGED | VALID | DIRTY | USAGES)) | EXCLUSIVE;
            // Pairs with the Release of every unpin: what is stored from here on comes after what was read.
            match descriptor.state.compare_exchange(
                found,
                emptied,
                ord!("bufpin.evict.retire", Acquire),
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(changed) => found = changed,
            }
        }
        if let Some(partition) = &mut partition {
            partition.remove(buffer);
        }
        self.version(buffer).begin_write();
        self.set_page(buffer, NO_PAGE);
        Some(tagged)
    }
}
