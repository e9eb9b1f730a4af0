//! What every status store does, whatever its pool and wherever its pages live.

mod common;

use common::{run, x};
use slru::{
    FileStore, FixedStatusLog, Lsn, MemoryStore, Status, StatusErrorKind, StatusLog, StatusStore,
    Xid, XidRun,
};

const NO_LOG: Lsn = Lsn::INVALID;

/// Runs one test on every form. Each begins at id 3.
fn on_every_form(test: impl Fn(&dyn StatusStore)) {
    test(&StatusLog::new(MemoryStore::new(), 1, Xid::FIRST_NORMAL));
    test(&FixedStatusLog::<_, 2>::new_fixed(
        MemoryStore::new(),
        Xid::FIRST_NORMAL,
    ));
    let dir = tempfile::tempdir().unwrap();
    test(&StatusLog::new(
        FileStore::create(dir.path(), slru::Layout::STATUS, 0).unwrap(),
        32,
        Xid::FIRST_NORMAL,
    ));
    #[cfg(feature = "baselines")]
    on_every_baseline(test);
}

#[cfg(feature = "baselines")]
fn on_every_baseline(test: impl Fn(&dyn StatusStore)) {
    use slru::baseline::{Banked, History, SingleLock};
    use txnkit_sync::lock::{LockOf2011, LockOfToday};

    let first = Xid::FIRST_NORMAL;
    test(&SingleLock::<_, LockOf2011>::new(
        MemoryStore::new(),
        4,
        first,
    ));
    test(&SingleLock::<_, LockOfToday>::new(
        MemoryStore::new(),
        4,
        first,
    ));
    test(&Banked::<_, LockOfToday>::new(
        MemoryStore::new(),
        32,
        first,
    ));
    test(&History::<_, LockOf2011>::new(MemoryStore::new(), 4, first));
}

#[test]
fn an_id_is_in_progress_until_set_and_its_neighbours_stay_so() {
    on_every_form(|log| {
        for (xid, status) in [
            (100, Status::Committed),
            (101, Status::Aborted),
            (102, Status::SubCommitted),
        ] {
            assert_eq!(log.get(x(xid)), Ok(Status::InProgress));
            log.set(x(xid), status, NO_LOG).unwrap();
            assert_eq!(log.get(x(xid)), Ok(status));
        }
        assert_eq!(log.get(x(99)), Ok(Status::InProgress));
        assert_eq!(log.get(x(103)), Ok(Status::InProgress));
    });
}

#[test]
fn ids_that_are_never_handed_out_cannot_be_set_and_one_and_two_are_committed() {
    on_every_form(|log| {
        for special in [Xid::INVALID, Xid::BOOTSTRAP, Xid::FROZEN] {
            let wanted = StatusErrorKind::Special { xid: special };
            assert_eq!(
                log.set(special, Status::Committed, NO_LOG)
                    .unwrap_err()
                    .kind(),
                &wanted
            );
            assert_eq!(
                log.set_tree(special, &[], Status::Committed, NO_LOG)
                    .unwrap_err()
                    .kind(),
                &wanted
            );
        }
        // Before and after their page is in the pool, and in an epoch far away.
        for _ in 0..2 {
            for epoch in [0, 7 << 32] {
                assert_eq!(log.get(x(epoch + 1)), Ok(Status::Committed));
                assert_eq!(log.get(x(epoch + 2)), Ok(Status::Committed));
                assert_eq!(
                    log.get(x(epoch)).unwrap_err().kind(),
                    &StatusErrorKind::Special { xid: x(epoch) }
                );
            }
            log.set(x(3), Status::Committed, NO_LOG).unwrap();
        }
    });
}

#[test]
fn a_recorded_end_stays() {
    on_every_form(|log| {
        log.set(x(50), Status::Committed, NO_LOG).unwrap();
        let refused = log.set(x(50), Status::Aborted, NO_LOG).unwrap_err();
        let wanted = StatusErrorKind::Recorded {
            xid: x(50),
            recorded: Status::Committed,
            wanted: Status::Aborted,
        };
        assert_eq!(refused.kind(), &wanted);
        // Repeating is allowed, and a late sub-commit changes nothing.
        log.set(x(50), Status::Committed, NO_LOG).unwrap();
        log.set(x(50), Status::SubCommitted, NO_LOG).unwrap();
        assert_eq!(log.get(x(50)), Ok(Status::Committed));
        let refused = log
            .set_tree(x(49), &[run(50, 1)], Status::Aborted, NO_LOG)
            .unwrap_err();
        assert_eq!(refused.kind(), &wanted);
        assert_eq!(log.get(x(49)), Ok(Status::InProgress));
    });
}

#[test]
fn a_tree_is_set_whole_within_a_word_across_words_and_across_pages() {
    let trees: &[(u64, &[XidRun])] = &[
        (10, &[]),
        (32, &[run(33, 5)]),
        (70, &[run(71, 100)]),
        (1000, &[run(1001, 1), run(1003, 1), run(1040, 9)]),
        (32_760, &[run(32_761, 40_000), run(72_800, 3)]),
        // The top is not the first of its word.
        (200_000, &[run(199_999, 1), run(200_001, 70_000)]),
    ];
    for status in [Status::Committed, Status::Aborted] {
        on_every_form(|log| {
            for &(top, children) in trees {
                log.set_tree(x(top), children, status, NO_LOG).unwrap();
            }
            for &(top, children) in trees {
                let ids = || children.iter().flat_map(|run| run.iter()).chain([x(top)]);
                for xid in ids() {
                    assert_eq!(log.get(xid), Ok(status), "{xid}");
                }
            }
            for outside in [
                9, 11, 38, 171, 1002, 1004, 1049, 72_761, 72_803, 199_998, 270_001,
            ] {
                assert_eq!(log.get(x(outside)), Ok(Status::InProgress), "{outside}");
            }
        });
    }
}

#[test]
fn a_tree_ends_committed_or_aborted() {
    on_every_form(|log| {
        for wanted in [Status::InProgress, Status::SubCommitted] {
            let refused = log
                .set_tree(x(10), &[run(11, 1)], wanted, NO_LOG)
                .unwrap_err();
            assert_eq!(refused.kind(), &StatusErrorKind::NotFinal { wanted });
            assert_eq!(log.get(x(11)), Ok(Status::InProgress));
        }
    });
}

#[test]
fn an_interrupted_commit_can_be_repeated() {
    on_every_form(|log| {
        // As left behind by a failure before, and by one after the parent's status.
        log.set(x(40_000), Status::SubCommitted, NO_LOG).unwrap();
        log.set_tree(x(5), &[run(40_000, 2)], Status::Committed, NO_LOG)
            .unwrap();
        log.set(x(6), Status::Committed, NO_LOG).unwrap();
        log.set(x(40_010), Status::Committed, NO_LOG).unwrap();
        log.set_tree(x(6), &[run(40_010, 2)], Status::Committed, NO_LOG)
            .unwrap();
        for xid in [5, 6, 40_000, 40_001, 40_010, 40_011] {
            assert_eq!(log.get(x(xid)), Ok(Status::Committed));
        }
    });
}

#[test]
fn the_future_is_an_error_two_pages_ahead_and_in_progress_before() {
    on_every_form(|log| {
        assert_eq!(log.get(x(32_767)), Ok(Status::InProgress));
        assert_eq!(log.get(x(65_535)), Ok(Status::InProgress));
        let wanted = StatusErrorKind::Future {
            xid: x(65_536),
            last: x(65_535),
        };
        assert_eq!(log.get(x(65_536)).unwrap_err().kind(), &wanted);
        // Setting goes further, as far as ids can be alive.
        log.set(x(65_536), Status::Aborted, NO_LOG).unwrap();
        assert_eq!(log.get(x(65_536)), Ok(Status::Aborted));
        assert_eq!(log.get(x(40_000)), Ok(Status::InProgress));
        let too_far = x(65_536 + (1 << 31) + 32_768);
        assert!(matches!(
            log.set(too_far, Status::Aborted, NO_LOG).unwrap_err().kind(),
            StatusErrorKind::Future { xid, .. } if *xid == too_far
        ));
    });
}

#[test]
fn the_ends_of_all_ids_are_errors_and_not_panics() {
    on_every_form(|log| {
        for xid in [Xid::MAX, x(u64::MAX - (1 << 31)), x((1 << 63) + 5)] {
            assert!(matches!(
                log.get(xid).unwrap_err().kind(),
                StatusErrorKind::Future { .. }
            ));
            assert!(log.set(xid, Status::Committed, NO_LOG).is_err());
        }
    });
    let at_end = StatusLog::new(MemoryStore::new(), 16, Xid::MAX);
    at_end.set(Xid::MAX, Status::Committed, NO_LOG).unwrap();
    assert_eq!(at_end.get(Xid::MAX), Ok(Status::Committed));
}

#[test]
fn ids_past_the_first_epoch_are_their_own() {
    let first = (1 << 32) + 3;
    let log = StatusLog::new(MemoryStore::new(), 16, x((1 << 32) - 100));
    log.set(x((1 << 32) - 1), Status::Committed, NO_LOG)
        .unwrap();
    log.set_tree(x(first), &[run(first + 1, 50)], Status::Aborted, NO_LOG)
        .unwrap();
    assert_eq!(log.get(x((1 << 32) - 1)), Ok(Status::Committed));
    assert_eq!(log.get(x(first + 50)), Ok(Status::Aborted));
    assert!(matches!(
        log.get(x(3)).unwrap_err().kind(),
        StatusErrorKind::TooOld { .. }
    ));
}

#[test]
fn truncated_ids_are_too_old_and_the_rest_is_kept() {
    let log = StatusLog::new(MemoryStore::new(), 16, Xid::FIRST_NORMAL);
    for page in 0..40 {
        log.set(x(page * 32_768 + 5), Status::Committed, NO_LOG)
            .unwrap();
    }
    log.truncate(x(20 * 32_768 + 77)).unwrap();
    assert_eq!(log.oldest(), x(20 * 32_768));
    let old = x(20 * 32_768 - 1);
    let wanted = StatusErrorKind::TooOld {
        xid: old,
        oldest: x(20 * 32_768),
    };
    assert_eq!(log.get(old).unwrap_err().kind(), &wanted);
    assert_eq!(
        log.set(old, Status::Committed, NO_LOG).unwrap_err().kind(),
        &wanted
    );
    for page in 20..40 {
        assert_eq!(log.get(x(page * 32_768 + 5)), Ok(Status::Committed));
    }
    // Backwards, and repeated: nothing. Past the end: refused.
    log.truncate(x(3)).unwrap();
    log.truncate(x(20 * 32_768)).unwrap();
    assert_eq!(log.oldest(), x(20 * 32_768));
    assert!(matches!(
        log.truncate(x(40 * 32_768)).unwrap_err().kind(),
        StatusErrorKind::Future { .. }
    ));
    log.flush().unwrap();
    assert!(log.store().pages() <= 20);
}

#[test]
fn a_log_cannot_end_before_it_begins() {
    let refused = StatusLog::open(MemoryStore::new(), 16, x(10), x(9)).unwrap_err();
    assert_eq!(
        refused.kind(),
        &StatusErrorKind::Backwards {
            oldest: x(10),
            next: x(9)
        }
    );
}
