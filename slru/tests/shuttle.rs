//! Eight threads at once on a pool of two places, in random interleavings of sequentially consistent steps.
//!
//! `RUSTFLAGS='--cfg txnkit_model="shuttle"' cargo test --release -p slru --test shuttle`
//!
//! The schedules come from the printed `SHUTTLE_RANDOM_SEED`, the same ones every time unless it is set; a failure prints one that replays it.
#![cfg(txnkit_model = "shuttle")]

use std::sync::Arc;

use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;
use slru::{
    CommitTimestamp, CommitTimestamps, Found, Lsn, MemoryStore, PAGE_BYTES, PageBuf, PageStore,
    Parents, Status, StatusErrorKind, StatusLog, StatusStore, StoreError, Xid, XidRun,
};
use txnkit_sync::model::{Histogram, assert_breaks, check};

const THREADS: u64 = 8;
/// Ids on a page of statuses, and in a word.
const PAGE: u64 = PAGE_BYTES as u64 * 4;
const WORD: u64 = 32;
const NO_LOG: Lsn = Lsn::INVALID;

const fn x(number: u64) -> Xid {
    Xid::new(number)
}

/// Memory, of which every fifth write fails.
#[derive(Default)]
struct Store {
    pages: MemoryStore,
    writes: AtomicU64,
}

impl PageStore for Store {
    fn read(&self, page: u64, into: &mut PageBuf) -> Result<Found, StoreError> {
        self.pages.read(page, into)
    }

    fn write(&self, page: u64, from: &PageBuf, log: Lsn) -> Result<(), StoreError> {
        match self.writes.fetch_add(1, Ordering::SeqCst) % 5 {
            4 => Err(StoreError::Other { code: 1 }),
            _ => self.pages.write(page, from, log),
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn truncate(&self, first: u64) -> Result<(), StoreError> {
        self.pages.truncate(first)
    }
}

fn all(threads: impl Iterator<Item = thread::JoinHandle<()>>) {
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
}

/// Flushes until no write fails: what was not written is dirty still.
fn flush(log: &impl StatusStore) {
    while log.flush().is_err() {}
}

#[test]
fn no_status_of_eight_setters_is_lost() {
    check(|| {
        let store = Arc::new(Store::default());
        let log = Arc::new(StatusLog::new(Arc::clone(&store), 1, x(3)));
        // Every thread has an id of its own on each of four pages, in words that all share.
        let id = |me: u64, page: u64| x(page * PAGE + 4 + me);
        let status = |me: u64| [Status::Committed, Status::Aborted][(me % 2) as usize];
        all((0..THREADS).map(|me| {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                for page in [0, 1, 2, 3] {
                    let xid = id(me, (page + me) % 4);
                    // A failing write is another page's; setting again is allowed.
                    while log.set(xid, status(me), NO_LOG).is_err() {}
                    if let Ok(found) = log.get(xid) {
                        assert_eq!(found, status(me));
                    }
                }
                if me == 0 {
                    flush(&*log);
                }
            })
        }));
        flush(&*log);
        let again = StatusLog::open(store, 1, x(3), x(4 * PAGE)).unwrap();
        for page in 0..4 {
            for me in 0..THREADS {
                assert_eq!(again.get(id(me, page)), Ok(status(me)), "in the store");
            }
        }
    });
}

#[test]
fn steps_that_keep_a_status() {
    assert_breaks(
        "no_status_of_eight_setters_is_lost",
        &[
            "slru.pool.write.clear-after",
            "slru.pool.write.failed-is-clean",
            "slru.pool.set.clean",
        ],
    );
}

static TREES: Histogram = Histogram::new();

#[test]
fn seven_readers_see_a_tree_whole_or_not_at_all() {
    check(|| {
        let log = Arc::new(StatusLog::new(MemoryStore::new(), 1, x(3)));
        log.set(x(4 * PAGE), Status::Aborted, NO_LOG).unwrap();
        // Children in the top's word, in another word, and on other pages, which have to make room for one another.
        let top = x(9);
        let children = [10, WORD + 9, PAGE + 9, 3 * PAGE + 9].map(x);
        all((0..THREADS).map(|me| {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                if me == 0 {
                    let runs = children.map(|child| XidRun::single(child).unwrap());
                    log.set_tree(top, &runs, Status::Committed, NO_LOG).unwrap();
                    return;
                }
                let child = children[me as usize % 4];
                let order = if me % 2 == 0 {
                    [top, child]
                } else {
                    [child, top]
                };
                let [before, after] = order.map(|xid| match log.get(xid).unwrap() {
                    Status::SubCommitted => log.get(top).unwrap() == Status::Committed,
                    status => status == Status::Committed,
                });
                assert!(after || !before, "{order:?}");
                TREES.count(format!("{before} {after}"));
            })
        }));
    });
    TREES.assert_seen(&["true true", "false true", "false false"]);
}

#[test]
fn a_tree_needs_its_first_step() {
    assert_breaks(
        "seven_readers_see_a_tree_whole_or_not_at_all",
        &["slru.log.tree.no-sub-committed"],
    );
}

/// An entry that tells by itself whether it is whole.
const fn entry(n: u64) -> CommitTimestamp {
    CommitTimestamp {
        micros: (n << 48 | n << 32 | n << 16 | n) as i64,
        origin: n as u16,
    }
}

static TIMESTAMPS: Histogram = Histogram::new();

/// Two set, one forgets, five read: the same six ids, each on a page of its own.
#[test]
fn timestamps_are_whole_and_go_only_when_they_are_too_old() {
    check(|| {
        let log = Arc::new(CommitTimestamps::new(MemoryStore::new(), 1, x(10)));
        all((0..THREADS).map(|me| {
            let log = Arc::clone(&log);
            thread::spawn(move || match me {
                0 | 1 => {
                    for xid in [14, 15, 10, 12, 14, 15] {
                        let set = log.set(x(xid), &[], entry(xid + me), NO_LOG);
                        assert!(set.is_ok() || xid < 14, "{xid}: {set:?}");
                    }
                    assert!(log.get(x(15)).unwrap().is_some());
                    assert!(log.latest().unwrap().is_some());
                }
                2 => {
                    for oldest in [11, 14] {
                        log.advance_oldest(x(oldest)).unwrap();
                    }
                }
                _ => {
                    for xid in [14, 15, 10, 12, 14] {
                        let oldest = log.oldest();
                        match log.get(x(xid)).unwrap() {
                            Some(found) => {
                                assert!(found == entry(xid) || found == entry(xid + 1), "torn");
                                assert!(x(xid) >= oldest);
                                TIMESTAMPS.count("found");
                            }
                            None if x(xid) < log.oldest() => TIMESTAMPS.count("too old"),
                            None => TIMESTAMPS.count("not yet"),
                        }
                    }
                }
            })
        }));
    });
    TIMESTAMPS.assert_seen(&["found", "too old", "not yet"]);
}

#[test]
fn a_pair_needs_its_odd_number() {
    assert_breaks(
        "timestamps_are_whole_and_go_only_when_they_are_too_old",
        &["slru.pool.set_pair.not-odd"],
    );
}

#[test]
fn eight_families_of_parents_do_not_mix() {
    check(|| {
        let parents = Arc::new(Parents::new(MemoryStore::new(), 1, x(8)));
        // A page holds four ids; every family has one on each of four double pages.
        let member = |me: u64, generation: u64| x(8 * (generation + 1) + me);
        all((0..THREADS).map(|me| {
            let parents = Arc::clone(&parents);
            thread::spawn(move || {
                for generation in 1..4 {
                    let (child, parent) = (member(me, generation), member(me, generation - 1));
                    parents.set(child, parent).unwrap();
                    assert_eq!(parents.topmost(child, x(8)), Ok(member(me, 0)));
                }
                let other = member((me + 1) % THREADS, 3);
                let top = parents.topmost(other, x(8)).unwrap();
                assert!(
                    top == other || top == member((me + 1) % THREADS, 0),
                    "{top}"
                );
            })
        }));
        parents.truncate(x(16)).unwrap();
        for me in 0..THREADS {
            let (xid, oldest) = (member(me, 0), x(16));
            let error = parents.parent(xid).unwrap_err();
            assert_eq!(error.kind(), &StatusErrorKind::TooOld { xid, oldest });
            assert_eq!(parents.topmost(member(me, 3), oldest), Ok(xid));
        }
    });
}
