//! The content lock: in the state word, with a queue beside it.
//!
//! # Rules
//!
//! 1. Shared is taken by one `fetch_add` (Acquire). Who finds the lock held alone is a *stray sharer*: it gives the count back, through rule 3
//!    like everybody, and queues. Alone, or to write back, is taken by compare-and-swap (Acquire).
//! 2. Every hold is given back by one `fetch_sub` (Release), which pairs with the Acquires of 1. So who gets the lock has before it what all
//!    earlier holders did.
//! 3. Who lowers a count looks at what it found: queued, and nobody holds the lock alone now, and this was the last sharer or the one who wrote
//!    back? Then it wakes those at the head of the queue that fit. One word orders the bit and the last release, so no wake-up is lost.
//! 4. A waiter enters the queue and sets the queued bit in one hold of the queue's lock, then looks at the word once more, then parks. The bit is
//!    cleared under that lock only, when the queue is empty.
//! 5. Who is woken tries again, against newcomers, and queues again at the end when it comes too late. So readers may starve a writer; no wake-up
//!    is lost. Those woken at once are one alone, or sharers and at most one who writes back, as they stand at the head.
//! 6. A waiter taken off the queue is told after the queue is unlocked; until it is told, its links belong to the one that took it off.
//!    A permit that comes late is harmless: everybody who parks looks again.

use txnkit_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use txnkit_sync::park::Park;
use txnkit_sync::{broken, fence_at, ord};

use crate::error::LockError;
use crate::form::Memory;
use crate::pool::Pool;
use crate::state::{CLEANUP, DIRTY, EXCLUSIVE, QUEUED, SHARED, WRITING, fits, pins, sharers};

/// Slots, plus 1, in the order they came; 0 where there is none.
#[derive(Debug)]
pub(crate) struct Queue {
    first: u32,
    last: u32,
}

impl Queue {
    pub(crate) const fn new() -> Self {
        Self { first: 0, last: 0 }
    }
}

/// A waiter that is not told yet and stands in the queue.
const WAITING: u32 = 0;
/// Taken off the queue, to be told.
const CHOSEN: u32 = 1;
/// May try again.
const TOLD: u32 = 2;

/// The shared part of a session.
#[derive(Debug)]
pub struct Slot<P> {
    pub(crate) in_use: AtomicBool,
    pub(crate) park: P,
    /// [`WAITING`], [`CHOSEN`] or [`TOLD`].
    told: AtomicU32,
    /// The next one in the queue, plus 1.
    next: AtomicU32,
    /// The mode waited for, shifted to fit.
    mode: AtomicU32,
}

impl<P: Park> Slot<P> {
    txnkit_sync::const_fn! {
        pub(crate) fn new() -> Self {
            Self {
                in_use: AtomicBool::new(false),
                park: txnkit_sync::new_park!(P),
                told: AtomicU32::new(TOLD),
                next: AtomicU32::new(0),
                mode: AtomicU32::new(0),
            }
        }
    }
}

/// The lowest bit of all modes.
const MODES: u32 = SHARED.trailing_zeros();

impl<S, M: Memory<W>, const W: usize> Pool<S, M, W> {
    /// Takes the content lock as `mode` if it is free for that. May fail because of a stray sharer.
    #[inline]
    pub(crate) fn try_lock(&self, buffer: u32, mode: u64) -> bool {
        let state = &self.descriptor(buffer).state;
        if mode == SHARED {
            // Pairs with the Releases of `lower` for an exclusive lock: what was written under it is readable.
            let old = state.fetch_add(SHARED, ord!("bufpin.lock.shared", Acquire));
            if old & EXCLUSIVE == 0 {
                return true;
            }
            // Relaxed: nothing was read.
            self.lower(buffer, SHARED, Ordering::Relaxed);
            return false;
        }
        let mut found = state.load(Ordering::Relaxed);
        while fits(mode, found) || mode == WRITING && broken!("bufpin.lock.writing-beside-writers")
        {
            // Pairs with the Releases of `lower` for every lock: who read has read, what was written is readable.
            match state.compare_exchange_weak(
                found,
                found | mode,
                ord!("bufpin.lock.exclusive", Acquire),
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    if mode == EXCLUSIVE {
                        self.version(buffer).begin_write();
                    }
                    return true;
                }
                Err(changed) => found = changed,
            }
        }
        false
    }

    /// Takes the content lock as `mode` for the session of slot `me`. Blocks on whoever holds it against that.
    #[inline]
    pub(crate) fn lock(&self, me: u32, buffer: u32, mode: u64) -> Result<(), LockError> {
        if self.try_lock(buffer, mode) {
            return Ok(());
        }
        self.lock_waiting(me, buffer, mode)
    }

    #[cold]
    fn lock_waiting(&self, me: u32, buffer: u32, mode: u64) -> Result<(), LockError> {
        if !M::Park::CAN_BLOCK {
            return Err(LockError::WouldBlock);
        }
        loop {
            let found = self.enqueue(me, buffer, mode);
            if fits(mode, found) && self.try_lock(buffer, mode) {
                self.dequeue(me, buffer);
                return Ok(());
            }
            self.wait_until_told(me);
            if self.try_lock(buffer, mode) {
                return Ok(());
            }
        }
    }

    /// Puts the slot into the queue and returns the state of that moment.
    fn enqueue(&self, me: u32, buffer: u32, mode: u64) -> u64 {
        let slot = self.slot(me);
        let descriptor = self.descriptor(buffer);
        let mut queue = descriptor.queue.lock();
        slot.told.store(WAITING, Ordering::Relaxed);
        slot.next.store(0, Ordering::Relaxed);
        slot.mode.store((mode >> MODES) as u32, Ordering::Relaxed);
        match queue.last {
            0 => queue.first = me + 1,
            last => self.slot(last - 1).next.store(me + 1, Ordering::Relaxed),
        }
        queue.last = me + 1;
        if broken!("bufpin.lock.queued-by-store") {
            let state = descriptor.state.load(Ordering::Relaxed);
            descriptor.state.store(state | QUEUED, Ordering::Relaxed);
            return state;
        }
        // Relaxed: the bit and every release are operations on one word, and the queue has its lock.
        descriptor.state.fetch_or(QUEUED, Ordering::Relaxed)
    }

    /// Takes the slot off the queue, or waits for the one who does.
    fn dequeue(&self, me: u32, buffer: u32) {
        let descriptor = self.descriptor(buffer);
        let mut queue = descriptor.queue.lock();
        if self.slot(me).told.load(Ordering::Relaxed) != WAITING {
            drop(queue);
            return self.wait_until_told(me);
        }
        let (mut before, mut at) = (0, queue.first);
        while at != me + 1 {
            (before, at) = (at, self.slot(at - 1).next.load(Ordering::Relaxed));
        }
        let next = self.slot(me).next.load(Ordering::Relaxed);
        match before {
            0 => queue.first = next,
            before => self.slot(before - 1).next.store(next, Ordering::Relaxed),
        }
        if next == 0 {
            queue.last = before;
        }
        if queue.first == 0 {
            descriptor.state.fetch_and(!QUEUED, Ordering::Relaxed);
        }
    }

    fn wait_until_told(&self, me: u32) {
        let slot = self.slot(me);
        // Pairs with the Release of `tell`: the link was read, so it may be written again.
        while slot.told.load(Ordering::Acquire) != TOLD {
            slot.park.park();
        }
    }

    /// Lowers the state by `by` (pins, locks; a negative difference sets a bit) and wakes whoever may go on. Rule 3, and rule 9 of `session`.
    #[inline(always)]
    pub(crate) fn lower(&self, buffer: u32, by: u64, ordering: Ordering) {
        let old = self.descriptor(buffer).state.fetch_sub(by, ordering);
        self.lowered(buffer, old, old.wrapping_sub(by));
    }

    /// The state went from `old` to `new` by an operation of the caller's: wakes whoever may go on.
    #[inline(always)]
    pub(crate) fn lowered(&self, buffer: u32, old: u64, new: u64) {
        if old & (CLEANUP | QUEUED) != 0 {
            self.wake(buffer, old, new);
        }
    }

    #[cold]
    fn wake(&self, buffer: u32, old: u64, new: u64) {
        if old & CLEANUP != 0 && pins(old) == 2 && pins(new) == 1 {
            // Pairs with the Release of the cleanup bit in `cleanup`: the waiter is readable.
            fence_at!("bufpin.cleanup.wake-fence", Acquire);
            let waiter = self.descriptor(buffer).waiter.load(Ordering::Relaxed);
            if waiter != 0 && !broken!("bufpin.cleanup.no-wake") {
                self.slot(waiter - 1).park.unpark();
            }
        }
        let released = |mode: u64| old & mode != 0 && new & mode == 0;
        let last_sharer = sharers(old) != 0 && sharers(new) == 0;
        if old & QUEUED != 0
            && new & EXCLUSIVE == 0
            && (released(EXCLUSIVE) || released(WRITING) || last_sharer)
        {
            self.wake_queue(buffer);
        }
    }

    /// Takes those at the head of the queue off it that fit, and tells them.
    fn wake_queue(&self, buffer: u32) {
        let mut chosen = self.choose(buffer);
        while let Some(at) = chosen.checked_sub(1) {
            let slot = self.slot(at);
            chosen = slot.next.load(Ordering::Relaxed);
            // Pairs with the Acquire in `wait_until_told`.
            slot.told.store(TOLD, Ordering::Release);
            if !broken!("bufpin.lock.no-wake") {
                slot.park.unpark();
            }
        }
    }

    /// Rule 5's choice, as a chain.
    fn choose(&self, buffer: u32) -> u32 {
        let descriptor = self.descriptor(buffer);
        let mut queue = descriptor.queue.lock();
        let mut held = descriptor.state.load(Ordering::Relaxed);
        let (head, mut last) = (queue.first, 0);
        while let Some(at) = queue.first.checked_sub(1) {
            let slot = self.slot(at);
            let mode = u64::from(slot.mode.load(Ordering::Relaxed)) << MODES;
            if !fits(mode, held) {
                break;
            }
            held += mode;
            slot.told.store(CHOSEN, Ordering::Relaxed);
            queue.first = slot.next.load(Ordering::Relaxed);
            last = at + 1;
        }
        if last == 0 {
            return 0;
        }
        self.slot(last - 1).next.store(0, Ordering::Relaxed);
        if queue.first == 0 {
            queue.last = 0;
            descriptor.state.fetch_and(!QUEUED, Ordering::Relaxed);
        }
        head
    }

    /// Gives back the content lock held alone, and `also` (a pin, or nothing); `changed` makes the page dirty in the same step.
    #[inline]
    pub(crate) fn unlock_exclusive(&self, buffer: u32, also: u64, changed: bool) {
        self.version(buffer).end_write();
        // The dirty bit is only changed under this lock or one that excludes it.
        let dirty = self.descriptor(buffer).state.load(Ordering::Relaxed) & DIRTY != 0;
        let by = (EXCLUSIVE + also) - if changed && !dirty { DIRTY } else { 0 };
        // Pairs with the Acquires in `try_lock`, in the pins of `session` and in the evictions of `evict`.
        self.lower(buffer, by, ord!("bufpin.lock.unlock-exclusive", Release));
    }

    /// Gives back the content lock held to write the page; `written` says that it is in the store.
    pub(crate) fn unlock_writing(&self, buffer: u32, written: bool) {
        let by = WRITING + if written { DIRTY } else { 0 };
        // Pairs with the Acquire of an exclusive lock: the copy was taken before the next change.
        self.lower(buffer, by, ord!("bufpin.lock.unlock-writing", Release));
    }
}
