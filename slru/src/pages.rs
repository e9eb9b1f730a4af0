//! What a status log asks of whatever keeps its pages: the front's [`Pool`] and the designs before it.

use txnkit_ids::Lsn;

use crate::PageStore;
use crate::frames::Frames;
use crate::pool::{Held, Pool, PoolError};

/// A place for pages of words, some of them in memory and all of them in a store.
///
/// Words are set by one at a time, who holds the page; what was set before a word that is found is found by later looks, on whatever page.
pub trait Pages: Send + Sync {
    /// The right to set the words of a page.
    type Held<'a>: HeldPage
    where
        Self: 'a;

    /// The first page that is kept. Only rises.
    fn oldest(&self) -> u64;

    /// The latest page. Only rises.
    fn latest(&self) -> u64;

    /// From now on pages up to this one exist.
    fn extend_to(&self, page: u64);

    /// A word, if its page is where it is looked for first.
    fn hit(&self, page: u64, word: usize) -> Option<u64>;

    /// A word, if its page is in memory at all.
    fn search(&self, page: u64, word: usize) -> Option<u64>;

    /// A word, whose page is brought into memory if it is not there.
    ///
    /// # Errors
    /// [`PoolError`].
    fn fetch(&self, page: u64, word: usize) -> Result<u64, PoolError>;

    /// Brings the page into memory if it is not, and holds it.
    ///
    /// # Errors
    /// [`PoolError`].
    fn hold(&self, page: u64) -> Result<Self::Held<'_>, PoolError>;

    /// Can the store still be used?
    ///
    /// # Errors
    /// [`PoolError::SyncFailed`].
    fn check_usable(&self) -> Result<(), PoolError>;

    /// Writes every page that was set, and makes the store durable.
    ///
    /// # Errors
    /// [`PoolError`].
    fn flush(&self) -> Result<(), PoolError>;

    /// Forgets the pages before `first`.
    ///
    /// # Errors
    /// [`PoolError`].
    fn truncate(&self, first: u64) -> Result<(), PoolError>;

    /// The log position that has to be durable before the page may be written.
    ///
    /// # Errors
    /// [`PoolError`].
    fn log_of(&self, page: u64) -> Result<Lsn, PoolError>;
}

/// A page that stays in memory as long as this is held.
pub trait HeldPage {
    /// Its number.
    fn page(&self) -> u64;

    /// One of its words.
    fn get(&self, word: usize) -> u64;

    /// Sets one of its words; the log must be durable up to `log` before the page is written.
    fn set(&mut self, word: usize, value: u64, log: Lsn);
}

impl<S: PageStore, F: Frames> Pages for Pool<S, F> {
    type Held<'a>
        = Held<'a, S, F>
    where
        Self: 'a;

    #[inline]
    fn oldest(&self) -> u64 {
        self.oldest()
    }

    #[inline]
    fn latest(&self) -> u64 {
        self.latest()
    }

    #[inline]
    fn extend_to(&self, page: u64) {
        self.extend_to(page);
    }

    #[inline]
    fn hit(&self, page: u64, word: usize) -> Option<u64> {
        self.hit(page, word)
    }

    fn search(&self, page: u64, word: usize) -> Option<u64> {
        self.search(page, word)
    }

    fn fetch(&self, page: u64, word: usize) -> Result<u64, PoolError> {
        Ok(self.hold(page)?.get(word))
    }

    #[inline]
    fn hold(&self, page: u64) -> Result<Held<'_, S, F>, PoolError> {
        self.hold(page)
    }

    #[inline]
    fn check_usable(&self) -> Result<(), PoolError> {
        self.check_usable()
    }

    fn flush(&self) -> Result<(), PoolError> {
        self.flush()
    }

    fn truncate(&self, first: u64) -> Result<(), PoolError> {
        self.truncate(first)
    }

    fn log_of(&self, page: u64) -> Result<Lsn, PoolError> {
        self.log_of(page)
    }
}

impl<S: PageStore, F: Frames> HeldPage for Held<'_, S, F> {
    #[inline]
    fn page(&self) -> u64 {
        self.page()
    }

    #[inline]
    fn get(&self, word: usize) -> u64 {
        self.get(word)
    }

    #[inline]
    fn set(&mut self, word: usize, value: u64, log: Lsn) {
        self.set(word, value, log);
    }
}
