//! What several test files need.
#![allow(dead_code, reason = "each test file uses its own part")]

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use slru::{
    Found, Lsn, MemoryStore, PageBuf, PageStore, StatusError, StatusErrorKind, StoreError, Xid,
    XidRun,
};

pub(crate) fn x(number: u64) -> Xid {
    Xid::new(number)
}

pub(crate) fn run(first: u64, len: u32) -> XidRun {
    XidRun::new(x(first), len).unwrap()
}

/// What the store said, from an error that came from it.
pub(crate) fn store_error(error: &StatusError) -> &StoreError {
    match error.kind() {
        StatusErrorKind::Store { error, .. } => error,
        other => panic!("not the store's error: {other}"),
    }
}

/// Memory whose operations fail when told to, and are counted.
#[derive(Default)]
pub(crate) struct FaultyStore {
    pub(crate) pages: MemoryStore,
    pub(crate) fail_read: AtomicBool,
    pub(crate) fail_write: AtomicBool,
    pub(crate) fail_sync: AtomicBool,
    pub(crate) panic_read: AtomicBool,
    pub(crate) panic_write: AtomicBool,
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
}

pub(crate) const FAULT: StoreError = StoreError::Other { code: 5 };

fn check(fail: &AtomicBool) -> Result<(), StoreError> {
    if fail.load(Ordering::SeqCst) {
        Err(FAULT)
    } else {
        Ok(())
    }
}

impl PageStore for FaultyStore {
    fn read(&self, page: u64, into: &mut PageBuf) -> Result<Found, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        assert!(
            !self.panic_read.load(Ordering::SeqCst),
            "the store panics on reading"
        );
        check(&self.fail_read)?;
        self.pages.read(page, into)
    }

    fn write(&self, page: u64, from: &PageBuf, log: Lsn) -> Result<(), StoreError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        assert!(
            !self.panic_write.load(Ordering::SeqCst),
            "the store panics on writing"
        );
        check(&self.fail_write)?;
        self.pages.write(page, from, log)
    }

    fn sync(&self) -> Result<(), StoreError> {
        check(&self.fail_sync)
    }

    fn truncate(&self, first: u64) -> Result<(), StoreError> {
        self.pages.truncate(first)
    }
}
