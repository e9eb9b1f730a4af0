//! The figures of a pool, held against what was done.

mod common;

use core::sync::atomic::Ordering;

use common::{FaultyStore, x};
use slru::{
    CommitTimestamp, CommitTimestamps, HeapFrames, Lsn, MemoryStore, Parents, Pool, Reader,
    SlruStats, Status, StatusLog, StatusStore, StoreError, Xid,
};
use static_assertions::{assert_impl_all, assert_not_impl_any};

assert_impl_all!(Reader<'static, StatusLog<MemoryStore>>: Send);
assert_not_impl_any!(Reader<'static, StatusLog<MemoryStore>>: Sync);

const PAGE: u64 = 32_768;

#[test]
fn every_figure_counts_what_it_says() {
    let store = FaultyStore::default();
    let log = StatusLog::new(&store, 16, Xid::FIRST_NORMAL);
    assert_eq!(log.stats(), Ok(SlruStats::default()));

    // A new page for the first set, in the pool for the others.
    for xid in 10..20 {
        log.set(x(xid), Status::Committed, Lsn::INVALID).unwrap();
    }
    let mut wanted = SlruStats {
        blks_zeroed: 1,
        blks_hit: 9,
        ..SlruStats::default()
    };
    assert_eq!(log.stats(), Ok(wanted));

    // Looks without a lock count for who counts them.
    let reader = log.reader();
    for xid in 10..15 {
        log.get(x(xid)).unwrap();
        assert_eq!(reader.get(x(xid)), Ok(Status::Committed));
    }
    assert_eq!(reader.hits(), 5);
    assert_eq!(log.stats(), Ok(wanted));
    drop(reader);
    wanted.blks_hit += 5;
    assert_eq!(log.stats(), Ok(wanted));

    // Nineteen more pages in sixteen places, so four leave and are written.
    for page in 1..20 {
        log.set(x(page * PAGE), Status::Aborted, Lsn::INVALID)
            .unwrap();
    }
    wanted.blks_zeroed += 19;
    wanted.blks_written = store.writes.load(Ordering::SeqCst);
    assert_eq!(wanted.blks_written, 4);
    assert_eq!(log.stats(), Ok(wanted));

    // The rest is written by a flush, and only once.
    log.flush().unwrap();
    log.flush().unwrap();
    wanted.blks_written += 16;
    wanted.flushes = 2;
    assert_eq!(log.stats(), Ok(wanted));

    // Every page is looked at: those that left are read, once each.
    let reads = store.reads.load(Ordering::SeqCst);
    let reader = log.reader();
    for page in 0..20 {
        reader.get(x(page * PAGE + 5)).unwrap();
    }
    let read = store.reads.load(Ordering::SeqCst) - reads;
    assert!(read >= 4);
    assert_eq!(reader.hits(), 20 - read);
    drop(reader);
    wanted.blks_read += read;
    wanted.blks_hit += 20 - read;
    assert_eq!(log.stats(), Ok(wanted));

    // What fails counts for nothing.
    store.fail_write.store(true, Ordering::SeqCst);
    log.set(x(19 * PAGE), Status::Aborted, Lsn::INVALID)
        .unwrap();
    wanted.blks_hit += 1;
    log.flush().unwrap_err();
    wanted.flushes += 1;
    assert_eq!(log.stats(), Ok(wanted));

    log.truncate(x(10 * PAGE)).unwrap();
    wanted.truncates += 1;
    assert_eq!(log.stats(), Ok(wanted));
}

#[test]
fn parents_and_timestamps_count_as_well() {
    let parents = Parents::new(MemoryStore::new(), 16, x(3));
    for child in 11..15 {
        parents.set(x(child), x(child - 1)).unwrap();
    }
    let reader = parents.reader();
    assert_eq!(reader.parent(x(12)), Ok(Some(x(11))));
    // Four steps up, and the look that finds no parent.
    assert_eq!(reader.topmost(x(14), x(3)), Ok(x(10)));
    assert_eq!(reader.hits(), 6);
    drop(reader);
    let wanted = SlruStats {
        blks_zeroed: 1,
        blks_hit: 3 + 6,
        ..SlruStats::default()
    };
    assert_eq!(parents.stats(), Ok(wanted));

    let timestamps = CommitTimestamps::new(MemoryStore::new(), 16, x(3));
    let at = CommitTimestamp {
        micros: 5,
        origin: 6,
    };
    timestamps.set(x(9), &[], at, Lsn::INVALID).unwrap();
    let reader = timestamps.reader();
    assert_eq!(reader.get(x(9)), Ok(Some(at)));
    // Nothing is looked up outside the range.
    assert_eq!(reader.get(x(10)), Ok(None));
    assert_eq!(reader.hits(), 1);
    drop(reader);
    let wanted = SlruStats {
        blks_zeroed: 1,
        blks_hit: 1,
        ..SlruStats::default()
    };
    assert_eq!(timestamps.stats(), Ok(wanted));
}

#[test]
fn a_page_exists_once_it_was_written() {
    let pool = Pool::new(HeapFrames::new(16), MemoryStore::new(), 0, 5);
    assert_eq!(pool.exists(3), Ok(false));
    pool.hold(3).unwrap().set(7, 7, Lsn::INVALID);
    assert_eq!(pool.exists(3), Ok(false));
    pool.flush().unwrap();
    assert_eq!(pool.exists(3), Ok(true));
    pool.truncate(4).unwrap();
    assert_eq!(pool.exists(3), Ok(false));
    assert_eq!(pool.stats().unwrap().blks_exists, 4);
}

/// A pool is public: the number that marks an empty place is an error, not a page.
#[test]
fn there_is_no_page_of_the_last_number() {
    let pool = Pool::new(HeapFrames::new(16), MemoryStore::new(), 0, 5);
    let wanted = slru::PoolError::Store(StoreError::Full { page: u64::MAX });
    assert_eq!(pool.hold(u64::MAX).unwrap_err(), wanted);
    assert_eq!(pool.read(u64::MAX, 0).unwrap_err(), wanted);
    assert_eq!(pool.read_pair(u64::MAX, 0).unwrap_err(), wanted);
}
