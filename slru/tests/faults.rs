//! Stores that fail, panic, or are set again while they work.

mod common;

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU64, Ordering};
use std::panic::catch_unwind;
use std::sync::{Mutex, OnceLock};

use common::{FAULT, FaultyStore, run, store_error, x};
use slru::{
    FixedStatusLog, Found, LogFirst, Lsn, MemoryStore, NoStore, PageBuf, PageStore, Status,
    StatusErrorKind, StatusLog, StatusStore, StoreError, Xid,
};

const NO_LOG: Lsn = Lsn::INVALID;
const PAGE: u64 = 32_768;

/// A log in one bank of 16 places over a store that can fail, the first of `pages` pages evicted.
fn log_with_pages(store: &FaultyStore, pages: u64) -> StatusLog<&FaultyStore> {
    let log = StatusLog::new(store, 16, Xid::FIRST_NORMAL);
    for page in 0..pages {
        log.set(x(page * PAGE + 9), Status::Committed, NO_LOG)
            .unwrap();
    }
    log
}

#[test]
fn a_failed_read_leaves_nothing_behind() {
    let store = FaultyStore::default();
    let log = log_with_pages(&store, 40);
    store.fail_read.store(true, Ordering::SeqCst);
    let failing: Vec<u64> = (0..40)
        .filter(|page| log.get(x(page * PAGE + 9)).is_err())
        .collect();
    assert!(!failing.is_empty());
    let error = log.get(x(failing[0] * PAGE + 9)).unwrap_err();
    assert_eq!(
        error.kind(),
        &StatusErrorKind::Store {
            xid: Some(x(failing[0] * PAGE + 9)),
            error: FAULT
        }
    );
    store.fail_read.store(false, Ordering::SeqCst);
    for page in 0..40 {
        assert_eq!(log.get(x(page * PAGE + 9)), Ok(Status::Committed));
        assert_eq!(log.get(x(page * PAGE + 10)), Ok(Status::InProgress));
    }
}

#[test]
fn a_page_whose_write_failed_stays_dirty() {
    let store = FaultyStore::default();
    let log = log_with_pages(&store, 16);
    store.fail_write.store(true, Ordering::SeqCst);
    assert_eq!(store_error(&log.flush().unwrap_err()), &FAULT);
    assert!(log.set(x(20 * PAGE), Status::Committed, NO_LOG).is_err());
    for page in 0..16 {
        assert_eq!(log.get(x(page * PAGE + 9)), Ok(Status::Committed));
    }
    store.fail_write.store(false, Ordering::SeqCst);
    log.flush().unwrap();
    drop(log);
    let log = StatusLog::open(&store, 16, Xid::FIRST_NORMAL, x(16 * PAGE)).unwrap();
    for page in 0..16 {
        assert_eq!(log.get(x(page * PAGE + 9)), Ok(Status::Committed));
    }
}

#[test]
fn after_a_failed_sync_the_store_is_used_no_more_until_opened_anew() {
    let store = FaultyStore::default();
    let log = log_with_pages(&store, 40);
    store.fail_sync.store(true, Ordering::SeqCst);
    assert_eq!(store_error(&log.flush().unwrap_err()), &FAULT);
    store.fail_sync.store(false, Ordering::SeqCst);
    let failed = &StatusErrorKind::SyncFailed;
    assert_eq!(log.flush().unwrap_err().kind(), failed);
    assert_eq!(
        log.set(x(39 * PAGE + 10), Status::Committed, NO_LOG)
            .unwrap_err()
            .kind(),
        failed
    );
    assert_eq!(log.truncate(x(PAGE)).unwrap_err().kind(), failed);
    let (reads, writes) = (
        store.reads.load(Ordering::SeqCst),
        store.writes.load(Ordering::SeqCst),
    );
    for page in 0..40 {
        match log.get(x(page * PAGE + 9)) {
            Ok(status) => assert_eq!(status, Status::Committed),
            Err(error) => assert_eq!(error.kind(), failed),
        }
    }
    assert_eq!(
        (
            store.reads.load(Ordering::SeqCst),
            store.writes.load(Ordering::SeqCst)
        ),
        (reads, writes)
    );
    drop(log);
    let log = StatusLog::open(&store, 16, Xid::FIRST_NORMAL, x(40 * PAGE)).unwrap();
    assert_eq!(log.get(x(9)), Ok(Status::Committed));
    log.flush().unwrap();
}

#[test]
fn a_store_that_panics_leaves_no_lock_held_and_no_page_lost() {
    let store = FaultyStore::default();
    let log = log_with_pages(&store, 40);
    let panics = |f: &dyn Fn()| catch_unwind(AssertUnwindSafe(f)).is_err();
    store.panic_read.store(true, Ordering::SeqCst);
    let missing = (0..40)
        .map(|page| x(page * PAGE + 9))
        .find(|&xid| panics(&|| drop(log.get(xid))))
        .unwrap();
    assert!(panics(&|| drop(log.get(missing))));
    store.panic_read.store(false, Ordering::SeqCst);
    assert_eq!(log.get(missing), Ok(Status::Committed));

    log.set(x(39 * PAGE + 11), Status::Aborted, NO_LOG).unwrap();
    store.panic_write.store(true, Ordering::SeqCst);
    assert!(panics(&|| drop(log.flush())));
    store.panic_write.store(false, Ordering::SeqCst);
    log.flush().unwrap();
    drop(log);
    let log = StatusLog::open(&store, 16, Xid::FIRST_NORMAL, x(40 * PAGE)).unwrap();
    assert_eq!(log.get(x(39 * PAGE + 11)), Ok(Status::Aborted));
}

#[test]
fn a_commit_that_fails_half_way_shows_nothing_and_can_be_repeated() {
    let store = FaultyStore::default();
    let log = log_with_pages(&store, 40);
    let (top, children) = (
        x(3 * PAGE + 100),
        [run(4 * PAGE + 100, 2), run(30 * PAGE + 100, 2)],
    );
    // Whichever of the pages is not here cannot be had.
    store.fail_read.store(true, Ordering::SeqCst);
    assert!(
        log.set_tree(top, &children, Status::Committed, NO_LOG)
            .is_err()
    );
    store.fail_read.store(false, Ordering::SeqCst);
    assert_eq!(log.get(top), Ok(Status::InProgress));
    for child in children.iter().flat_map(|run| run.iter()) {
        assert_ne!(log.get(child), Ok(Status::Committed));
    }
    log.set_tree(top, &children, Status::Committed, NO_LOG)
        .unwrap();
    for xid in children.iter().flat_map(|run| run.iter()).chain([top]) {
        assert_eq!(log.get(xid), Ok(Status::Committed));
    }
}

/// While page 0 is first written, sets another status on it.
#[derive(Default)]
struct SetsAgain {
    pages: MemoryStore,
    log: OnceLock<&'static StatusLog<SetsAgain>>,
    writes_of_page_0: AtomicU64,
}

impl PageStore for SetsAgain {
    fn read(&self, page: u64, into: &mut PageBuf) -> Result<Found, StoreError> {
        self.pages.read(page, into)
    }

    fn write(&self, page: u64, from: &PageBuf, log: Lsn) -> Result<(), StoreError> {
        if page == 0 && self.writes_of_page_0.fetch_add(1, Ordering::SeqCst) == 0 {
            let statuses = self.log.get().expect("set before the first write");
            // No lock is held: the page can be read and set.
            assert_eq!(statuses.get(x(9)), Ok(Status::Committed));
            statuses.set(x(10), Status::Aborted, Lsn::new(77)).unwrap();
        }
        self.pages.write(page, from, log)
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn truncate(&self, first: u64) -> Result<(), StoreError> {
        self.pages.truncate(first)
    }
}

#[test]
fn a_page_set_while_it_is_written_is_written_again() {
    let log: &'static StatusLog<SetsAgain> = Box::leak(Box::new(StatusLog::new(
        SetsAgain::default(),
        16,
        Xid::FIRST_NORMAL,
    )));
    assert!(log.store().log.set(log).is_ok());
    log.set(x(9), Status::Committed, NO_LOG).unwrap();
    log.flush().unwrap();
    assert_eq!(
        log.log_needed(x(10)),
        Ok(Lsn::new(77)),
        "the later set's position still counts"
    );
    log.flush().unwrap();
    assert_eq!(log.store().writes_of_page_0.load(Ordering::SeqCst), 2);
    assert_eq!(log.log_needed(x(10)), Ok(NO_LOG));
    let mut page = PageBuf::zeroed();
    log.store().pages.read(0, &mut page).unwrap();
    // Ids 8 to 11: 9 committed, 10 aborted.
    assert_eq!(page.bytes()[2], 1 << 2 | 2 << 4);
}

#[test]
fn no_page_is_written_before_its_log() {
    let flushed = Mutex::new(Vec::new());
    let fail = Mutex::new(true);
    let store = LogFirst::new(MemoryStore::new(), |log: Lsn| {
        if *fail.lock().unwrap() {
            return Err(FAULT);
        }
        flushed.lock().unwrap().push(log);
        Ok(())
    });
    let log = StatusLog::new(&store, 16, Xid::FIRST_NORMAL);
    log.set(x(9), Status::Committed, Lsn::new(500)).unwrap();
    log.set(x(10), Status::Committed, Lsn::new(400)).unwrap();
    assert_eq!(log.log_needed(x(9)), Ok(Lsn::new(500)));
    assert_eq!(store_error(&log.flush().unwrap_err()), &FAULT);
    *fail.lock().unwrap() = false;
    log.flush().unwrap();
    assert_eq!(*flushed.lock().unwrap(), [Lsn::new(500)]);
    // Nothing is asked of the log for what needs none.
    log.set(x(11), Status::Committed, NO_LOG).unwrap();
    log.flush().unwrap();
    assert_eq!(flushed.lock().unwrap().len(), 1);
}

#[test]
fn a_file_store_without_a_log_refuses_pages_that_need_one() {
    let dir = tempfile::tempdir().unwrap();
    let log = StatusLog::new(
        slru::FileStore::create(dir.path(), slru::Layout::STATUS, 0).unwrap(),
        16,
        Xid::FIRST_NORMAL,
    );
    log.set(x(9), Status::Committed, Lsn::new(5)).unwrap();
    assert_eq!(
        store_error(&log.flush().unwrap_err()),
        &StoreError::NoLog { log: Lsn::new(5) }
    );
}

#[test]
fn without_a_store_the_pool_is_full_until_truncated() {
    static LOG: FixedStatusLog<NoStore, 4> = FixedStatusLog::new_fixed(NoStore, Xid::FIRST_NORMAL);
    for page in 0..4 {
        LOG.set(x(page * PAGE + 9), Status::Committed, NO_LOG)
            .unwrap();
    }
    let error = LOG.set(x(4 * PAGE), Status::Committed, NO_LOG).unwrap_err();
    assert!(matches!(store_error(&error), StoreError::Full { .. }));
    for page in 0..4 {
        assert_eq!(LOG.get(x(page * PAGE + 9)), Ok(Status::Committed));
    }
    LOG.truncate(x(PAGE)).unwrap();
    LOG.set(x(4 * PAGE), Status::Committed, NO_LOG).unwrap();
    assert_eq!(LOG.get(x(4 * PAGE)), Ok(Status::Committed));
}

#[test]
fn the_latest_page_is_never_evicted() {
    let store = FaultyStore::default();
    let log = log_with_pages(&store, 40);
    for round in 0..5 {
        for page in 0..39 {
            log.get(x(page * PAGE + 9)).unwrap();
        }
        let reads = store.reads.load(Ordering::SeqCst);
        assert_eq!(log.get(x(39 * PAGE + 9)), Ok(Status::Committed));
        assert_eq!(store.reads.load(Ordering::SeqCst), reads, "round {round}");
    }
}

#[test]
fn pages_that_fit_the_pool_are_read_once() {
    let store = FaultyStore::default();
    let log = StatusLog::new(&store, 64, Xid::FIRST_NORMAL);
    for _ in 0..3 {
        for page in 0..64 {
            log.set(x(page * PAGE + 9), Status::Committed, NO_LOG)
                .unwrap();
            log.get(x(page * PAGE + 10)).unwrap();
        }
    }
    assert_eq!(store.reads.load(Ordering::SeqCst), 64);
    assert_eq!(store.writes.load(Ordering::SeqCst), 0);
}
