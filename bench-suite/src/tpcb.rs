//! The workload `tpcb-like`: what pgbench does unless told otherwise.
//!
//! A bank of scale s has s branches, 10 s tellers and 100 000 s accounts. A transaction adds one amount to an account, a teller and a
//! branch, each chosen at random from all, reads the account back and writes a line of history. Each of the five statements has a snapshot of
//! its own, as under read committed.

use anyhow::{Result, ensure};
use bufpin::{PAGE_WORDS, PinSession, Pins};
use txn_manager::{Isolation, Mechanisms, Session};

use crate::cell::Tables;
use crate::heap::{Client, Entry, Heap, History, Table, Total, Update};
use crate::rng::Rng;

/// Accounts to a branch.
pub const ACCOUNTS: u32 = 100_000;
/// Tellers to a branch.
pub const TELLERS: u32 = 10;

/// What an account, teller or branch row is in the redo log, in bytes: about as long as pgbench's.
const ROW_IMAGE: usize = 100;
/// The first page of the history, beyond all tables.
const HISTORY_PAGE: u64 = 1 << 40;
/// What a line of history is in the redo log, in bytes.
const HISTORY_IMAGE: usize = 50;

/// The four tables.
#[derive(Debug)]
pub struct Bank {
    accounts: Table,
    tellers: Table,
    branches: Table,
    history: History,
    tables: Tables,
}

/// What one transaction is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Account, from 0.
    pub aid: u32,
    /// Teller, from 0.
    pub tid: u32,
    /// Branch, from 0.
    pub bid: u32,
    /// The amount, -5000 to 5000.
    pub delta: i32,
}

impl Transfer {
    /// One at random, for a bank of this scale.
    pub fn random(rng: &mut Rng, scale: u32) -> Self {
        Self {
            aid: rng.below(scale * ACCOUNTS),
            tid: rng.below(scale * TELLERS),
            bid: rng.below(scale),
            delta: rng.below(10_001) as i32 - 5000,
        }
    }
}

/// What a transaction came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Committed, or aborted because of a conflict.
    pub committed: bool,
    /// How often another's transaction had to be awaited.
    pub waits: u32,
}

impl Bank {
    /// A bank of this scale with nothing on its accounts, on pages of this pool.
    ///
    /// # Errors
    /// When a page cannot be had.
    pub fn load<P: PinSession>(pins: &P, scale: u32, tables: Tables) -> Result<Self> {
        let (accounts, tellers) = ((scale * ACCOUNTS) as usize, (scale * TELLERS) as usize);
        let first_teller = Table::dense_pages(accounts);
        let first_branch = first_teller + tellers as u64;
        Ok(Self {
            accounts: Table::dense(pins, 0, accounts)?,
            tellers: Table::spread(pins, first_teller, tellers)?,
            branches: Table::spread(pins, first_branch, scale as usize)?,
            history: History::new(HISTORY_PAGE),
            tables,
        })
    }

    /// Pages that [`load`](Self::load) and a run need, if no snapshot is held for long: as many buffers as let none be evicted.
    pub fn pages(scale: u32) -> u64 {
        let hot = u64::from(scale) * u64::from(TELLERS + 1);
        Table::dense_pages((scale * ACCOUNTS) as usize) + hot + History::PAGES
    }

    /// Bytes of so many buffers, and of the pages that find no room in them.
    pub fn bytes(scale: u32, buffers: u64) -> u64 {
        // A buffer's descriptor, version and cells take some more.
        const PAGE: u64 = PAGE_WORDS as u64 * 8;
        let evicted = Self::pages(scale).saturating_sub(buffers);
        buffers * (PAGE + 256) + evicted * (PAGE + 64)
    }

    /// The accounts.
    pub fn accounts(&self) -> &Table {
        &self.accounts
    }

    /// The branches: the rows that clients meet on.
    pub fn branches(&self) -> &Table {
        &self.branches
    }

    /// Runs one transaction from begin to end; under repeatable read a conflict makes it abort.
    ///
    /// # Errors
    /// What the heap or the manager reports; the transaction is left as it is, to be aborted by the session's drop.
    pub fn transact<M: Mechanisms, P: Pins>(
        &self,
        heap: &Heap<M, P>,
        client: &mut Client<'_, M, P>,
        isolation: Isolation,
        number: usize,
        transfer: Transfer,
    ) -> Result<Outcome> {
        let Transfer {
            aid,
            tid,
            bid,
            delta,
        } = transfer;
        let mut waits = 0;
        client.session.begin(isolation)?;
        for (step, (table, row)) in [
            (&self.accounts, aid),
            (&self.tellers, tid),
            (&self.branches, bid),
        ]
        .into_iter()
        .enumerate()
        {
            client.session.statement()?;
            match table.add(heap, client, row as usize, delta)? {
                Update::Done { waits: more, .. } => waits += more,
                Update::Conflict { waits: more } => {
                    client.session.abort()?;
                    return Ok(Outcome {
                        committed: false,
                        waits: waits + more,
                    });
                }
            }
            self.log::<ROW_IMAGE, _>(&mut client.session)?;
            client.session.end_statement();
            if step == 0 {
                client.session.statement()?;
                ensure!(
                    self.accounts.read(client, aid as usize)?.is_some(),
                    "account {aid} is gone"
                );
                client.session.end_statement();
            }
        }
        client.session.statement()?;
        let entry = Entry {
            xid: client.session.xid()?,
            aid,
            tid,
            bid,
            delta,
        };
        self.history.insert(heap, client, number, entry)?;
        self.log::<HISTORY_IMAGE, _>(&mut client.session)?;
        client.session.end_statement();
        client.session.commit()?;
        Ok(Outcome {
            committed: true,
            waits,
        })
    }

    fn log<const BYTES: usize, M: Mechanisms>(&self, session: &mut Session<'_, M>) -> Result<()> {
        if self.tables == Tables::Permanent {
            session.change(&[b'x'; BYTES])?;
        }
        Ok(())
    }

    /// Does the money add up? Accounts, tellers, branches and history must have risen by the same, and there must be one line of
    /// history for each of the `committed` transactions. Call it when no transaction is under way.
    ///
    /// # Errors
    /// Says what does not fit; the session must be outside a transaction.
    pub fn check<M: Mechanisms, P: Pins>(
        &self,
        client: &mut Client<'_, M, P>,
        committed: u64,
    ) -> Result<()> {
        client.session.begin(Isolation::ReadCommitted)?;
        client.session.statement()?;
        let accounts = self.accounts.sum(client)?;
        let tellers = self.tellers.sum(client)?;
        let branches = self.branches.sum(client)?;
        let Total { lines, delta } = self.history.total(client)?;
        client.session.commit()?;
        ensure!(
            accounts == tellers && accounts == branches && accounts == delta,
            "the money does not add up: accounts {accounts}, tellers {tellers}, branches {branches}, history {delta}"
        );
        ensure!(
            lines == committed,
            "{committed} transactions committed, but history has {lines} lines"
        );
        Ok(())
    }
}
