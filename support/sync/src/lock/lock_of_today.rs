//! PostgreSQL's lightweight lock as it is since 9.5, reconstructed: one atomic word and a queue beside it.
//!
//! - The word holds the number of readers, a bit for a writer and two flags about the queue. A free lock is taken, and one that nobody
//!   waits for is given back, by one atomic operation; the queue is not looked at. There is no spinning for the lock.
//! - Who finds it held queues up (setting `HAS_WAITERS`), *tries again*, and only then sleeps. A holder that gave the lock back before the
//!   flag was set saw no waiter, but then the second attempt sees what it gave back. Who succeeds leaves the queue.
//! - Who gives the lock back and leaves it free, with `HAS_WAITERS` and `RELEASE_OK` set, wakes the head of the queue: a writer alone, or
//!   all readers of the queue, also those behind a writer. They are taken off the queue, hold nothing, and have to try like anybody else, so
//!   that others may overtake them.
//! - `RELEASE_OK` is cleared with a wake-up and set again by a woken thread before it tries: no further one is woken while one is on the way.
//!   A thread that was taken off the queue but got the lock by its second attempt sets it too.
//!
//! Why no wake-up is lost: every step on the word is a read-modify-write of one location or comes, in its thread, after one, so any two
//! of them are ordered. A waiter goes to sleep after it saw a holder with `HAS_WAITERS` set and, unless one that was woken is on the way,
//! with `RELEASE_OK` set; that holder's release comes later in the order and sees both. `HAS_WAITERS` changes only under the queue's
//! lock, so that it says whether the queue is empty.
//!
//! Left out of the original: waiting until free without taking, error recovery, the owner lists. A waiter's node is allocated, since
//! there is no process structure to hold it. Writers can starve behind readers, as in the original.

use alloc::sync::Arc;

use super::waiter::{Mode, Queue, Waiter};
use super::{Mutex, RawRwLock, SpinLock};
use crate::atomic::{AtomicU32, Ordering::Relaxed};
use crate::{broken, ord};

const HAS_WAITERS: u32 = 1 << 30;
const RELEASE_OK: u32 = 1 << 29;
const EXCLUSIVE: u32 = 1 << 24;
/// The readers: a leaked guard counts for ever, so they are bounded, and one too many waits.
const READERS: u32 = EXCLUSIVE - 1;
const HELD: u32 = EXCLUSIVE | READERS;

/// PostgreSQL's reader-writer lock since 9.5: one atomic word, waiters queue, try again and sleep.
///
/// Free: lock-free. Held: blocks on the holders. Under a model it is the same code with the model's parking.
#[derive(Debug)]
pub struct LockOfToday {
    word: AtomicU32,
    queue: Mutex<Queue, SpinLock>,
}

impl LockOfToday {
    /// Takes the lock if it can be had.
    #[inline]
    fn attempt(&self, mode: Mode) -> bool {
        let mut word = self.word.load(Relaxed);
        loop {
            let free = match mode {
                Mode::Exclusive => word & HELD == 0,
                Mode::Shared => word & EXCLUSIVE == 0 && word & READERS != READERS,
            };
            if !free {
                return false;
            }
            let taken = word
                + if mode == Mode::Exclusive {
                    EXCLUSIVE
                } else {
                    1
                };
            // Acquire pairs with the Release in `release`, through the read-modify-writes in between.
            match self.word.compare_exchange_weak(
                word,
                taken,
                ord!("sync.today.attempt", Acquire),
                Relaxed,
            ) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
    }

    #[inline]
    fn acquire(&self, mode: Mode) {
        if !self.attempt(mode) {
            self.wait(mode);
        }
    }

    #[cold]
    fn wait(&self, mode: Mode) {
        let me = Waiter::new(mode);
        loop {
            self.enqueue(&me);
            if !broken!("sync.today.retry") && self.attempt(mode) {
                return self.dequeue(&me);
            }
            me.sleep();
            if !broken!("sync.today.release-ok") {
                self.word.fetch_or(RELEASE_OK, Relaxed);
            }
            if self.attempt(mode) {
                return;
            }
        }
    }

    fn enqueue(&self, me: &Arc<Waiter>) {
        let mut queue = self.queue.lock();
        queue.push_back(Arc::clone(me));
        self.word.fetch_or(HAS_WAITERS, Relaxed);
    }

    /// Takes `me` off the queue, or passes on the wake-up that `me` no longer needs.
    fn dequeue(&self, me: &Arc<Waiter>) {
        let mut queue = self.queue.lock();
        match queue.iter().position(|waiter| Arc::ptr_eq(waiter, me)) {
            Some(place) => {
                queue.remove(place);
                if queue.is_empty() {
                    self.word.fetch_and(!HAS_WAITERS, Relaxed);
                }
            }
            None if broken!("sync.today.dequeue-release-ok") => {}
            None => {
                self.word.fetch_or(RELEASE_OK, Relaxed);
            }
        }
    }

    #[inline]
    fn release(&self, hold: u32) {
        // Release pairs with the Acquire in `attempt`.
        let word = self
            .word
            .fetch_sub(hold, ord!("sync.today.release", Release))
            - hold;
        if word & (HELD | HAS_WAITERS | RELEASE_OK) == HAS_WAITERS | RELEASE_OK {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        let mut queue = self.queue.lock();
        let woken: Queue = match queue.front().map(|head| head.mode) {
            None => return,
            Some(Mode::Exclusive) => queue.drain(..1).collect(),
            Some(Mode::Shared) => {
                let (readers, writers) = queue
                    .drain(..)
                    .partition(|waiter| waiter.mode == Mode::Shared);
                *queue = writers;
                readers
            }
        };
        let left = if queue.is_empty() { 0 } else { HAS_WAITERS };
        // Both flags at once; they are this thread's to clear as long as it has the queue.
        self.word
            .fetch_and(!(RELEASE_OK | HAS_WAITERS) | left, Relaxed);
        drop(queue);
        woken.iter().for_each(|waiter| waiter.wake());
    }
}

// SAFETY: `attempt` adds a writer only to a word without holders and a reader only to one without a writer, each by one exchange, and
// holds leave the word only by an unlock; `attempt` acquires what `release` released.
unsafe impl RawRwLock for LockOfToday {
    #[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
    const NEW: Self = Self {
        word: AtomicU32::new(RELEASE_OK),
        queue: Mutex::new(Queue::new()),
    };

    #[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
    fn new() -> Self {
        Self {
            word: AtomicU32::new(RELEASE_OK),
            queue: Mutex::new(Queue::new()),
        }
    }

    #[inline]
    fn lock_shared(&self) {
        self.acquire(Mode::Shared);
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.attempt(Mode::Shared)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.release(1);
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.acquire(Mode::Exclusive);
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.attempt(Mode::Exclusive)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.release(EXCLUSIVE);
    }
}

#[cfg(all(test, not(any(txnkit_model = "loom", txnkit_model = "shuttle"))))]
mod tests {
    use super::Mode::{Exclusive, Shared};
    use super::*;

    fn waiting(lock: &LockOfToday) -> (alloc::vec::Vec<Mode>, u32) {
        (
            lock.queue.lock().iter().map(|waiter| waiter.mode).collect(),
            lock.word.load(Relaxed),
        )
    }

    #[test]
    fn wakes_the_head_writer_or_all_readers_and_then_nobody_until_one_came() {
        let lock = LockOfToday::NEW;
        let waiters = [Shared, Exclusive, Shared, Exclusive].map(Waiter::new);
        waiters.iter().for_each(|waiter| lock.enqueue(waiter));
        assert_eq!(waiting(&lock).1, RELEASE_OK | HAS_WAITERS);

        lock.wake();
        assert_eq!(
            waiting(&lock),
            ([Exclusive, Exclusive].to_vec(), HAS_WAITERS)
        );
        waiters[0].sleep();
        waiters[2].sleep();

        for _ in 0..2 {
            lock.lock_shared();
            // SAFETY: taken in the line above.
            unsafe { lock.unlock_shared() };
            assert_eq!(waiting(&lock).0.len(), 2, "the woken ones are on their way");
        }

        lock.word.fetch_or(RELEASE_OK, Relaxed);
        lock.lock_exclusive();
        // SAFETY: taken in the line above.
        unsafe { lock.unlock_exclusive() };
        assert_eq!(waiting(&lock), ([Exclusive].to_vec(), HAS_WAITERS));
        waiters[1].sleep();

        lock.dequeue(&waiters[3]);
        assert_eq!(
            waiting(&lock),
            ([].to_vec(), 0),
            "who leaves the queue empty says so"
        );
        lock.dequeue(&waiters[1]);
        assert_eq!(
            waiting(&lock),
            ([].to_vec(), RELEASE_OK),
            "who does not need its wake-up passes it on"
        );
    }

    #[test]
    fn more_readers_than_can_be_counted_do_not_become_a_writer() {
        let lock = LockOfToday::NEW;
        lock.word.fetch_or(READERS, Relaxed);
        assert!(!lock.try_lock_shared());
        assert_eq!(lock.word.load(Relaxed), RELEASE_OK | READERS);
        // SAFETY: the count says that there are readers.
        unsafe { lock.unlock_shared() };
        assert!(lock.try_lock_shared());
    }
}
