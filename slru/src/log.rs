//! The status log: statuses on pages in a pool.

use txnkit_ids::{Lsn, Xid, XidRun};
use txnkit_sync::broken;

#[cfg(not(any(
    txnkit_model = "loom",
    txnkit_model = "shuttle",
    txnkit_model = "coherence"
)))]
use crate::frames::FixedFrames;
use crate::frames::Frames;
#[cfg(feature = "alloc")]
use crate::frames::HeapFrames;
use crate::pages::{HeldPage, Pages};
use crate::pool::{Pool, PoolError};
use crate::stats::{Counted, Reader, SlruStats};
use crate::status::{WordIds, first_of, page_of, status_in, word_of};
use crate::{Layout, PageStore, Status, StatusError, StatusErrorKind, StatusStore};

/// How many pages a set may go beyond the latest one: 2^31 ids, more than can be alive.
const MAX_JUMP: u64 = (1 << 31) / (1 << 15);

/// Transaction statuses on pages that `B` keeps. [`StatusLog`] and [`FixedStatusLog`] are the two forms.
///
/// | operation | progress |
/// |---|---|
/// | `get`, page in the pool and in its home slot | obstruction-free in theory, a handful of loads in practice: no lock, retried through the bank's lock if the page is evicted meanwhile |
/// | `get` otherwise, `set`, `set_tree` | blocks on the page's bank lock, and on the I/O of that page or of the one it replaces |
/// | `flush`, `truncate` | block on all I/O under way |
///
/// No lock is held during I/O but the one that keeps two syncs apart. Without `std` nothing waits: what would, is
/// [`StatusErrorKind::WouldBlock`]. Nothing panics, unless the store does; then the lock is released and the page tried again by the next.
pub struct PagedStatusLog<B> {
    pool: B,
}

/// A status log whose pool is on the heap.
#[cfg(feature = "alloc")]
pub type StatusLog<S> = PagedStatusLog<Pool<S, HeapFrames>>;

/// A status log with a pool of `PAGES` pages (2 to 16) in place: fits a `static` and needs no allocator.
#[cfg(not(any(
    txnkit_model = "loom",
    txnkit_model = "shuttle",
    txnkit_model = "coherence"
)))]
pub type FixedStatusLog<S, const PAGES: usize> = PagedStatusLog<Pool<S, FixedFrames<PAGES>>>;

#[cfg(feature = "alloc")]
impl<S: PageStore> StatusLog<S> {
    /// A new log whose first id is `first`, all in progress. `pool_pages` is rounded up to 16 times a power of two (8 KiB
    /// each), and down to 131 072.
    pub fn new(store: S, pool_pages: usize, first: Xid) -> Self {
        Self {
            pool: Pool::new(
                HeapFrames::new(pool_pages),
                store,
                page_of(first),
                page_of(first),
            ),
        }
    }

    /// The log of the ids from `oldest` to before `next` that `store` holds. Nothing is read yet.
    ///
    /// # Errors
    /// [`StatusErrorKind::Backwards`] when `next` is before `oldest`.
    pub fn open(store: S, pool_pages: usize, oldest: Xid, next: Xid) -> Result<Self, StatusError> {
        if next < oldest {
            return Err(StatusErrorKind::Backwards { oldest, next }.into());
        }
        Ok(Self {
            pool: Pool::new(
                HeapFrames::new(pool_pages),
                store,
                page_of(oldest),
                page_of(next),
            ),
        })
    }
}

#[cfg(not(any(
    txnkit_model = "loom",
    txnkit_model = "shuttle",
    txnkit_model = "coherence"
)))]
impl<S: PageStore, const PAGES: usize> FixedStatusLog<S, PAGES> {
    /// A new log whose first id is `first`, all in progress.
    pub const fn new_fixed(store: S, first: Xid) -> Self {
        Self {
            pool: Pool::new(FixedFrames::new(), store, page_of(first), page_of(first)),
        }
    }
}

impl<S, F> PagedStatusLog<Pool<S, F>> {
    /// The store.
    pub const fn store(&self) -> &S {
        self.pool.store()
    }
}

impl<S: PageStore, F: Frames> PagedStatusLog<Pool<S, F>> {
    /// A session's view of the log, whose looks are counted.
    pub const fn reader(&self) -> Reader<'_, Self> {
        Reader::new(self)
    }

    /// What happened so far. See [`Pool::stats`].
    ///
    /// # Errors
    /// [`StatusErrorKind::WouldBlock`], only without `std`.
    pub fn stats(&self) -> Result<SlruStats, StatusError> {
        self.pool.stats().map_err(|error| self.whole(error))
    }
}

impl<S: PageStore, F: Frames> Reader<'_, PagedStatusLog<Pool<S, F>>> {
    /// As [`StatusStore::get`] of the log, counted.
    ///
    /// # Errors
    /// Those of [`StatusStore::get`].
    #[inline]
    pub fn get(&self, xid: Xid) -> Result<Status, StatusError> {
        self.log().get_noting(xid, || self.count())
    }
}

impl<S, F> Counted for PagedStatusLog<Pool<S, F>> {
    fn add_hits(&self, hits: u64) {
        self.pool.add_hits(hits);
    }
}

impl<B: Pages> PagedStatusLog<B> {
    #[cfg(feature = "baselines")]
    pub(crate) const fn over(pages: B) -> Self {
        Self { pool: pages }
    }

    #[cfg(feature = "baselines")]
    pub(crate) const fn pages(&self) -> &B {
        &self.pool
    }

    /// The first id whose page is kept. Wait-free.
    pub fn oldest(&self) -> Xid {
        first_of(self.pool.oldest())
    }

    /// Forgets the statuses of ids before `oldest`, page by page (so some of them stay), dirty or not. A concurrent look-up gets
    /// a status or [`StatusErrorKind::TooOld`]. Going back is not possible: an `oldest` before the present one changes nothing.
    ///
    /// # Errors
    /// [`StatusErrorKind::Future`] when the page of `oldest` is after the latest one; [`StatusErrorKind::Store`]: call again.
    pub fn truncate(&self, oldest: Xid) -> Result<(), StatusError> {
        let latest = self.pool.latest();
        if page_of(oldest) > latest {
            return Err(StatusError::future(Layout::STATUS, oldest, latest));
        }
        self.pool
            .truncate(page_of(oldest))
            .map_err(|error| self.whole(error))
    }

    /// Up to where the log must be durable before the status of `xid` may be copied elsewhere for good (a hint bit): at least
    /// the position it was set with, unless its page was written since.
    ///
    /// # Errors
    /// [`StatusErrorKind::WouldBlock`], only without `std`.
    pub fn log_needed(&self, xid: Xid) -> Result<Lsn, StatusError> {
        self.pool
            .log_of(page_of(xid))
            .map_err(|error| self.of_id(error, xid))
    }

    /// The status when the page is not in its home slot.
    #[cold]
    fn get_slow(&self, xid: Xid, on_hit: impl Fn()) -> Result<Status, StatusError> {
        if xid.is_special() {
            return special(xid);
        }
        let (page, latest) = (page_of(xid), self.pool.latest());
        if page > latest {
            return if page == latest + 1 {
                Ok(Status::InProgress)
            } else {
                Err(StatusError::future(Layout::STATUS, xid, latest + 1))
            };
        }
        if let Some(word) = self.pool.search(page, word_of(xid)) {
            on_hit();
            return Ok(status_in(word, xid));
        }
        let word = self
            .pool
            .fetch(page, word_of(xid))
            .map_err(|error| self.of_id(error, xid))?;
        Ok(status_in(word, xid))
    }

    /// Sets the ids of each piece, one hold of the lock for neighbours on one page.
    fn apply(
        &self,
        pieces: impl Iterator<Item = WordIds>,
        status: Status,
        log: Lsn,
    ) -> Result<(), StatusError> {
        let mut held: Option<B::Held<'_>> = None;
        for ids in pieces {
            if held.as_ref().is_none_or(|held| held.page() != ids.page) {
                // Two pages can be of one bank: let go before taking.
                drop(held.take());
                held = Some(self.hold_to_set(&ids)?);
            }
            if let Some(held) = &mut held {
                set_word(held, &ids, status, log)?;
            }
        }
        Ok(())
    }

    /// The ids' page, extending the log to it.
    #[inline]
    fn hold_to_set(&self, ids: &WordIds) -> Result<B::Held<'_>, StatusError> {
        let latest = self.pool.latest();
        if ids.page > latest {
            if ids.page - latest > MAX_JUMP {
                return Err(StatusError::future(
                    Layout::STATUS,
                    ids.first(),
                    latest + MAX_JUMP,
                ));
            }
            self.pool.extend_to(ids.page);
        }
        self.pool
            .check_usable()
            .and_then(|()| self.pool.hold(ids.page))
            .map_err(|error| self.of_id(error, ids.first()))
    }

    fn of_id(&self, error: PoolError, xid: Xid) -> StatusError {
        StatusError::of_pool(error, Some(xid), self.oldest())
    }

    fn whole(&self, error: PoolError) -> StatusError {
        StatusError::of_pool(error, None, self.oldest())
    }

    /// The status, `on_hit` called when no lock was needed.
    #[inline]
    fn get_noting(&self, xid: Xid, on_hit: impl Fn()) -> Result<Status, StatusError> {
        match self.pool.hit(page_of(xid), word_of(xid)) {
            Some(word) => {
                on_hit();
                match status_in(word, xid) {
                    Status::InProgress if xid.is_special() => special(xid),
                    status => Ok(status),
                }
            }
            None => self.get_slow(xid, on_hit),
        }
    }
}

impl<B: Pages> StatusStore for PagedStatusLog<B> {
    #[inline]
    fn get(&self, xid: Xid) -> Result<Status, StatusError> {
        self.get_noting(xid, || ())
    }

    fn set(&self, xid: Xid, status: Status, log: Lsn) -> Result<(), StatusError> {
        if xid.is_special() {
            return Err(StatusErrorKind::Special { xid }.into());
        }
        let ids = WordIds::one(xid);
        set_word(&mut self.hold_to_set(&ids)?, &ids, status, log)
    }

    fn set_tree(
        &self,
        top: Xid,
        children: &[XidRun],
        status: Status,
        log: Lsn,
    ) -> Result<(), StatusError> {
        if top.is_special() {
            return Err(StatusErrorKind::Special { xid: top }.into());
        }
        let alone = WordIds::one(top);
        let pieces = || children.iter().copied().flat_map(WordIds::of_run);
        let others = || pieces().filter(|ids| !ids.same_word(&alone));
        // Children in the word of `top` are set with it, by one store.
        let with_top = pieces()
            .filter(|ids| ids.same_word(&alone))
            .fold(alone, WordIds::and);
        let first_step = match status {
            Status::Committed => Status::SubCommitted,
            Status::Aborted => Status::Aborted,
            wanted => return Err(StatusErrorKind::NotFinal { wanted }.into()),
        };
        if !broken!("slru.log.tree.no-sub-committed") {
            self.apply(others(), first_step, log)?;
        }
        self.apply(core::iter::once(with_top), status, log)?;
        if status == Status::Committed {
            self.apply(others(), status, log)?;
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), StatusError> {
        self.pool.flush().map_err(|error| self.whole(error))
    }
}

impl<B: Pages> core::fmt::Debug for PagedStatusLog<B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("StatusLog")
            .field("oldest_page", &self.pool.oldest())
            .field("latest_page", &self.pool.latest())
            .finish_non_exhaustive()
    }
}

#[inline]
fn set_word(
    held: &mut impl HeldPage,
    ids: &WordIds,
    status: Status,
    log: Lsn,
) -> Result<(), StatusError> {
    match ids.set_in(held.get(ids.word), status) {
        Ok(word) => {
            held.set(ids.word, word, log);
            Ok(())
        }
        Err(refused) => Err(StatusErrorKind::Recorded {
            xid: ids.at(refused.position),
            recorded: refused.recorded,
            wanted: status,
        }
        .into()),
    }
}

/// The status of an id that is never handed out.
#[cold]
fn special(xid: Xid) -> Result<Status, StatusError> {
    match xid.low32().get() {
        0 => Err(StatusErrorKind::Special { xid }.into()),
        _ => Ok(Status::Committed),
    }
}
