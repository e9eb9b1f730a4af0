//! Many threads, a pool much too small, and what each of them may see.

mod common;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use common::{FaultyStore, run, x};
use slru::{Lsn, MemoryStore, Status, StatusLog, StatusStore, Xid};
use txnkit_sync::Random;

const PAGE: u64 = 32_768;
const NO_LOG: Lsn = Lsn::INVALID;

/// One module of tests for one way to make a log.
macro_rules! suite {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;

            #[test]
            fn no_status_is_lost_while_pages_come_and_go() {
                let store = FaultyStore::default();
                super::no_status_is_lost_while_pages_come_and_go(&store, &$make(&store));
            }

            #[test]
            fn a_tree_is_seen_committed_whole_or_not_at_all() {
                super::a_tree_is_seen_committed_whole_or_not_at_all(&$make(MemoryStore::new()));
            }
        }
    };
}

suite!(front, |store| StatusLog::new(store, 16, Xid::FIRST_NORMAL));

#[cfg(feature = "baselines")]
mod baselines {
    use slru::baseline::{Banked, History, SingleLock};
    use txnkit_sync::lock::LockOfToday;

    use super::*;

    suite!(single_lock, |store| SingleLock::<_, LockOfToday>::new(
        store,
        6,
        Xid::FIRST_NORMAL
    ));
    suite!(banked, |store| Banked::<_, LockOfToday>::new(
        store,
        16,
        Xid::FIRST_NORMAL
    ));
    suite!(history, |store| History::<_, LockOfToday>::new(
        store,
        6,
        Xid::FIRST_NORMAL
    ));
}

fn no_status_is_lost_while_pages_come_and_go(store: &FaultyStore, log: &impl StatusStore) {
    const THREADS: u64 = 3;
    const PAGES: u64 = 40;
    const STEPS: u64 = 4000;
    log.set(x(PAGES * PAGE - 1), Status::Aborted, NO_LOG)
        .unwrap();
    let done = AtomicBool::new(false);
    let set = thread::scope(|scope| {
        let flusher = scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                // Failures are injected below; a page whose write failed is written later.
                let _ = log.flush();
                thread::yield_now();
            }
        });
        let setters: Vec<_> = (0..THREADS)
            .map(|me| {
                scope.spawn(move || {
                    let mut random = Random::seeded_with(100 + me);
                    let mut mine = Vec::new();
                    for step in 0..STEPS {
                        // Every thread has its own ids, in words that it shares.
                        let xid = x((random.below(PAGES * PAGE / 4) * 4 + me).max(4));
                        let status =
                            [Status::Committed, Status::Aborted][(xid.get() / 4 % 2) as usize];
                        if log.set(xid, status, NO_LOG).is_ok() {
                            mine.push((xid, status));
                        }
                        let (xid, status) = mine[random.below(mine.len() as u64) as usize];
                        if let Ok(found) = log.get(xid) {
                            assert_eq!(found, status, "{xid}");
                        }
                        store.fail_write.store(step % 97 == 0, Ordering::SeqCst);
                        store.fail_read.store(step % 89 == 0, Ordering::SeqCst);
                    }
                    mine
                })
            })
            .collect();
        let set: Vec<_> = setters
            .into_iter()
            .flat_map(|setter| setter.join().unwrap())
            .collect();
        done.store(true, Ordering::SeqCst);
        flusher.join().unwrap();
        set
    });
    store.fail_write.store(false, Ordering::SeqCst);
    store.fail_read.store(false, Ordering::SeqCst);
    assert!(set.len() as u64 > THREADS * STEPS / 2);
    log.flush().unwrap();
    // In the pool, and in the store.
    let again = StatusLog::open(store, 16, Xid::FIRST_NORMAL, x(PAGES * PAGE)).unwrap();
    for &(xid, status) in &set {
        assert_eq!(log.get(xid), Ok(status), "{xid}");
        assert_eq!(again.get(xid), Ok(status), "{xid} in the store");
    }
}

fn a_tree_is_seen_committed_whole_or_not_at_all(log: &impl StatusStore) {
    const TREES: u64 = 400;
    // A tree's ids lie on three pages that have to be evicted for one another.
    let far = 20 * PAGE;
    log.set(x(3 * far), Status::Aborted, NO_LOG).unwrap();
    let tree = |n: u64| {
        let top = x(100 + n * 40 + n % 20 * PAGE);
        (top, [run(top.get() + 1, 35), run(top.get() + far, 2)])
    };
    let started = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..TREES {
                started.store(n, Ordering::SeqCst);
                let (top, children) = tree(n);
                log.set_tree(top, &children, Status::Committed, NO_LOG)
                    .unwrap();
            }
            started.store(TREES, Ordering::SeqCst);
        });
        for me in 0..2 {
            let started = &started;
            scope.spawn(move || {
                let mut random = Random::seeded_with(200 + me);
                loop {
                    let n = started.load(Ordering::SeqCst);
                    if n == TREES {
                        break;
                    }
                    let (top, children) = tree(n);
                    let children: Vec<Xid> = children.iter().flat_map(|run| run.iter()).collect();
                    let child = children[random.below(children.len() as u64) as usize];
                    let (first, second) = if me == 0 { (top, child) } else { (child, top) };
                    let committed = |xid| match log.get(xid).unwrap() {
                        Status::SubCommitted => log.get(top).unwrap() == Status::Committed,
                        status => status == Status::Committed,
                    };
                    let before = committed(first);
                    let after = committed(second);
                    assert!(after || !before, "{first} committed, then {second} not");
                }
            });
        }
    });
    for n in 0..TREES {
        let (top, children) = tree(n);
        for xid in children.iter().flat_map(|run| run.iter()).chain([top]) {
            assert_eq!(log.get(xid), Ok(Status::Committed));
        }
    }
}

#[test]
fn truncation_never_shows_a_reader_anything_but_the_status_or_too_old() {
    const PAGES: u64 = 60;
    let dir = tempfile::tempdir().unwrap();
    let store = slru::FileStore::create(dir.path(), slru::Layout::STATUS, 0).unwrap();
    let log = StatusLog::new(store, 16, Xid::FIRST_NORMAL);
    for page in 0..PAGES {
        log.set(x(page * PAGE + 9), Status::Committed, NO_LOG)
            .unwrap();
    }
    let oldest = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for page in 0..PAGES {
                oldest.store(page, Ordering::SeqCst);
                log.truncate(x(page * PAGE)).unwrap();
            }
        });
        scope.spawn(|| {
            let mut random = Random::seeded_with(300);
            while oldest.load(Ordering::SeqCst) < PAGES - 1 {
                let page = random.below(PAGES);
                match log.get(x(page * PAGE + 9)) {
                    Ok(status) => assert_eq!(status, Status::Committed),
                    Err(error) => {
                        assert!(
                            matches!(error.kind(), slru::StatusErrorKind::TooOld { .. }),
                            "{error}"
                        );
                        assert!(page < oldest.load(Ordering::SeqCst) + 1);
                    }
                }
            }
        });
    });
}
