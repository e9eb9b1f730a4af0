//! A small multi-version heap on pages in a buffer pool: enough of one that transactions meet on rows as they do in a database.

mod history;
mod horizon;
mod page;
mod table;

use anyhow::Result;
use bufpin::Pins;
use txn_manager::{Core, Mechanisms, Session};

pub use history::{Entry, History, Total};
pub use horizon::Horizon;
pub use table::{Table, Update};

/// What all clients share: transactions, the buffer pool, the pruning horizon.
#[derive(Debug)]
pub struct Heap<M: Mechanisms, P: Pins> {
    /// The transaction manager.
    pub core: Core<M>,
    /// The buffer pool, with a place for every client.
    pub pool: P,
    /// What pruning goes by.
    pub horizon: Horizon,
}

/// One connection: its transactions and its pins.
pub struct Client<'a, M: Mechanisms, P: Pins + 'a> {
    /// Its transactions.
    pub session: Session<'a, M>,
    /// Its pins.
    pub pins: P::Session<'a>,
}

impl<M: Mechanisms, P: Pins> Heap<M, P> {
    /// A heap without tables.
    pub fn new(core: Core<M>, pool: P) -> Self {
        Self {
            core,
            pool,
            horizon: Horizon::default(),
        }
    }

    /// A connection.
    ///
    /// # Errors
    /// When the transaction array or the pool has no place left.
    pub fn client(&self) -> Result<Client<'_, M, P>> {
        Ok(Client {
            session: self.core.session()?,
            pins: self.pool.register()?,
        })
    }
}

impl<M: Mechanisms, P: Pins> core::fmt::Debug for Client<'_, M, P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
