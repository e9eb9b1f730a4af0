//! Rows of one number each, found by their position, on pages in the buffer pool.
//!
//! A row's newest version stands in its own slot, older ones behind it on the same page, linked from the newer to the older. A page is locked
//! for a few dozen instructions; whoever has to wait for a *transaction* waits without a lock, but with the page pinned.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use bufpin::{Exclusive, Pin, PinSession, Pins};
use txn_manager::{Isolation, Mechanisms, Session, Status, StatusStore, Xid, XidState};
use txnkit_sync::lock::Mutex;

use super::page::{Older, Read, Version, Write};
use super::{Client, Heap};

/// How long a client waits for another's transaction before it gives the whole run up: far longer than any healthy one takes.
const LOCK_TIMEOUT_NS: u64 = 30_000_000_000;

/// A chain is looked through for versions to drop when it is this long, and at every doubling from there.
const LONG_CHAIN: u32 = 4;

/// Rows on a page of a dense table: the other slots take older versions.
const DENSE: usize = 200;

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

/// A table's place in the pool and its side list.
#[derive(Debug)]
pub struct Table {
    first_page: u64,
    rows: usize,
    rows_per_page: usize,
    /// Versions that found no room on their page, oldest first, by row. Only a snapshot that is held for long fills it.
    spilled: Mutex<HashMap<usize, Vec<Version>>>,
}

impl Table {
    /// Pages that a table of so many rows takes, side by side.
    pub const fn dense_pages(rows: usize) -> u64 {
        rows.div_ceil(DENSE) as u64
    }

    /// `rows` rows of value 0 on pages from `first_page` on, side by side.
    ///
    /// # Errors
    /// When a page cannot be had.
    pub fn dense<P: PinSession>(pins: &P, first_page: u64, rows: usize) -> Result<Self> {
        Self::load(pins, first_page, rows, DENSE)
    }

    /// `rows` rows of value 0, each on a page of its own: rows that everybody updates share no line and no lock.
    ///
    /// # Errors
    /// When a page cannot be had.
    pub fn spread<P: PinSession>(pins: &P, first_page: u64, rows: usize) -> Result<Self> {
        Self::load(pins, first_page, rows, 1)
    }

    fn load<P: PinSession>(
        pins: &P,
        first_page: u64,
        rows: usize,
        rows_per_page: usize,
    ) -> Result<Self> {
        for at in 0..rows.div_ceil(rows_per_page) {
            let left = rows - at * rows_per_page;
            pins.pin_exclusive(first_page + at as u64)?
                .format(left.min(rows_per_page));
        }
        Ok(Self {
            first_page,
            rows,
            rows_per_page,
            spilled: Mutex::new(HashMap::new()),
        })
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The row's page and its slot there.
    fn place(&self, row: usize) -> Result<(u64, usize)> {
        ensure!(
            row < self.rows,
            "row {row} asked for, the table has {}",
            self.rows
        );
        let page = self.first_page + (row / self.rows_per_page) as u64;
        Ok((page, row % self.rows_per_page))
    }

    /// The row's value as the session's statement sees it; `None` if it sees no version.
    ///
    /// # Errors
    /// When there is no such row, its page cannot be had, or the visibility cannot be told.
    pub fn read<M: Mechanisms, P: Pins>(
        &self,
        client: &Client<'_, M, P>,
        row: usize,
    ) -> Result<Option<i32>> {
        let (page, slot) = self.place(row)?;
        let page = client.pins.pin_shared(page)?;
        self.seen(&page, slot, row, &client.session)
    }

    /// The value that the session's statement sees.
    fn seen<M: Mechanisms>(
        &self,
        page: &impl Read,
        slot: usize,
        row: usize,
        session: &Session<'_, M>,
    ) -> Result<Option<i32>> {
        let mut version = page.version(slot);
        loop {
            if session.visible(version.xmin, version.xmax)? {
                return Ok(Some(version.value));
            }
            match version.older {
                Older::Slot(slot) => version = page.version(slot),
                Older::Nowhere => return Ok(None),
                Older::Spilled => break,
            }
        }
        let spilled = self.spilled.lock();
        for version in spilled.get(&row).into_iter().flatten().rev() {
            if session.visible(version.xmin, version.xmax)? {
                return Ok(Some(version.value));
            }
        }
        Ok(None)
    }

    /// Adds `delta` to the row. If another running transaction has changed the row, waits for its end and goes by the newest version then.
    ///
    /// # Errors
    /// When the statement sees no such row, the other transaction does not end in half a minute, or a mechanism reports an error.
    pub fn add<M: Mechanisms, P: Pins>(
        &self,
        heap: &Heap<M, P>,
        client: &mut Client<'_, M, P>,
        row: usize,
        delta: i32,
    ) -> Result<Update> {
        let (page, slot) = self.place(row)?;
        let pin = client.pins.pin(page)?;
        let update = self.add_pinned(heap, client, &pin, slot, row, delta);
        client.pins.unpin(pin);
        update
    }

    fn add_pinned<M: Mechanisms, P: Pins>(
        &self,
        heap: &Heap<M, P>,
        client: &mut Client<'_, M, P>,
        pin: &Pin,
        slot: usize,
        row: usize,
        delta: i32,
    ) -> Result<Update> {
        let Client { session, pins } = client;
        let me = session.xid()?;
        let mut xmin = {
            let page = pins.lock_shared(pin)?;
            ensure!(
                self.seen(&page, slot, row, session)?.is_some(),
                "row {row} is not there for this statement"
            );
            page.xmin(slot)
        };
        let mut waits = 0;
        loop {
            // Whether an id runs may take a lock to find out: the page is not locked meanwhile.
            let state = session.state_of(xmin)?;
            if state == XidState::Running {
                waits += 1;
                session.wait_for(xmin, LOCK_TIMEOUT_NS)?;
                xmin = pins.lock_shared(pin)?.xmin(slot);
                continue;
            }
            let mut page = pins.lock_exclusive(pin)?;
            if page.xmin(slot) != xmin {
                xmin = page.xmin(slot);
                continue;
            }
            if state == XidState::Aborted {
                self.pop(&mut page, slot, row)?;
                xmin = page.xmin(slot);
                continue;
            }
            if session.isolation() == Some(Isolation::RepeatableRead)
                && !session.visible(xmin, Xid::INVALID)?
            {
                return Ok(Update::Conflict { waits });
            }
            self.prune_cheaply(heap, &mut page, slot, row, me);
            let value = page.version(slot).value.wrapping_add(delta);
            self.push(heap, &mut page, slot, row, me, value);
            return Ok(Update::Done { value, waits });
        }
    }

    /// Takes the newest version, whose creator aborted, away.
    fn pop<S: PinSession>(
        &self,
        page: &mut Exclusive<'_, S>,
        slot: usize,
        row: usize,
    ) -> Result<()> {
        let newest = page.version(slot);
        let (mut older, its_older) = match newest.older {
            Older::Slot(at) => {
                let older = page.version(at);
                // The slot alone is freed: it stands for a chain of one.
                page.set_version(at, &Version::LOADED);
                page.free_chain(Older::Slot(at));
                (older, older.older)
            }
            Older::Spilled => {
                let mut spilled = self.spilled.lock();
                let list = spilled.get_mut(&row);
                let older = list.and_then(Vec::pop);
                let older = older.with_context(|| format!("row {row} lost its side list"))?;
                let left = if spilled.get(&row).is_some_and(|list| !list.is_empty()) {
                    Older::Spilled
                } else {
                    Older::Nowhere
                };
                (older, left)
            }
            Older::Nowhere => anyhow::bail!("row {row} was never committed"),
        };
        // Nobody replaced it after all.
        older.xmax = Xid::INVALID;
        older.older = its_older;
        older.behind = newest.behind.saturating_sub(1);
        page.set_version(slot, &older);
        Ok(())
    }

    /// Puts a version by `xid` in front of the newest one.
    fn push<M: Mechanisms, P: Pins, S: PinSession>(
        &self,
        heap: &Heap<M, P>,
        page: &mut Exclusive<'_, S>,
        slot: usize,
        row: usize,
        xid: Xid,
        value: i32,
    ) {
        let mut replaced = page.version(slot);
        let room = page
            .allocate()
            .or_else(|| self.make_room(heap, page, row - slot, xid));
        // Making room may have cut the chain.
        replaced.older = page.version(slot).older;
        replaced.xmax = xid;
        let older = match room {
            Some(at) => {
                page.set_version(at, &replaced);
                Older::Slot(at)
            }
            None => {
                self.spill(page, replaced, row);
                Older::Spilled
            }
        };
        let newest = Version {
            xmin: xid,
            xmax: Xid::INVALID,
            value,
            older,
            behind: replaced.behind + 1,
        };
        page.set_version(slot, &newest);
    }

    /// Prunes all rows of a full page, whose first is `first_row`.
    #[cold]
    fn make_room<M: Mechanisms, P: Pins, S: PinSession>(
        &self,
        heap: &Heap<M, P>,
        page: &mut Exclusive<'_, S>,
        first_row: usize,
        xid: Xid,
    ) -> Option<usize> {
        let horizon = heap.horizon.fresh(&heap.core, xid);
        for slot in 0..self.rows_per_page.min(self.rows - first_row) {
            let xmin = page.xmin(slot);
            // Behind a version that may yet be taken away nothing is.
            let stays = xmin < Xid::FIRST_NORMAL
                || heap.core.status().get(xmin).ok() == Some(Status::Committed);
            if stays {
                self.prune(page, slot, first_row + slot, horizon);
            }
        }
        page.allocate()
    }

    /// Moves a chain from the page to the side list, `replaced` as its newest.
    #[cold]
    fn spill<S: PinSession>(&self, page: &mut Exclusive<'_, S>, replaced: Version, row: usize) {
        let mut chain = vec![replaced];
        while let Older::Slot(at) = chain[chain.len() - 1].older {
            chain.push(page.version(at));
        }
        page.free_chain(replaced.older);
        let mut spilled = self.spilled.lock();
        spilled
            .entry(row)
            .or_default()
            .extend(chain.into_iter().rev());
    }

    /// Most rows are pruned by one comparison; a long chain is worth a horizon and a walk, at every doubling of its length.
    fn prune_cheaply<M: Mechanisms, P: Pins, S: PinSession>(
        &self,
        heap: &Heap<M, P>,
        page: &mut Exclusive<'_, S>,
        slot: usize,
        row: usize,
        me: Xid,
    ) {
        let newest = page.version(slot);
        if newest.older == Older::Nowhere {
            return;
        }
        if newest.xmin < heap.horizon.kept() {
            self.prune(page, slot, row, heap.horizon.kept());
        } else if newest.behind >= LONG_CHAIN && newest.behind.is_power_of_two() {
            self.prune(page, slot, row, heap.horizon.fresh(&heap.core, me));
        }
    }

    /// Takes off what nobody can see: everything behind the first version that everybody sees.
    ///
    /// The newest version must be committed or by the caller's transaction, so that none in the chain is aborted.
    fn prune<S: PinSession>(
        &self,
        page: &mut Exclusive<'_, S>,
        slot: usize,
        row: usize,
        horizon: Xid,
    ) {
        let mut kept = 0;
        let mut at = slot;
        let mut version = page.version(at);
        while version.xmin >= horizon {
            at = match version.older {
                Older::Nowhere => return,
                Older::Spilled => return self.prune_spilled(page, slot, row, horizon, kept),
                Older::Slot(older) => older,
            };
            version = page.version(at);
            kept += 1;
        }
        if version.older == Older::Nowhere {
            return;
        }
        if page.free_chain(version.older) {
            self.spilled.lock().remove(&row);
        }
        version.older = Older::Nowhere;
        page.set_version(at, &version);
        let newest = Version {
            behind: kept,
            ..page.version(slot)
        };
        page.set_version(slot, &newest);
    }

    #[cold]
    fn prune_spilled<S: PinSession>(
        &self,
        page: &mut Exclusive<'_, S>,
        slot: usize,
        row: usize,
        horizon: Xid,
        on_page: u32,
    ) {
        let mut spilled = self.spilled.lock();
        let Some(list) = spilled.get_mut(&row) else {
            return;
        };
        if let Some(seen_by_all) = list.iter().rposition(|version| version.xmin < horizon) {
            list.drain(..seen_by_all);
        }
        let newest = Version {
            behind: on_page + list.len() as u32,
            ..page.version(slot)
        };
        page.set_version(slot, &newest);
    }

    /// How many versions the row has.
    ///
    /// # Errors
    /// When there is no such row, or its page cannot be had.
    pub fn versions<M: Mechanisms, P: Pins>(
        &self,
        client: &Client<'_, M, P>,
        row: usize,
    ) -> Result<usize> {
        let (page, slot) = self.place(row)?;
        let page = client.pins.pin_shared(page)?;
        let mut count = 1;
        let mut older = page.version(slot).older;
        while let Older::Slot(at) = older {
            count += 1;
            older = page.version(at).older;
        }
        if older == Older::Spilled {
            count += self.spilled.lock().get(&row).map_or(0, Vec::len);
        }
        Ok(count)
    }

    /// The sum of all rows that the client's statement sees.
    ///
    /// # Errors
    /// When a visibility cannot be told, or a row is not seen at all.
    pub fn sum<M: Mechanisms, P: Pins>(&self, client: &Client<'_, M, P>) -> Result<i64> {
        let mut sum = 0;
        for row in 0..self.rows {
            let value = self.read(client, row)?;
            ensure!(
                value.is_some(),
                "row {row} has lost every version that can be seen"
            );
            sum += i64::from(value.unwrap_or_default());
        }
        Ok(sum)
    }
}
