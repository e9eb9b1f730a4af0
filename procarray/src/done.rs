//! The done map: one bit per id, 1 = ended, in a sliding window, and a short list of older ids that still run.
//!
//! # Words
//!
//! *next*: the first id not handed out. *count*: how many times the map was changed, times two; odd while it is being
//! changed. *latest*: the newest id that has ended. *oldest*: the oldest that has not. *base*: the first word number (id / 64)
//! the window holds. *old list*: (word number, bits of the ids still running), ascending, for words before base.
//!
//! # Rules
//!
//! 1. An id is handed out by one `fetch_add` on next. From then on it *is* running, whether or not its owner stored
//!    anything: an id up to latest whose bit is 0 runs, and ids after latest count as running by definition. Nothing can be lost
//!    between handing out and seeing.
//! 2. Only the leader (see `ends`) writes, so plain load-and-store is enough. A change is: count odd; `fence(Release)`;
//!    set bits, slide, raise latest and oldest; count even (Release).
//! 3. A reader loads count (Acquire, even, else again), reads what it wants (Relaxed), `fence(Acquire)`, and loads count again:
//!    unchanged, the values belong together. The fence of 3 pairs with the fence of 2: who saw a value of a later change sees its
//!    odd count. The Acquire pairs with the Release of the even count. Until the second load the values may be torn, so every index
//!    derived from them is masked or bounded.
//! 4. Same count, same set; a smaller count, a subset of the ended ids. So all snapshots are ordered by inclusion.
//! 5. After a few failures a reader asks the leader to read for it: a writer without pause must not starve it, and a leader
//!    that lost its processor must not make it spin.
//! 6. The window slides when an id beyond it ends, by whole words. A leaving word with running ids goes to the old list,
//!    whose version then moves; so a session copies the list only when it changed.
//! 7. When the old list is full, words are dropped that hold no top-level id, and `lossy_below` rises above them:
//!    an id below it that is in no list may be a running child, and readers answer `AskParent`. Top-level ids are never
//!    dropped: a session holds at most one and the list has a place for each. To know them the leader reads every
//!    slot's `top`, and waits for a session that is just being handed an id (bounded by that session's two instructions).
//!
//! Who may break them: before the array is shared, the constructor. And `oldest` alone may be read without rule 3: it is
//! one word and only rises, and the horizon protocol (see `horizon`) does not care whether a change has been completed.

use txnkit_sync::atomic::{AtomicU64, Ordering};
use txnkit_sync::{Padded, broken, fence_at, hint, inject, ord};

use crate::form::{Buffer, Form};
use crate::snapshot::Snapshot;
use crate::traits::Membership;

/// Ids in a word.
pub(crate) const BITS: u64 = 64;

/// The number of the word that holds `xid`.
#[inline]
pub(crate) fn word_of(xid: u64) -> u64 {
    xid / BITS
}

/// The bit of `xid` in its word.
#[inline]
pub(crate) fn bit_of(xid: u64) -> u64 {
    1 << (xid % BITS)
}

/// A word none of whose ids has ended, except those that are never handed out: low halves 0 to 2 mean something else to
/// PostgreSQL's 32-bit formats, so they are born ended.
pub(crate) const fn fresh(word: u64) -> u64 {
    if (word * BITS) as u32 == 0 { 0b111 } else { 0 }
}

/// `xid`, or the next id that is not special.
pub(crate) const fn skip_special(xid: u64) -> u64 {
    xid + if (xid as u32) < 3 {
        3 - (xid as u32) as u64
    } else {
        0
    }
}

/// What is known of an id after the newest one that has ended.
pub(crate) fn not_ended(xid: u64) -> Membership {
    if skip_special(xid) == xid {
        Membership::Running
    } else {
        Membership::Completed
    }
}

/// One word that left the window with running ids in it.
#[derive(Debug)]
pub struct OldWord {
    word: AtomicU64,
    running: AtomicU64,
}

txnkit_sync::const_fn! {
    /// An unused place of the old list.
    pub(crate) fn new_old_word() -> OldWord {
        OldWord { word: AtomicU64::new(0), running: AtomicU64::new(0) }
    }
}

/// What every snapshot reads and every end writes, on one line.
#[derive(Debug)]
struct Head {
    count: AtomicU64,
    latest: AtomicU64,
    oldest: AtomicU64,
    base: AtomicU64,
    old_len: AtomicU64,
    old_version: AtomicU64,
    lossy_below: AtomicU64,
}

/// The shared map; all writing methods are the leader's.
pub(crate) struct DoneMap<F: Form> {
    head: Padded<Head>,
    window: Padded<F::Window>,
    old: F::OldWords,
}

impl<F: Form> DoneMap<F> {
    txnkit_sync::const_fn! {
        /// A map in which every id before `first` has ended, over memory given by the caller; `window` stands as
        /// nothing after `first` has ended.
        pub(crate) fn new(first: u64, window: F::Window, old: F::OldWords) -> Self {
            Self {
                head: Padded::new(Head {
                    count: AtomicU64::new(0),
                    latest: AtomicU64::new(first - 1),
                    oldest: AtomicU64::new(first),
                    base: AtomicU64::new(first / BITS),
                    old_len: AtomicU64::new(0),
                    old_version: AtomicU64::new(0),
                    lossy_below: AtomicU64::new(0),
                }),
                window: Padded::new(window),
                old,
            }
        }
    }

    /// The count that the newest complete state has.
    ///
    /// While a change is under way this is the count before it: no end in that change has returned yet.
    #[inline]
    pub(crate) fn stable_count(&self) -> u64 {
        // Acquire pairs with the Release of the even count in `change`.
        self.head
            .count
            .load(ord!("procarray.done.count-load", Acquire))
            & !1
    }

    /// The oldest id that has not ended; only rises.
    #[inline]
    pub(crate) fn oldest(&self) -> u64 {
        // Acquire pairs with the Release store in `raise_oldest`: what ended before is readable.
        self.head.oldest.load(Ordering::Acquire)
    }

    /// Runs `read` until its values belong together (rule 3), giving up after `attempts`.
    pub(crate) fn validated<R>(
        &self,
        attempts: u32,
        mut read: impl FnMut() -> R,
    ) -> Option<(u64, R)> {
        for _ in 0..attempts {
            inject!("procarray.done.attempt");
            // Acquire pairs with the Release of the even count in `change`.
            let count = self
                .head
                .count
                .load(ord!("procarray.done.count-load", Acquire));
            if count.is_multiple_of(2) || broken!("procarray.done.odd-accepted") {
                let value = read();
                inject!("procarray.done.read");
                // Pairs with the Release fence in `change`.
                fence_at!("procarray.done.reader-fence", Acquire);
                if self.head.count.load(Ordering::Relaxed) == count
                    || broken!("procarray.done.no-recheck")
                {
                    return Some((count, value));
                }
            }
            hint::spin_loop();
        }
        None
    }

    /// Copies the running set; the caller validates, or is the leader, and then calls [`Snapshot::validate`] with the version
    /// of the old list that is returned. Not before: a torn list would pass for a whole one.
    pub(crate) fn copy_into(&self, copy: &mut Snapshot<F>) -> u64 {
        let head = &*self.head;
        let window = self.window.as_ref();
        copy.xmin = head.oldest.load(Ordering::Relaxed);
        let latest = head.latest.load(Ordering::Relaxed);
        copy.latest = latest;
        copy.base = head.base.load(Ordering::Relaxed);
        copy.lossy_below = head.lossy_below.load(Ordering::Relaxed);
        let from = copy.base.max(word_of(copy.xmin));
        // Torn values can make the range any length; a validated one fits the window.
        let len = (word_of(latest) + 1)
            .saturating_sub(from)
            .min(window.len() as u64);
        let words = copy.words.as_mut();
        for word in from..from + len {
            let at = word as usize & (words.len() - 1);
            words[at] = window[at].load(Ordering::Relaxed);
        }
        let version = head.old_version.load(Ordering::Relaxed);
        if version != copy.old_version {
            self.copy_old(copy);
            if broken!("procarray.done.torn-old-kept") {
                copy.old_version = version;
            }
        }
        version
    }

    #[cold]
    fn copy_old(&self, copy: &mut Snapshot<F>) {
        copy.old.clear();
        for old in self.old_words() {
            copy.old.push((
                old.word.load(Ordering::Relaxed),
                old.running.load(Ordering::Relaxed),
            ));
        }
    }

    fn old_words(&self) -> &[OldWord] {
        let old = self.old.as_ref();
        &old[..old
            .len()
            .min(self.head.old_len.load(Ordering::Relaxed) as usize)]
    }

    /// Has `xid` ended? The caller validates, or is the leader.
    pub(crate) fn probe(&self, xid: u64) -> Membership {
        let head = &*self.head;
        let window = self.window.as_ref();
        if xid < head.oldest.load(Ordering::Relaxed) {
            return Membership::Completed;
        }
        if xid > head.latest.load(Ordering::Relaxed) {
            return not_ended(xid);
        }
        if word_of(xid) >= head.base.load(Ordering::Relaxed) {
            let word = window[word_of(xid) as usize & (window.len() - 1)].load(Ordering::Relaxed);
            return if word & bit_of(xid) == 0 {
                Membership::Running
            } else {
                Membership::Completed
            };
        }
        match self.find_old(word_of(xid)) {
            Ok(at) if self.old.as_ref()[at].running.load(Ordering::Relaxed) & bit_of(xid) != 0 => {
                Membership::Running
            }
            Err(_) if xid < head.lossy_below.load(Ordering::Relaxed) => Membership::AskParent,
            _ => Membership::Completed,
        }
    }

    fn find_old(&self, word: u64) -> Result<usize, usize> {
        self.old_words()
            .binary_search_by_key(&word, |old| old.word.load(Ordering::Relaxed))
    }

    /// Leader: one change (rule 2). `mark` calls [`Change::end`] for every id that leaves the running set.
    pub(crate) fn change(&self, holds_top: HoldsTop<'_>, mark: impl FnOnce(&mut Change<'_, F>)) {
        let count = self.head.count.load(Ordering::Relaxed);
        self.head.count.store(count + 1, Ordering::Relaxed);
        // Pairs with the Acquire fence in `validated`: who reads a bit set below reads the odd count after it.
        fence_at!("procarray.done.writer-fence", Release);
        inject!("procarray.done.odd");
        mark(&mut Change {
            map: self,
            holds_top,
        });
        self.raise_oldest();
        // Pairs with the Acquire loads of the count.
        self.head
            .count
            .store(count + 2, ord!("procarray.done.count-even", Release));
    }

    /// Leader: the count of the state that stands now.
    pub(crate) fn count(&self) -> u64 {
        self.head.count.load(Ordering::Relaxed)
    }

    /// Moves oldest to the first id that has not ended.
    fn raise_oldest(&self) {
        let oldest = self.head.oldest.load(Ordering::Relaxed);
        let raised = match self.old_words().first() {
            Some(old) => {
                let running = old.running.load(Ordering::Relaxed);
                old.word.load(Ordering::Relaxed) * BITS + u64::from(running.trailing_zeros())
            }
            None => self.first_zero(word_of(oldest).max(self.head.base.load(Ordering::Relaxed))),
        };
        // With lossy words the first listed id is a top-level one and older than every dropped child of its own; the
        // tops of all running children are listed, so nothing older runs.
        if raised > oldest {
            // Pairs with the Acquire load in `oldest`.
            self.head.oldest.store(raised, Ordering::Release);
        }
    }

    /// The first id at or after `word` whose bit is 0; the first id beyond the window if there is none in it.
    fn first_zero(&self, mut word: u64) -> u64 {
        let window = self.window.as_ref();
        let end = self.head.base.load(Ordering::Relaxed) + window.len() as u64;
        while word < end {
            let running = !window[word as usize & (window.len() - 1)].load(Ordering::Relaxed);
            if running != 0 {
                return word * BITS + u64::from(running.trailing_zeros());
            }
            word += 1;
        }
        skip_special(end * BITS)
    }
}

/// Does a session hold a top-level id in this word? Asked for only when old words must be dropped.
pub(crate) type HoldsTop<'a> = &'a dyn Fn(u64) -> bool;

/// A change under way: the leader's right to write.
pub(crate) struct Change<'a, F: Form> {
    map: &'a DoneMap<F>,
    holds_top: HoldsTop<'a>,
}

impl<F: Form> Change<'_, F> {
    /// Takes the ids from `first` on, `len` of them, out of the running set.
    pub(crate) fn end_run(&mut self, first: u64, len: u64) {
        for xid in first..first + len {
            self.end(xid);
        }
    }

    /// Takes one id out of the running set.
    #[inline]
    pub(crate) fn end(&mut self, xid: u64) {
        let map = self.map;
        let window = map.window.as_ref();
        let word = word_of(xid);
        let base = map.head.base.load(Ordering::Relaxed);
        if word >= base + window.len() as u64 {
            self.slide(word);
        }
        if word < map.head.base.load(Ordering::Relaxed) {
            self.end_old(xid);
        } else {
            let at = &window[word as usize & (window.len() - 1)];
            at.store(at.load(Ordering::Relaxed) | bit_of(xid), Ordering::Relaxed);
        }
        if xid > map.head.latest.load(Ordering::Relaxed) {
            map.head.latest.store(xid, Ordering::Relaxed);
        }
    }

    #[cold]
    fn end_old(&mut self, xid: u64) {
        // Not listed: a child whose word was dropped (rule 7); it passes for running for as long as its top-level id does.
        let Ok(at) = self.map.find_old(word_of(xid)) else {
            return;
        };
        let old = &self.map.old_words()[at];
        let running = old.running.load(Ordering::Relaxed) & !bit_of(xid);
        old.running.store(running, Ordering::Relaxed);
        if running == 0 {
            self.retain(|i, _| i != at);
        }
        self.touch_old();
    }

    /// Moves the window so that `word` is its last.
    #[cold]
    fn slide(&mut self, word: u64) {
        let map = self.map;
        let window = map.window.as_ref();
        let len = window.len() as u64;
        let base = map.head.base.load(Ordering::Relaxed);
        let new_base = word + 1 - len;
        for leaving in base..new_base {
            // A word that the window never held has only running ids.
            let done = if leaving < base + len {
                window[leaving as usize & (window.len() - 1)].load(Ordering::Relaxed)
            } else {
                fresh(leaving)
            };
            if done != u64::MAX {
                self.push_old(leaving, !done);
            }
        }
        for entering in new_base.max(base + len)..=word {
            window[entering as usize & (window.len() - 1)]
                .store(fresh(entering), Ordering::Relaxed);
        }
        map.head.base.store(new_base, Ordering::Relaxed);
    }

    fn push_old(&mut self, word: u64, running: u64) {
        if broken!("procarray.done.old-forgotten") {
            return;
        }
        if self.map.old_words().len() == self.map.old.as_ref().len() {
            self.drop_old();
        }
        let at = self.map.old_words().len();
        match self.map.old.as_ref().get(at) {
            Some(old) => {
                old.word.store(word, Ordering::Relaxed);
                old.running.store(running, Ordering::Relaxed);
                self.map
                    .head
                    .old_len
                    .store(at as u64 + 1, Ordering::Relaxed);
            }
            // Every place holds a top-level id, so no session is left to have one in this word.
            None => self.lose(word),
        }
        self.touch_old();
    }

    /// Makes room by dropping words in which no top-level id runs.
    #[cold]
    fn drop_old(&mut self) {
        let holds_top = self.holds_top;
        let mut lost = None;
        self.retain(|_, word| {
            let keep = holds_top(word);
            if !keep {
                lost = Some(word);
            }
            keep
        });
        if let Some(last) = lost {
            self.lose(last);
        }
    }

    fn lose(&mut self, word: u64) {
        let lossy = &self.map.head.lossy_below;
        lossy.store(
            lossy.load(Ordering::Relaxed).max((word + 1) * BITS),
            Ordering::Relaxed,
        );
    }

    /// Keeps the words of the old list for which `keep(place, word)` holds.
    fn retain(&mut self, mut keep: impl FnMut(usize, u64) -> bool) {
        let mut kept = 0;
        for (at, old) in self.map.old_words().iter().enumerate() {
            let word = old.word.load(Ordering::Relaxed);
            if !keep(at, word) {
                continue;
            }
            if kept != at {
                let to = &self.map.old.as_ref()[kept];
                to.word.store(word, Ordering::Relaxed);
                to.running
                    .store(old.running.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            kept += 1;
        }
        self.map.head.old_len.store(kept as u64, Ordering::Relaxed);
    }

    /// Tells the sessions that their copies of the old list are out of date.
    fn touch_old(&mut self) {
        let version = &self.map.head.old_version;
        if broken!("procarray.done.old-version-kept") {
            return;
        }
        version.store(version.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}
