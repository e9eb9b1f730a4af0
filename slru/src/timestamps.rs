//! Commit timestamps: 10 bytes an id, PostgreSQL's `pg_commit_ts`.
//!
//! An entry is a time of 8 bytes and an origin of 2, and lies in two neighbouring words, each shared with a neighbour's entry. It is set and read as a
//! pair of words (rules 9 and 10 of the pool).
//!
//! 1. An id has a timestamp only between the oldest and the newest id; outside nothing is looked up. Both only rise.
//! 2. The oldest id rises before any page goes. A reader who was in between finds the page too old, and takes that for none: never a missing file.
//! 3. Entries are set before the newest id rises, and that before the last one is told: who is told an id finds its entry.
//!
//! Who has learnt from a status that a transaction committed finds its timestamp, if it was set before the status: look-ups of both are ordered (rule 2 of
//! the pool).

use txnkit_ids::{Lsn, Xid, XidRun};
use txnkit_sync::atomic::{AtomicU64, Ordering};
use txnkit_sync::ord;

#[cfg(not(any(
    txnkit_model = "loom",
    txnkit_model = "shuttle",
    txnkit_model = "coherence"
)))]
use crate::frames::FixedFrames;
use crate::frames::Frames;
#[cfg(feature = "alloc")]
use crate::frames::HeapFrames;
use crate::pool::{Held, Pool, PoolError};
use crate::stats::{Counted, Reader, SlruStats};
use crate::{Layout, PageStore, StatusError, StatusErrorKind};

/// Bytes in an entry.
const ENTRY: u64 = 10;
/// Bits in an entry.
const ENTRY_BITS: u128 = (1 << (8 * ENTRY)) - 1;
/// How many pages a set may go beyond the latest one: 2^31 ids.
const MAX_JUMP: u64 = (1 << 31) / 819;

/// When a transaction committed, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommitTimestamp {
    /// Microseconds since 2000-01-01 00:00 UTC. Exactly 0 cannot be told from nothing, and reads as none; so it is in PostgreSQL.
    pub micros: i64,
    /// The replication origin; 0 is this server.
    pub origin: u16,
}

impl CommitTimestamp {
    const fn to_bits(self) -> u128 {
        self.micros as u64 as u128 | (self.origin as u128) << 64
    }

    const fn from_bits(bits: u128) -> Option<Self> {
        match bits as u64 as i64 {
            0 => None,
            micros => Some(Self {
                micros,
                origin: (bits >> 64) as u16,
            }),
        }
    }
}

/// Where an entry is.
#[derive(Clone, Copy)]
struct Place {
    page: u64,
    /// The first of its two words.
    word: usize,
    /// Where it begins in them, in bits.
    shift: u32,
}

impl Place {
    const fn of(xid: Xid) -> Self {
        let byte = Layout::TIMESTAMPS.place_of(xid) * ENTRY;
        Self {
            page: Layout::TIMESTAMPS.page_of(xid),
            word: (byte / 8) as usize,
            shift: (byte % 8 * 8) as u32,
        }
    }

    const fn get(self, pair: [u64; 2]) -> u128 {
        join(pair) >> self.shift & ENTRY_BITS
    }

    const fn set(self, pair: [u64; 2], entry: u128) -> [u64; 2] {
        let both = join(pair) & !(ENTRY_BITS << self.shift) | entry << self.shift;
        [both as u64, (both >> 64) as u64]
    }
}

const fn join(pair: [u64; 2]) -> u128 {
    pair[0] as u128 | (pair[1] as u128) << 64
}

/// Commit timestamps in a pool of pages over a store `S`. [`CommitTimestamps`] and [`FixedCommitTimestamps`] are the two forms.
///
/// In files they are PostgreSQL's `pg_commit_ts`, by [`Layout::TIMESTAMPS`].
///
/// Progress is that of [`PagedStatusLog`](crate::PagedStatusLog): a look takes no lock when the page is here, unless it meets a setter of the same page.
pub struct PagedCommitTimestamps<S, F> {
    pool: Pool<S, F>,
    /// No timestamp is kept of an id before this one.
    oldest: AtomicU64,
    /// No timestamp was set for an id after this one.
    newest: AtomicU64,
    /// The id set last; 0 before the first.
    last: AtomicU64,
}

/// Commit timestamps whose pool is on the heap.
#[cfg(feature = "alloc")]
pub type CommitTimestamps<S> = PagedCommitTimestamps<S, HeapFrames>;

/// Commit timestamps with a pool of `PAGES` pages (2 to 16) in place: fits a `static` and needs no allocator.
#[cfg(not(any(
    txnkit_model = "loom",
    txnkit_model = "shuttle",
    txnkit_model = "coherence"
)))]
pub type FixedCommitTimestamps<S, const PAGES: usize> =
    PagedCommitTimestamps<S, FixedFrames<PAGES>>;

#[cfg(feature = "alloc")]
impl<S: PageStore> CommitTimestamps<S> {
    /// No timestamps yet, of ids from `next` on: what switching them on begins with. `pool_pages` is rounded up to 16 times a power of two (8 KiB each).
    pub fn new(store: S, pool_pages: usize, next: Xid) -> Self {
        Self::over(HeapFrames::new(pool_pages), store, next, next)
    }

    /// The timestamps of the ids from `oldest` to before `next` that `store` holds; `next` is the id after the newest with a timestamp. Nothing is read
    /// yet.
    ///
    /// # Errors
    /// [`StatusErrorKind::Backwards`] when `next` is before `oldest`.
    pub fn open(store: S, pool_pages: usize, oldest: Xid, next: Xid) -> Result<Self, StatusError> {
        if next < oldest {
            return Err(StatusErrorKind::Backwards { oldest, next }.into());
        }
        Ok(Self::over(HeapFrames::new(pool_pages), store, oldest, next))
    }
}

#[cfg(not(any(
    txnkit_model = "loom",
    txnkit_model = "shuttle",
    txnkit_model = "coherence"
)))]
impl<S: PageStore, const PAGES: usize> FixedCommitTimestamps<S, PAGES> {
    /// No timestamps yet, of ids from `next` on.
    pub const fn new_fixed(store: S, next: Xid) -> Self {
        Self::over(FixedFrames::new(), store, next, next)
    }
}

impl<S, F> PagedCommitTimestamps<S, F> {
    txnkit_sync::const_fn! {
        fn over(frames: F, store: S, oldest: Xid, next: Xid) -> Self {
            let (first, latest) = (
                Layout::TIMESTAMPS.page_of(oldest),
                Layout::TIMESTAMPS.page_of(next),
            );
            Self {
                pool: Pool::new(frames, store, first, latest),
                oldest: AtomicU64::new(oldest.get()),
                newest: AtomicU64::new(next.get().saturating_sub(1)),
                last: AtomicU64::new(0),
            }
        }
    }

    /// The store.
    pub const fn store(&self) -> &S {
        self.pool.store()
    }

    /// The first id whose timestamp is kept. Only rises. Wait-free.
    pub fn oldest(&self) -> Xid {
        Xid::new(self.oldest.load(Ordering::Relaxed))
    }

    /// The last id that a timestamp was set for; before [`oldest`](Self::oldest) when there is none. Only rises. Wait-free.
    pub fn newest(&self) -> Xid {
        Xid::new(self.newest.load(Ordering::Relaxed))
    }
}

impl<S: PageStore, F: Frames> PagedCommitTimestamps<S, F> {
    /// When `xid` committed: none if it did not, or is before the oldest or after the newest id that timestamps are kept of.
    ///
    /// # Errors
    /// [`StatusErrorKind::Special`] when the low half of `xid` is 0; [`StatusErrorKind::Store`]; [`StatusErrorKind::WouldBlock`], only without `std`.
    #[inline]
    pub fn get(&self, xid: Xid) -> Result<Option<CommitTimestamp>, StatusError> {
        self.get_noting(xid, || ())
    }

    #[inline]
    fn get_noting(
        &self,
        xid: Xid,
        on_hit: impl Fn(),
    ) -> Result<Option<CommitTimestamp>, StatusError> {
        if xid.low32().get() == 0 {
            return Err(StatusErrorKind::Special { xid }.into());
        }
        // Rule 1. Relaxed: who knows that `xid` committed was told by something that orders these as well.
        if xid < self.oldest() || xid > self.newest() {
            return Ok(None);
        }
        let place = Place::of(xid);
        match self.pool.read_pair_noting(place.page, place.word, on_hit) {
            Ok(pair) => Ok(CommitTimestamp::from_bits(place.get(pair))),
            // Rule 2.
            Err(PoolError::TooOld) => Ok(None),
            Err(error) => Err(self.of_pool(error, Some(xid))),
        }
    }

    /// The transaction that was set last, with its timestamp; none before the first one of this life, or when that is too old meanwhile. Of two that are
    /// set at once, either.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn latest(&self) -> Result<Option<(Xid, CommitTimestamp)>, StatusError> {
        // Pairs with the Release store in `set`. Rule 3.
        let last = Xid::new(self.last.load(ord!("slru.timestamps.latest", Acquire)));
        if last == Xid::INVALID {
            return Ok(None);
        }
        Ok(self.get(last)?.map(|at| (last, at)))
    }

    /// Records when a transaction and its sub-transactions committed. `log` is the position up to which the log must be durable before the page may be, or
    /// [`Lsn::INVALID`] if it is already.
    ///
    /// Setting again is allowed, and the last one counts. A look meanwhile finds the old entry or the new one, of each id by itself.
    ///
    /// # Errors
    /// [`StatusErrorKind::Special`], [`StatusErrorKind::TooOld`], [`StatusErrorKind::Future`] (more than 2^31 ids ahead of all others);
    /// [`StatusErrorKind::Store`]. Some of the ids may be set then, and the call can be repeated as it was.
    pub fn set(
        &self,
        top: Xid,
        children: &[XidRun],
        at: CommitTimestamp,
        log: Lsn,
    ) -> Result<(), StatusError> {
        let children = children.iter().flat_map(|run| run.iter());
        let mut newest = top;
        let mut held: Option<Held<'_, S, F>> = None;
        for xid in core::iter::once(top).chain(children) {
            let place = Place::of(xid);
            if xid < self.oldest() {
                let oldest = self.oldest();
                return Err(StatusErrorKind::TooOld { xid, oldest }.into());
            }
            if held.as_ref().is_none_or(|held| held.page() != place.page) {
                // Two pages can be of one bank: let go before taking.
                drop(held.take());
                held = Some(self.hold_to_set(xid, place.page)?);
            }
            if let Some(held) = &mut held {
                let pair = [held.get(place.word), held.get(place.word + 1)];
                held.set_pair(place.word, place.set(pair, at.to_bits()), log);
            }
            newest = newest.max(xid);
        }
        drop(held);
        self.newest.fetch_max(newest.get(), Ordering::Relaxed);
        // Pairs with the Acquire load in `latest`.
        self.last
            .store(top.get(), ord!("slru.timestamps.set", Release));
        Ok(())
    }

    /// The id's page, extending to it.
    fn hold_to_set(&self, xid: Xid, page: u64) -> Result<Held<'_, S, F>, StatusError> {
        if xid.is_special() {
            return Err(StatusErrorKind::Special { xid }.into());
        }
        self.extend_to(xid, page)?;
        self.pool
            .check_usable()
            .and_then(|()| self.pool.hold(page))
            .map_err(|error| self.of_pool(error, Some(xid)))
    }

    fn extend_to(&self, xid: Xid, page: u64) -> Result<(), StatusError> {
        let last = self.pool.latest() + MAX_JUMP;
        if page > last {
            return Err(StatusError::future(Layout::TIMESTAMPS, xid, last));
        }
        self.pool.extend_to(page);
        Ok(())
    }

    /// Forgets the timestamps of ids before `oldest`. A look meanwhile finds the timestamp or none. Going back changes nothing.
    ///
    /// # Errors
    /// [`StatusErrorKind::Future`] when `oldest` is more than 2^31 ids ahead of all others; [`StatusErrorKind::Store`]: call again.
    pub fn advance_oldest(&self, oldest: Xid) -> Result<(), StatusError> {
        let page = Layout::TIMESTAMPS.page_of(oldest);
        // Ids may have gone by without a commit, so the oldest one to keep may be ahead of all pages.
        self.extend_to(oldest, page)?;
        // Rule 2.
        self.oldest.fetch_max(oldest.get(), Ordering::Relaxed);
        self.pool
            .truncate(page)
            .map_err(|error| self.of_pool(error, None))
    }

    /// Makes durable every timestamp that was set before the call, as far as the store is.
    ///
    /// # Errors
    /// [`StatusErrorKind::Store`]; when syncing failed, the store is not used any more until it is opened anew.
    pub fn flush(&self) -> Result<(), StatusError> {
        self.pool.flush().map_err(|error| self.of_pool(error, None))
    }

    /// A session's view of the timestamps, whose looks are counted.
    pub const fn reader(&self) -> Reader<'_, Self> {
        Reader::new(self)
    }

    /// What happened so far. See [`Pool::stats`].
    ///
    /// # Errors
    /// [`StatusErrorKind::WouldBlock`], only without `std`.
    pub fn stats(&self) -> Result<SlruStats, StatusError> {
        self.pool.stats().map_err(|error| self.of_pool(error, None))
    }

    fn of_pool(&self, error: PoolError, xid: Option<Xid>) -> StatusError {
        StatusError::of_pool(error, xid, self.oldest())
    }
}

impl<S: PageStore, F: Frames> Reader<'_, PagedCommitTimestamps<S, F>> {
    /// As [`PagedCommitTimestamps::get`], counted.
    ///
    /// # Errors
    /// Those of [`PagedCommitTimestamps::get`].
    #[inline]
    pub fn get(&self, xid: Xid) -> Result<Option<CommitTimestamp>, StatusError> {
        self.log().get_noting(xid, || self.count())
    }
}

impl<S, F> Counted for PagedCommitTimestamps<S, F> {
    fn add_hits(&self, hits: u64) {
        self.pool.add_hits(hits);
    }
}

impl<S, F> core::fmt::Debug for PagedCommitTimestamps<S, F> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CommitTimestamps")
            .field("oldest", &self.oldest())
            .field("newest", &self.newest())
            .finish_non_exhaustive()
    }
}
