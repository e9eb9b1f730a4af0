//! Commit timestamps: what they promise, in memory and in files.

mod common;

use std::fs;
use std::thread;

use common::{FAULT, FaultyStore, run, store_error, x};
use core::sync::atomic::{AtomicBool, Ordering};
use slru::{
    CommitTimestamp, CommitTimestamps, FileStore, FixedCommitTimestamps, Layout, Lsn, MemoryStore,
    NoStore, StatusErrorKind, StoreError, Xid,
};
use txnkit_sync::Random;

const PAGE: u64 = 819;
const NO_LOG: Lsn = Lsn::INVALID;

fn at(micros: i64, origin: u16) -> CommitTimestamp {
    CommitTimestamp { micros, origin }
}

#[test]
fn a_timestamp_is_found_and_its_neighbours_are_left_alone() {
    let log = CommitTimestamps::new(MemoryStore::new(), 16, Xid::FIRST_NORMAL);
    // Extremes next to each other, over every position an entry can have in its words.
    let kinds = [
        at(i64::MIN, u16::MAX),
        at(-1, 0),
        at(1, 1),
        at(i64::MAX, 0x8001),
        at(-946_684_800_000_000, 7),
    ];
    let wanted = |xid: u64| kinds[(xid % 5) as usize];
    for xid in (3..3 * PAGE).rev().chain([10, 11, 12]) {
        log.set(x(xid), &[], wanted(xid), NO_LOG).unwrap();
    }
    for xid in 3..3 * PAGE {
        assert_eq!(log.get(x(xid)), Ok(Some(wanted(xid))), "{xid}");
    }
}

#[test]
fn a_transaction_s_children_have_its_timestamp() {
    let log = CommitTimestamps::new(MemoryStore::new(), 16, x(100));
    let children = [run(801, 40), run(5 * PAGE, 1)];
    log.set(x(800), &children, at(42, 3), NO_LOG).unwrap();
    for xid in (800..841).chain([5 * PAGE]) {
        assert_eq!(log.get(x(xid)), Ok(Some(at(42, 3))), "{xid}");
    }
    assert_eq!(log.get(x(799)), Ok(None));
    assert_eq!(log.get(x(841)), Ok(None));
    assert_eq!(log.newest(), x(5 * PAGE));
    assert_eq!(log.latest(), Ok(Some((x(800), at(42, 3)))));
}

#[test]
fn outside_the_range_there_is_none() {
    let log = CommitTimestamps::new(MemoryStore::new(), 16, x(1000));
    assert_eq!(log.latest(), Ok(None));
    for xid in [1, 2, 3, 999, 1000, 1001, u64::MAX] {
        assert_eq!(log.get(x(xid)), Ok(None), "{xid}");
    }
    for special in [0, 1 << 32, 7 << 32] {
        assert!(matches!(
            log.get(x(special)).unwrap_err().kind(),
            StatusErrorKind::Special { .. }
        ));
    }
    for xid in 1000..5000 {
        log.set(x(xid), &[], at(xid as i64, 0), NO_LOG).unwrap();
    }
    assert_eq!(log.get(x(5000)), Ok(None));
    log.advance_oldest(x(3000)).unwrap();
    assert_eq!((log.oldest(), log.newest()), (x(3000), x(4999)));
    assert_eq!(log.get(x(2999)), Ok(None));
    assert_eq!(log.get(x(3000)), Ok(Some(at(3000, 0))));
    let too_old = log.set(x(2999), &[], at(1, 0), NO_LOG).unwrap_err();
    assert!(matches!(too_old.kind(), StatusErrorKind::TooOld { oldest, .. } if *oldest == x(3000)));
    // Back is not possible.
    log.advance_oldest(x(1000)).unwrap();
    assert_eq!(log.oldest(), x(3000));
    // Ahead of everything is: ids go by without a commit.
    log.advance_oldest(x(1_000_000)).unwrap();
    assert_eq!(log.get(x(4999)), Ok(None));
    assert_eq!(log.latest(), Ok(None));
    log.set(x(1_000_000), &[], at(5, 5), NO_LOG).unwrap();
    assert_eq!(log.get(x(1_000_000)), Ok(Some(at(5, 5))));
}

#[test]
fn what_cannot_be_set_is_an_error() {
    let log = CommitTimestamps::new(MemoryStore::new(), 16, x(1000));
    for special in [0, 1, 2, 1 << 32, (1 << 32) + 2] {
        let error = log.set(x(special), &[], at(1, 0), NO_LOG).unwrap_err();
        assert!(
            matches!(
                error.kind(),
                StatusErrorKind::Special { .. } | StatusErrorKind::TooOld { .. }
            ),
            "{special}: {error}"
        );
    }
    for far in [u64::MAX, 1000 + (1 << 31) + PAGE] {
        let error = log.set(x(far), &[], at(1, 0), NO_LOG).unwrap_err();
        assert!(
            matches!(error.kind(), StatusErrorKind::Future { .. }),
            "{far}"
        );
        let error = log.advance_oldest(x(far)).unwrap_err();
        assert!(
            matches!(error.kind(), StatusErrorKind::Future { .. }),
            "{far}"
        );
    }
    assert_eq!(log.newest(), x(999));
    // 0 cannot be told from nothing.
    log.set(x(1000), &[], at(0, 9), NO_LOG).unwrap();
    assert_eq!(log.get(x(1000)), Ok(None));
}

#[test]
fn in_place_and_without_a_store() {
    static LOG: FixedCommitTimestamps<NoStore, 2> =
        FixedCommitTimestamps::new_fixed(NoStore, Xid::FIRST_NORMAL);
    LOG.set(x(7), &[], at(9, 9), NO_LOG).unwrap();
    assert_eq!(LOG.get(x(7)), Ok(Some(at(9, 9))));
    LOG.set(x(PAGE), &[], at(8, 8), NO_LOG).unwrap();
    let full = LOG.set(x(2 * PAGE), &[], at(1, 1), NO_LOG).unwrap_err();
    assert!(matches!(store_error(&full), StoreError::Full { .. }));
    LOG.advance_oldest(x(PAGE)).unwrap();
    LOG.set(x(2 * PAGE), &[], at(1, 1), NO_LOG).unwrap();
    assert_eq!(LOG.get(x(PAGE)), Ok(Some(at(8, 8))));
}

#[test]
fn every_timestamp_is_where_postgresql_keeps_it() {
    let low = u64::from(u32::MAX);
    for (xid, file, byte) in [
        (818, "0000", 8180),
        (819, "0000", 8192),
        (26_208, "0001", 0),
        (low, "28028", 2550),
        ((5 << 32) + low, "28028", 2550),
        ((5 << 32) + 819, "0000", 8192),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let first = Layout::TIMESTAMPS.page_of(x(xid));
        let store = FileStore::create(dir.path(), Layout::TIMESTAMPS, first).unwrap();
        let log = CommitTimestamps::new(store, 16, x(xid));
        log.set(x(xid), &[], at(0x0807_0605_0403_0201, 0x0A09), NO_LOG)
            .unwrap();
        log.flush().unwrap();
        let bytes = fs::read(dir.path().join(file)).unwrap();
        assert_eq!(
            bytes[byte..byte + 10],
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
            "{xid}"
        );
        assert_eq!(bytes.iter().filter(|&&b| b != 0).count(), 10);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

/// An epoch's last page holds 256 entries, its last file one page.
#[test]
fn an_epoch_s_end_is_crossed_and_truncated() {
    let dir = tempfile::tempdir().unwrap();
    let end = 1 << 32;
    let first = x(end - 40 * PAGE);
    let page = Layout::TIMESTAMPS.page_of(first);
    let store = FileStore::create(dir.path(), Layout::TIMESTAMPS, page).unwrap();
    let log = CommitTimestamps::new(store, 16, first);
    let last = end + 50 * PAGE;
    let ids = || (first.get()..last).filter(|&xid| !x(xid).is_special());
    for xid in ids() {
        log.set(x(xid), &[], at(xid as i64, (xid % 7) as u16), NO_LOG)
            .unwrap();
    }
    log.flush().unwrap();
    let names = || {
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["0000", "0001", "28026", "28027", "28028"]);
    let check = |log: &CommitTimestamps<FileStore>, oldest: u64| {
        for xid in ids() {
            let wanted = (xid >= oldest).then(|| at(xid as i64, (xid % 7) as u16));
            assert_eq!(log.get(x(xid)), Ok(wanted), "{xid}");
        }
    };
    let reopen = |oldest: u64| {
        let (oldest, next) = (x(oldest), x(last));
        let pages = Layout::TIMESTAMPS.pages(oldest, next);
        let store = FileStore::open(dir.path(), Layout::TIMESTAMPS, pages).unwrap();
        CommitTimestamps::open(store, 16, oldest, next).unwrap()
    };
    check(&reopen(first.get()), first.get());
    for (oldest, left) in [
        (end - 257, vec!["0000", "0001", "28027", "28028"]),
        (end - 256, vec!["0000", "0001", "28028"]),
        (end - 1, vec!["0000", "0001", "28028"]),
        (end + 3, vec!["0000", "0001"]),
        (end + 32 * PAGE - 1, vec!["0000", "0001"]),
        (end + 32 * PAGE, vec!["0001"]),
    ] {
        log.advance_oldest(x(oldest)).unwrap();
        assert_eq!(names(), left, "{oldest}");
        check(&log, oldest);
        check(&reopen(oldest), oldest);
    }
}

#[test]
fn a_damaged_file_is_named_with_the_id() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("0000"), vec![1; 8192 + 100]).unwrap();
    let (oldest, next) = (x(3), x(40 * PAGE));
    let pages = Layout::TIMESTAMPS.pages(oldest, next);
    let store = FileStore::open(dir.path(), Layout::TIMESTAMPS, pages).unwrap();
    let log = CommitTimestamps::open(store, 16, oldest, next).unwrap();
    assert!(log.get(x(PAGE - 1)).unwrap().is_some());
    let short = log.get(x(PAGE)).unwrap_err();
    assert!(matches!(
        store_error(&short),
        StoreError::Short {
            offset: 8192,
            found: 100,
            ..
        }
    ));
    assert!(short.to_string().contains("transaction 819"), "{short}");
    let missing = log.get(x(33 * PAGE)).unwrap_err();
    assert!(
        matches!(store_error(&missing), StoreError::Missing { file, offset: 8192, .. } if file.ends_with("0001"))
    );
}

#[test]
fn a_failing_store_is_told_and_nothing_is_lost() {
    let store = FaultyStore::default();
    let log = CommitTimestamps::new(&store, 16, x(3));
    log.set(x(9), &[], at(1, 1), NO_LOG).unwrap();
    store.fail_write.store(true, Ordering::SeqCst);
    assert_eq!(store_error(&log.flush().unwrap_err()), &FAULT);
    store.fail_write.store(false, Ordering::SeqCst);
    log.flush().unwrap();
    store.fail_read.store(true, Ordering::SeqCst);
    let again = CommitTimestamps::open(&store, 16, x(3), x(10)).unwrap();
    assert_eq!(store_error(&again.get(x(9)).unwrap_err()), &FAULT);
    store.fail_read.store(false, Ordering::SeqCst);
    assert_eq!(again.get(x(9)), Ok(Some(at(1, 1))));
    store.fail_sync.store(true, Ordering::SeqCst);
    assert_eq!(store_error(&log.flush().unwrap_err()), &FAULT);
    store.fail_sync.store(false, Ordering::SeqCst);
    let dead = log.set(x(10), &[], at(1, 1), NO_LOG).unwrap_err();
    assert_eq!(dead.kind(), &StatusErrorKind::SyncFailed);
    assert!(matches!(
        CommitTimestamps::open(&store, 16, x(9), x(8))
            .unwrap_err()
            .kind(),
        StatusErrorKind::Backwards { .. }
    ));
}

/// Every half of an entry is the other's, while two setters write neighbours, pages come and go, and a flusher fails now and then.
#[test]
fn no_entry_is_ever_seen_torn() {
    const PAGES: u64 = 40;
    const STEPS: u64 = 6000;
    let store = FaultyStore::default();
    let log = CommitTimestamps::new(&store, 16, x(3));
    // An entry tells by itself whether it is whole.
    let entry = |n: u64| {
        let n = n & 0xFFFF;
        at((n << 48 | n << 32 | n << 16 | n | 1 << 40) as i64, n as u16)
    };
    let whole = |found: CommitTimestamp| {
        assert_eq!(found, entry(u64::from(found.origin)), "torn");
    };
    let ids = PAGES * PAGE;
    log.set(x(ids), &[], entry(1), NO_LOG).unwrap();
    let done = AtomicBool::new(false);
    let seen = thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|me| {
                let (done, log) = (&done, &log);
                scope.spawn(move || {
                    let mut random = Random::seeded_with(400 + me);
                    let mut seen = 0_u64;
                    while !done.load(Ordering::SeqCst) {
                        // Half of the looks go where the setters are busiest.
                        let id = if random.below(2) == 0 {
                            3 + random.below(16)
                        } else {
                            3 + random.below(ids - 3)
                        };
                        if let Some(found) = log.get(x(id)).unwrap() {
                            whole(found);
                            seen += 1;
                        }
                    }
                    seen
                })
            })
            .collect();
        let setters: Vec<_> = (0..2)
            .map(|me| {
                let log = &log;
                scope.spawn(move || {
                    let mut random = Random::seeded_with(500 + me);
                    for step in 0..STEPS {
                        let near = 3 + random.below(8) * 2 + me;
                        let far = (3 + random.below(ids / 2 - 3)) * 2 + me;
                        for xid in [near, far.min(ids)] {
                            log.set(x(xid), &[], entry(step ^ xid), NO_LOG).unwrap();
                        }
                    }
                })
            })
            .collect();
        for setter in setters {
            setter.join().unwrap();
        }
        done.store(true, Ordering::SeqCst);
        readers.into_iter().map(|r| r.join().unwrap()).sum::<u64>()
    });
    assert!(seen > 0);
    log.flush().unwrap();
    let again = CommitTimestamps::open(&store, 16, x(3), x(ids + 1)).unwrap();
    for xid in 3..=ids {
        let found = log.get(x(xid)).unwrap();
        found.map(whole);
        assert_eq!(again.get(x(xid)), Ok(found), "{xid} in the store");
    }
}

#[test]
fn truncation_never_shows_a_reader_anything_but_the_timestamp_or_none() {
    const PAGES: u64 = 120;
    let dir = tempfile::tempdir().unwrap();
    let store = FileStore::create(dir.path(), Layout::TIMESTAMPS, 0).unwrap();
    let log = CommitTimestamps::new(store, 16, x(3));
    for page in 0..PAGES {
        let xid = page * PAGE + 9;
        log.set(x(xid), &[], at(xid as i64, 0), NO_LOG).unwrap();
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for page in 0..PAGES {
                log.advance_oldest(x(page * PAGE + 5)).unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        scope.spawn(|| {
            let mut random = Random::seeded_with(600);
            while !done.load(Ordering::SeqCst) {
                let xid = random.below(PAGES) * PAGE + 9;
                let before = log.oldest();
                let found = log.get(x(xid)).unwrap();
                match found {
                    Some(found) => assert_eq!(found.micros, xid as i64),
                    None => assert!(x(xid) < log.oldest(), "{xid}"),
                }
                assert!(found.is_none() || x(xid) >= before);
            }
        });
    });
}
