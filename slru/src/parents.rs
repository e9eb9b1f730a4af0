//! Sub-transactions' parents: 4 bytes an id, PostgreSQL's `pg_subtrans`.
//!
//! A child's parent is recorded before the child's id can appear anywhere, and is needed for as long as somebody may ask whether the child ran for him: until
//! the horizon has passed it. It means nothing after a restart, since nothing runs then.

use txnkit_ids::{Lsn, Xid, Xid32};

#[cfg(not(any(
    txnkit_model = "loom",
    txnkit_model = "shuttle",
    txnkit_model = "coherence"
)))]
use crate::frames::FixedFrames;
use crate::frames::Frames;
#[cfg(feature = "alloc")]
use crate::frames::HeapFrames;
use crate::pool::{Pool, PoolError};
use crate::stats::{Counted, Reader, SlruStats};
use crate::{Layout, PageStore, StatusError, StatusErrorKind};

/// A parent is less than so many ids older than its child.
const REACH: u64 = 1 << 31;

/// How many pages a set may go beyond the latest one: 2^31 ids.
const MAX_JUMP: u64 = (1 << 31) / 2048;

const fn page_of(xid: Xid) -> u64 {
    Layout::PARENTS.page_of(xid)
}

const fn word_of(xid: Xid) -> usize {
    (Layout::PARENTS.place_of(xid) / 2) as usize
}

/// By how many bits the id's half of its word is shifted.
const fn shift_of(xid: Xid) -> u32 {
    (xid.get() % 2 * 32) as u32
}

/// Parents in a pool of pages over a store `S`. [`Parents`] and [`FixedParents`] are the two forms.
///
/// In files they are PostgreSQL's `pg_subtrans`, by [`Layout::PARENTS`]. There is nothing to recover: begin them with
/// [`FileStore::create_anew`](crate::FileStore::create_anew) at every start, from the oldest id that may still run.
///
/// Progress is that of [`PagedStatusLog`](crate::PagedStatusLog): looking up takes no lock when the page is here.
pub struct PagedParents<S, F> {
    pool: Pool<S, F>,
}

/// Parents whose pool is on the heap.
#[cfg(feature = "alloc")]
pub type Parents<S> = PagedParents<S, HeapFrames>;

/// Parents with a pool of `PAGES` pages (2 to 16) in place: fits a `static` and needs no allocator.
#[cfg(not(any(
    txnkit_model = "loom",
    txnkit_model = "shuttle",
    txnkit_model = "coherence"
)))]
pub type FixedParents<S, const PAGES: usize> = PagedParents<S, FixedFrames<PAGES>>;

#[cfg(not(any(
    txnkit_model = "loom",
    txnkit_model = "shuttle",
    txnkit_model = "coherence"
)))]
impl<S: PageStore, const PAGES: usize> FixedParents<S, PAGES> {
    /// No parents yet, of ids from `first` on.
    pub const fn new_fixed(store: S, first: Xid) -> Self {
        let first = page_of(first);
        Self {
            pool: Pool::new(FixedFrames::new(), store, first, first),
        }
    }
}

#[cfg(feature = "alloc")]
impl<S: PageStore> Parents<S> {
    /// No parents yet, of ids from `first` on. `pool_pages` is rounded up to 16 times a power of two (8 KiB each).
    pub fn new(store: S, pool_pages: usize, first: Xid) -> Self {
        let first = page_of(first);
        Self {
            pool: Pool::new(HeapFrames::new(pool_pages), store, first, first),
        }
    }

    /// The parents of the ids from `oldest` to before `next` that `store` holds. Nothing is read yet.
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

impl<S: PageStore, F: Frames> PagedParents<S, F> {
    /// The store.
    pub const fn store(&self) -> &S {
        self.pool.store()
    }

    /// A session's view of the parents, whose looks are counted.
    pub const fn reader(&self) -> Reader<'_, Self> {
        Reader::new(self)
    }

    /// What happened so far. See [`Pool::stats`].
    ///
    /// # Errors
    /// [`StatusErrorKind::WouldBlock`], only without `std`.
    pub fn stats(&self) -> Result<SlruStats, StatusError> {
        self.pool
            .stats()
            .map_err(|error| StatusError::of_pool(error, None, self.oldest()))
    }

    /// The first id whose page is kept. Wait-free.
    pub fn oldest(&self) -> Xid {
        Layout::PARENTS.first_of(self.pool.oldest())
    }

    /// The parent recorded for `child`, if any.
    ///
    /// # Errors
    /// [`StatusErrorKind::TooOld`] when its page was truncated away; [`StatusErrorKind::Store`]; [`StatusErrorKind::WouldBlock`], only without `std`.
    #[inline]
    pub fn parent(&self, child: Xid) -> Result<Option<Xid>, StatusError> {
        self.parent_noting(child, || ())
    }

    #[inline]
    fn parent_noting(&self, child: Xid, on_hit: impl Fn()) -> Result<Option<Xid>, StatusError> {
        let (page, word) = (page_of(child), word_of(child));
        if page > self.pool.latest() {
            return Ok(None);
        }
        let value = self
            .pool
            .read_noting(page, word, on_hit)
            .map_err(|error| self.of_id(error, child))?;
        let half = (value >> shift_of(child)) as u32;
        if half == 0 {
            return Ok(None);
        }
        // An id before the child and less than 2^31 older, as `set` has checked.
        Ok(Xid32::new(half).widen_at_most(child).ok())
    }

    /// The eldest that can be reached from `xid` by going from child to parent: its top-level id, or the first ancestor before `oldest`. `xid` itself if it
    /// has no parent.
    ///
    /// # Errors
    /// As [`parent`](Self::parent).
    pub fn topmost(&self, xid: Xid, oldest: Xid) -> Result<Xid, StatusError> {
        self.topmost_noting(xid, oldest, || ())
    }

    fn topmost_noting(&self, xid: Xid, oldest: Xid, on_hit: impl Fn()) -> Result<Xid, StatusError> {
        let mut eldest = xid;
        // Ends, since a parent is older than its child.
        while eldest >= oldest {
            match self.parent_noting(eldest, &on_hit)? {
                Some(parent) => eldest = parent,
                None => break,
            }
        }
        Ok(eldest)
    }

    /// Records `child`'s parent; the same again is allowed.
    ///
    /// # Errors
    /// [`StatusErrorKind::NotParent`] when `parent` is not older than `child`, 2^31 ids older, special, or another one is recorded;
    /// [`StatusErrorKind::Special`] and [`StatusErrorKind::Future`] for a `child` that is never handed out, or more than 2^31 ids ahead of all
    /// others; those of [`parent`](Self::parent).
    pub fn set(&self, child: Xid, parent: Xid) -> Result<(), StatusError> {
        let refused = || StatusErrorKind::NotParent { child, parent }.into();
        if parent >= child || child.get() - parent.get() >= REACH || parent.is_special() {
            return Err(refused());
        }
        if child.is_special() {
            return Err(StatusErrorKind::Special { xid: child }.into());
        }
        let (page, word) = (page_of(child), word_of(child));
        let last = self.pool.latest() + MAX_JUMP;
        if page > last {
            return Err(StatusError::future(Layout::PARENTS, child, last));
        }
        self.pool.extend_to(page);
        let mut held = self
            .pool
            .hold(page)
            .map_err(|error| self.of_id(error, child))?;
        let shift = shift_of(child);
        let before = held.get(word);
        let half = u64::from(parent.low32().get());
        match before >> shift & u64::from(u32::MAX) {
            0 => held.set(word, before | half << shift, Lsn::INVALID),
            recorded if recorded == half => {}
            _ => return Err(refused()),
        }
        Ok(())
    }

    /// Forgets the parents of ids before `oldest`, page by page. Going back changes nothing, and when no page goes this is a load: call it as often as
    /// you like.
    ///
    /// # Errors
    /// [`StatusErrorKind::Store`]: the store still has pages that are not needed; they go with the next one.
    pub fn truncate(&self, oldest: Xid) -> Result<(), StatusError> {
        let first = page_of(oldest).min(self.pool.latest());
        if first <= self.pool.oldest() {
            return Ok(());
        }
        self.pool
            .truncate(first)
            .map_err(|error| self.of_id(error, oldest))
    }

    /// Writes every page that was set, so that fewer have to be when others need their place. Nothing depends on it.
    ///
    /// # Errors
    /// [`StatusErrorKind::Store`]; what could not be written is written later.
    pub fn flush(&self) -> Result<(), StatusError> {
        self.pool
            .flush()
            .map_err(|error| StatusError::of_pool(error, None, self.oldest()))
    }

    fn of_id(&self, error: PoolError, xid: Xid) -> StatusError {
        StatusError::of_pool(error, Some(xid), self.oldest())
    }
}

impl<S: PageStore, F: Frames> Reader<'_, PagedParents<S, F>> {
    /// As [`PagedParents::parent`], counted.
    ///
    /// # Errors
    /// Those of [`PagedParents::parent`].
    #[inline]
    pub fn parent(&self, child: Xid) -> Result<Option<Xid>, StatusError> {
        self.log().parent_noting(child, || self.count())
    }

    /// As [`PagedParents::topmost`], counted.
    ///
    /// # Errors
    /// Those of [`PagedParents::topmost`].
    pub fn topmost(&self, xid: Xid, oldest: Xid) -> Result<Xid, StatusError> {
        self.log().topmost_noting(xid, oldest, || self.count())
    }
}

impl<S, F> Counted for PagedParents<S, F> {
    fn add_hits(&self, hits: u64) {
        self.pool.add_hits(hits);
    }
}

impl<S, F> core::fmt::Debug for PagedParents<S, F> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Parents")
            .field("oldest_page", &self.pool.oldest())
            .field("latest_page", &self.pool.latest())
            .finish_non_exhaustive()
    }
}
