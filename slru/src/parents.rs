//! Sub-transactions' parents: 4 bytes an id, PostgreSQL's `pg_subtrans`.
//!
//! A child's parent is recorded before the child's id can appear anywhere, and is needed for as long as somebody may ask whether the child ran for him: until
//! the horizon has passed it. It means nothing after a restart, since nothing runs then.

use txnkit_ids::{Lsn, Xid, Xid32};

use crate::frames::Frames;
#[cfg(feature = "alloc")]
use crate::frames::HeapFrames;
use crate::page::PAGE_WORDS;
use crate::pool::{Pool, PoolError};
use crate::{PageStore, StatusError, StatusErrorKind};

/// Ids on a page: 2048.
const PAGE_IDS: u64 = 2 * PAGE_WORDS as u64;

/// A parent is less than so many ids older than its child.
const REACH: u64 = 1 << 31;

const fn page_of(xid: Xid) -> u64 {
    xid.get() / PAGE_IDS
}

const fn word_of(xid: Xid) -> usize {
    (xid.get() % PAGE_IDS / 2) as usize
}

/// By how many bits the id's half of its word is shifted.
const fn shift_of(xid: Xid) -> u32 {
    (xid.get() % 2 * 32) as u32
}

/// Parents in a pool of pages over a store `S`.
///
/// Progress is that of [`PagedStatusLog`](crate::PagedStatusLog): looking up takes no lock when the page is here.
pub struct PagedParents<S, F> {
    pool: Pool<S, F>,
}

/// Parents whose pool is on the heap.
#[cfg(feature = "alloc")]
pub type Parents<S> = PagedParents<S, HeapFrames>;

#[cfg(feature = "alloc")]
impl<S: PageStore> Parents<S> {
    /// No parents yet, of ids from `first` on. `pool_pages` is rounded up to 16 times a power of two (8 KiB each).
    pub fn new(store: S, pool_pages: usize, first: Xid) -> Self {
        let first = page_of(first);
        Self {
            pool: Pool::new(HeapFrames::new(pool_pages), store, first, first),
        }
    }
}

impl<S: PageStore, F: Frames> PagedParents<S, F> {
    /// The parent recorded for `child`, if any.
    ///
    /// # Errors
    /// [`StatusErrorKind::TooOld`] when its page was truncated away; [`StatusErrorKind::Store`]; [`StatusErrorKind::WouldBlock`], only without `std`.
    pub fn parent(&self, child: Xid) -> Result<Option<Xid>, StatusError> {
        let (page, word) = (page_of(child), word_of(child));
        if page > self.pool.latest() {
            return Ok(None);
        }
        let value = self
            .pool
            .read(page, word)
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
        let mut eldest = xid;
        // Ends, since a parent is older than its child.
        while eldest >= oldest {
            match self.parent(eldest)? {
                Some(parent) => eldest = parent,
                None => break,
            }
        }
        Ok(eldest)
    }

    /// Records `child`'s parent; the same again is allowed.
    ///
    /// # Errors
    /// [`StatusErrorKind::NotParent`] when `parent` is not older than `child`, 2^31 ids older, special, or another one is recorded; those of
    /// [`parent`](Self::parent).
    pub fn set(&self, child: Xid, parent: Xid) -> Result<(), StatusError> {
        let refused = || StatusErrorKind::NotParent { child, parent }.into();
        if parent >= child || child.get() - parent.get() >= REACH || parent.is_special() {
            return Err(refused());
        }
        let (page, word) = (page_of(child), word_of(child));
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

    fn of_id(&self, error: PoolError, xid: Xid) -> StatusError {
        match error {
            PoolError::TooOld => StatusErrorKind::TooOld {
                xid,
                oldest: Xid::new(self.pool.oldest() * PAGE_IDS),
            },
            PoolError::Store(error) => StatusErrorKind::Store {
                xid: Some(xid),
                error,
            },
            PoolError::SyncFailed => StatusErrorKind::SyncFailed,
            PoolError::WouldBlock => StatusErrorKind::WouldBlock,
        }
        .into()
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
