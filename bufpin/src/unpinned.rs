//! Reading a page without a pin: for pages so hot that the pins' line would be the bottleneck.
//!
//! # Rules
//!
//! 1. Each buffer has a version, in an array of its own that only writers store to. It is odd while the page is written, changed or absent.
//! 2. A writer has the content lock alone. It makes the version odd (Relaxed), then `fence(Release)`, then stores words and page number
//!    (Relaxed), then makes the version even (Release).
//! 3. A reader loads the version (Acquire, even), then page number and words (Relaxed), then `fence(Acquire)`, then the version again. The
//!    same: all that was read belongs to one state of the page. Who saw a word of a later state sees the later version: the fences pair.
//! 4. Until the second load the values may be of any mixture, so the caller's function must make nothing of them but a result.
//!
//! All words are atomics, so a reader that comes too late reads a wrong value, not a race.

use txnkit_sync::atomic::{AtomicU64, Ordering};
use txnkit_sync::{broken, fence_at, ord};

use crate::form::Memory;
use crate::mapping::hash;
use crate::page::Word;
use crate::session::Session;
use crate::store::PageStore;
use crate::traits::NO_PAGE;

/// A buffer's version, and the page it is for once more, beside it: readers without a pin do not look at the pins' line.
#[derive(Debug)]
pub struct Version {
    version: AtomicU64,
    page: AtomicU64,
}

impl Version {
    txnkit_sync::const_fn! {
        /// Of a buffer without a page.
        pub(crate) fn new() -> Self {
            Self { version: AtomicU64::new(0), page: AtomicU64::new(NO_PAGE) }
        }
    }

    /// Rule 2: the page is about to change. Under the content lock held alone.
    #[inline]
    pub(crate) fn begin_write(&self) {
        let even = self.version.load(Ordering::Relaxed);
        self.version.store(even + 1, Ordering::Relaxed);
        // Pairs with the Acquire fence of `read_unpinned`: who reads a word written from here on finds the version changed.
        fence_at!("bufpin.version.odd-fence", Release);
    }

    /// Rule 2: the page is whole again. Under the content lock held alone.
    #[inline]
    pub(crate) fn end_write(&self) {
        let odd = self.version.load(Ordering::Relaxed);
        // Pairs with the Acquire load of `read_unpinned`.
        self.version
            .store(odd + 1, ord!("bufpin.version.even", Release));
    }

    /// Between `begin_write` and `end_write`.
    pub(crate) fn set_page(&self, page: u64) {
        self.page.store(page, Ordering::Relaxed);
    }
}

/// The words of a page that may change while they are read. What is read counts if [`Session::read_unpinned`] returns it.
#[derive(Debug)]
pub struct Unpinned<'p> {
    words: &'p [Word],
}

impl Unpinned<'_> {
    /// A word, if the page has it. Wait-free.
    #[inline]
    pub fn get(&self, word: usize) -> Option<u64> {
        self.words.get(word).map(Word::get)
    }
}

impl<S: PageStore<W>, M: Memory<W>, const W: usize> Session<'_, S, M, W> {
    /// Reads a page that is in the pool without pinning or locking it: nothing shared is written. `None` if it is not there, or changed
    /// meanwhile: pin it then. Wait-free, apart from `read`.
    ///
    /// `read` may see words of different moments, or of another page; it must neither panic nor loop because of what they say. Its result is
    /// thrown away then. Usage does not rise, so a page that is read in this way only is evicted some day.
    #[inline]
    pub fn read_unpinned<R>(&self, page: u64, read: impl FnOnce(&Unpinned<'_>) -> R) -> Option<R> {
        let pool = self.pool;
        let (buffer, version) = pool
            .candidates(hash(page))
            .map(|buffer| (buffer, pool.version(buffer)))
            .find(|(_, version)| version.page.load(Ordering::Relaxed) == page)?;
        // Pairs with the Release store of `end_write`: page number and words are at least as new.
        let before = version
            .version
            .load(ord!("bufpin.unpinned.version", Acquire));
        if before % 2 != 0 && !broken!("bufpin.unpinned.odd-accepted") {
            return None;
        }
        let same = version.page.load(Ordering::Relaxed) == page
            || broken!("bufpin.unpinned.page-unchecked");
        let result = read(&Unpinned {
            words: &pool.frame(buffer).0,
        });
        // Pairs with the Release fence of `begin_write`.
        fence_at!("bufpin.unpinned.fence", Acquire);
        let unchanged = version.version.load(Ordering::Relaxed) == before
            || broken!("bufpin.unpinned.version-unchecked");
        (same && unchanged).then_some(result)
    }
}
