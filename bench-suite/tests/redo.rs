//! The shared redo log.

use std::thread;

use bench_suite::redo::SharedLog;
use txn_manager::{Redo, Xid};

const HEADER: u64 = 13;

#[test]
fn records_of_all_threads_are_taken_in_at_different_positions() {
    let log = SharedLog::start().unwrap();
    let mut positions: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let log = &log;
                scope.spawn(move || -> Vec<_> {
                    (0..1000)
                        .map(|_| log.change(Xid::new(3 + thread), &[0; 20]).unwrap())
                        .collect()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    positions.sort();
    positions.dedup();
    assert_eq!(positions.len(), 4000);
    assert_eq!(log.bytes(), 4000 * (HEADER + 20));
}

#[test]
fn a_full_buffer_is_written_out_before_more_is_taken_in() {
    let log = SharedLog::start().unwrap();
    let image = vec![1; 1 << 20];
    for _ in 0..40 {
        log.change(Xid::new(3), &image).unwrap();
    }
    log.commit(Xid::new(3), &[]).unwrap();
    assert_eq!(log.bytes(), 40 * (HEADER + (1 << 20)) + HEADER);
}

#[test]
fn a_record_that_can_never_fit_is_refused() {
    let log = SharedLog::start().unwrap();
    let error = log.change(Xid::new(3), &vec![0; 17 << 20]).unwrap_err();
    assert!(
        error.to_string().contains("longer than the log's buffer"),
        "{error}"
    );
    log.commit(Xid::new(3), &[]).unwrap();
}

#[test]
fn a_reservation_is_written_before_it_counts() {
    let log = SharedLog::start().unwrap();
    log.reserve_ids(Xid::new(1000)).unwrap();
    assert_eq!(log.bytes(), HEADER);
}
