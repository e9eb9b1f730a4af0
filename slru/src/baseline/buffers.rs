//! Buffers under one control lock.

use alloc::boxed::Box;
use alloc::vec::Vec;

use txnkit_ids::Lsn;
use txnkit_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use txnkit_sync::lock::{Mutex, MutexGuard, ParkMutex, RawRwLock, RwLock, WriteGuard};

use crate::frames::NO_PAGE;
use crate::page::PAGE_WORDS;
use crate::pages::HeldPage;
use crate::pool::PoolError;
use crate::{Found, PageBuf, PageStore};

/// What all designs have beside their buffers.
pub(super) struct Ends<S> {
    pub(super) store: S,
    pub(super) oldest: AtomicU64,
    pub(super) latest: AtomicU64,
    sync_failed: AtomicBool,
    /// Held during a sync, so that none that succeeds hides one that failed.
    syncing: Mutex<(), ParkMutex>,
}

impl<S: PageStore> Ends<S> {
    pub(super) fn new(store: S, oldest: u64, latest: u64) -> Self {
        Self {
            store,
            oldest: AtomicU64::new(oldest),
            latest: AtomicU64::new(latest),
            sync_failed: AtomicBool::new(false),
            syncing: Mutex::new(()),
        }
    }

    pub(super) fn check_usable(&self) -> Result<(), PoolError> {
        if self.sync_failed.load(Ordering::Relaxed) {
            return Err(PoolError::SyncFailed);
        }
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<(), PoolError> {
        let _syncing = self.syncing.lock();
        self.check_usable()?;
        self.store.sync().map_err(|error| {
            // For good: nobody knows what the store holds.
            self.sync_failed.store(true, Ordering::Relaxed);
            PoolError::Store(error)
        })
    }
}

/// What a buffer is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Io {
    None,
    Reading,
    Writing,
}

struct Buffer {
    page: u64,
    words: Box<[u64; PAGE_WORDS]>,
    dirty: bool,
    log: Lsn,
    io: Io,
    /// When it was looked at last, by the set's count of looks.
    used: AtomicU64,
}

/// What the control lock protects.
pub(super) struct State {
    buffers: Vec<Buffer>,
    looks: AtomicU64,
}

/// A set of buffers. A page is in one of them at most; `io` of a buffer is held during its I/O.
pub(super) struct Buffers<L: RawRwLock> {
    state: RwLock<State, L>,
    io: Vec<Mutex<(), ParkMutex>>,
}

/// What to do to have a page in a buffer.
enum Step {
    Here(usize),
    WaitFor(usize),
    WriteBack(usize),
    ReadInto(usize),
}

impl State {
    fn find(&self, page: u64) -> Option<usize> {
        self.buffers.iter().position(|buffer| buffer.page == page)
    }

    /// Relaxed: a look that is not counted changes which page leaves, and nothing else.
    fn touch(&self, at: usize) {
        let now = self.looks.fetch_add(1, Ordering::Relaxed);
        self.buffers[at].used.store(now, Ordering::Relaxed);
    }

    fn look(&self, page: u64, word: usize) -> Option<u64> {
        let at = self.find(page)?;
        if self.buffers[at].io == Io::Reading {
            return None;
        }
        self.touch(at);
        Some(self.buffers[at].words[word])
    }

    fn step(&self, page: u64, latest: u64) -> Step {
        if let Some(at) = self.find(page) {
            return match self.buffers[at].io {
                Io::Reading => Step::WaitFor(at),
                Io::None | Io::Writing => Step::Here(at),
            };
        }
        let used = |at: &usize| self.buffers[*at].used.load(Ordering::Relaxed);
        let idle = |at: &usize| {
            let buffer = &self.buffers[*at];
            buffer.io == Io::None && buffer.page != latest
        };
        let empty = |at: &usize| self.buffers[*at].page == NO_PAGE;
        let all = || 0..self.buffers.len();
        let victim = all()
            .find(empty)
            .or_else(|| all().filter(idle).min_by_key(used));
        match victim {
            Some(at) if self.buffers[at].dirty => Step::WriteBack(at),
            Some(at) => Step::ReadInto(at),
            None => {
                let busy = |at: &usize| self.buffers[*at].io != Io::None;
                Step::WaitFor(all().find(busy).unwrap_or_default())
            }
        }
    }
}

/// I/O of a buffer. Unless it is said to be over, it has failed: the store said so, or panicked.
struct InIo<'a, L: RawRwLock> {
    buffers: &'a Buffers<L>,
    at: usize,
    over: bool,
    /// Let go last: who waits for it finds the buffer as it is to be.
    _io: MutexGuard<'a, (), ParkMutex>,
}

impl<L: RawRwLock> InIo<'_, L> {
    fn over(mut self, state: &mut State) {
        state.buffers[self.at].io = Io::None;
        self.over = true;
    }
}

impl<L: RawRwLock> Drop for InIo<'_, L> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let mut state = self.buffers.state.write();
        let buffer = &mut state.buffers[self.at];
        if buffer.io == Io::Reading {
            buffer.page = NO_PAGE;
        } else {
            buffer.dirty = true;
        }
        buffer.io = Io::None;
    }
}

/// A page in a buffer, whose control lock is held exclusively.
pub struct Exclusive<'a, L: RawRwLock> {
    state: WriteGuard<'a, State, L>,
    at: usize,
}

impl<L: RawRwLock> Buffers<L> {
    pub(super) fn new(count: usize) -> Self {
        let buffer = |_| Buffer {
            page: NO_PAGE,
            words: Box::new([0; PAGE_WORDS]),
            dirty: false,
            log: Lsn::INVALID,
            io: Io::None,
            used: AtomicU64::new(0),
        };
        Self {
            state: RwLock::new(State {
                buffers: (0..count).map(buffer).collect(),
                looks: AtomicU64::new(1),
            }),
            io: (0..count).map(|_| Mutex::new(())).collect(),
        }
    }

    /// Under the shared lock.
    pub(super) fn look(&self, page: u64, word: usize) -> Option<u64> {
        self.state.read().look(page, word)
    }

    /// Is the page in a buffer, or on its way there?
    pub(super) fn has(&self, page: u64) -> bool {
        self.state.read().find(page).is_some()
    }

    /// Runs `absent` under the shared lock if the page is neither in a buffer nor on its way there.
    pub(super) fn unless_there(&self, page: u64, absent: impl FnOnce()) {
        let state = self.state.read();
        if state.find(page).is_none() {
            absent();
        }
    }

    /// Brings the page into a buffer and holds the lock. `leaves` sees what an evicted page holds, under the lock.
    pub(super) fn hold<S: PageStore>(
        &self,
        page: u64,
        ends: &Ends<S>,
        leaves: impl Fn(u64, &[u64; PAGE_WORDS]),
    ) -> Result<Exclusive<'_, L>, PoolError> {
        let mut state = self.state.write();
        loop {
            if page < ends.oldest.load(Ordering::Relaxed) {
                return Err(PoolError::TooOld);
            }
            state = match state.step(page, ends.latest.load(Ordering::Relaxed)) {
                Step::Here(at) => {
                    state.touch(at);
                    return Ok(Exclusive { state, at });
                }
                Step::WaitFor(at) => self.wait(state, at),
                Step::WriteBack(at) => self.write_back(state, at, ends)?,
                Step::ReadInto(at) => {
                    let victim = &state.buffers[at];
                    if victim.page != NO_PAGE {
                        leaves(victim.page, &victim.words);
                    }
                    self.read_in(state, at, page, ends)?
                }
            };
        }
    }

    fn wait<'a>(&'a self, state: WriteGuard<'a, State, L>, at: usize) -> WriteGuard<'a, State, L> {
        drop(state);
        drop(self.io[at].lock());
        self.state.write()
    }

    /// Under the control lock, the buffer's `io` being set.
    fn in_io(&self, at: usize) -> InIo<'_, L> {
        InIo {
            buffers: self,
            at,
            over: false,
            _io: self.io[at].lock(),
        }
    }

    fn read_in<'a, S: PageStore>(
        &'a self,
        mut state: WriteGuard<'a, State, L>,
        at: usize,
        page: u64,
        ends: &Ends<S>,
    ) -> Result<WriteGuard<'a, State, L>, PoolError> {
        ends.check_usable()?;
        state.buffers[at].page = page;
        state.buffers[at].io = Io::Reading;
        state.buffers[at].log = Lsn::INVALID;
        let io = self.in_io(at);
        drop(state);
        let mut copy = PageBuf::zeroed();
        let found = ends.store.read(page, &mut copy).map_err(PoolError::Store)?;
        if found == Found::NeverWritten {
            copy = PageBuf::zeroed();
        }
        let mut state = self.state.write();
        for (word, value) in state.buffers[at].words.iter_mut().zip(copy.words()) {
            *word = value;
        }
        io.over(&mut state);
        Ok(state)
    }

    fn write_back<'a, S: PageStore>(
        &'a self,
        mut state: WriteGuard<'a, State, L>,
        at: usize,
        ends: &Ends<S>,
    ) -> Result<WriteGuard<'a, State, L>, PoolError> {
        ends.check_usable()?;
        let buffer = &mut state.buffers[at];
        buffer.io = Io::Writing;
        // Before the copy: who sets a word meanwhile makes it dirty again.
        buffer.dirty = false;
        let (page, log) = (buffer.page, buffer.log);
        let mut copy = PageBuf::zeroed();
        copy.fill(buffer.words.iter().copied());
        let io = self.in_io(at);
        drop(state);
        ends.store
            .write(page, &copy, log)
            .map_err(PoolError::Store)?;
        let mut state = self.state.write();
        io.over(&mut state);
        Ok(state)
    }

    /// Puts a page's words into a buffer, if there is one without I/O; for a set whose pages are only ever copies.
    pub(super) fn put(&self, page: u64, words: &[u64; PAGE_WORDS]) {
        let mut state = self.state.write();
        if let Step::ReadInto(at) = state.step(page, NO_PAGE) {
            state.buffers[at].page = page;
            *state.buffers[at].words = *words;
            state.touch(at);
        }
    }

    /// Takes a page that is only a copy away.
    pub(super) fn remove(&self, page: u64) {
        let mut state = self.state.write();
        if let Some(at) = state.find(page) {
            state.buffers[at].page = NO_PAGE;
        }
    }

    /// Writes every dirty page.
    pub(super) fn clean<S: PageStore>(&self, ends: &Ends<S>) -> Result<(), PoolError> {
        for at in 0..self.io.len() {
            let mut state = self.state.write();
            while state.buffers[at].io == Io::Writing {
                state = self.wait(state, at);
            }
            if state.buffers[at].dirty {
                drop(self.write_back(state, at, ends)?);
            }
        }
        Ok(())
    }

    /// Forgets pages before `first`.
    pub(super) fn forget(&self, first: u64) {
        for at in 0..self.io.len() {
            let mut state = self.state.write();
            while state.buffers[at].page < first {
                if state.buffers[at].io != Io::None {
                    state = self.wait(state, at);
                    continue;
                }
                state.buffers[at].page = NO_PAGE;
                state.buffers[at].dirty = false;
            }
        }
    }

    pub(super) fn log_of(&self, page: u64) -> Lsn {
        let state = self.state.read();
        match state.find(page) {
            // Until it is written the store has nothing of it.
            Some(at) if state.buffers[at].dirty || state.buffers[at].io == Io::Writing => {
                state.buffers[at].log
            }
            _ => Lsn::INVALID,
        }
    }
}

impl<L: RawRwLock> HeldPage for Exclusive<'_, L> {
    fn page(&self) -> u64 {
        self.state.buffers[self.at].page
    }

    fn get(&self, word: usize) -> u64 {
        self.state.buffers[self.at].words[word]
    }

    fn set(&mut self, word: usize, value: u64, log: Lsn) {
        let buffer = &mut self.state.buffers[self.at];
        buffer.words[word] = value;
        buffer.log = buffer.log.max(log);
        buffer.dirty = true;
    }
}

impl<L: RawRwLock> core::fmt::Debug for Exclusive<'_, L> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Exclusive")
            .field("page", &self.page())
            .finish_non_exhaustive()
    }
}
