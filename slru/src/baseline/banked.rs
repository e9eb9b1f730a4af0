//! Buffers under one control lock, or in banks of 16, each under one of its own.

use alloc::vec::Vec;

use txnkit_ids::{Lsn, Xid};
use txnkit_sync::atomic::Ordering;
use txnkit_sync::lock::RawRwLock;

use super::buffers::{Buffers, Ends, Exclusive};
use crate::PageStore;
use crate::log::PagedStatusLog;
use crate::page::BANK_PLACES;
use crate::pages::{HeldPage, Pages};
use crate::pool::PoolError;
use crate::status::page_of;

/// The status log of PostgreSQL until 16.
pub type SingleLock<S, L> = PagedStatusLog<Banks<S, L, false>>;

/// The status log of PostgreSQL 17.
pub type Banked<S, L> = PagedStatusLog<Banks<S, L, true>>;

/// Banks of buffers, or one bank of any size; a page's bank is its number modulo theirs.
pub struct Banks<S, L: RawRwLock, const BANKED: bool> {
    ends: Ends<S>,
    banks: Vec<Buffers<L>>,
}

impl<S: PageStore, L: RawRwLock, const BANKED: bool> PagedStatusLog<Banks<S, L, BANKED>> {
    /// A new log whose first id is `first`, with so many buffers: rounded up to whole banks of 16, or without banks at least 4.
    pub fn new(store: S, buffers: usize, first: Xid) -> Self {
        let (banks, each) = if BANKED {
            (buffers.div_ceil(BANK_PLACES).max(1), BANK_PLACES)
        } else {
            (1, buffers.max(4))
        };
        Self::over(Banks {
            ends: Ends::new(store, page_of(first), page_of(first)),
            banks: (0..banks).map(|_| Buffers::new(each)).collect(),
        })
    }
}

impl<S, L: RawRwLock, const BANKED: bool> Banks<S, L, BANKED> {
    fn bank(&self, page: u64) -> &Buffers<L> {
        &self.banks[(page % self.banks.len() as u64) as usize]
    }
}

impl<S: PageStore, L: RawRwLock, const BANKED: bool> Pages for Banks<S, L, BANKED> {
    type Held<'a>
        = Exclusive<'a, L>
    where
        Self: 'a;

    fn oldest(&self) -> u64 {
        self.ends.oldest.load(Ordering::Relaxed)
    }

    fn latest(&self) -> u64 {
        self.ends.latest.load(Ordering::Relaxed)
    }

    fn extend_to(&self, page: u64) {
        self.ends.latest.fetch_max(page, Ordering::Relaxed);
    }

    fn hit(&self, page: u64, word: usize) -> Option<u64> {
        self.bank(page).look(page, word)
    }

    fn search(&self, _page: u64, _word: usize) -> Option<u64> {
        None // where it is looked for first is everywhere
    }

    fn fetch(&self, page: u64, word: usize) -> Result<u64, PoolError> {
        Ok(self.hold(page)?.get(word))
    }

    fn hold(&self, page: u64) -> Result<Exclusive<'_, L>, PoolError> {
        self.bank(page).hold(page, &self.ends, |_, _| {})
    }

    fn check_usable(&self) -> Result<(), PoolError> {
        self.ends.check_usable()
    }

    fn flush(&self) -> Result<(), PoolError> {
        for bank in &self.banks {
            bank.clean(&self.ends)?;
        }
        self.ends.sync()
    }

    fn truncate(&self, first: u64) -> Result<(), PoolError> {
        self.ends.check_usable()?;
        self.ends.oldest.fetch_max(first, Ordering::Relaxed);
        for bank in &self.banks {
            bank.forget(first);
        }
        self.ends.store.truncate(first).map_err(PoolError::Store)
    }

    fn log_of(&self, page: u64) -> Result<Lsn, PoolError> {
        Ok(self.bank(page).log_of(page))
    }
}

impl<S, L: RawRwLock, const BANKED: bool> core::fmt::Debug for Banks<S, L, BANKED> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Banks")
            .field("banks", &self.banks.len())
            .finish_non_exhaustive()
    }
}
