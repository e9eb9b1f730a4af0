//! The crate's own code under loom, with pages of two words in banks of two places, and twins of it in which one step is weakened.
//!
//! | rules (`pool.rs`, `log.rs`) | model | twins |
//! |---|---|---|
//! | 1 to 3, 6, 7 | a hit never takes another page's word | first sequence relaxed, no reader's fence, no fence at eviction, published relaxed, the same sequence again |
//! | 5, 8 | a set beside a write-back | dirty bit cleared after the copy, log position read before it, word relaxed, dirty bit forgotten |
//! | 4 to 8 | a set beside an eviction, a write failing | as above, a failed write left clean |
//! | 4, 7 | two misses of one page, a read failing | slot left reading |
//! | trees | one instant, from the top and from the child | no sub-committed first, word relaxed, no reader's fence |
//! | 9, 10 | a pair is whole, also while its page comes and goes | number not odd, either number relaxed, no fence, and those of 1 to 7 |
//! | timestamps | the latest transaction has its timestamp | either ordering relaxed |
//!
//! Setters hold the bank's lock, so there is no counter of pins and sets whose orderings could be weakened; who waits for I/O waits for a lock, so there
//! is no wake-up to forget.
#![cfg(txnkit_model = "loom")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use loom::thread;
use slru::{
    CommitTimestamp, CommitTimestamps, Found, Lsn, PAGE_BYTES, PageBuf, PageStore, Status,
    StatusLog, StatusStore, StoreError, Xid, XidRun,
};
use txnkit_sync::model::{Histogram, assert_breaks, check};

/// Ids in a word, and on a page.
const WORD: u64 = 32;
const PAGE: u64 = PAGE_BYTES as u64 * 4;

const fn x(number: u64) -> Xid {
    Xid::new(number)
}

/// Memory that loom does not schedule; only the pool's own steps are interleaved.
#[derive(Default)]
struct Store {
    pages: Mutex<BTreeMap<u64, PageBuf>>,
    faults: Mutex<Faults>,
}

#[derive(Default)]
struct Faults {
    fail_next_read: bool,
    fail_next_write: bool,
    reads: u64,
    /// A write that has this status of this id must come with this log position.
    needs_log: Option<(Xid, Status, Lsn)>,
}

impl Store {
    /// Pages that say the same of all their ids.
    fn with(pages: &[(u64, Status)]) -> Self {
        let store = Self::default();
        for &(page, status) in pages {
            let mut buf = PageBuf::zeroed();
            buf.bytes_mut().fill(status as u8 * 0x55);
            store.pages.lock().unwrap().insert(page, buf);
        }
        store
    }

    fn status(&self, xid: Xid) -> Status {
        self.pages
            .lock()
            .unwrap()
            .get(&(xid.get() / PAGE))
            .map_or(Status::InProgress, |page| status_in(page, xid))
    }
}

fn status_in(page: &PageBuf, xid: Xid) -> Status {
    let place = xid.get() % PAGE;
    match page.bytes()[place as usize / 4] >> (place % 4 * 2) & 3 {
        0 => Status::InProgress,
        1 => Status::Committed,
        2 => Status::Aborted,
        _ => Status::SubCommitted,
    }
}

impl PageStore for Store {
    fn read(&self, page: u64, into: &mut PageBuf) -> Result<Found, StoreError> {
        let mut faults = self.faults.lock().unwrap();
        faults.reads += 1;
        if core::mem::take(&mut faults.fail_next_read) {
            return Err(StoreError::Other { code: 1 });
        }
        match self.pages.lock().unwrap().get(&page) {
            Some(held) => {
                into.clone_from(held);
                Ok(Found::Page)
            }
            None => Ok(Found::NeverWritten),
        }
    }

    fn write(&self, page: u64, from: &PageBuf, log: Lsn) -> Result<(), StoreError> {
        let mut faults = self.faults.lock().unwrap();
        if core::mem::take(&mut faults.fail_next_write) {
            return Err(StoreError::Other { code: 1 });
        }
        if let Some((xid, status, needed)) = faults.needs_log {
            if xid.get() / PAGE == page && status_in(from, xid) == status {
                assert!(
                    log >= needed,
                    "the page has {xid} {status:?} and comes with log {log}, not {needed}"
                );
            }
        }
        self.pages.lock().unwrap().insert(page, from.clone());
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn truncate(&self, _first: u64) -> Result<(), StoreError> {
        Ok(())
    }
}

type Log = StatusLog<Arc<Store>>;

/// One bank of two places: page 3, the latest, stays in the second, so pages 0 and 2 have to share the first.
fn small(store: Store) -> (Arc<Store>, Arc<Log>) {
    let store = Arc::new(store);
    let log = StatusLog::open(Arc::clone(&store), 1, x(3), x(3 * PAGE + 5)).unwrap();
    log.get(x(3 * PAGE)).unwrap();
    (store, Arc::new(log))
}

static HITS: Histogram = Histogram::new();

/// A reader without a lock beside two evictions that end with the same page in the same slot.
#[test]
fn a_hit_never_takes_another_page_s_word() {
    check(|| {
        let (store, log) = small(Store::with(&[(0, Status::Committed), (2, Status::Aborted)]));
        log.get(x(9)).unwrap();
        let reader = {
            let (store, log) = (Arc::clone(&store), Arc::clone(&log));
            thread::spawn(move || {
                let reads = store.faults.lock().unwrap().reads;
                assert_eq!(log.get(x(9)), Ok(Status::Committed));
                let same = reads == store.faults.lock().unwrap().reads;
                HITS.count(if same { "without I/O" } else { "beside I/O" });
            })
        };
        let evictor = {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                assert_eq!(log.get(x(2 * PAGE + 9)), Ok(Status::Aborted));
                assert_eq!(log.get(x(9)), Ok(Status::Committed));
            })
        };
        reader.join().unwrap();
        evictor.join().unwrap();
    });
    HITS.assert_seen(&["without I/O", "beside I/O"]);
}

#[test]
fn every_step_of_a_hit_is_needed() {
    assert_breaks(
        "a_hit_never_takes_another_page_s_word",
        &[
            "slru.pool.look.sequence",
            "slru.pool.look.fence",
            "slru.pool.retire.fence",
            "slru.pool.publish.sequence",
            "slru.pool.publish.same-sequence",
        ],
    );
}

static WRITES: Histogram = Histogram::new();

/// A status set while its page is written.
#[test]
fn a_set_beside_a_write_back_is_not_lost_and_brings_its_log() {
    check(|| {
        let (store, log) = small(Store::default());
        log.set(x(8), Status::Committed, Lsn::new(1)).unwrap();
        store.faults.lock().unwrap().needs_log = Some((x(9), Status::Aborted, Lsn::new(7)));
        let setter = {
            let log = Arc::clone(&log);
            thread::spawn(move || log.set(x(9), Status::Aborted, Lsn::new(7)).unwrap())
        };
        let writer = {
            let log = Arc::clone(&log);
            thread::spawn(move || log.flush().unwrap())
        };
        setter.join().unwrap();
        writer.join().unwrap();
        WRITES.count(if store.status(x(9)) == Status::Aborted {
            "with the first write"
        } else {
            "later"
        });
        log.flush().unwrap();
        assert_eq!(
            (store.status(x(8)), store.status(x(9))),
            (Status::Committed, Status::Aborted)
        );
    });
    WRITES.assert_seen(&["with the first write", "later"]);
}

#[test]
fn every_step_of_a_write_back_is_needed() {
    assert_breaks(
        "a_set_beside_a_write_back_is_not_lost_and_brings_its_log",
        &[
            "slru.pool.write.clear-after",
            "slru.pool.write.fence",
            "slru.pool.set.word",
            "slru.pool.set.clean",
        ],
    );
}

static EVICTIONS: Histogram = Histogram::new();

/// A status set while its page, dirty, is thrown out for another, the first write failing.
#[test]
fn a_set_beside_an_eviction_is_not_lost() {
    check(|| {
        let (store, log) = small(Store::with(&[(2, Status::Aborted)]));
        log.set(x(8), Status::Committed, Lsn::INVALID).unwrap();
        store.faults.lock().unwrap().fail_next_write = true;
        let setter = {
            let log = Arc::clone(&log);
            thread::spawn(move || log.set(x(9), Status::Aborted, Lsn::INVALID))
        };
        let evictor = {
            let log = Arc::clone(&log);
            thread::spawn(move || (log.get(x(2 * PAGE)), log.get(x(2 * PAGE))))
        };
        let set = setter.join().unwrap();
        let (first, second) = evictor.join().unwrap();
        EVICTIONS.count(if first.is_err() {
            "write failed"
        } else {
            "evicted"
        });
        assert!(second.is_ok() || first.is_ok());
        if set.is_ok() {
            assert_eq!(log.get(x(9)), Ok(Status::Aborted));
        }
        assert_eq!(log.get(x(8)), Ok(Status::Committed));
    });
    EVICTIONS.assert_seen(&["write failed"]);
}

#[test]
fn every_step_of_a_dirty_eviction_is_needed() {
    assert_breaks(
        "a_set_beside_an_eviction_is_not_lost",
        &[
            "slru.pool.write.clear-after",
            "slru.pool.write.failed-is-clean",
            "slru.pool.set.clean",
        ],
    );
}

static READS: Histogram = Histogram::new();

/// Two who miss the same page, the first read failing.
#[test]
fn one_reads_a_missing_page_and_a_failed_read_is_tried_again() {
    check(|| {
        let (store, log) = small(Store::with(&[(0, Status::Committed)]));
        let reads = store.faults.lock().unwrap().reads;
        store.faults.lock().unwrap().fail_next_read = true;
        let readers: Vec<_> = (0..2)
            .map(|i| {
                let log = Arc::clone(&log);
                thread::spawn(move || log.get(x(9 + i)))
            })
            .collect();
        let got: Vec<_> = readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .collect();
        assert_eq!(
            got.iter().filter(|got| got.is_err()).count(),
            1,
            "one meets the failure"
        );
        assert!(
            got.contains(&Ok(Status::Committed)),
            "the other tries again"
        );
        assert_eq!(store.faults.lock().unwrap().reads - reads, 2);
        READS.count(if got[0].is_err() {
            "first fails"
        } else {
            "second fails"
        });
    });
    READS.assert_seen(&["first fails", "second fails"]);
}

#[test]
fn a_failed_read_must_not_leave_the_slot_reading() {
    assert_breaks(
        "one_reads_a_missing_page_and_a_failed_read_is_tried_again",
        &["slru.pool.read.left-reading"],
    );
}

/// A top and a child in two words of a page, read without a lock: `first`, then `second`.
fn tree_model(first: Xid, second: Xid, seen: &'static Histogram) {
    let (top, child) = TREE;
    check(move || {
        let (_, log) = small(Store::default());
        log.get(top).unwrap();
        let committer = {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                let children = [XidRun::single(child).unwrap()];
                log.set_tree(top, &children, Status::Committed, Lsn::INVALID)
                    .unwrap();
            })
        };
        let reader = thread::spawn(move || {
            let committed = |xid| match log.get(xid).unwrap() {
                Status::SubCommitted => log.get(top).unwrap() == Status::Committed,
                status => status == Status::Committed,
            };
            let (before, after) = (committed(first), committed(second));
            assert!(after || !before, "{first} committed, then {second} not");
            seen.count(format!("{before} {after}"));
        });
        committer.join().unwrap();
        reader.join().unwrap();
    });
    seen.assert_seen(&["true true", "false true", "false false"]);
}

/// The top and the child of the tree models.
const TREE: (Xid, Xid) = (x(9), x(WORD + 9));

#[test]
fn a_tree_commits_at_one_instant_read_from_its_top() {
    static SEEN: Histogram = Histogram::new();
    tree_model(TREE.0, TREE.1, &SEEN);
}

#[test]
fn a_tree_commits_at_one_instant_read_from_its_child() {
    static SEEN: Histogram = Histogram::new();
    tree_model(TREE.1, TREE.0, &SEEN);
}

#[test]
fn every_step_of_a_tree_is_needed() {
    assert_breaks(
        "a_tree_commits_at_one_instant_read_from_its_top",
        &[
            "slru.log.tree.no-sub-committed",
            "slru.pool.set.word",
            "slru.pool.look.fence",
        ],
    );
}

/// An entry that tells by itself whether it is whole: both of its words say the same.
const fn entry(n: u16) -> CommitTimestamp {
    let n64 = n as i64;
    CommitTimestamp {
        micros: n64 << 48 | n64 << 32 | n64 << 16 | n64,
        origin: n,
    }
}

type Timestamps = CommitTimestamps<Arc<Store>>;

/// As `small`, of timestamps: a page holds one entry, so pages are ids.
fn small_timestamps() -> Arc<Timestamps> {
    let log = CommitTimestamps::open(Arc::new(Store::default()), 1, x(4), x(8)).unwrap();
    // The latest page, 8, sits in the one place; 4, 5, 6 and 7 have to share the other.
    log.set(x(8), &[], entry(8), Lsn::INVALID).unwrap();
    Arc::new(log)
}

static PAIRS: Histogram = Histogram::new();

/// A reader without a lock beside a setter of the same entry.
#[test]
fn a_timestamp_is_seen_whole() {
    check(|| {
        let log = small_timestamps();
        log.set(x(5), &[], entry(1), Lsn::INVALID).unwrap();
        let setter = {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                log.set(x(5), &[], entry(2), Lsn::INVALID).unwrap();
            })
        };
        let reader = thread::spawn(move || {
            let counted = log.reader();
            let found = counted.get(x(5)).unwrap().unwrap();
            assert!(found == entry(1) || found == entry(2), "torn: {found:?}");
            let how = ["under the lock", "without a lock"][counted.hits() as usize];
            PAIRS.count(format!("{} {how}", found.origin));
        });
        setter.join().unwrap();
        reader.join().unwrap();
    });
    PAIRS.assert_seen(&["1 without a lock", "2 without a lock", "2 under the lock"]);
}

#[test]
fn every_step_of_a_pair_is_needed() {
    assert_breaks(
        "a_timestamp_is_seen_whole",
        &[
            "slru.pool.set_pair.not-odd",
            "slru.pool.set_pair.number",
            "slru.pool.look_pair.number",
            "slru.pool.look_pair.fence",
            "slru.pool.set.word",
        ],
    );
}

static EVICTED: Histogram = Histogram::new();

/// A reader without a lock beside evictions, between which the entry is set: its page leaves, comes back and is set.
#[test]
fn a_timestamp_is_seen_whole_while_its_page_comes_and_goes() {
    check(|| {
        let store = Store::default();
        let mut page = PageBuf::zeroed();
        page.bytes_mut()[..8].copy_from_slice(&entry(1).micros.to_le_bytes());
        page.bytes_mut()[8..10].copy_from_slice(&entry(1).origin.to_le_bytes());
        store.pages.lock().unwrap().insert(4, page);
        let log = CommitTimestamps::open(Arc::new(store), 1, x(4), x(8)).unwrap();
        let log = Arc::new(log);
        // The latest page sits in the one place; 4 and 6 have to share the other.
        log.set(x(8), &[], entry(8), Lsn::INVALID).unwrap();
        log.get(x(4)).unwrap();
        let evictor = {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                assert_eq!(log.get(x(6)), Ok(None));
                log.set(x(4), &[], entry(2), Lsn::INVALID).unwrap();
            })
        };
        let reader = thread::spawn(move || {
            let counted = log.reader();
            let found = counted.get(x(4)).unwrap().unwrap();
            assert!(found == entry(1) || found == entry(2), "torn: {found:?}");
            let how = ["under the lock", "without a lock"][counted.hits() as usize];
            EVICTED.count(format!("{} {how}", found.origin));
        });
        evictor.join().unwrap();
        reader.join().unwrap();
    });
    EVICTED.assert_seen(&["1 without a lock", "2 without a lock", "2 under the lock"]);
}

#[test]
fn every_step_of_a_pair_beside_an_eviction_is_needed() {
    assert_breaks(
        "a_timestamp_is_seen_whole_while_its_page_comes_and_goes",
        &[
            "slru.pool.look.sequence",
            "slru.pool.look_pair.fence",
            "slru.pool.retire.fence",
            "slru.pool.publish.sequence",
        ],
    );
}

static LATEST: Histogram = Histogram::new();

/// Who is told the last transaction finds its timestamp: the entry, and the id within the range.
#[test]
fn the_latest_transaction_has_its_timestamp() {
    check(|| {
        let log = CommitTimestamps::new(Arc::new(Store::default()), 1, x(4));
        let log = Arc::new(log);
        log.set(x(4), &[], entry(4), Lsn::INVALID).unwrap();
        let setter = {
            let log = Arc::clone(&log);
            thread::spawn(move || log.set(x(5), &[], entry(5), Lsn::INVALID).unwrap())
        };
        let reader = thread::spawn(move || {
            let (xid, at) = log
                .latest()
                .unwrap()
                .expect("every id told has a timestamp");
            assert_eq!(at, entry(xid.get() as u16));
            LATEST.count(xid);
        });
        setter.join().unwrap();
        reader.join().unwrap();
    });
    LATEST.assert_seen(&["4", "5"]);
}

#[test]
fn both_orderings_of_the_latest_transaction_are_needed() {
    assert_breaks(
        "the_latest_transaction_has_its_timestamp",
        &["slru.timestamps.latest", "slru.timestamps.set"],
    );
}
