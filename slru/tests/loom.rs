//! The crate's own code under loom, with pages of two words in banks of two places, and twins of it in which one step is weakened.
#![cfg(txnkit_model = "loom")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use loom::thread;
use slru::{
    Found, Lsn, PAGE_BYTES, PageBuf, PageStore, Status, StatusLog, StatusStore, StoreError, Xid,
    XidRun,
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
