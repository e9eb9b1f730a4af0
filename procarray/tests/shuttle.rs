//! Eight sessions at once, in random interleavings of sequentially consistent steps.
//!
//! `RUSTFLAGS='--cfg txnkit_model="shuttle"' cargo test --release -p procarray --test shuttle`
//!
//! The schedules come from the printed `SHUTTLE_RANDOM_SEED`, the same ones every time unless it is set; a failure prints one that replays it.
#![cfg(txnkit_model = "shuttle")]

use std::sync::Arc;

use procarray::{FixedProcArray, Membership, SnapshotSession, SnapshotView, Snapshots, Xid};
use shuttle::sync::Mutex;
use shuttle::thread;
use txnkit_sync::model::{assert_breaks, check};

/// A window of one word, so that it slides all the time; few old words, so that they overflow.
type Array = FixedProcArray<9, 9, 1>;

const SESSIONS: u64 = 8;

/// Every session runs transactions with children, and takes snapshots which must see whole families, hold the horizon, and be
/// ordered by inclusion with those of all others.
#[test]
fn eight_sessions_keep_the_order() {
    check(|| {
        // The first id is near the end of its word and of its epoch.
        let array = Arc::new(Array::new(Xid::new((1 << 32) - 12)));
        let snapshots = Arc::new(Mutex::new(Vec::new()));
        let actors: Vec<_> = (0..SESSIONS)
            .map(|at| {
                let (array, snapshots) = (array.clone(), snapshots.clone());
                thread::spawn(move || {
                    let mut session = array.register().unwrap();
                    for round in 0..3 {
                        let top = session.assign().unwrap();
                        let child = (at % 2 == 0).then(|| session.assign_child().unwrap());
                        let snapshot = session.snapshot().unwrap().clone();
                        assert_eq!(snapshot.membership(top), Membership::Running);
                        assert!(array.horizon() <= snapshot.xmin());
                        snapshots.lock().unwrap().push(snapshot);
                        if let Some(child) = child.filter(|_| at % 4 == 0) {
                            session.end_children(child, |_| Ok::<_, ()>(())).unwrap();
                            assert!(session.owns(top) && !session.owns(child));
                        }
                        if round < 2 || at % 3 != 0 {
                            session.end(|_, _| Ok::<_, ()>(())).unwrap();
                            assert_eq!(session.is_running(top).unwrap(), Membership::Completed);
                            let after = session.snapshot().unwrap();
                            assert_eq!(after.membership(top), Membership::Completed);
                            if let Some(child) = child {
                                assert_eq!(after.membership(child), Membership::Completed);
                            }
                        }
                        session.release();
                    }
                })
            })
            .collect();
        for actor in actors {
            actor.join().unwrap();
        }
        let next = array.next_xid();
        assert_eq!(array.horizon(), next, "dropped sessions hold nothing back");
        let mut ended: Vec<Vec<u64>> = snapshots
            .lock()
            .unwrap()
            .iter()
            .map(|snapshot| ended_ids(snapshot, next))
            .collect();
        ended.sort_by_key(Vec::len);
        for pair in ended.windows(2) {
            assert!(
                pair[0].iter().all(|xid| pair[1].contains(xid)),
                "not ordered: {pair:?}"
            );
        }
    });
}

fn ended_ids(snapshot: &impl SnapshotView, next: Xid) -> Vec<u64> {
    (((1 << 32) - 12)..next.get())
        .filter(|&xid| snapshot.membership(Xid::new(xid)) == Membership::Completed)
        .collect()
}

#[test]
fn broken_steps_are_found() {
    assert_breaks(
        "eight_sessions_keep_the_order",
        &["procarray.done.old-forgotten", "procarray.ends.no-unpark"],
    );
}
