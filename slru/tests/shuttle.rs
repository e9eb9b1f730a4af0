//! Eight threads at once, in random interleavings of sequentially consistent steps.
//!
//! `RUSTFLAGS='--cfg txnkit_model="shuttle"' cargo test --release -p slru --test shuttle`
//!
//! The schedules come from the printed `SHUTTLE_RANDOM_SEED`, the same ones every time unless it is set; a failure prints one that replays it.
#![cfg(txnkit_model = "shuttle")]

use std::sync::Arc;

use shuttle::sync::Mutex;
use shuttle::thread;
use slru::{Lsn, MemoryStore, Status, StatusLog, StatusStore, Xid, XidRun};
use txnkit_sync::model::{assert_breaks, check};

const THREADS: u64 = 8;

/// Ids on a page of a model.
const PAGE: u64 = 64;

/// One bank of two places for five pages: every thread sets trees that lie on two of them, reads back what it has set and what others have, and one
/// flushes meanwhile. Nothing is lost, and no tree is ever seen half.
#[test]
fn eight_threads_lose_no_status() {
    check(|| {
        let log = Arc::new(StatusLog::new(MemoryStore::new(), 1, Xid::FIRST_NORMAL));
        log.set(Xid::new(5 * PAGE - 1), Status::Aborted, Lsn::INVALID)
            .unwrap();
        let committed = Arc::new(Mutex::new(Vec::new()));
        let actors: Vec<_> = (0..THREADS)
            .map(|me| {
                let (log, committed) = (log.clone(), committed.clone());
                thread::spawn(move || {
                    for round in 0..2 {
                        let top = Xid::new(10 + me + round * PAGE);
                        let child = Xid::new(top.get() + 2 * PAGE);
                        let children = [XidRun::single(child).unwrap()];
                        log.set_tree(top, &children, Status::Committed, Lsn::INVALID)
                            .unwrap();
                        assert_eq!(log.get(top), Ok(Status::Committed));
                        assert_eq!(log.get(child), Ok(Status::Committed));
                        if me == 0 {
                            log.flush().unwrap();
                        }
                        let other = {
                            let mut committed = committed.lock().unwrap();
                            committed.push((top, child));
                            committed[(me as usize * 5) % committed.len()]
                        };
                        assert_eq!(log.get(other.1), Ok(Status::Committed));
                        assert_eq!(log.get(other.0), Ok(Status::Committed));
                    }
                })
            })
            .collect();
        for actor in actors {
            actor.join().unwrap();
        }
        for (top, child) in committed.lock().unwrap().iter() {
            assert_eq!(log.get(*top), Ok(Status::Committed));
            assert_eq!(log.get(*child), Ok(Status::Committed));
        }
    });
}

#[test]
fn broken_steps_are_found() {
    assert_breaks(
        "eight_threads_lose_no_status",
        &["slru.pool.set.clean", "slru.pool.write.clear-after"],
    );
}
