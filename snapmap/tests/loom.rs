//! The protocol under every interleaving and memory order that loom finds within its bounds, and its weakened twins, each of which has to fail.
//!
//! `RUSTFLAGS='--cfg txnkit_model="loom"' cargo test --release -p snapmap --test loom`
//!
//! Every actor runs in a thread of its own; the main thread sets up, joins and compares. The models run the crate's own code with three rows,
//! buckets of one unit and a threshold of one. The array of running transactions is one number, the oldest running id, read and written as
//! relaxed as it can be: what orders it is the map.
#![cfg(txnkit_model = "loom")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use loom::thread;
use snapmap::{AgeMap, Mapped, SnapMap, Stamp, Xid};
use txnkit_sync::model::{Histogram, assert_breaks, check};

type Map = SnapMap<3>;

/// Something that is written without any synchronisation of its own: loom reports a race when two accesses are not ordered.
struct Plain(UnsafeCell<u64>);

// SAFETY: the point of the models: that the protocol orders the accesses, which loom checks.
unsafe impl Sync for Plain {}
// SAFETY: as above.
unsafe impl Send for Plain {}

impl Plain {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }
    fn write(&self, value: u64) {
        // SAFETY: loom checks that no other access is concurrent.
        self.0.with_mut(|cell| unsafe { *cell = value });
    }
    fn read(&self) -> u64 {
        // SAFETY: loom checks that no write is concurrent.
        self.0.with(|cell| unsafe { *cell })
    }
}

fn xid(id: u64) -> Xid {
    Xid::new(id)
}

fn map() -> Arc<Map> {
    Arc::new(Map::with_places(1, 1))
}

/// Rule 2: whoever was stamped with a bucket or a later one has at least the xmin of its row.
fn assert_not_below_its_rows(map: &Map, stamp: Stamp, xmin: u64) {
    for row in map.mapping().filter(|row| row.bucket <= stamp) {
        assert!(
            row.next_xmin.get() <= xmin,
            "{row:?}, but stamped {stamp} with {xmin}"
        );
    }
    // What a pruner makes of these rows once they are old enough.
    let limit = map.limit(stamp.get() + 1, xid(0));
    assert!(
        limit.get() <= xmin,
        "{limit}, but stamped {stamp} with {xmin}"
    );
}

/// Ids end, and two threads move the map on, to the same bucket or to the next one, while a snapshot is taken.
fn stamp_model(buckets: [u64; 2], seen: &'static Histogram) {
    check(move || {
        let map = map();
        let running = Arc::new(AtomicU64::new(3));
        let movers: Vec<_> = buckets
            .into_iter()
            .map(|now| {
                let (map, running) = (map.clone(), running.clone());
                thread::spawn(move || {
                    running.fetch_add(1, Relaxed);
                    map.advance(now, || xid(running.load(Relaxed)));
                })
            })
            .collect();
        let taker = {
            let (map, running) = (map.clone(), running.clone());
            thread::spawn(move || {
                let stamp = map.stamp();
                (stamp, running.load(Relaxed))
            })
        };
        movers.into_iter().for_each(|mover| mover.join().unwrap());
        let (stamp, xmin) = taker.join().unwrap();
        assert_not_below_its_rows(&map, stamp, xmin);
        let rows: Vec<Mapped> = map.mapping().collect();
        assert!(!rows.is_empty(), "one of the two moves the map on");
        for pair in rows.windows(2) {
            assert!(pair[0].bucket < pair[1].bucket);
            assert!(pair[0].next_xmin <= pair[1].next_xmin);
        }
        seen.count(format!("{} rows, stamp {stamp}", rows.len()));
    });
}

#[test]
fn a_stamped_snapshot_is_not_below_its_row() {
    static SEEN: Histogram = Histogram::new();
    stamp_model([0, 0], &SEEN);
    SEEN.assert_seen(&["1 rows, stamp 0", "1 rows, stamp 1"]);
}

#[test]
fn two_who_move_on_at_once_keep_the_order() {
    static SEEN: Histogram = Histogram::new();
    stamp_model([0, 1], &SEEN);
    // The one with the later bucket alone, both, and the other alone, the later one having found the lock taken.
    SEEN.assert_seen(&["1 rows, stamp 2", "2 rows, stamp 1", "1 rows, stamp 1"]);
}

#[test]
fn weakened_stamp_fails() {
    assert_breaks(
        "a_stamped_snapshot_is_not_below_its_row",
        &[
            "snapmap.map.due",
            "snapmap.map.stamp",
            "snapmap.map.not-rechecked",
        ],
    );
    assert_breaks(
        "two_who_move_on_at_once_keep_the_order",
        &["snapmap.map.not-rechecked"],
    );
}

/// Id 3 has deleted a row and ended. A snapshot with the xmin 3 reads it while a pruner, whom the map allows to, removes it.
#[test]
fn no_removed_row_is_used() {
    static SEEN: Histogram = Histogram::new();
    check(|| {
        let map = map();
        map.advance(0, || xid(4));
        let removed = Arc::new(AtomicBool::new(false));
        let pruners: Vec<_> = (0..2)
            .map(|_| {
                let (map, removed) = (map.clone(), removed.clone());
                thread::spawn(move || {
                    let limit = map.limit(2, xid(3));
                    if limit > xid(3) {
                        removed.store(true, Relaxed);
                    }
                    limit
                })
            })
            .collect();
        let reader = {
            let (map, removed) = (map.clone(), removed.clone());
            thread::spawn(move || {
                let gone = removed.load(Relaxed);
                let refused = map.check(xid(3), Stamp::default()).is_err();
                assert!(!gone || refused, "uses a removed row");
                (gone, refused)
            })
        };
        let limits = pruners.into_iter().map(|pruner| pruner.join().unwrap());
        // One of the two looked at the rows.
        assert_eq!(limits.max(), Some(xid(4)));
        let (gone, refused) = reader.join().unwrap();
        SEEN.count(format!("gone {gone}, refused {refused}"));
    });
    SEEN.assert_seen(&[
        "gone false, refused false",
        "gone false, refused true",
        "gone true, refused true",
    ]);
}

#[test]
fn weakened_pruning_fails() {
    assert_breaks(
        "no_removed_row_is_used",
        &[
            "snapmap.map.publish-fence",
            "snapmap.map.check-fence",
            "snapmap.map.not-published",
        ],
    );
}

/// Two pruners, one of them late with a limit from before the map had moved on, and a reader that asks twice.
#[test]
fn what_is_refused_never_falls() {
    static SEEN: Histogram = Histogram::new();
    check(|| {
        let map = map();
        map.advance(0, || xid(4));
        map.advance(1, || xid(5));
        // The first row is usable already.
        assert_eq!(map.limit(2, xid(3)), xid(4));
        let pruners: Vec<_> = [2, 3]
            .into_iter()
            .map(|now| {
                let map = map.clone();
                thread::spawn(move || map.limit(now, xid(3)))
            })
            .collect();
        let reader = {
            let map = map.clone();
            thread::spawn(move || {
                let before = map.refused_before();
                let after = map.refused_before();
                assert!(before <= after, "{after} after {before}");
                (before, after)
            })
        };
        let limits: Vec<Xid> = pruners
            .into_iter()
            .map(|pruner| pruner.join().unwrap())
            .collect();
        assert_eq!(limits[1], xid(5), "nobody else looks at the rows");
        assert_eq!(map.refused_before(), xid(5));
        let (before, after) = reader.join().unwrap();
        SEEN.count(format!("{before}, {after}"));
    });
    SEEN.assert_seen(&["4, 4", "4, 5", "5, 5"]);
}

#[test]
fn weakened_threshold_fails() {
    assert_breaks(
        "what_is_refused_never_falls",
        &["snapmap.map.threshold-stored"],
    );
}

/// What a transaction left before the map moved on past it, a pruner may read whom the map allows to: also one that finds the row looked up by another.
#[test]
fn a_pruner_reads_what_ended_transactions_left() {
    static SEEN: Histogram = Histogram::new();
    check(|| {
        let map = map();
        let left = Arc::new(Plain::new());
        let ender = {
            let (map, left) = (map.clone(), left.clone());
            thread::spawn(move || {
                left.write(1);
                map.advance(0, || xid(4));
                map.limit(2, xid(3));
            })
        };
        let pruner = {
            let (map, left) = (map.clone(), left.clone());
            thread::spawn(move || {
                let limit = map.limit(2, xid(3));
                if limit > xid(3) {
                    assert_eq!(left.read(), 1);
                }
                limit
            })
        };
        ender.join().unwrap();
        SEEN.count(pruner.join().unwrap());
    });
    SEEN.assert_seen(&["3", "4"]);
}

#[test]
fn weakened_limit_fails() {
    assert_breaks(
        "a_pruner_reads_what_ended_transactions_left",
        &["snapmap.map.usable", "snapmap.map.limit"],
    );
}
