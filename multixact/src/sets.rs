//! Making, finding and reading sets.
//!
//! # Rules
//!
//! 1. Number and members' positions are handed out together, under one short lock; so set N + 1 begins where N ends. Numbers with a low half of 0
//!    are skipped, and a set that would begin at a position with a low half of 0 begins one further on: 0 means "not written".
//! 2. The creator writes the position of N, the position of N + 1 (so that nobody who reads N has to wait for whoever makes N + 1; that one
//!    writes the same value again), and the members. Only then does it tell the number to anybody. A reader got it from a row that was
//!    written after that, so it reads whole sets.
//! 3. A set does not change. One whose creator failed half-way is never told to anybody; its position reads as 0, or its members as ended.
//! 4. The low halves that are stored are widened against the next position, and against the newest member's id: all that is kept is less than 2^32
//!    positions before the one, which handing out checks, and less than 2^31 ids before the other (see `xids.rs`).
//! 5. Truncation raises the oldest number first, which readers check, then forgets members, then positions.
//! 6. A session is given sets of its own or made since it began to use sets (X in `oldest.rs`), never an older one, equal though it may be: nothing keeps that one
//!    from being truncated before the session's row has its number.

use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;

use slru::{HeapFrames, PageStore, Pool, PoolError, StoreError};
use txnkit_ids::{Lsn, MultiXactId, MultiXactOffset, Xid, Xid32};
use txnkit_sync::Padded;
use txnkit_sync::atomic::{AtomicU64, Ordering};
use txnkit_sync::lock::Mutex;
use txnkit_sync::{broken, inject};

use crate::cache::Cache;
use crate::error::{MultiXactError, RegisterError};
use crate::layout::{MEMBERS_PER_PAGE, OFFSETS_PER_PAGE, Place, member_places, offset_place};
use crate::mode::{Member, Mode};
use crate::next::{Next, WrittenTogether};
use crate::oldest::Oldest;
use crate::traits::{LockSession, LockSets, XidState};
use crate::xids::Xids;

/// The table of lock sets over a store `S` for each of its two kinds of pages.
pub type LockTable<S> = Sets<S, WrittenTogether>;

/// The first position that must stay free while the members from `oldest` on are kept: PostgreSQL keeps a whole file free, so that the oldest and the newest
/// member are never in the same one.
const fn stop_after(oldest: u64) -> u64 {
    let file = 32 * MEMBERS_PER_PAGE;
    (oldest - oldest % (1 << 32) % file).saturating_add((1 << 32) - file)
}

/// Numbers in use at a time: 2^31, less PostgreSQL's 3 million.
const MOST_IDS: u64 = (1 << 31) - 3_000_000;

/// The longest set that makes sense.
const MOST_MEMBERS_OF_ONE: u64 = i32::MAX as u64;

/// A table of lock sets in one of the designs `N`.
pub struct Sets<S, N> {
    offsets: Pool<S, HeapFrames>,
    members: Pool<S, HeapFrames>,
    made: Padded<Mutex<Made>>,
    /// `Made::next_id`, to be read without the lock. Relaxed: whoever knows a number got it from somewhere that was ordered.
    next_id: Padded<AtomicU64>,
    next_offset: AtomicU64,
    oldest_id: AtomicU64,
    oldest_offset: AtomicU64,
    /// `Xids::newest`, to be read without the lock. Relaxed: as above.
    newest_xid: AtomicU64,
    pub(crate) oldest: Oldest,
    cache: Cache,
    next: N,
}

/// What has been handed out.
struct Made {
    next_id: MultiXactId,
    next_offset: MultiXactOffset,
    xids: Xids,
}

/// Which sets there are: what a control file remembers of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// From the oldest set that is kept to the next one to be made.
    pub ids: Range<MultiXactId>,
    /// Where the next set's members begin. Of a file that knows only the low half, any epoch but the first will do.
    pub next_offset: MultiXactOffset,
    /// From the oldest id that can be a member's to the next one to be given to a transaction.
    pub xids: Range<Xid>,
}

/// A set's number and positions.
#[derive(Clone, Copy)]
struct Allocated {
    id: MultiXactId,
    start: MultiXactOffset,
    next_id: MultiXactId,
    next_start: MultiXactOffset,
}

/// The number itself, or the next one if it is never given to a set.
const fn or_next(id: MultiXactId) -> MultiXactId {
    if id.is_special() {
        MultiXactId::new(id.get() + 1)
    } else {
        id
    }
}

/// A position where a set can begin: not one that reads as "not written".
const fn start_at(offset: MultiXactOffset) -> MultiXactOffset {
    if offset.get() as u32 == 0 {
        MultiXactOffset::new(offset.get() + 1)
    } else {
        offset
    }
}

impl<S: PageStore, N: Next> Sets<S, N> {
    /// An empty table for so many sessions. The pools hold so many pages of positions and of members, each rounded up to 16 times a power of two.
    pub fn new(
        offsets: S,
        members: S,
        offset_pages: usize,
        member_pages: usize,
        sessions: usize,
    ) -> Self {
        Self::starting_at(
            offsets,
            members,
            [offset_pages, member_pages],
            sessions,
            MultiXactId::FIRST,
            MultiXactOffset::FIRST,
        )
    }

    /// As [`new`](Self::new), with the first set's number and position, or the next ones if those are never given to a set.
    pub fn starting_at(
        offsets: S,
        members: S,
        pages: [usize; 2],
        sessions: usize,
        first: MultiXactId,
        first_offset: MultiXactOffset,
    ) -> Self {
        let first = or_next(first);
        let next_offset = start_at(first_offset);
        let member_page = member_places(next_offset).0.page;
        let made = Made {
            next_id: first,
            next_offset,
            xids: Xids::none(),
        };
        let pools = [
            Pool::new(
                HeapFrames::new(pages[0]),
                offsets,
                offset_place(first).page,
                offset_place(first).page,
            ),
            Pool::new(HeapFrames::new(pages[1]), members, member_page, member_page),
        ];
        Self::with(pools, sessions, made, first, next_offset)
    }

    /// The sets that are kept in these stores. `members` opens the second one, being told which positions it holds.
    ///
    /// # Errors
    /// [`MultiXactError::Backwards`] when a range in `kept` ends before it begins; [`MultiXactError::Corrupt`] when the first set's position cannot be; what
    /// reading it or opening the members found.
    pub fn open(
        offsets: S,
        members: impl FnOnce(Range<MultiXactOffset>) -> Result<S, StoreError>,
        pages: [usize; 2],
        sessions: usize,
        kept: Kept,
    ) -> Result<Self, MultiXactError> {
        let (oldest, next) = (or_next(kept.ids.start), or_next(kept.ids.end));
        if next < oldest || kept.xids.end < kept.xids.start {
            return Err(MultiXactError::Backwards { kept });
        }
        let next_offset = start_at(kept.next_offset);
        let last = MultiXactId::new(next.get() - 1);
        let offsets = Pool::new(
            HeapFrames::new(pages[0]),
            offsets,
            offset_place(oldest).page,
            offset_place(last.max(oldest)).page,
        );
        let oldest_offset = first_start(&offsets, oldest..next, next_offset)?;
        let page_of = |offset| member_places(offset).0.page;
        let members = Pool::new(
            HeapFrames::new(pages[1]),
            members(oldest_offset..next_offset).map_err(PoolError::Store)?,
            page_of(oldest_offset),
            page_of(MultiXactOffset::new(next_offset.get() - 1)).max(page_of(oldest_offset)),
        );
        let xids = match kept.xids.end.checked_sub(1) {
            Some(newest) if oldest < next => Xids::kept(last, kept.xids.start.min(newest), newest),
            _ => Xids::none(),
        };
        let made = Made {
            next_id: next,
            next_offset,
            xids,
        };
        Ok(Self::with(
            [offsets, members],
            sessions,
            made,
            oldest,
            oldest_offset,
        ))
    }

    fn with(
        [offsets, members]: [Pool<S, HeapFrames>; 2],
        sessions: usize,
        made: Made,
        oldest: MultiXactId,
        oldest_offset: MultiXactOffset,
    ) -> Self {
        Self {
            offsets,
            members,
            next_id: Padded::new(AtomicU64::new(made.next_id.get())),
            next_offset: AtomicU64::new(made.next_offset.get()),
            oldest_id: AtomicU64::new(oldest.get()),
            oldest_offset: AtomicU64::new(oldest_offset.get()),
            newest_xid: AtomicU64::new(made.xids.newest()),
            made: Padded::new(Mutex::new(made)),
            oldest: Oldest::new(sessions),
            cache: Cache::new(),
            next: N::new(),
        }
    }

    /// Writes every changed page to its store and makes it durable.
    ///
    /// # Errors
    /// [`PoolError`]; after a failed sync the table can only be read.
    pub fn flush(&self) -> Result<(), PoolError> {
        self.members.flush()?;
        self.offsets.flush()
    }

    fn oldest_kept(&self) -> MultiXactId {
        MultiXactId::new(self.oldest_id.load(Ordering::Relaxed))
    }

    /// Rules 1 and 4, for these sorted members.
    fn allocate(&self, members: &[Member]) -> Result<Allocated, MultiXactError> {
        let count = members.len() as u64;
        let (oldest_xid, newest_xid) = ends(members)?;
        let mut made = self.made.lock();
        let (id, start) = (made.next_id, made.next_offset);
        let oldest = self.oldest_kept();
        let last = MultiXactId::new(oldest.get().saturating_add(MOST_IDS));
        let exhausted = MultiXactError::IdsExhausted {
            next: id,
            stop: last,
        };
        let next_id = match id.next() {
            Some(next) if id < last => next,
            _ => return Err(exhausted),
        };
        let stop = stop_after(self.oldest_offset.load(Ordering::Relaxed));
        let end = match start.checked_add(count) {
            Some(end) if end.get() < stop => end,
            _ => {
                return Err(MultiXactError::MembersExhausted {
                    asked: count,
                    left: stop.saturating_sub(start.get()).saturating_sub(1),
                });
            }
        };
        made.xids
            .check(oldest, oldest_xid, newest_xid)
            .map_err(|far| far.error(oldest_xid, newest_xid))?;
        let next_start = start_at(end);
        made.next_id = next_id;
        made.next_offset = next_start;
        made.xids.add(id, oldest_xid, newest_xid);
        self.newest_xid.store(made.xids.newest(), Ordering::Relaxed);
        self.next_id.store(next_id.get(), Ordering::Relaxed);
        self.next_offset.store(next_start.get(), Ordering::Relaxed);
        Ok(Allocated {
            id,
            start,
            next_id,
            next_start,
        })
    }

    /// Rule 2.
    fn write(&self, set: Allocated, members: &[Member]) -> Result<(), MultiXactError> {
        self.write_offset(set.id, set.start)?;
        if N::WRITES_NEXT && !broken!("multixact.sets.next-not-written") {
            self.write_offset(set.next_id, set.next_start)?;
        }
        self.next.written();
        for (at, member) in members.iter().enumerate() {
            let (mode, xid) = member_places(MultiXactOffset::new(set.start.get() + at as u64));
            self.members.extend_to(xid.page);
            let mut page = self.members.hold(xid.page)?;
            put(
                &mut page,
                xid,
                u64::from(u32::MAX),
                u64::from(member.xid.low32().get()),
            );
            put(&mut page, mode, 0xFF, member.mode as u64);
        }
        Ok(())
    }

    fn write_offset(&self, id: MultiXactId, start: MultiXactOffset) -> Result<(), PoolError> {
        let place = offset_place(id);
        self.offsets.extend_to(place.page);
        let mut page = self.offsets.hold(place.page)?;
        put(
            &mut page,
            place,
            u64::from(u32::MAX),
            u64::from(start.low32().get()),
        );
        Ok(())
    }

    /// Where the set begins, and how many positions it has.
    fn extent(&self, id: MultiXactId) -> Result<(MultiXactOffset, u64), MultiXactError> {
        let start = read_offset(&self.offsets, id)?.ok_or(MultiXactError::NotWritten { id })?;
        let next = id.next().ok_or(MultiXactError::Invalid { id })?;
        let end = self
            .next
            .wait(id, || match read_offset(&self.offsets, next)? {
                Some(end) => Ok(Some(end)),
                None => Ok(self.end_of_newest(next)),
            })?;
        let len = u64::from(end.wrapping_sub(start));
        if len == 0 || len > MOST_MEMBERS_OF_ONE {
            let what = "it ends where it begins, or before";
            return Err(MultiXactError::Corrupt { id, what });
        }
        let newest = MultiXactOffset::new(self.next_offset.load(Ordering::Relaxed));
        Ok((widen_offset(id, start, newest)?, len))
    }

    /// Where the members begin that are kept when the sets before `oldest` are not: it may be some sets too early, never too late. If its position is not there, since
    /// the set before it failed and its creator is at work or failed too, that of the last set before is taken.
    fn start_of(&self, oldest: MultiXactId) -> Result<MultiXactOffset, MultiXactError> {
        let next_offset = {
            let made = self.made.lock();
            if made.next_id == oldest {
                return Ok(made.next_offset);
            }
            made.next_offset
        };
        let kept = self.oldest_kept();
        let mut at = oldest;
        while at > kept {
            if let Some(low) = read_offset(&self.offsets, at)? {
                return widen_offset(at, low, next_offset);
            }
            at = MultiXactId::new(at.get() - 1);
        }
        Ok(MultiXactOffset::new(
            self.oldest_offset.load(Ordering::Relaxed),
        ))
    }

    /// Where the newest set ends, if `next` has not been made: where it will begin. Unless a creator writes that down, nobody has.
    fn end_of_newest(&self, next: MultiXactId) -> Option<u32> {
        let made = self.made.lock();
        (made.next_id == next).then(|| made.next_offset.low32().get())
    }

    fn read(&self, id: MultiXactId) -> Result<Vec<Member>, MultiXactError> {
        let (start, len) = self.extent(id)?;
        let mut members = Vec::new();
        for at in 0..len {
            members.extend(self.member(id, MultiXactOffset::new(start.get() + at))?);
        }
        Ok(members)
    }

    fn member(
        &self,
        id: MultiXactId,
        at: MultiXactOffset,
    ) -> Result<Option<Member>, MultiXactError> {
        let (mode, xid) = member_places(at);
        let half = (self.members.read(xid.page, xid.word)? >> xid.shift) as u32;
        // The skipped position before a set that would have begun there.
        if half == 0 && at.get() as u32 == 0 {
            return Ok(None);
        }
        let number = (self.members.read(mode.page, mode.word)? >> mode.shift) as u8;
        let what = "a member has no id or no mode";
        let corrupt = MultiXactError::Corrupt { id, what };
        let newest = Xid::new(self.newest_xid.load(Ordering::Relaxed));
        match (
            Xid32::new(half).widen_at_most(newest),
            Mode::from_number(number),
        ) {
            (Ok(xid), Some(mode)) if half != 0 => Ok(Some(Member { xid, mode })),
            _ => Err(corrupt),
        }
    }

    /// A set with these members, which are sorted, for a session that uses sets from `in_use` on.
    fn make(&self, members: &[Member], in_use: MultiXactId) -> Result<MultiXactId, MultiXactError> {
        check_members(members)?;
        // Rule 6.
        let from = if broken!("multixact.sets.cached-before-use") {
            MultiXactId::FIRST
        } else {
            in_use
        };
        if let Some(id) = self.cache.find(members, from.max(self.oldest_kept())) {
            return Ok(id);
        }
        let set = self.allocate(members)?;
        inject!("multixact.sets.allocated");
        self.write(set, members)?;
        self.cache.add(set.id, members);
        Ok(set.id)
    }
}

/// The low half of a set's first position, if it was written.
fn read_offset<S: PageStore>(
    offsets: &Pool<S, HeapFrames>,
    id: MultiXactId,
) -> Result<Option<u32>, PoolError> {
    let place = offset_place(id);
    if place.page > offsets.latest() {
        return Ok(None);
    }
    let word = offsets.read(place.page, place.word)?;
    Ok(Some((word >> place.shift) as u32).filter(|&offset| offset != 0))
}

/// Rule 4, for a position.
fn widen_offset(
    id: MultiXactId,
    low: u32,
    newest: MultiXactOffset,
) -> Result<MultiXactOffset, MultiXactError> {
    let back = u64::from(newest.low32().get().wrapping_sub(low));
    let what = "its members would lie before the first position there is";
    match newest.get().checked_sub(back) {
        Some(offset) => Ok(MultiXactOffset::new(offset)),
        None => Err(MultiXactError::Corrupt { id, what }),
    }
}

/// Where the first of these sets begins that was written: the creator of one before it may have failed.
fn first_start<S: PageStore>(
    offsets: &Pool<S, HeapFrames>,
    ids: Range<MultiXactId>,
    next_offset: MultiXactOffset,
) -> Result<MultiXactOffset, MultiXactError> {
    let mut at = ids.start;
    while at < ids.end {
        if let Some(low) = read_offset(offsets, at)? {
            return widen_offset(at, low, next_offset);
        }
        at = at.next().ok_or(MultiXactError::Invalid { id: at })?;
    }
    Ok(next_offset)
}

fn put<S: PageStore>(
    page: &mut slru::Held<'_, S, HeapFrames>,
    place: Place,
    mask: u64,
    value: u64,
) {
    let word = page.get(place.word) & !(mask << place.shift);
    page.set(place.word, word | value << place.shift, Lsn::INVALID);
}

/// The first and the last member's id.
fn ends(members: &[Member]) -> Result<(Xid, Xid), MultiXactError> {
    match members {
        [first, .., last] => Ok((first.xid, last.xid)),
        [only] => Ok((only.xid, only.xid)),
        [] => Err(MultiXactError::Empty),
    }
}

fn check_members(members: &[Member]) -> Result<(), MultiXactError> {
    let is_update = |member: &&Member| member.mode.is_update();
    if members.iter().filter(is_update).count() > 1 {
        return Err(MultiXactError::TwoUpdaters);
    }
    match members.iter().find(|member| member.xid.is_special()) {
        Some(special) => Err(MultiXactError::BadMember { xid: special.xid }),
        None => Ok(()),
    }
}

impl<S: PageStore, N: Next> LockSets for Sets<S, N> {
    type Session<'a>
        = Session<'a, S, N>
    where
        Self: 'a;

    /// Lock-free.
    fn register(&self) -> Result<Session<'_, S, N>, RegisterError> {
        Ok(Session {
            at: self.oldest.register()?,
            sets: self,
            not_sync: PhantomData,
        })
    }

    fn members(&self, id: MultiXactId) -> Result<Vec<Member>, MultiXactError> {
        let (oldest, next) = (self.oldest_kept(), self.next_id());
        if id.is_special() {
            return Err(MultiXactError::Invalid { id });
        }
        if id < oldest {
            return Err(MultiXactError::TooOld { id, oldest });
        }
        if id >= next {
            return Err(MultiXactError::NotCreated { id, next });
        }
        self.read(id).map_err(|error| {
            // Rule 5: whoever comes upon what truncation has done finds the oldest number raised.
            let oldest = self.oldest_kept();
            if id < oldest && !broken!("multixact.sets.torn-by-truncation") {
                MultiXactError::TooOld { id, oldest }
            } else {
                error
            }
        })
    }

    /// Wait-free.
    fn next_id(&self) -> MultiXactId {
        MultiXactId::new(self.next_id.load(Ordering::Relaxed))
    }

    /// Wait-free: one look at every place.
    fn oldest_in_use(&self) -> MultiXactId {
        MultiXactId::new(self.oldest.compute(self.next_id().get()))
    }

    fn truncate(&self, oldest: MultiXactId) -> Result<(), MultiXactError> {
        let next = self.next_id();
        if oldest > next {
            return Err(MultiXactError::NotCreated { id: oldest, next });
        }
        let oldest = or_next(oldest);
        if oldest <= self.oldest_kept() {
            return Ok(());
        }
        let offset = self.start_of(oldest)?;
        self.oldest_id.fetch_max(oldest.get(), Ordering::Relaxed);
        self.oldest_offset
            .fetch_max(offset.get(), Ordering::Relaxed);
        let member_page = member_places(offset).0.page;
        self.members
            .truncate(member_page.min(self.members.latest()))?;
        let offset_page = oldest.get() / OFFSETS_PER_PAGE;
        self.offsets
            .truncate(offset_page.min(self.offsets.latest()))?;
        Ok(())
    }

    /// Wait-free.
    fn members_in_use(&self) -> u64 {
        let next = self.next_offset.load(Ordering::Relaxed);
        next.saturating_sub(self.oldest_offset.load(Ordering::Relaxed))
    }
}

impl<S, N> fmt::Debug for Sets<S, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sets")
            .field("oldest", &self.oldest_id.load(Ordering::Relaxed))
            .field("next", &self.next_id.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

/// A session of a table of lock sets.
pub struct Session<'a, S: PageStore, N: Next> {
    sets: &'a Sets<S, N>,
    at: usize,
    not_sync: PhantomData<Cell<()>>,
}

impl<S: PageStore, N: Next> Session<'_, S, N> {
    /// From which set on the session uses sets.
    fn in_use(&self) -> MultiXactId {
        MultiXactId::new(self.sets.oldest.of(self.at))
    }
}

impl<S: PageStore, N: Next> LockSession for Session<'_, S, N> {
    /// Lock-free; after the first call in a transaction a load.
    fn begin_use(&mut self) {
        if !self.sets.oldest.is_begun(self.at) {
            self.sets
                .oldest
                .begin(self.at, || self.sets.next_id().get());
        }
    }

    /// Blocks on others that make sets, for a moment, and on the pages' banks.
    fn create(&mut self, members: &[Member]) -> Result<MultiXactId, MultiXactError> {
        self.begin_use();
        let mut sorted = Vec::from(members);
        sorted.sort_unstable();
        sorted.dedup();
        self.sets.make(&sorted, self.in_use())
    }

    fn expand(
        &mut self,
        id: MultiXactId,
        member: Member,
        mut state: impl FnMut(Xid) -> XidState,
    ) -> Result<MultiXactId, MultiXactError> {
        self.begin_use();
        let mut members = self.sets.members(id)?;
        if members.contains(&member) {
            return Ok(id);
        }
        members.retain(|member| match state(member.xid) {
            XidState::Running => true,
            XidState::Committed => member.mode.is_update(),
            XidState::Aborted => false,
        });
        members.push(member);
        members.sort_unstable();
        self.sets.make(&members, self.in_use())
    }

    /// Wait-free.
    fn end(&mut self) {
        self.sets.oldest.end(self.at);
    }
}

impl<S: PageStore, N: Next> Drop for Session<'_, S, N> {
    fn drop(&mut self) {
        self.sets.oldest.leave(self.at);
    }
}

impl<S: PageStore, N: Next> fmt::Debug for Session<'_, S, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("place", &self.at)
            .finish_non_exhaustive()
    }
}
