//! A second set of buffers for pages that are no longer set.
//!
//! # Rules
//!
//! 1. Pages are set in the *active* set only. A page that leaves it, having been written if it was dirty, is copied to the *history*, whose pages are
//!    what the store holds; an old page that is only looked at is read into the history.
//! 2. A page is in one of the two sets at most. Who brings it into the active set takes it out of the history before setting anything, under the active set's exclusive
//!    lock. Who has read it puts it into the history under the active set's shared lock, if it is not in the active set and no page has left that since
//!    before it was read.
//! 3. So nothing in the history is older than what was set. The lock of the active set is taken before that of the history.

use txnkit_ids::{Lsn, Xid};
use txnkit_sync::atomic::{AtomicU64, Ordering};
use txnkit_sync::lock::RawRwLock;

use super::buffers::{Buffers, Ends, Exclusive};
use crate::log::PagedStatusLog;
use crate::page::PAGE_WORDS;
use crate::pages::{HeldPage, Pages};
use crate::pool::PoolError;
use crate::status::page_of;
use crate::{Found, PageBuf, PageStore};

/// The status log of a patch of 2012, “CLOG contention, part 2”.
pub type History<S, L> = PagedStatusLog<TwoPools<S, L>>;

/// The active set of buffers and the history.
pub struct TwoPools<S, L: RawRwLock> {
    ends: Ends<S>,
    active: Buffers<L>,
    history: Buffers<L>,
    /// Counts. Relaxed, but that `copies` is raised under the active set's exclusive lock and compared under the shared one.
    active_hits: AtomicU64,
    history_hits: AtomicU64,
    reads: AtomicU64,
    copies: AtomicU64,
}

/// Where looks were answered, and what moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistoryStats {
    /// Looks answered by the active set.
    pub active_hits: u64,
    /// Looks answered by the history.
    pub history_hits: u64,
    /// Pages read from the store to be looked at.
    pub reads: u64,
    /// Pages copied from the active set to the history.
    pub copies: u64,
}

impl<S: PageStore, L: RawRwLock> History<S, L> {
    /// A new log whose first id is `first`, with so many buffers in each of the two sets: at least 4.
    pub fn new(store: S, buffers: usize, first: Xid) -> Self {
        let buffers = buffers.max(4);
        Self::over(TwoPools {
            ends: Ends::new(store, page_of(first), page_of(first)),
            active: Buffers::new(buffers),
            history: Buffers::new(buffers),
            active_hits: AtomicU64::new(0),
            history_hits: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            copies: AtomicU64::new(0),
        })
    }

    /// What happened so far.
    pub fn stats(&self) -> HistoryStats {
        let pools = self.pages();
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        HistoryStats {
            active_hits: load(&pools.active_hits),
            history_hits: load(&pools.history_hits),
            reads: load(&pools.reads),
            copies: load(&pools.copies),
        }
    }
}

impl<S: PageStore, L: RawRwLock> TwoPools<S, L> {
    /// A page as the store has it.
    fn read(&self, page: u64) -> Result<[u64; PAGE_WORDS], PoolError> {
        self.ends.check_usable()?;
        let mut copy = PageBuf::zeroed();
        let found = self
            .ends
            .store
            .read(page, &mut copy)
            .map_err(PoolError::Store)?;
        let mut words = [0; PAGE_WORDS];
        if found == Found::Page {
            for (word, value) in words.iter_mut().zip(copy.words()) {
                *word = value;
            }
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(words)
    }
}

impl<S: PageStore, L: RawRwLock> Pages for TwoPools<S, L> {
    type Held<'a>
        = Exclusive<'a, L>
    where
        Self: 'a;

    fn oldest(&self) -> u64 {
        self.ends.oldest.load(Ordering::Relaxed)
    }

    fn latest(&self) -> u64 {
        self.ends.latest.load(Ordering::Relaxed)
    }

    fn extend_to(&self, page: u64) {
        self.ends.latest.fetch_max(page, Ordering::Relaxed);
    }

    fn hit(&self, page: u64, word: usize) -> Option<u64> {
        let found = self.active.look(page, word)?;
        self.active_hits.fetch_add(1, Ordering::Relaxed);
        Some(found)
    }

    fn search(&self, page: u64, word: usize) -> Option<u64> {
        let found = self.history.look(page, word)?;
        self.history_hits.fetch_add(1, Ordering::Relaxed);
        Some(found)
    }

    fn fetch(&self, page: u64, word: usize) -> Result<u64, PoolError> {
        if page < self.oldest() {
            return Err(PoolError::TooOld);
        }
        let left_before = self.copies.load(Ordering::Relaxed);
        // The latest page is where sets go; one that is there, or on its way there, is being set.
        if page == self.latest() || self.active.has(page) {
            return Ok(self.hold(page)?.get(word));
        }
        // It was not in the active set, so what the store holds is as new as can be asked for.
        let words = self.read(page)?;
        self.active.unless_there(page, || {
            if self.copies.load(Ordering::Relaxed) == left_before && page >= self.oldest() {
                self.history.put(page, &words);
            }
        });
        Ok(words[word])
    }

    fn hold(&self, page: u64) -> Result<Exclusive<'_, L>, PoolError> {
        let held = self.active.hold(page, &self.ends, |page, words| {
            self.copies.fetch_add(1, Ordering::Relaxed);
            self.history.put(page, words);
        })?;
        self.history.remove(page);
        Ok(held)
    }

    fn check_usable(&self) -> Result<(), PoolError> {
        self.ends.check_usable()
    }

    fn flush(&self) -> Result<(), PoolError> {
        self.active.clean(&self.ends)?;
        self.ends.sync()
    }

    fn truncate(&self, first: u64) -> Result<(), PoolError> {
        self.ends.check_usable()?;
        self.ends.oldest.fetch_max(first, Ordering::Relaxed);
        self.active.forget(first);
        self.history.forget(first);
        self.ends.store.truncate(first).map_err(PoolError::Store)
    }

    fn log_of(&self, page: u64) -> Result<Lsn, PoolError> {
        Ok(self.active.log_of(page))
    }
}

impl<S, L: RawRwLock> core::fmt::Debug for TwoPools<S, L> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TwoPools").finish_non_exhaustive()
    }
}
