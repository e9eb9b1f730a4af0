//! Random histories against the simplest thing that could be right, with pools much smaller than the log.

mod common;

extern crate alloc;

use alloc::collections::BTreeMap;

use common::{run, x};
use slru::{
    CommitTimestamp, CommitTimestamps, FileStore, FixedStatusLog, Layout, Lsn, MemoryStore,
    PageStore, Parents, Status, StatusError, StatusErrorKind, StatusLog, StatusStore, Xid,
};
use txnkit_sync::Random;

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
        let mut random = Random::seeded_with(seed);
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
    let mut random = Random::seeded_with(5);
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
    let mut random = Random::seeded_with(6);
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
            let mut random = Random::seeded_with($seed);
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

/// Ids in clumps round the boundaries of pages that hold so many.
fn clumped(random: &mut Random, page: u64, first: u64, last: u64) -> u64 {
    let id = first + random.below(last - first + 1);
    let id = match random.below(3) {
        0 => id,
        1 => id - id % page + random.below(4),
        _ => id - id % page + page - 1 - random.below(4),
    };
    id.clamp(first, last)
}

/// A history of parents from `first` on: set, looked up, followed up, forgotten.
fn parents_agree<S: PageStore>(
    random: &mut Random,
    first: u64,
    mut parents: Parents<S>,
    mut reopen: impl FnMut(Parents<S>, u64, u64) -> Parents<S>,
) {
    const IDS: u64 = 60 * 2048;
    let mut oracle = BTreeMap::new();
    let mut oldest = first;
    for step in 0..12_000 {
        let child = clumped(random, 2048, first, first + IDS);
        let parent = clumped(random, 2048, first, first + IDS);
        let too_old = child / 2048 < oldest / 2048;
        match random.below(3) {
            0 if too_old || x(child).is_special() => {}
            0 => {
                let recorded = oracle.get(&child).copied();
                let allowed = parent < child
                    && !x(parent).is_special()
                    && recorded.is_none_or(|recorded| recorded == parent);
                let result = parents.set(x(child), x(parent));
                assert_eq!(result.is_ok(), allowed, "{child} of {parent}: {result:?}");
                if allowed {
                    oracle.insert(child, parent);
                }
            }
            1 if too_old => {
                let error = parents.parent(x(child)).unwrap_err();
                assert!(matches!(error.kind(), StatusErrorKind::TooOld { .. }));
            }
            1 => assert_eq!(
                parents.parent(x(child)),
                Ok(oracle.get(&child).copied().map(x)),
                "{child}"
            ),
            _ => {
                let mut top = child;
                while top >= oldest {
                    match oracle.get(&top) {
                        Some(&parent) => top = parent,
                        None => break,
                    }
                }
                assert_eq!(parents.topmost(x(child), x(oldest)), Ok(x(top)), "{child}");
            }
        }
        if step % 3000 == 2999 {
            // The last page has to be there for opening again.
            let last = first + IDS;
            parents.set(x(last), x(last - 1)).ok();
            oracle.entry(last).or_insert(last - 1);
            oldest += random.below(9 * 2048);
            parents.truncate(x(oldest)).unwrap();
            parents = reopen(parents, oldest, last + 1);
        }
    }
}

#[test]
fn parents_agree_with_the_oracle() {
    for (seed, first) in [(20, 3), (21, (1 << 32) - 30 * 2048)] {
        let parents = Parents::new(MemoryStore::new(), 16, x(first));
        parents_agree(
            &mut Random::seeded_with(seed),
            first,
            parents,
            |same, _, _| same,
        );
    }
    let dir = tempfile::tempdir().unwrap();
    let first = (7 << 32) - 20 * 2048;
    let page = Layout::PARENTS.page_of(x(first));
    let store = FileStore::create(dir.path(), Layout::PARENTS, page).unwrap();
    let parents = Parents::new(store, 16, x(first));
    parents_agree(
        &mut Random::seeded_with(22),
        first,
        parents,
        |old, oldest, next| {
            old.flush().unwrap();
            let pages = Layout::PARENTS.pages(x(oldest), x(next));
            let store = FileStore::open(dir.path(), Layout::PARENTS, pages).unwrap();
            Parents::open(store, 16, x(oldest), x(next)).unwrap()
        },
    );
}

/// A history of timestamps from `first` on: set with children, looked up, forgotten.
fn timestamps_agree<S: PageStore>(
    random: &mut Random,
    first: u64,
    mut log: CommitTimestamps<S>,
    mut reopen: impl FnMut(CommitTimestamps<S>) -> CommitTimestamps<S>,
) {
    const IDS: u64 = 70 * 819;
    let mut oracle = BTreeMap::new();
    let mut oldest = first;
    let mut last = None;
    for step in 0..12_000 {
        let xid = clumped(random, 819, first, first + IDS);
        let at = CommitTimestamp {
            micros: random.next() as i64,
            origin: random.next() as u16,
        };
        if random.below(2) == 0 {
            let children: Vec<_> = (0..random.below(3))
                .filter_map(|_| {
                    let first = clumped(random, 819, xid, first + IDS);
                    slru::XidRun::new(x(first), 1 + random.below(5) as u32).ok()
                })
                .collect();
            let result = log.set(x(xid), &children, at, Lsn::INVALID);
            let allowed = xid >= oldest && !x(xid).is_special();
            assert_eq!(result.is_ok(), allowed, "{xid} {children:?}: {result:?}");
            if allowed {
                oracle.insert(xid, at);
                oracle.extend(
                    children
                        .iter()
                        .flat_map(|run| run.iter())
                        .map(|child| (child.get(), at)),
                );
                last = Some(xid);
            }
        } else if x(xid).low32().get() != 0 {
            let wanted = oracle.get(&xid).copied().filter(|_| xid >= oldest);
            assert_eq!(log.get(x(xid)), Ok(wanted), "{xid}");
        }
        let latest = log.latest().unwrap();
        let wanted = last.filter(|&xid| xid >= oldest);
        assert_eq!(latest, wanted.map(|xid| (x(xid), oracle[&xid])));
        if step % 3000 == 2999 {
            oldest += random.below(9 * 819);
            log.advance_oldest(x(oldest)).unwrap();
            log = reopen(log);
            last = log.latest().unwrap().map(|(xid, _)| xid.get());
        }
    }
}

#[test]
fn timestamps_agree_with_the_oracle() {
    for (seed, first) in [(30, 3), (31, (1 << 32) - 30 * 819)] {
        let log = CommitTimestamps::new(MemoryStore::new(), 16, x(first));
        timestamps_agree(&mut Random::seeded_with(seed), first, log, |same| same);
    }
    let dir = tempfile::tempdir().unwrap();
    let first = (7 << 32) - 20 * 819;
    let page = Layout::TIMESTAMPS.page_of(x(first));
    let store = FileStore::create(dir.path(), Layout::TIMESTAMPS, page).unwrap();
    let log = CommitTimestamps::new(store, 16, x(first));
    timestamps_agree(&mut Random::seeded_with(32), first, log, |old| {
        old.flush().unwrap();
        let (oldest, next) = (old.oldest(), x(old.newest().get() + 1));
        let pages = Layout::TIMESTAMPS.pages(oldest, next);
        let store = FileStore::open(dir.path(), Layout::TIMESTAMPS, pages).unwrap();
        CommitTimestamps::open(store, 16, oldest, next).unwrap()
    });
}
