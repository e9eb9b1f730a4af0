//! Random histories against the simplest thing that could be right, with pools much smaller than the log.

mod common;

extern crate alloc;

use alloc::collections::BTreeMap;

use common::{Random, run, x};
use slru::{
    FileStore, FixedStatusLog, Layout, Lsn, MemoryStore, Status, StatusError, StatusErrorKind,
    StatusLog, StatusStore, Xid,
};

const PAGE: u64 = 32_768;
const PAGES: u64 = 50;

/// What is recorded, and from which id on.
#[derive(Default)]
struct Oracle {
    statuses: BTreeMap<u64, Status>,
    oldest: u64,
}

impl Oracle {
    fn get(&self, xid: u64) -> Status {
        self.statuses
            .get(&xid)
            .copied()
            .unwrap_or(Status::InProgress)
    }

    fn set(&mut self, xid: u64, status: Status) -> bool {
        let recorded = self.get(xid);
        let allowed = matches!(
            (recorded, status),
            (Status::InProgress, _) | (Status::SubCommitted, Status::Committed | Status::Aborted)
        );
        if allowed {
            self.statuses.insert(xid, status);
        }
        allowed
            || recorded == status
            || (recorded, status) == (Status::Committed, Status::SubCommitted)
    }
}

/// Ids in clumps round page and word boundaries, where they matter.
fn some_id(random: &mut Random) -> u64 {
    let page = random.below(PAGES) * PAGE;
    let within = match random.below(3) {
        0 => random.below(70),
        1 => PAGE - 1 - random.below(70),
        _ => random.below(PAGE),
    };
    (page + within).max(3)
}

/// One step of a history; the whole log is set up to its last page first, so every id can be asked for.
fn step(random: &mut Random, log: &dyn StatusStore, oracle: &mut Oracle) {
    let xid = some_id(random);
    let status =
        [Status::Committed, Status::Aborted, Status::SubCommitted][random.below(3) as usize];
    match random.below(10) {
        0..5 => check_get(log.get(x(xid)), xid, oracle),
        5..8 => {
            let result = log.set(x(xid), status, Lsn::new(random.below(100)));
            if xid < oracle.oldest {
                assert_too_old(result);
            } else {
                assert_eq!(
                    result.is_ok(),
                    oracle.set(xid, status),
                    "set {xid} to {status:?}"
                );
            }
        }
        8 => {
            // Only a tree that nothing is known of yet.
            let children = [
                run(xid + 1, 1 + random.below(90) as u32),
                run(xid + PAGE, 1 + random.below(40) as u32),
            ];
            let ids = || {
                children
                    .iter()
                    .flat_map(|run| run.iter())
                    .chain([x(xid)])
                    .map(Xid::get)
            };
            let fresh = ids().all(|id| oracle.get(id) == Status::InProgress && id < PAGES * PAGE);
            if fresh && xid >= oracle.oldest && status != Status::SubCommitted {
                log.set_tree(x(xid), &children, status, Lsn::INVALID)
                    .unwrap();
                ids().for_each(|id| assert!(oracle.set(id, status)));
            }
        }
        _ => log.flush().unwrap(),
    }
}

fn check_get(got: Result<Status, StatusError>, xid: u64, oracle: &Oracle) {
    if xid < oracle.oldest {
        assert_too_old(got)
    } else {
        assert_eq!(got, Ok(oracle.get(xid)), "status of {xid}")
    }
}

fn assert_too_old<T: core::fmt::Debug>(result: Result<T, StatusError>) {
    assert!(matches!(
        result.unwrap_err().kind(),
        StatusErrorKind::TooOld { .. }
    ));
}

fn check_all(log: &dyn StatusStore, oracle: &Oracle) {
    for &xid in oracle.statuses.keys() {
        check_get(log.get(x(xid)), xid, oracle);
    }
}

fn extend(log: &dyn StatusStore, oracle: &mut Oracle) {
    log.set(x(PAGES * PAGE - 1), Status::Aborted, Lsn::INVALID)
        .unwrap();
    oracle.set(PAGES * PAGE - 1, Status::Aborted);
}

#[test]
fn a_log_in_memory_agrees_with_the_oracle() {
    for seed in 1..=4 {
        let mut random = Random::new(seed);
        let log = StatusLog::new(MemoryStore::new(), 16, Xid::FIRST_NORMAL);
        let mut oracle = Oracle::default();
        extend(&log, &mut oracle);
        for step_number in 0..6000 {
            step(&mut random, &log, &mut oracle);
            if step_number % 2000 == 1999 {
                let cutoff = oracle.oldest / PAGE + random.below(8);
                log.truncate(x(cutoff * PAGE + random.below(PAGE))).unwrap();
                oracle.oldest = cutoff * PAGE;
            }
        }
        check_all(&log, &oracle);
    }
}

#[test]
fn a_log_in_place_agrees_with_the_oracle() {
    let mut random = Random::new(5);
    let log = FixedStatusLog::<_, 3>::new_fixed(MemoryStore::new(), Xid::FIRST_NORMAL);
    let mut oracle = Oracle::default();
    extend(&log, &mut oracle);
    for _ in 0..6000 {
        step(&mut random, &log, &mut oracle);
    }
    check_all(&log, &oracle);
}

#[test]
fn a_log_in_files_agrees_with_the_oracle_also_when_opened_again() {
    let mut random = Random::new(6);
    let dir = tempfile::tempdir().unwrap();
    let behind_log = |store| slru::LogFirst::new(store, |_| Ok(()));
    let mut oracle = Oracle::default();
    let mut log = StatusLog::new(
        behind_log(FileStore::create(dir.path(), Layout::STATUS, 0).unwrap()),
        16,
        Xid::FIRST_NORMAL,
    );
    extend(&log, &mut oracle);
    for _ in 0..6 {
        for _ in 0..700 {
            step(&mut random, &log, &mut oracle);
        }
        let cutoff = oracle.oldest / PAGE + random.below(9);
        log.truncate(x(cutoff * PAGE)).unwrap();
        oracle.oldest = cutoff * PAGE;
        log.flush().unwrap();
        let (oldest, next) = (x(oracle.oldest), x(PAGES * PAGE));
        let store = FileStore::open(
            dir.path(),
            Layout::STATUS,
            Layout::STATUS.pages(oldest, next),
        )
        .unwrap();
        log = StatusLog::open(behind_log(store), 16, oldest, next).unwrap();
    }
    check_all(&log, &oracle);
}

/// Few buffers, so that pages come and go all the time.
#[cfg(feature = "baselines")]
#[test]
fn the_baselines_agree_with_the_oracle() {
    use slru::baseline::{Banked, History, SingleLock};
    use txnkit_sync::lock::LockOfToday;

    let first = Xid::FIRST_NORMAL;
    macro_rules! check {
        ($seed:literal, $log:expr) => {
            let mut random = Random::new($seed);
            let log = $log;
            let mut oracle = Oracle::default();
            extend(&log, &mut oracle);
            for step_number in 0..6000 {
                step(&mut random, &log, &mut oracle);
                if step_number % 2000 == 1999 {
                    let cutoff = oracle.oldest / PAGE + random.below(8);
                    log.truncate(x(cutoff * PAGE + random.below(PAGE))).unwrap();
                    oracle.oldest = cutoff * PAGE;
                }
            }
            check_all(&log, &oracle);
        };
    }
    check!(
        7,
        SingleLock::<_, LockOfToday>::new(MemoryStore::new(), 5, first)
    );
    check!(
        8,
        Banked::<_, LockOfToday>::new(MemoryStore::new(), 16, first)
    );
    check!(
        9,
        History::<_, LockOfToday>::new(MemoryStore::new(), 5, first)
    );
}
