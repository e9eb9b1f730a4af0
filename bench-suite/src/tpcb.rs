//! The workload `tpcb-like`: what pgbench does unless told otherwise.
//!
//! A bank of scale s has s branches, 10 s tellers and 100 000 s accounts. A transaction adds one amount to an account, a teller and a
//! branch, each chosen at random from all, reads the account back and writes a line of history. Each of the five statements has a snapshot of
//! its own, as under read committed.

use anyhow::{Result, ensure};
use txn_manager::{Core, Isolation, Mechanisms, Session};

use crate::cell::Tables;
use crate::heap::{Entry, History, Horizon, Table, Total, Update};
use crate::rng::Rng;

/// Accounts to a branch.
pub const ACCOUNTS: u32 = 100_000;
/// Tellers to a branch.
pub const TELLERS: u32 = 10;

/// What an account, teller or branch row is in the redo log, in bytes: about as long as pgbench's.
const ROW_IMAGE: usize = 100;
/// What a line of history is in the redo log, in bytes.
const HISTORY_IMAGE: usize = 50;

/// The four tables.
#[derive(Debug)]
pub struct Bank {
    accounts: Table,
    tellers: Table,
    branches: Table,
    history: History,
    horizon: Horizon,
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
    /// A bank of this scale with nothing on its accounts.
    pub fn load(scale: u32, tables: Tables) -> Self {
        Self {
            accounts: Table::dense((scale * ACCOUNTS) as usize),
            tellers: Table::spread((scale * TELLERS) as usize),
            branches: Table::spread(scale as usize),
            history: History::new(),
            horizon: Horizon::default(),
            tables,
        }
    }

    /// Bytes that [`load`](Self::load) and a run need at most, if no snapshot is held for long.
    pub fn bytes(scale: u32) -> u64 {
        // The spread tables take a few hundred bytes a row.
        let hot = u64::from(scale)
            * u64::from(TELLERS + 1)
            * 4
            * (Table::ROW_BYTES + Table::VERSION_BYTES) as u64;
        // In time every account has a version behind its newest one.
        let accounts = u64::from(scale)
            * u64::from(ACCOUNTS)
            * (Table::ROW_BYTES + Table::VERSION_BYTES) as u64;
        hot + accounts + History::BYTES as u64
    }

    /// The accounts.
    pub fn accounts(&self) -> &Table {
        &self.accounts
    }

    /// The branches: the rows that clients meet on.
    pub fn branches(&self) -> &Table {
        &self.branches
    }

    /// The pruning horizon of all four tables.
    pub fn horizon(&self) -> &Horizon {
        &self.horizon
    }

    /// Runs one transaction from begin to end; under repeatable read a conflict makes it abort.
    ///
    /// # Errors
    /// What the heap or the manager reports; the transaction is left as it is, to be aborted by the session's drop.
    pub fn transact<M: Mechanisms>(
        &self,
        core: &Core<M>,
        session: &mut Session<'_, M>,
        isolation: Isolation,
        client: usize,
        transfer: Transfer,
    ) -> Result<Outcome> {
        let Transfer {
            aid,
            tid,
            bid,
            delta,
        } = transfer;
        let mut waits = 0;
        session.begin(isolation)?;
        for (step, (table, row)) in [
            (&self.accounts, aid),
            (&self.tellers, tid),
            (&self.branches, bid),
        ]
        .into_iter()
        .enumerate()
        {
            session.statement()?;
            match table.add(core, &self.horizon, session, row as usize, delta)? {
                Update::Done { waits: more, .. } => waits += more,
                Update::Conflict { waits: more } => {
                    session.abort()?;
                    return Ok(Outcome {
                        committed: false,
                        waits: waits + more,
                    });
                }
            }
            self.log::<ROW_IMAGE, _>(session)?;
            session.end_statement();
            if step == 0 {
                session.statement()?;
                ensure!(
                    self.accounts.read(session, aid as usize)?.is_some(),
                    "account {aid} is gone"
                );
                session.end_statement();
            }
        }
        session.statement()?;
        self.history.insert(
            core,
            &self.horizon,
            client,
            Entry {
                xid: session.xid()?,
                aid,
                tid,
                bid,
                delta,
            },
        )?;
        self.log::<HISTORY_IMAGE, _>(session)?;
        session.end_statement();
        session.commit()?;
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
    pub fn check<M: Mechanisms>(&self, session: &mut Session<'_, M>, committed: u64) -> Result<()> {
        session.begin(Isolation::ReadCommitted)?;
        session.statement()?;
        let accounts = self.accounts.sum(session)?;
        let tellers = self.tellers.sum(session)?;
        let branches = self.branches.sum(session)?;
        let Total { lines, delta } = self.history.total(session)?;
        session.commit()?;
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
