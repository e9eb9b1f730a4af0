//! The cleanup lock: a page locked alone that nobody else has pinned either.
//!
//! # Rules
//!
//! 1. The lock is the exclusive content lock together with a moment at which the state word shows one pin. Pins that come later are harmless:
//!    whoever has one cannot look before the lock is given back.
//! 2. A waiter enters itself as the buffer's waiter (there is one at most), then sets the cleanup bit by a `fetch_or` (AcqRel). If that found one
//!    pin, it is done: Acquire pairs with the Release of the last unpin. Else it gives back the content lock, parks, and starts over.
//! 3. Whoever lowers the pins from two to one and finds the bit wakes the waiter. Bit and count are in one word: an unpin comes before the
//!    `fetch_or`, which then sees it, or after it, and then finds the bit.
//! 4. Wake-ups may be for nothing (strays count as pins for a moment), so it is a loop. Between the `fetch_or` and parking the waiter parks for
//!    nothing else, so that no permit is lost.
//! 5. The bit is cleared before the waiter's entry, so that the next waiter's bit stays.

use txnkit_sync::atomic::Ordering;
use txnkit_sync::park::Park;
use txnkit_sync::{broken, ord};

use crate::error::{CleanupError, LockError};
use crate::form::Memory;
use crate::page::Exclusive;
use crate::pool::Pool;
use crate::private::Pin;
use crate::session::Session;
use crate::state::{CLEANUP, pins};
use crate::store::PageStore;
use crate::traits::PinSession;

impl<S: PageStore<W>, M: Memory<W>, const W: usize> Session<'_, S, M, W> {
    /// Locks a page alone once nobody else has it pinned. Blocks on whoever locks or pins it; the page is not locked meanwhile, so others may
    /// come and be served first.
    ///
    /// # Errors
    /// [`CleanupError`].
    pub fn lock_cleanup<'s>(&'s self, pin: &'s Pin) -> Result<Exclusive<'s, Self>, CleanupError> {
        self.check_own_pins(pin)?;
        let mut waiter = None;
        loop {
            let guard = self.lock_exclusive(pin).map_err(CleanupError::Lock)?;
            if self.pool.pinned_once(pin.buffer()) {
                return Ok(guard);
            }
            if !M::Park::CAN_BLOCK {
                return Err(CleanupError::Pinned);
            }
            let waiting = match waiter.take() {
                Some(waiting) => waiting,
                None => Waiting::new(self.pool, pin.buffer(), self.me)
                    .ok_or(CleanupError::AnotherWaits)?,
            };
            if waiting.announce() {
                return Ok(guard);
            }
            drop(guard);
            self.pool.slot(self.me).park.park();
            waiter = Some(waiting);
        }
    }

    /// As [`lock_cleanup`](Self::lock_cleanup), if nobody else has the page pinned or locked now. Does not wait. May fail because somebody
    /// looked into the buffer for another page.
    ///
    /// # Errors
    /// [`CleanupError`]; of others' pins and locks alike [`CleanupError::Pinned`].
    pub fn try_lock_cleanup<'s>(
        &'s self,
        pin: &'s Pin,
    ) -> Result<Exclusive<'s, Self>, CleanupError> {
        self.check_own_pins(pin)?;
        // Whoever has it locked has it pinned.
        if !self.pool.pinned_once(pin.buffer()) {
            return Err(CleanupError::Pinned);
        }
        let guard = self.try_lock_exclusive(pin).map_err(|error| match error {
            LockError::WouldBlock => CleanupError::Pinned,
            other => CleanupError::Lock(other),
        })?;
        if self.pool.pinned_once(pin.buffer()) {
            Ok(guard)
        } else {
            Err(CleanupError::Pinned)
        }
    }

    fn check_own_pins(&self, pin: &Pin) -> Result<(), CleanupError> {
        match self.private.pins(pin) {
            0 => Err(CleanupError::Lock(LockError::NotHeld)),
            1 => Ok(()),
            pins => Err(CleanupError::OwnPins { pins }),
        }
    }
}

impl<S, M: Memory<W>, const W: usize> Pool<S, M, W> {
    fn pinned_once(&self, buffer: u32) -> bool {
        // Pairs with the Release of every unpin: what is written from here on comes after what was read.
        let state = self
            .descriptor(buffer)
            .state
            .load(ord!("bufpin.cleanup.look", Acquire));
        pins(state) == 1
    }
}

/// A session's entry as a buffer's waiter; taken back when dropped.
struct Waiting<'p, S, M: Memory<W>, const W: usize> {
    pool: &'p Pool<S, M, W>,
    buffer: u32,
}

impl<'p, S, M: Memory<W>, const W: usize> Waiting<'p, S, M, W> {
    /// Enters slot `me`, unless another waits already.
    fn new(pool: &'p Pool<S, M, W>, buffer: u32, me: u32) -> Option<Self> {
        let waiter = &pool.descriptor(buffer).waiter;
        // Relaxed: what a waiter has to see is in the state word.
        waiter
            .compare_exchange(0, me + 1, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
            .then(|| Self { pool, buffer })
    }

    /// Rule 2's `fetch_or`. Is this session the only one that has the buffer pinned?
    fn announce(&self) -> bool {
        let state = &self.pool.descriptor(self.buffer).state;
        let found = if broken!("bufpin.cleanup.bit-by-store") {
            let found = state.load(Ordering::Relaxed);
            state.store(found | CLEANUP, Ordering::Relaxed);
            found
        } else {
            // Release pairs with the Acquire fence of `wake`: the waiter's entry. Acquire pairs with the Release of every unpin.
            state.fetch_or(CLEANUP, ord!("bufpin.cleanup.announce", AcqRel))
        };
        pins(found) == 1
    }
}

impl<S, M: Memory<W>, const W: usize> Drop for Waiting<'_, S, M, W> {
    fn drop(&mut self) {
        let descriptor = self.pool.descriptor(self.buffer);
        descriptor.state.fetch_and(!CLEANUP, Ordering::Relaxed);
        // Relaxed: this happens under the content lock, which the next waiter has to have before it enters itself.
        descriptor.waiter.store(0, Ordering::Relaxed);
    }
}
