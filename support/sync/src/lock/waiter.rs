//! A thread in a lock's wait queue.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use crate::new_park;
use crate::park::{Park, ThreadPark};

/// How a lock is to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Shared,
    Exclusive,
}

/// One thread's wait for one hold. Each time it is queued by that thread, then taken off and woken, once, by a thread that frees the lock.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) mode: Mode,
    place: ThreadPark,
}

/// Those who wait, oldest first.
pub(super) type Queue = VecDeque<Arc<Waiter>>;

impl Waiter {
    pub(super) fn new(mode: Mode) -> Arc<Self> {
        Arc::new(Self {
            mode,
            place: new_park!(ThreadPark),
        })
    }

    /// Sleeps until [`wake`](Self::wake), also when that came first.
    pub(super) fn sleep(&self) {
        self.place.park();
    }

    pub(super) fn wake(&self) {
        self.place.unpark();
    }
}
