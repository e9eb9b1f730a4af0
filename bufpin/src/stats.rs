//! What a session counts: shared by the front and the baselines.

use core::cell::Cell;

use crate::traits::Stats;

/// [`Stats`] that count. A cell each: a copy of all four would be loaded as one piece right after a part of it was stored.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) evictions: Counter,
    pub(crate) write_backs: Counter,
}

/// A number that rises.
#[derive(Debug, Default)]
pub(crate) struct Counter(Cell<u64>);

impl Counter {
    /// One more.
    #[inline(always)]
    pub(crate) fn raise(&self) {
        self.0.set(self.0.get() + 1);
    }
}

impl Counters {
    /// What was counted; counting starts anew.
    pub(crate) fn take(&self) -> Stats {
        Stats {
            hits: self.hits.0.take(),
            misses: self.misses.0.take(),
            evictions: self.evictions.0.take(),
            write_backs: self.write_backs.0.take(),
        }
    }
}
