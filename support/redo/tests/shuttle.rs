//! Eight committers at once, in random interleavings of sequentially consistent steps.
//!
//! `RUSTFLAGS='--cfg txnkit_model="shuttle"' cargo test --release -p txnkit-redo --test shuttle`
//!
//! The schedules come from the printed `SHUTTLE_RANDOM_SEED`, the same ones every time unless it is set; a failure prints one that replays it.
#![cfg(txnkit_model = "shuttle")]

use std::sync::Arc;

use shuttle::thread;
use txnkit_redo::{Lsn, MemoryStore, RedoLog};
use txnkit_sync::model::{assert_breaks, check};

/// Everybody's flush returns, what it says is durable can be read, and every record is there once.
#[test]
fn eight_committers_are_all_served() {
    check(|| {
        let log = Arc::new(RedoLog::open(MemoryStore::new()).unwrap().0);
        let actors: Vec<_> = (0..8_u8)
            .map(|kind| {
                let log = log.clone();
                thread::spawn(move || {
                    for round in 0..2_u8 {
                        let end = log.append(kind, &[&[round]]).unwrap();
                        log.flush(end).unwrap();
                        assert!(log.flushed() >= end);
                        let start = Lsn::new(end.get() - 32);
                        let record = log.records(start).next().unwrap().unwrap();
                        assert_eq!((record.kind, &record.payload[..]), (kind, &[round][..]));
                    }
                })
            })
            .collect();
        for actor in actors {
            actor.join().unwrap();
        }
        let mut kinds: Vec<u8> = log.records(Lsn::new(0)).map(|r| r.unwrap().kind).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, (0..16).map(|i| i / 2).collect::<Vec<u8>>());
    });
}

#[test]
fn broken_steps_are_found() {
    assert_breaks(
        "eight_committers_are_all_served",
        &["redo.log.not-listed", "redo.log.not-woken"],
    );
}
