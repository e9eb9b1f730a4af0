//! A small multi-version heap in memory: enough of one that transactions meet on rows as they do in a database.
//!
//! A table is an array of rows. A row is its newest version, in place behind a latch of a word, and a chain of older ones. A latch is held
//! for a few dozen instructions; whoever has to wait for a *transaction* waits without it.

use alloc::collections::VecDeque;
use core::mem;

use anyhow::{Result, ensure};
use txn_manager::{Core, Isolation, Mechanisms, Session, StatusStore, Xid, XidState};
use txnkit_sync::Padded;
use txnkit_sync::atomic::{AtomicU64, Ordering};
use txnkit_sync::lock::{Mutex, SpinLock};

/// How long a client waits for another's transaction before it gives the whole run up: far longer than any healthy one takes.
const LOCK_TIMEOUT_NS: u64 = 30_000_000_000;

/// A chain is looked through for versions to drop when it is this long, and at every doubling from there.
const LONG_CHAIN: u32 = 4;

/// A kept horizon is computed anew when this many ids have been handed out since.
const HORIZON_AGE: u64 = 32;

/// One version of a row.
#[derive(Debug)]
struct Version {
    xmin: Xid,
    /// The creator of the next version.
    xmax: Xid,
    older: Option<Box<Version>>,
    value: i32,
    /// In the newest version: how many are behind it.
    depth: u32,
}

impl Version {
    /// A version that everybody sees.
    fn loaded(value: i32) -> Self {
        Self {
            xmin: Xid::FROZEN,
            xmax: Xid::INVALID,
            older: None,
            value,
            depth: 0,
        }
    }

    /// The version that the session's statement sees.
    fn seen_by<M: Mechanisms>(&self, session: &Session<'_, M>) -> Result<Option<&Self>> {
        let mut version = Some(self);
        while let Some(v) = version {
            if session.visible(v.xmin, v.xmax)? {
                return Ok(Some(v));
            }
            version = v.older.as_deref();
        }
        Ok(None)
    }

    /// Puts a version by `xid` in front of this one, in the memory of `spare` if there is one.
    fn push(&mut self, xid: Xid, value: i32, spare: Option<Box<Self>>) {
        let depth = self.depth + 1;
        let newest = Self {
            xmin: xid,
            xmax: Xid::INVALID,
            older: None,
            value,
            depth,
        };
        let mut replaced = mem::replace(self, newest);
        replaced.xmax = xid;
        self.older = Some(match spare {
            Some(mut spare) => {
                *spare = replaced;
                spare
            }
            None => Box::new(replaced),
        });
    }

    /// Takes this newest version, whose creator aborted, away; `false` if the row has no other.
    fn pop(&mut self) -> bool {
        let Some(mut older) = self.older.take() else {
            return false;
        };
        // Nobody replaced it after all.
        older.xmax = Xid::INVALID;
        older.depth = self.depth - 1;
        *self = mem::replace(&mut older, Self::loaded(0));
        true
    }

    /// Takes off what nobody can see: everything behind the first version that everybody sees.
    ///
    /// The newest version must be committed or by the caller's transaction, so that none in the chain is aborted.
    fn prune(&mut self, horizon: Xid) -> Option<Box<Self>> {
        let mut kept = 0;
        let mut version = &mut *self;
        while version.xmin >= horizon {
            version = version.older.as_deref_mut()?;
            kept += 1;
        }
        let unseen = version.older.take();
        self.depth = kept;
        unseen
    }
}

/// Chains are dropped one by one; the derived way is recursive and a chain may be long.
impl Drop for Version {
    fn drop(&mut self) {
        let mut next = self.older.take();
        while let Some(mut version) = next {
            next = version.older.take();
        }
    }
}

/// The horizon that pruning uses: kept for a while, because computing it costs and an old one is only less effective.
#[derive(Debug)]
pub struct Horizon {
    /// Relaxed throughout: a stale horizon is a valid one, and no other data hang on it.
    value: Padded<AtomicU64>,
    computed_at: Padded<AtomicU64>,
}

impl Default for Horizon {
    fn default() -> Self {
        Self {
            value: Padded::new(AtomicU64::new(0)),
            computed_at: Padded::new(AtomicU64::new(0)),
        }
    }
}

impl Horizon {
    /// The kept one, possibly old.
    pub fn kept(&self) -> Xid {
        Xid::new(self.value.load(Ordering::Relaxed))
    }

    /// One that is not older than [`HORIZON_AGE`] ids; `now` is a recent id.
    fn fresh<M: Mechanisms>(&self, core: &Core<M>, now: Xid) -> Xid {
        let computed_at = self.computed_at.load(Ordering::Relaxed);
        let stale = now.get() >= computed_at + HORIZON_AGE;
        // One session computes it, the others go on with what there is.
        if stale
            && self
                .computed_at
                .compare_exchange(computed_at, now.get(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.value
                .fetch_max(core.horizon().get(), Ordering::Relaxed);
        }
        self.kept()
    }
}

/// How an update went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// The row has a new version with this value.
    Done {
        /// What the row holds now.
        value: i32,
        /// How often another's transaction had to be awaited.
        waits: u32,
    },
    /// Repeatable read: another transaction has changed the row since the snapshot. Abort.
    Conflict {
        /// How often another's transaction had to be awaited.
        waits: u32,
    },
}

/// Rows of one number each, found by their position.
#[derive(Debug)]
pub struct Table {
    slots: Vec<Mutex<Version, SpinLock>>,
    /// Slots from one row to the next. The rows that everybody updates share no cache line.
    spread: usize,
}

impl Table {
    /// Bytes of a row of which there is one version.
    pub const ROW_BYTES: usize = size_of::<Mutex<Version, SpinLock>>();
    /// Bytes of a further version, the allocator's share included.
    pub const VERSION_BYTES: usize = size_of::<Version>() + 16;

    /// `rows` rows of value 0, side by side.
    pub fn dense(rows: usize) -> Self {
        Self::load(rows, 1)
    }

    /// `rows` rows of value 0, each on cache lines of its own.
    pub fn spread(rows: usize) -> Self {
        Self::load(rows, 128_usize.div_ceil(Self::ROW_BYTES))
    }

    fn load(rows: usize, spread: usize) -> Self {
        let slots = (0..rows * spread)
            .map(|_| Mutex::new(Version::loaded(0)))
            .collect();
        Self { slots, spread }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.slots.len() / self.spread
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn row(&self, row: usize) -> Result<&Mutex<Version, SpinLock>> {
        ensure!(
            row < self.len(),
            "row {row} asked for, the table has {}",
            self.len()
        );
        Ok(&self.slots[row * self.spread])
    }

    /// The row's value as the session's statement sees it; `None` if it sees no version.
    ///
    /// # Errors
    /// When there is no such row, or the visibility cannot be told.
    pub fn read<M: Mechanisms>(&self, session: &Session<'_, M>, row: usize) -> Result<Option<i32>> {
        let newest = self.row(row)?.lock();
        Ok(newest.seen_by(session)?.map(|version| version.value))
    }

    /// Adds `delta` to the row. If another running transaction has changed the row, waits for its end and goes by the newest version then.
    ///
    /// # Errors
    /// When the statement sees no such row, the other transaction does not end in half a minute, or the manager reports an error.
    pub fn add<M: Mechanisms>(
        &self,
        core: &Core<M>,
        horizon: &Horizon,
        session: &mut Session<'_, M>,
        row: usize,
        delta: i32,
    ) -> Result<Update> {
        let latch = self.row(row)?;
        let me = session.xid()?;
        ensure!(
            latch.lock().seen_by(session)?.is_some(),
            "row {row} is not there for this statement"
        );
        let mut waits = 0;
        loop {
            // Whether an id runs may take a lock to find out: the latch is not held meanwhile.
            let xmin = latch.lock().xmin;
            let state = session.state_of(xmin)?;
            if state == XidState::Running {
                waits += 1;
                session.wait_for(xmin, LOCK_TIMEOUT_NS)?;
                continue;
            }
            let mut newest = latch.lock();
            if newest.xmin != xmin {
                continue;
            }
            if state == XidState::Aborted {
                ensure!(newest.pop(), "row {row} was never committed");
                continue;
            }
            if session.isolation() == Some(Isolation::RepeatableRead)
                && !session.visible(xmin, Xid::INVALID)?
            {
                return Ok(Update::Conflict { waits });
            }
            let value = newest.value.wrapping_add(delta);
            let unseen = prune_cheaply(&mut newest, core, horizon, me);
            newest.push(me, value, unseen);
            return Ok(Update::Done { value, waits });
        }
    }

    /// How many versions the row has.
    ///
    /// # Errors
    /// When there is no such row.
    pub fn versions(&self, row: usize) -> Result<usize> {
        let newest = self.row(row)?.lock();
        let mut count = 1;
        let mut version = &*newest;
        while let Some(older) = &version.older {
            count += 1;
            version = older;
        }
        Ok(count)
    }

    /// The sum of all rows that the session's statement sees.
    ///
    /// # Errors
    /// When a visibility cannot be told, or a row is not seen at all.
    pub fn sum<M: Mechanisms>(&self, session: &Session<'_, M>) -> Result<i64> {
        let mut sum = 0;
        for row in 0..self.len() {
            let value = self.read(session, row)?;
            ensure!(
                value.is_some(),
                "row {row} has lost every version that can be seen"
            );
            sum += i64::from(value.unwrap_or_default());
        }
        Ok(sum)
    }
}

/// Most rows are pruned by one comparison; a long chain is worth a horizon and a walk, at every doubling of its length.
fn prune_cheaply<M: Mechanisms>(
    newest: &mut Version,
    core: &Core<M>,
    horizon: &Horizon,
    me: Xid,
) -> Option<Box<Version>> {
    if newest.xmin < horizon.kept() {
        return newest.prune(horizon.kept());
    }
    if newest.depth >= LONG_CHAIN && newest.depth.is_power_of_two() {
        return newest.prune(horizon.fresh(core, me));
    }
    None
}

/// One line of history.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Who wrote it.
    pub xid: Xid,
    /// Account.
    pub aid: u32,
    /// Teller.
    pub tid: u32,
    /// Branch.
    pub bid: u32,
    /// By how much all three rose.
    pub delta: i32,
}

/// What a history comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// Lines.
    pub lines: u64,
    /// The sum of their deltas.
    pub delta: i64,
}

impl Total {
    fn add(&mut self, entry: &Entry) {
        self.lines += 1;
        self.delta += i64::from(entry.delta);
    }
}

/// A table that is only ever added to.
///
/// Lines that everybody sees are folded into a total after a while, a chunk at a time, so that memory does not grow with the run.
#[derive(Debug)]
pub struct History {
    shards: Vec<Padded<Mutex<Shard>>>,
}

#[derive(Debug, Default)]
struct Shard {
    folded: Total,
    chunks: VecDeque<Vec<Entry>>,
}

impl History {
    const SHARDS: usize = 16;
    const CHUNK: usize = 4096;
    /// Full chunks that a shard keeps before it folds the oldest.
    const KEPT: usize = 4;
    /// Bytes of a history at its usual length.
    pub const BYTES: usize = Self::SHARDS * (Self::KEPT + 1) * Self::CHUNK * size_of::<Entry>();

    /// An empty history.
    pub fn new() -> Self {
        Self {
            shards: (0..Self::SHARDS)
                .map(|_| Padded::new(Mutex::new(Shard::default())))
                .collect(),
        }
    }

    /// Adds a line; clients of different numbers seldom meet.
    ///
    /// # Errors
    /// When the status of an old line cannot be told.
    pub fn insert<M: Mechanisms>(
        &self,
        core: &Core<M>,
        horizon: &Horizon,
        client: usize,
        entry: Entry,
    ) -> Result<()> {
        let mut shard = self.shards[client % Self::SHARDS].lock();
        if shard
            .chunks
            .back()
            .is_none_or(|chunk| chunk.len() == Self::CHUNK)
        {
            if shard.chunks.len() > Self::KEPT {
                shard.fold_oldest(core, horizon.fresh(core, entry.xid))?;
            }
            shard.chunks.push_back(Vec::with_capacity(Self::CHUNK));
        }
        if let Some(chunk) = shard.chunks.back_mut() {
            chunk.push(entry);
        }
        Ok(())
    }

    /// How many lines are kept one by one, not folded.
    pub fn kept_lines(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().chunks.iter().map(Vec::len).sum::<usize>())
            .sum()
    }

    /// What the lines come to that the session's statement sees.
    ///
    /// # Errors
    /// When a visibility cannot be told.
    pub fn total<M: Mechanisms>(&self, session: &Session<'_, M>) -> Result<Total> {
        let mut total = Total::default();
        for shard in &self.shards {
            let shard = shard.lock();
            total.lines += shard.folded.lines;
            total.delta += shard.folded.delta;
            for entry in shard.chunks.iter().flatten() {
                if session.visible(entry.xid, Xid::INVALID)? {
                    total.add(entry);
                }
            }
        }
        Ok(total)
    }
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

impl Shard {
    /// Folds the oldest chunk if all of its writers have ended for everybody.
    fn fold_oldest<M: Mechanisms>(&mut self, core: &Core<M>, horizon: Xid) -> Result<()> {
        let foldable = |chunk: &Vec<Entry>| chunk.iter().all(|entry| entry.xid < horizon);
        let Some(chunk) = self.chunks.pop_front_if(|chunk| foldable(chunk)) else {
            return Ok(());
        };
        for entry in &chunk {
            if core.status().get(entry.xid)? == txn_manager::Status::Committed {
                self.folded.add(entry);
            }
        }
        Ok(())
    }
}
