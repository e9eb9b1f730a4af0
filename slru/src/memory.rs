//! Pages in memory.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use txnkit_ids::Lsn;
use txnkit_sync::lock::Mutex;

use crate::{Found, PageBuf, PageStore, StoreError};

/// Pages in memory, as many as there are written ones. Page numbers are 64-bit and never wrap. Nothing here is durable, so the
/// log position of a page does not matter.
///
/// Every method blocks on one lock, held while a page is copied.
pub struct MemoryStore {
    pages: Mutex<BTreeMap<u64, Box<PageBuf>>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self {
            pages: Mutex::new(BTreeMap::new()),
        }
    }

    /// How many pages are held.
    pub fn pages(&self) -> usize {
        self.pages.lock().len()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl PageStore for MemoryStore {
    fn read(&self, page: u64, into: &mut PageBuf) -> Result<Found, StoreError> {
        match self.pages.lock().get(&page) {
            Some(held) => {
                into.clone_from(held);
                Ok(Found::Page)
            }
            None => Ok(Found::NeverWritten),
        }
    }

    fn write(&self, page: u64, from: &PageBuf, _log: Lsn) -> Result<(), StoreError> {
        let mut pages = self.pages.lock();
        let held = pages
            .entry(page)
            .or_insert_with(|| Box::new(PageBuf::zeroed()));
        (**held).clone_from(from);
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn truncate(&self, first: u64) -> Result<(), StoreError> {
        let mut pages = self.pages.lock();
        *pages = pages.split_off(&first);
        Ok(())
    }
}
