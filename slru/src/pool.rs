//! Pages in memory: found without a lock, brought in and written back without one held.
//!
//! A *slot* holds one page. Its tag says which, its words are atomics, its state (empty, reading, writing, valid), its dirty bit
//! and its log position belong to the slot's *bank* and change only under the bank's lock, L below. Setters, misses and
//! evictions take L; nobody holds it during I/O.
//!
//! Reader, without L:
//!
//! 1. Load the tag's sequence (Acquire; pairs with 7), then its page. Another page: look at the bank's other places, then miss.
//! 2. Load the word (Relaxed), then `fence(Acquire)`: pairs with the Release fence of 6 and with the Release store of 8.
//! 3. Load the sequence again. Unless it is the same and even, what was read counts for nothing. Then mark the slot as used,
//!    if it is not marked yet: a hit writes at most one byte per pass of the clock.
//!
//! Miss, under L:
//!
//! 4. Search again. A slot that is reading the page: wait for it, then start over. None: choose a victim, in this order: an
//!    empty place (the page's home first), the home if it was not used of late, the clock's choice. Slots with I/O under way and
//!    the latest page are never chosen; if nothing else is there, wait for one of the former.
//! 5. Dirty victim: clear the dirty bit, state writing, drop L, copy the words, then read the log position, write, take L. A set
//!    in between makes the page dirty again, so it is written again; a failed write makes it dirty again, too. Start over.
//! 6. Clean victim: sequence odd, `fence(Release)`, the new page number, state reading, drop L, read the page, store its
//!    words. Whoever sees one of those words sees the odd sequence as well.
//! 7. Take L. Read: sequence even and never used before (Release), state valid. Failed: state empty, so the next one tries again.
//!
//! Set, under L:
//!
//! 8. Find the page as in 4 to 7, raise the slot's log position, then store the word (Release), set the dirty bit. All setters
//!    hold L, so load and store are enough. The word's Release lets the copy in 5, which reads the log position last, see at least the
//!    position that belongs to each word it copied.
//!
//! Pairs, two neighbouring words that hold one entry:
//!
//! 9. Set, under L: make the slot's pair number odd, set both words as in 8, make it even (Release). Whoever sees one of the words sees the odd
//!    number as well, by the word's Release and the fence of 10.
//! 10. Look, without L: as 1 to 3, but also load the pair number before the words (Acquire; pairs with 9: both words are at least as new as the number) and
//!     again after the fence. Unless it is the same and even, read under L.
//!
//! Waiting: the thread that does a slot's I/O takes the slot's own lock before it drops L; who waits drops L, takes and releases
//! that lock, takes L again and checks everything anew. A reader that waited reads under L: no eviction can come between.
//!
//! If the store panics, the slot is left as by a failure and every lock is released.

use txnkit_ids::Lsn;
use txnkit_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use txnkit_sync::lock::{Mutex, MutexGuard};
use txnkit_sync::park::{DefaultPark, Park};
use txnkit_sync::{broken, fence_at, ord};

use crate::frames::{Bank, Frames, NO_PAGE, State};
use crate::page::PAGE_WORDS;
use crate::stats::{Counted, SlruStats};
use crate::{Found, PageBuf, PageStore, StoreError};

/// Why a page could not be had.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolError {
    /// The page was truncated away.
    TooOld,
    /// The store failed.
    Store(StoreError),
    /// An earlier sync failed.
    SyncFailed,
    /// Somebody else is at work and this build cannot wait.
    WouldBlock,
}

impl core::fmt::Display for PoolError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooOld => f.write_str("the page was truncated away"),
            Self::Store(error) => error.fmt(f),
            Self::SyncFailed => f.write_str("an earlier sync failed; open the store again"),
            Self::WouldBlock => f.write_str(
                "another session is at work and waiting is not possible here; call again",
            ),
        }
    }
}

impl core::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

type BankGuard<'p> = MutexGuard<'p, Bank>;

/// A pool of pages over a store: what [`StatusLog`](crate::StatusLog) and its siblings keep their entries in, for whoever has entries of
/// another kind.
///
/// A page is 1024 words of 64 bits, little-endian in the store. Words are read one at a time without a lock, and set under the lock of the page's
/// bank; what a word means, and which words have to be set in which order, is the caller's business. Progress, waiting and failures are those of
/// [`PagedStatusLog`](crate::PagedStatusLog).
pub struct Pool<S, F> {
    frames: F,
    /// The first page that is kept. Only rises.
    oldest: AtomicU64,
    /// The page that is never evicted. Only rises.
    latest: AtomicU64,
    store: S,
    /// Held during a sync; says whether one ever failed.
    syncing: Mutex<bool>,
    /// As `syncing`, to be read without waiting.
    sync_failed: AtomicBool,
    /// Figures that belong to no bank, in the order of `SlruStats`: hits without a lock, existence, flushes, truncations.
    counts: [AtomicU64; 4],
}

const HITS: usize = 0;
const EXISTS: usize = 1;
const FLUSHES: usize = 2;
const TRUNCATES: usize = 3;

/// One slot by its bank and place.
#[derive(Clone, Copy)]
struct Slot {
    bank: usize,
    place: usize,
    index: usize,
}

/// A page that is here and stays here as long as this is held: its bank is locked. Hold one at a time: two pages may be of one bank.
pub struct Held<'p, S, F: Frames> {
    pool: &'p Pool<S, F>,
    bank: BankGuard<'p>,
    slot: Slot,
}

impl<S, F> core::fmt::Debug for Pool<S, F> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pool")
            .field("oldest", &self.oldest())
            .field("latest", &self.latest())
            .finish_non_exhaustive()
    }
}

impl<S, F: Frames> core::fmt::Debug for Held<'_, S, F> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

/// What to do to get a free slot.
enum Victim {
    Take(Slot),
    WriteBack(Slot),
    WaitFor(Slot),
}

impl<S, F> Pool<S, F> {
    txnkit_sync::const_fn! {
        /// A pool in the memory `frames` over the pages `oldest` to `latest` of `store`. Nothing is read yet.
        pub fn new(frames: F, store: S, oldest: u64, latest: u64) -> Self {
            Self {
                frames,
                oldest: AtomicU64::new(oldest),
                latest: AtomicU64::new(latest),
                store,
                syncing: Mutex::new(false),
                sync_failed: AtomicBool::new(false),
                counts: txnkit_sync::array_of!(AtomicU64::new(0); 4),
            }
        }
    }

    /// The store.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// The first page that is kept. Only rises. Wait-free.
    pub fn oldest(&self) -> u64 {
        // Both ends only bound what may be asked for; what a page holds is ordered by its bank's lock.
        self.oldest.load(Ordering::Relaxed)
    }

    /// The latest page, which is never evicted. Only rises. Wait-free.
    pub fn latest(&self) -> u64 {
        self.latest.load(Ordering::Relaxed)
    }

    /// From now on pages up to this one exist, all zeros if they were never written, and the last one of them stays here. Wait-free.
    pub fn extend_to(&self, page: u64) {
        self.latest.fetch_max(page, Ordering::Relaxed);
    }
}

/// Reading without a lock.
impl<S, F: Frames> Pool<S, F> {
    /// The word, if its page is in its home slot.
    #[inline]
    pub(crate) fn hit(&self, page: u64, word: usize) -> Option<u64> {
        self.look(self.home(page), page, word)
    }

    /// The word, if its page is in this slot. Rules 1 to 3.
    #[inline]
    fn look(&self, slot: Slot, page: u64, word: usize) -> Option<u64> {
        let tag = &self.frames.tags()[slot.index];
        // Pairs with the Release store in `publish`: the page's words are at least as new as the tag.
        let before = tag.sequence.load(ord!("slru.pool.look.sequence", Acquire));
        if tag.page.load(Ordering::Relaxed) != page {
            return None;
        }
        let value = self.frames.words()[slot.index * PAGE_WORDS + word].load(Ordering::Relaxed);
        // Pairs with the Release fence in `retire` (a word of the next page comes with the odd sequence) and with the Release store
        // in `set` (what was set before this word is seen by what is read after it).
        fence_at!("slru.pool.look.fence", Acquire);
        if tag.sequence.load(Ordering::Relaxed) != before & !1 {
            return None;
        }
        self.mark(slot);
        Some(value)
    }

    /// The two words from `word` on as one setter left them, if their page is in this slot and nobody sets a pair. Rule 10.
    fn look_pair(&self, slot: Slot, page: u64, word: usize) -> Option<[u64; 2]> {
        let tag = &self.frames.tags()[slot.index];
        let pairs = &self.frames.pairs()[slot.index];
        // As in `look`. One sequence for both words: between two, the page could be set in another slot and come back.
        let before = tag.sequence.load(ord!("slru.pool.look.sequence", Acquire));
        if tag.page.load(Ordering::Relaxed) != page {
            return None;
        }
        // Pairs with the Release store in `set_pair`: the words are at least as new as the number.
        let number = pairs.load(ord!("slru.pool.look_pair.number", Acquire));
        let words = &self.frames.words()[slot.index * PAGE_WORDS..][..PAGE_WORDS];
        let values = [word, word + 1].map(|word| words[word].load(Ordering::Relaxed));
        // As in `look`, and the Release store of a word in `set_pair` makes the number odd for who has seen the word.
        fence_at!("slru.pool.look_pair.fence", Acquire);
        if tag.sequence.load(Ordering::Relaxed) != before & !1
            || pairs.load(Ordering::Relaxed) != number & !1
        {
            return None;
        }
        self.mark(slot);
        Some(values)
    }

    /// Notes that the slot was used: at most one byte a pass of the clock.
    #[inline]
    fn mark(&self, slot: Slot) {
        let mark = &self.frames.marks()[slot.index];
        if mark.load(Ordering::Relaxed) == 0 {
            mark.store(1, Ordering::Relaxed);
        }
    }

    /// The word, if its page is in any slot of its bank.
    pub(crate) fn search(&self, page: u64, word: usize) -> Option<u64> {
        let home = self.home(page);
        (0..F::PLACES).find_map(|place| self.look(self.slot(home.bank, place), page, word))
    }

    #[inline]
    fn home(&self, page: u64) -> Slot {
        let bits = self.frames.bank_bits();
        let bank = page as usize & ((1 << bits) - 1);
        self.slot(bank, (page >> bits) as usize % F::PLACES)
    }

    #[inline]
    fn slot(&self, bank: usize, place: usize) -> Slot {
        Slot {
            bank,
            place,
            index: bank * F::PLACES + place,
        }
    }
}

/// The bank's lock and what happens under it.
impl<S: PageStore, F: Frames> Pool<S, F> {
    /// One word of a page (of 1024), which is brought here if it is not. Without a lock if it is.
    ///
    /// What was set before the word that is found is found by later reads, on whatever page.
    ///
    /// # Errors
    /// [`PoolError`].
    ///
    /// # Panics
    /// When the page has no such word, as indexing a slice does.
    #[inline]
    pub fn read(&self, page: u64, word: usize) -> Result<u64, PoolError> {
        self.read_noting(page, word, || ())
    }

    /// As [`read`](Self::read); calls `on_hit` when no lock was needed.
    #[inline]
    pub(crate) fn read_noting(
        &self,
        page: u64,
        word: usize,
        on_hit: impl Fn(),
    ) -> Result<u64, PoolError> {
        match self.hit(page, word) {
            Some(value) => {
                on_hit();
                Ok(value)
            }
            None => self.read_slowly(page, word, on_hit),
        }
    }

    #[cold]
    fn read_slowly(&self, page: u64, word: usize, on_hit: impl Fn()) -> Result<u64, PoolError> {
        match self.search(page, word) {
            Some(value) => {
                on_hit();
                Ok(value)
            }
            None => Ok(self.hold(page)?.get(word)),
        }
    }

    /// Two neighbouring words, `word` and the one after it, as one [`Held::set_pair`] left them. Without a lock if the page is here and nobody is setting
    /// a pair of it.
    ///
    /// # Errors
    /// [`PoolError`].
    ///
    /// # Panics
    /// When the page has no such words, as indexing a slice does.
    pub fn read_pair(&self, page: u64, word: usize) -> Result<[u64; 2], PoolError> {
        self.read_pair_noting(page, word, || ())
    }

    /// As [`read_pair`](Self::read_pair); calls `on_hit` when no lock was needed.
    #[inline]
    pub(crate) fn read_pair_noting(
        &self,
        page: u64,
        word: usize,
        on_hit: impl Fn(),
    ) -> Result<[u64; 2], PoolError> {
        let home = self.home(page);
        let here = self.look_pair(home, page, word).or_else(|| {
            (0..F::PLACES).find_map(|place| self.look_pair(self.slot(home.bank, place), page, word))
        });
        if let Some(pair) = here {
            on_hit();
            return Ok(pair);
        }
        let held = self.hold(page)?;
        Ok([held.get(word), held.get(word + 1)])
    }

    /// Brings the page here if it is not, and holds it. Blocks on its bank, and on the I/O of the page or of the one it replaces.
    ///
    /// # Errors
    /// [`PoolError`].
    #[inline]
    pub fn hold(&self, page: u64) -> Result<Held<'_, S, F>, PoolError> {
        // Rules 4 to 7.
        let home = self.home(page);
        let mut bank = self.lock(home.bank)?;
        if matches!(bank.states[home.place], State::Valid | State::Writing)
            && self.page_of(home) == page
            && page >= self.oldest()
        {
            bank.stats.blks_hit += 1;
            return Ok(Held {
                pool: self,
                bank,
                slot: home,
            });
        }
        self.hold_missing(bank, home, page)
    }

    #[cold]
    fn hold_missing<'p>(
        &'p self,
        mut bank: BankGuard<'p>,
        home: Slot,
        page: u64,
    ) -> Result<Held<'p, S, F>, PoolError> {
        if page == NO_PAGE {
            return Err(PoolError::Store(StoreError::Full { page }));
        }
        let mut brought = false;
        loop {
            if page < self.oldest() {
                return Err(PoolError::TooOld);
            }
            bank = match self.find(home, page) {
                Some(slot) if bank.states[slot.place] == State::Reading => self.wait(bank, slot)?,
                Some(slot) => {
                    // Who brought a page in has counted that.
                    bank.stats.blks_hit += u64::from(!brought);
                    return Ok(Held {
                        pool: self,
                        bank,
                        slot,
                    });
                }
                None => match self.victim(&mut bank, home) {
                    Victim::Take(slot) => {
                        brought = true;
                        self.read_in(bank, slot, page)?
                    }
                    Victim::WriteBack(slot) => self.write_back(bank, slot)?,
                    Victim::WaitFor(slot) => self.wait(bank, slot)?,
                },
            };
        }
    }

    #[inline]
    fn lock(&self, bank: usize) -> Result<BankGuard<'_>, PoolError> {
        lock(&self.frames.banks()[bank])
    }

    /// The slot that holds or awaits the page. Under the bank's lock.
    fn find(&self, home: Slot, page: u64) -> Option<Slot> {
        let mut slots = (0..F::PLACES).map(|place| self.slot(home.bank, place));
        slots.find(|&slot| self.page_of(slot) == page)
    }

    /// The page a slot holds or awaits. Under the bank's lock, which orders it.
    #[inline]
    fn page_of(&self, slot: Slot) -> u64 {
        self.frames.tags()[slot.index].page.load(Ordering::Relaxed)
    }

    /// Rule 4's choice. Under the bank's lock.
    fn victim(&self, bank: &mut Bank, home: Slot) -> Victim {
        let at = |place| self.slot(home.bank, place);
        let places = (0..F::PLACES).map(|i| at((home.place + i) % F::PLACES));
        if let Some(empty) = places
            .clone()
            .find(|slot| bank.states[slot.place] == State::Empty)
        {
            return Victim::Take(empty);
        }
        let latest = self.latest();
        let idle = |bank: &Bank, slot: Slot| {
            bank.states[slot.place] == State::Valid && self.page_of(slot) != latest
        };
        let mark = |slot: Slot| &self.frames.marks()[slot.index];
        let unused =
            |bank: &Bank, slot| idle(bank, slot) && mark(slot).load(Ordering::Relaxed) == 0;
        let mut chosen = unused(bank, home).then_some(home);
        // Once round clears every mark, so the second round finds a slot unless readers mark them all again.
        for _ in 0..2 * F::PLACES {
            if chosen.is_some() {
                break;
            }
            let slot = at(bank.hand);
            bank.hand = (bank.hand + 1) % F::PLACES;
            if unused(bank, slot) {
                chosen = Some(slot);
            } else {
                mark(slot).store(0, Ordering::Relaxed);
            }
        }
        match chosen.or_else(|| places.clone().find(|&slot| idle(bank, slot))) {
            Some(slot) if bank.dirty & 1 << slot.place != 0 => Victim::WriteBack(slot),
            Some(slot) => Victim::Take(slot),
            // Every place but the latest page's has I/O under way, and there are at least two places.
            None => {
                let busy = |slot: &Slot| {
                    matches!(bank.states[slot.place], State::Reading | State::Writing)
                };
                Victim::WaitFor(places.clone().find(busy).unwrap_or(home))
            }
        }
    }

    /// Waits until the slot's I/O is over, or nearly so. Everything may have changed then.
    fn wait<'p>(&'p self, bank: BankGuard<'p>, slot: Slot) -> Result<BankGuard<'p>, PoolError> {
        drop(bank);
        if !DefaultPark::CAN_BLOCK {
            return Err(PoolError::WouldBlock);
        }
        drop(self.frames.io()[slot.index].lock());
        self.lock(slot.bank)
    }

    /// Rule 6: what readers without a lock find in the slot counts for nothing from here on. Under the bank's lock.
    fn retire(&self, bank: &mut Bank, slot: Slot, next_page: u64) {
        let tag = &self.frames.tags()[slot.index];
        tag.sequence
            .store(tag.sequence.load(Ordering::Relaxed) | 1, Ordering::Relaxed);
        // Pairs with the Acquire fence in `look`: who reads a word stored later finds the sequence odd or moved on.
        fence_at!("slru.pool.retire.fence", Release);
        tag.page.store(next_page, Ordering::Relaxed);
        bank.dirty &= !(1 << slot.place);
        bank.states[slot.place] = State::Empty;
        self.frames.logs()[slot.index].store(0, Ordering::Relaxed);
    }

    /// Rule 7: the slot's page is there for everybody. Under the bank's lock.
    fn publish(&self, bank: &mut Bank, slot: Slot) {
        let sequence = &self.frames.tags()[slot.index].sequence;
        let odd = sequence.load(Ordering::Relaxed);
        let even = if broken!("slru.pool.publish.same-sequence") {
            odd - 1
        } else {
            odd + 1
        };
        self.frames.marks()[slot.index].store(1, Ordering::Relaxed);
        // Pairs with the Acquire load in `look`.
        sequence.store(even, ord!("slru.pool.publish.sequence", Release));
        bank.states[slot.place] = State::Valid;
    }

    /// Rules 6 and 7.
    fn read_in<'p>(
        &'p self,
        mut bank: BankGuard<'p>,
        slot: Slot,
        page: u64,
    ) -> Result<BankGuard<'p>, PoolError> {
        self.check_usable()?;
        self.retire(&mut bank, slot, page);
        bank.states[slot.place] = State::Reading;
        let io = self.frames.io()[slot.index].lock();
        drop(bank);

        let fallback = OnUnwind(Some(|| drop(self.end_read(slot, false))));
        let mut copy = PageBuf::zeroed();
        let found = self.store.read(page, &mut copy);
        if found == Ok(Found::NeverWritten) {
            copy = PageBuf::zeroed();
        }
        if found.is_ok() {
            for (to, value) in self.page_words(slot).iter().zip(copy.words()) {
                to.store(value, Ordering::Relaxed);
            }
        }
        fallback.defuse();

        let mut bank = self.end_read(slot, found.is_ok());
        drop(io);
        match found {
            Ok(Found::Page) => bank.stats.blks_read += 1,
            Ok(Found::NeverWritten) => bank.stats.blks_zeroed += 1,
            Err(error) => return Err(PoolError::Store(error)),
        }
        Ok(bank)
    }

    fn end_read(&self, slot: Slot, read: bool) -> BankGuard<'_> {
        let mut bank = self.frames.banks()[slot.bank].lock();
        if read {
            self.publish(&mut bank, slot);
        } else if !broken!("slru.pool.read.left-reading") {
            self.retire(&mut bank, slot, NO_PAGE);
        }
        bank
    }

    /// Rule 5. The page is in the slot afterwards, dirty or not.
    fn write_back<'p>(
        &'p self,
        mut bank: BankGuard<'p>,
        slot: Slot,
    ) -> Result<BankGuard<'p>, PoolError> {
        self.check_usable()?;
        let page = self.page_of(slot);
        bank.states[slot.place] = State::Writing;
        if !broken!("slru.pool.write.clear-after") {
            bank.dirty &= !(1 << slot.place);
        }
        let io = self.frames.io()[slot.index].lock();
        drop(bank);

        let fallback = OnUnwind(Some(|| drop(self.end_write(slot, false))));
        let mut copy = PageBuf::zeroed();
        copy.fill(
            self.page_words(slot)
                .iter()
                .map(|word| word.load(Ordering::Relaxed)),
        );
        // Pairs with the Release store in `set`: the log position read now covers every word copied.
        fence_at!("slru.pool.write.fence", Acquire);
        let log = Lsn::new(self.frames.logs()[slot.index].load(Ordering::Relaxed));
        let written = self.store.write(page, &copy, log);
        fallback.defuse();

        let mut bank = self.end_write(slot, written.is_ok());
        drop(io);
        bank.stats.blks_written += u64::from(written.is_ok());
        written.map(|()| bank).map_err(PoolError::Store)
    }

    fn end_write(&self, slot: Slot, written: bool) -> BankGuard<'_> {
        let mut bank = self.frames.banks()[slot.bank].lock();
        bank.states[slot.place] = State::Valid;
        let bit = 1 << slot.place;
        if !written && !broken!("slru.pool.write.failed-is-clean") {
            bank.dirty |= bit;
        }
        if broken!("slru.pool.write.clear-after") {
            bank.dirty &= !bit;
        }
        if bank.dirty & bit == 0 {
            self.frames.logs()[slot.index].store(0, Ordering::Relaxed);
        }
        bank
    }

    fn page_words(&self, slot: Slot) -> &[AtomicU64] {
        &self.frames.words()[slot.index * PAGE_WORDS..][..PAGE_WORDS]
    }

    /// Whether the store can still be used: after a failed sync nobody knows what it holds, so nothing more is read from it or written to it.
    ///
    /// # Errors
    /// [`PoolError::SyncFailed`].
    pub fn check_usable(&self) -> Result<(), PoolError> {
        if self.sync_failed.load(Ordering::Relaxed) {
            Err(PoolError::SyncFailed)
        } else {
            Ok(())
        }
    }
}

/// Whole-pool work.
impl<S: PageStore, F: Frames> Pool<S, F> {
    /// Writes every dirty page and makes the store durable.
    ///
    /// # Errors
    /// [`PoolError`]; what could not be written is written later.
    pub fn flush(&self) -> Result<(), PoolError> {
        self.counts[FLUSHES].fetch_add(1, Ordering::Relaxed);
        self.each_slot(|slot| self.clean(slot))?;
        let mut failed = lock(&self.syncing)?;
        if *failed {
            return Err(PoolError::SyncFailed);
        }
        // A store that panics has failed as well.
        *failed = true;
        let synced = self.store.sync();
        *failed = synced.is_err();
        self.sync_failed.store(*failed, Ordering::Relaxed);
        synced.map_err(PoolError::Store)
    }

    /// Writes the slot's page if it is dirty. What was set before the call is written when it returns.
    fn clean(&self, slot: Slot) -> Result<(), PoolError> {
        let mut bank = self.lock(slot.bank)?;
        // A write under way may have copied the page before the last set; then the page is dirty once it is over.
        while bank.states[slot.place] == State::Writing {
            bank = self.wait(bank, slot)?;
        }
        if bank.dirty & 1 << slot.place != 0 {
            drop(self.write_back(bank, slot)?);
        }
        Ok(())
    }

    /// Forgets every page before `first`, here and in the store.
    ///
    /// # Errors
    /// [`PoolError`]; call again.
    pub fn truncate(&self, first: u64) -> Result<(), PoolError> {
        self.check_usable()?;
        self.counts[TRUNCATES].fetch_add(1, Ordering::Relaxed);
        // First nobody brings such a page in any more (checked under the bank's lock), then those that are here go, then the store's.
        self.oldest.fetch_max(first, Ordering::Relaxed);
        self.each_slot(|slot| self.forget(slot, first))?;
        self.store.truncate(first).map_err(PoolError::Store)
    }

    fn forget(&self, slot: Slot, first: u64) -> Result<(), PoolError> {
        let mut bank = self.lock(slot.bank)?;
        while self.page_of(slot) < first {
            match bank.states[slot.place] {
                State::Reading | State::Writing => bank = self.wait(bank, slot)?,
                State::Valid | State::Empty => self.retire(&mut bank, slot, NO_PAGE),
            }
        }
        Ok(())
    }

    /// Does the store have the page? It was written then, whatever the pool holds of it: flush first to know of every page that was set. Reads the page
    /// into a buffer of its own.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn exists(&self, page: u64) -> Result<bool, PoolError> {
        self.check_usable()?;
        self.counts[EXISTS].fetch_add(1, Ordering::Relaxed);
        if page < self.oldest() {
            return Ok(false);
        }
        let found = self.store.read(page, &mut PageBuf::zeroed());
        Ok(found.map_err(PoolError::Store)? == Found::Page)
    }

    /// What happened so far. Blocks on each bank's lock in turn, so the figures are not of one instant.
    ///
    /// # Errors
    /// [`PoolError::WouldBlock`], only without `std`.
    pub fn stats(&self) -> Result<SlruStats, PoolError> {
        let count = |at: usize| self.counts[at].load(Ordering::Relaxed);
        let mut sum = SlruStats {
            blks_hit: count(HITS),
            blks_exists: count(EXISTS),
            flushes: count(FLUSHES),
            truncates: count(TRUNCATES),
            ..SlruStats::NONE
        };
        for bank in 0..self.frames.banks().len() {
            sum += self.lock(bank)?.stats;
        }
        Ok(sum)
    }

    fn each_slot(&self, mut f: impl FnMut(Slot) -> Result<(), PoolError>) -> Result<(), PoolError> {
        for bank in 0..self.frames.banks().len() {
            for place in 0..F::PLACES {
                f(self.slot(bank, place))?;
            }
        }
        Ok(())
    }

    /// The log position that has to be durable before the page may be written; none if it is not here or was written since.
    pub(crate) fn log_of(&self, page: u64) -> Result<Lsn, PoolError> {
        let home = self.home(page);
        let _bank = self.lock(home.bank)?;
        let log = self.find(home, page).map_or(0, |slot| {
            self.frames.logs()[slot.index].load(Ordering::Relaxed)
        });
        Ok(Lsn::new(log))
    }
}

impl<S: PageStore, F: Frames> Held<'_, S, F> {
    /// Its number.
    pub fn page(&self) -> u64 {
        self.pool.page_of(self.slot)
    }

    /// One of its words.
    ///
    /// # Panics
    /// When there is no such word.
    #[inline]
    pub fn get(&self, word: usize) -> u64 {
        let value = load_to_set(&self.pool.frames.words()[self.slot.index * PAGE_WORDS + word]);
        // A hit through the lock counts as a use.
        self.pool.frames.marks()[self.slot.index].store(1, Ordering::Relaxed);
        value
    }

    /// Sets one of its words; the log must be durable up to `log` before the page is written to the store.
    ///
    /// # Panics
    /// When there is no such word.
    #[inline]
    pub fn set(&mut self, word: usize, value: u64, log: Lsn) {
        // Rule 8.
        let frames = &self.pool.frames;
        let page_log = &frames.logs()[self.slot.index];
        if log.get() > load_to_set(page_log) {
            page_log.store(log.get(), Ordering::Relaxed);
        }
        // Pairs with the Acquire fences in `look` and `write_back`.
        frames.words()[self.slot.index * PAGE_WORDS + word]
            .store(value, ord!("slru.pool.set.word", Release));
        if !broken!("slru.pool.set.clean") {
            self.bank.dirty |= 1 << self.slot.place;
        }
    }
}

impl<S: PageStore, F: Frames> Held<'_, S, F> {
    /// Sets two neighbouring words, `word` and the one after it: [`Pool::read_pair`] finds both or neither.
    ///
    /// # Panics
    /// When there are no such words.
    pub fn set_pair(&mut self, word: usize, values: [u64; 2], log: Lsn) {
        // Rule 9.
        let pairs = &self.pool.frames.pairs()[self.slot.index];
        let even = load_to_set(pairs);
        if !broken!("slru.pool.set_pair.not-odd") {
            // The words' own Release orders it before them.
            pairs.store(even + 1, Ordering::Relaxed);
        }
        self.set(word, values[0], log);
        self.set(word + 1, values[1], log);
        // Pairs with the Acquire load in `look_pair`.
        pairs.store(even + 2, ord!("slru.pool.set_pair.number", Release));
    }
}

impl<S, F> Counted for Pool<S, F> {
    fn add_hits(&self, hits: u64) {
        self.counts[HITS].fetch_add(hits, Ordering::Relaxed);
    }
}

/// Reads what may be stored next, under the lock that all who store hold.
#[inline]
fn load_to_set(value: &AtomicU64) -> u64 {
    if txnkit_sync::MODEL {
        // To loom a thread's own load hides an earlier load by another thread, and with it the interleaving in which the store
        // that follows comes before that one. A read-modify-write hides nothing.
        value.fetch_or(0, Ordering::Relaxed)
    } else {
        value.load(Ordering::Relaxed)
    }
}

/// Takes a lock, waiting for it where this build can.
#[inline]
fn lock<T>(lock: &Mutex<T>) -> Result<MutexGuard<'_, T>, PoolError> {
    if DefaultPark::CAN_BLOCK {
        Ok(lock.lock())
    } else {
        lock.try_lock().ok_or(PoolError::WouldBlock)
    }
}

/// Runs its closure unless defused: what is left to do when the store panics.
struct OnUnwind<F: FnMut()>(Option<F>);

impl<F: FnMut()> OnUnwind<F> {
    fn defuse(mut self) {
        self.0 = None;
    }
}

impl<F: FnMut()> Drop for OnUnwind<F> {
    fn drop(&mut self) {
        if let Some(f) = &mut self.0 {
            f();
        }
    }
}
