//! Eight threads at once, in random interleavings of sequentially consistent steps.
//!
//! `RUSTFLAGS='--cfg txnkit_model="shuttle"' cargo test --release -p snapmap --test shuttle`
//!
//! The schedules come from the printed `SHUTTLE_RANDOM_SEED`, the same ones every time unless it is set; a failure prints one that replays it.
#![cfg(txnkit_model = "shuttle")]

use std::sync::Arc;

use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use shuttle::thread;
use snapmap::{AgeMap, SnapMap, Xid};
use txnkit_sync::model::{assert_breaks, check};

const IDS: u64 = 24;

/// Row k was deleted by id k; ids end in order.
struct World {
    map: SnapMap<4>,
    clock: AtomicU64,
    running: AtomicU64,
    gone: Vec<AtomicBool>,
}

impl World {
    fn end_ids(&self) {
        for _ in 0..IDS / 3 {
            let now = self.clock.fetch_add(1, SeqCst);
            self.running.fetch_add(1, SeqCst);
            self.map
                .advance(now, || Xid::new(self.running.load(SeqCst)));
        }
    }

    fn prune(&self) {
        let mut before = 0;
        for _ in 0..6 {
            let limit = self.map.limit(self.clock.load(SeqCst), Xid::new(3)).get();
            assert!(limit >= before);
            before = limit;
            for row in &self.gone[..limit as usize] {
                row.store(true, SeqCst);
            }
        }
    }

    fn read(&self) {
        for _ in 0..3 {
            let stamp = self.map.stamp();
            let xmin = self.running.load(SeqCst);
            for row in self.map.mapping().filter(|row| row.bucket <= stamp) {
                assert!(row.next_xmin.get() <= xmin, "{row:?}, {stamp}, {xmin}");
            }
            for _ in 0..3 {
                let gone = self.gone[xmin as usize].load(SeqCst);
                if self.map.check(Xid::new(xmin), stamp).is_err() {
                    break;
                }
                assert!(!gone, "row {xmin} is gone");
            }
        }
    }
}

/// Three threads end ids and move the map on, two prune, three read.
#[test]
fn eight_threads_keep_the_promise() {
    check(|| {
        let world = Arc::new(World {
            map: SnapMap::with_places(2, 1),
            clock: AtomicU64::new(0),
            running: AtomicU64::new(3),
            gone: (0..IDS + 4).map(|_| AtomicBool::new(false)).collect(),
        });
        let work: [fn(&World); 8] = [
            World::end_ids,
            World::end_ids,
            World::end_ids,
            World::prune,
            World::prune,
            World::read,
            World::read,
            World::read,
        ];
        let threads = work.map(|work| {
            let world = world.clone();
            thread::spawn(move || work(&world))
        });
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn broken_steps_are_found() {
    assert_breaks(
        "eight_threads_keep_the_promise",
        &["snapmap.map.not-published"],
    );
}
