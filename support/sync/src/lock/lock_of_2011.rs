//! PostgreSQL's lightweight lock as it was in 9.1, reconstructed: counts and a queue under a test-and-set lock.
//!
//! - All that the lock knows (a writer, the number of readers, the queue, `release_ok`) is touched only under a test-and-set lock. Every
//!   acquisition and every release takes it, also those of readers, which is what this ancestor is measured for.
//! - That lock is waited for by spinning and sleeping: `spins` looks, then a sleep of 1 ms, then `spins` looks again. Every next sleep of the
//!   same wait is longer by a random factor of 1 to 2, and back at 1 ms after 1 s. `spins` adapts between 10 and 1000: 100 more when
//!   the lock was got without a sleep, 1 less when it was got with one. A holder that loses its processor, as happens with more threads than
//!   processors, makes others sleep.
//! - Who finds the lock held queues up and sleeps on a semaphore.
//! - Who leaves the lock free wakes the head of the queue, a writer alone or all readers up to the first writer, takes them off the queue
//!   and clears `release_ok`. They hold nothing and have to try like anybody else, so that others may overtake them; the first that tries
//!   sets `release_ok` again, and until then nobody else is woken.
//!
//! Left out of the original: the panic on a lock stuck for minutes, error recovery, the owner lists. `spins` was kept by each
//! process; here each lock keeps it. A waiter's node is allocated, since there is no process structure to hold it.
//!
//! Under a model a sleep and a pause let another thread run, and `spins` is 1: nothing but interleavings matters there.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::waiter::{Mode, Queue, Waiter};
use super::{Mutex, RawMutex, RawRwLock};
use crate::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use crate::{MODEL, broken, hint, ord};

/// PostgreSQL's reader-writer lock of 2011: everything under a test-and-set lock with adaptive spinning, waiters queue and sleep.
///
/// Blocks on the holders, and for the blink of its bookkeeping on whoever takes it or gives it back, also in the `try_` functions.
#[derive(Debug)]
pub struct LockOf2011 {
    state: Mutex<State, AdaptiveSpin>,
}

#[derive(Debug)]
struct State {
    exclusive: bool,
    shared: u32,
    /// May a release wake somebody? Not while one that was woken is still on the way.
    release_ok: bool,
    queue: Queue,
}

impl State {
    const FREE: Self = Self {
        exclusive: false,
        shared: 0,
        release_ok: true,
        queue: Queue::new(),
    };

    /// Takes the lock if it can be had.
    fn attempt(&mut self, mode: Mode) -> bool {
        match mode {
            Mode::Exclusive if !self.exclusive && self.shared == 0 => self.exclusive = true,
            // A leaked guard counts for ever; one reader more than can be counted waits.
            Mode::Shared if !self.exclusive && self.shared < u32::MAX => self.shared += 1,
            _ => return false,
        }
        true
    }

    /// Those whom a release has to wake, off the queue.
    fn take_woken(&mut self) -> Vec<Arc<Waiter>> {
        if self.exclusive || self.shared > 0 || !self.release_ok || self.queue.is_empty() {
            return Vec::new();
        }
        let readers = self
            .queue
            .iter()
            .take_while(|waiter| waiter.mode == Mode::Shared)
            .count();
        self.release_ok = false;
        self.queue.drain(..readers.max(1)).collect()
    }
}

impl LockOf2011 {
    fn acquire(&self, mode: Mode) {
        let mut waiter = None;
        loop {
            let mut state = self.state.lock();
            if waiter.is_some() && !broken!("sync.2011.release-ok") {
                state.release_ok = true;
            }
            if state.attempt(mode) {
                return;
            }
            let me = waiter.get_or_insert_with(|| Waiter::new(mode));
            state.queue.push_back(Arc::clone(me));
            drop(state);
            me.sleep();
        }
    }

    fn try_acquire(&self, mode: Mode) -> bool {
        self.state.lock().attempt(mode)
    }

    fn release(&self, give_back: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        give_back(&mut state);
        let woken = state.take_woken();
        drop(state);
        woken.iter().for_each(|waiter| waiter.wake());
    }
}

// SAFETY: `State::attempt` lets a writer in only without holders and a reader only without a writer, and holds leave only by an unlock; all of
// that happens under one mutex, which orders the holders too.
unsafe impl RawRwLock for LockOf2011 {
    #[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
    const NEW: Self = Self {
        state: Mutex::new(State::FREE),
    };

    #[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
    fn new() -> Self {
        Self {
            state: Mutex::new(State::FREE),
        }
    }

    fn lock_shared(&self) {
        self.acquire(Mode::Shared);
    }

    fn try_lock_shared(&self) -> bool {
        self.try_acquire(Mode::Shared)
    }

    unsafe fn unlock_shared(&self) {
        self.release(|state| state.shared -= 1);
    }

    fn lock_exclusive(&self) {
        self.acquire(Mode::Exclusive);
    }

    fn try_lock_exclusive(&self) -> bool {
        self.try_acquire(Mode::Exclusive)
    }

    unsafe fn unlock_exclusive(&self) {
        self.release(|state| state.exclusive = false);
    }
}

const MIN_SPINS: u32 = 10;
const MAX_SPINS: u32 = 1000;
const START_SPINS: u32 = 100;
const MIN_SLEEP_US: u32 = 1_000;
const MAX_SLEEP_US: u32 = 1_000_000;

/// The test-and-set lock of 2011.
#[derive(Debug)]
struct AdaptiveSpin {
    held: AtomicBool,
    /// Looks before a sleep. A guess that threads may overwrite for each other.
    spins: AtomicU32,
    /// Turns with every sleep.
    dice: AtomicU32,
}

impl AdaptiveSpin {
    #[cold]
    fn spin_and_sleep(&self) {
        let spins = if MODEL { 1 } else { self.spins.load(Relaxed) };
        let (mut looks, mut sleep_us) = (0, 0);
        while !self.try_lock() {
            hint::spin_loop();
            looks += 1;
            if looks >= spins {
                sleep_us = self.next_sleep_us(sleep_us);
                if !MODEL {
                    std::thread::sleep(Duration::from_micros(sleep_us.into()));
                }
                looks = 0;
            }
        }
        self.adapt(spins, sleep_us > 0);
    }

    /// How long to sleep after a sleep of `last_us`, 0 for none.
    fn next_sleep_us(&self, last_us: u32) -> u32 {
        if last_us == 0 {
            return MIN_SLEEP_US;
        }
        let longer = ((u64::from(last_us) * u64::from(self.roll())) >> u32::BITS) as u32;
        if last_us + longer > MAX_SLEEP_US {
            MIN_SLEEP_US
        } else {
            last_us + longer
        }
    }

    /// A number that looks random: steps of a fixed odd size, well mixed.
    fn roll(&self) -> u32 {
        let step = self.dice.fetch_add(0x9E37_79B9, Relaxed);
        (step ^ (step >> 15)).wrapping_mul(0x85EB_CA6B)
    }

    fn adapt(&self, spins: u32, slept: bool) {
        let adapted = if slept {
            (spins - 1).max(MIN_SPINS)
        } else {
            (spins + 100).min(MAX_SPINS)
        };
        if !MODEL && adapted != spins {
            self.spins.store(adapted, Relaxed);
        }
    }
}

// SAFETY: only the thread whose swap found `false` holds the lock, until it stores `false`; the orderings say so to the next one.
unsafe impl RawMutex for AdaptiveSpin {
    #[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
    const NEW: Self = Self {
        held: AtomicBool::new(false),
        spins: AtomicU32::new(START_SPINS),
        dice: AtomicU32::new(0),
    };

    #[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
    fn new() -> Self {
        Self {
            held: AtomicBool::new(false),
            spins: AtomicU32::new(START_SPINS),
            dice: AtomicU32::new(0),
        }
    }

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.spin_and_sleep();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        // Acquire pairs with the Release in `unlock`.
        let acquire = ord!("sync.2011.spin-lock", Acquire);
        if MODEL {
            // Loom remembers a few stores only; swaps in vain would make it forget the one that frees the lock.
            self.held
                .compare_exchange(false, true, acquire, Relaxed)
                .is_ok()
        } else {
            !self.held.swap(true, acquire)
        }
    }

    #[inline]
    unsafe fn unlock(&self) {
        // Release pairs with the Acquire in `try_lock`.
        self.held
            .store(false, ord!("sync.2011.spin-unlock", Release));
    }
}

#[cfg(all(test, not(any(txnkit_model = "loom", txnkit_model = "shuttle"))))]
mod tests {
    use super::Mode::{Exclusive, Shared};
    use super::*;

    fn woken(state: &mut State) -> Vec<Mode> {
        state
            .take_woken()
            .iter()
            .map(|waiter| waiter.mode)
            .collect()
    }

    #[test]
    fn wakes_the_head_writer_or_the_leading_readers_and_then_nobody_until_one_came() {
        let mut state = State::FREE;
        state
            .queue
            .extend([Shared, Shared, Exclusive, Shared].map(Waiter::new));
        state.shared = 1;
        assert_eq!(woken(&mut state), [], "still held");
        state.shared = 0;
        assert_eq!(woken(&mut state), [Shared, Shared]);
        assert_eq!(woken(&mut state), [], "the woken ones are on their way");
        state.release_ok = true;
        assert_eq!(woken(&mut state), [Exclusive]);
        state.release_ok = true;
        assert_eq!(woken(&mut state), [Shared]);
        state.release_ok = true;
        assert_eq!(woken(&mut state), []);
        assert!(
            state.release_ok,
            "nobody was woken, so nobody is on the way"
        );
    }

    #[test]
    fn spins_adapt_within_their_limits() {
        let lock = AdaptiveSpin::NEW;
        lock.adapt(START_SPINS, false);
        assert_eq!(lock.spins.load(Relaxed), 200);
        lock.adapt(950, false);
        assert_eq!(lock.spins.load(Relaxed), MAX_SPINS);
        lock.adapt(START_SPINS, true);
        assert_eq!(lock.spins.load(Relaxed), 99);
        lock.adapt(11, true);
        lock.adapt(MIN_SPINS, true);
        assert_eq!(lock.spins.load(Relaxed), MIN_SPINS);
    }

    #[test]
    fn sleeps_grow_by_up_to_twice_and_start_again_after_a_second() {
        let lock = AdaptiveSpin::NEW;
        let mut last = 0;
        for _ in 0..1_000 {
            let next = lock.next_sleep_us(last);
            assert!(
                next == MIN_SLEEP_US || (last..=2 * last).contains(&next),
                "{last} us, then {next} us"
            );
            assert!(next <= MAX_SLEEP_US);
            last = next;
        }
    }
}
