//! The heap by itself: versions, waiting, pruning.

use core::time::Duration;
use std::sync::mpsc::channel;
use std::thread;

use bench_suite::heap::{Entry, History, Horizon, Table, Total, Update};
use multixact::LockTable;
use procarray::ProcArray;
use slru::{MemoryStore, StatusLog};
use txn_manager::{Isolation, NoRedo, Session, SnapMap, TxnManager, Xid};

type TestSession<'a> = Session<
    'a,
    (
        ProcArray,
        StatusLog<MemoryStore>,
        LockTable<MemoryStore>,
        SnapMap,
        NoRedo,
    ),
>;

struct Fixture {
    core: TxnManager,
    horizon: Horizon,
    table: Table,
}

impl Fixture {
    fn new(table: Table) -> Self {
        Self {
            core: TxnManager::in_memory(4),
            horizon: Horizon::default(),
            table,
        }
    }

    fn begin(&self, isolation: Isolation) -> TestSession<'_> {
        let mut session = self.core.session().unwrap();
        session.begin(isolation).unwrap();
        session.statement().unwrap();
        session
    }

    fn add(&self, session: &mut TestSession<'_>, row: usize, delta: i32) -> Update {
        self.table
            .add(&self.core, &self.horizon, session, row, delta)
            .unwrap()
    }

    /// `times` transactions, each adding one.
    fn count_up(&self, row: usize, times: u32) {
        let mut session = self.core.session().unwrap();
        for _ in 0..times {
            session.begin(Isolation::ReadCommitted).unwrap();
            session.statement().unwrap();
            self.add(&mut session, row, 1);
            session.commit().unwrap();
        }
    }

    fn read(&self, row: usize) -> i32 {
        self.table
            .read(&self.begin(Isolation::ReadCommitted), row)
            .unwrap()
            .unwrap()
    }
}

#[test]
fn rows_are_small() {
    const {
        assert!(
            Table::ROW_BYTES < 64,
            "ten million rows must fit into 640 MB"
        )
    };
}

#[test]
fn rows_are_apart_in_both_forms() {
    for table in [Table::dense(5), Table::spread(5)] {
        let heap = Fixture::new(table);
        assert_eq!(heap.table.len(), 5);
        for row in 0..5 {
            heap.count_up(row, row as u32 + 1);
        }
        assert_eq!(
            (0..5).map(|row| heap.read(row)).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5]
        );
        let session = heap.begin(Isolation::ReadCommitted);
        assert_eq!(heap.table.sum(&session).unwrap(), 15);
        let error = heap.table.read(&session, 5).unwrap_err();
        assert!(error.to_string().contains("row 5"), "{error}");
    }
}

#[test]
fn an_updater_waits_for_the_one_before_it() {
    let heap = Fixture::new(Table::dense(1));
    let mut first = heap.begin(Isolation::ReadCommitted);
    assert_eq!(
        heap.add(&mut first, 0, 10),
        Update::Done {
            value: 10,
            waits: 0
        }
    );
    let (start, started) = channel();
    let (done, second_is_done) = channel();
    thread::scope(|scope| {
        let heap = &heap;
        scope.spawn(move || {
            let mut second = heap.begin(Isolation::ReadCommitted);
            start.send(()).unwrap();
            let update = heap.add(&mut second, 0, 1);
            done.send(update).unwrap();
            second.commit().unwrap();
        });
        started.recv().unwrap();
        let early = second_is_done.recv_timeout(Duration::from_millis(50));
        assert!(early.is_err(), "the row is locked, yet: {early:?}");
        first.commit().unwrap();
        let update = second_is_done
            .recv_timeout(Duration::from_secs(20))
            .unwrap();
        assert!(
            matches!(update, Update::Done { value: 11, .. }),
            "it goes on from the newest version: {update:?}"
        );
    });
    assert_eq!(heap.read(0), 11);
}

#[test]
fn after_an_abort_the_version_before_counts() {
    let heap = Fixture::new(Table::dense(1));
    heap.count_up(0, 3);
    let mut aborted = heap.begin(Isolation::ReadCommitted);
    heap.add(&mut aborted, 0, 100);
    heap.add(&mut aborted, 0, 1000);
    assert_eq!(heap.table.read(&aborted, 0).unwrap(), Some(1103));
    assert_eq!(heap.read(0), 3);
    aborted.abort().unwrap();
    assert_eq!(heap.read(0), 3);
    heap.count_up(0, 1);
    assert_eq!(heap.read(0), 4);
}

#[test]
fn repeatable_read_does_not_overwrite_what_it_does_not_see() {
    let heap = Fixture::new(Table::dense(2));
    let mut old = heap.begin(Isolation::RepeatableRead);
    heap.count_up(0, 1);
    assert_eq!(heap.table.read(&old, 0).unwrap(), Some(0));
    assert_eq!(
        heap.add(&mut old, 1, 5),
        Update::Done { value: 5, waits: 0 }
    );
    assert_eq!(heap.add(&mut old, 0, 5), Update::Conflict { waits: 0 });
    old.abort().unwrap();
    assert_eq!((heap.read(0), heap.read(1)), (1, 0));
}

#[test]
fn pruning_keeps_chains_short() {
    let heap = Fixture::new(Table::dense(1));
    for _ in 0..100 {
        heap.count_up(0, 100);
        let versions = heap.table.versions(0).unwrap();
        // A horizon serves for 32 ids, and a chain is looked through at every doubling of its length.
        assert!(versions <= 65, "{versions} versions");
    }
    assert_eq!(heap.read(0), 10_000);
}

#[test]
fn pruning_spares_what_somebody_sees() {
    let heap = Fixture::new(Table::dense(1));
    heap.count_up(0, 10);
    let mut old = heap.begin(Isolation::RepeatableRead);
    heap.count_up(0, 1000);
    assert_eq!(heap.table.read(&old, 0).unwrap(), Some(10));
    assert!(heap.table.versions(0).unwrap() > 1000);
    old.commit().unwrap();
    // The next doubling of the chain at the latest.
    heap.count_up(0, 1100);
    assert!(heap.table.versions(0).unwrap() < 1100);
    assert_eq!(heap.read(0), 2110);
}

#[test]
fn a_chain_of_any_length_can_be_dropped() {
    let heap = Fixture::new(Table::dense(1));
    let old = heap.begin(Isolation::RepeatableRead);
    heap.count_up(0, 100_000);
    assert_eq!(heap.table.read(&old, 0).unwrap(), Some(0));
    drop(old);
    drop(heap);
}

#[test]
fn history_counts_what_committed_and_stays_small() {
    const LINES: u32 = 50_000;
    let core = TxnManager::in_memory(2);
    let (history, horizon) = (History::new(), Horizon::default());
    let mut session = core.session().unwrap();
    let mut expected = Total::default();
    for i in 0..LINES {
        session.begin(Isolation::ReadCommitted).unwrap();
        let entry = Entry {
            xid: session.xid().unwrap(),
            aid: i,
            tid: 0,
            bid: 0,
            delta: i as i32,
        };
        history.insert(&core, &horizon, 0, entry).unwrap();
        if i % 10 == 0 {
            session.abort().unwrap();
        } else {
            session.commit().unwrap();
            expected.lines += 1;
            expected.delta += i64::from(i);
        }
    }
    session.begin(Isolation::ReadCommitted).unwrap();
    session.statement().unwrap();
    assert_eq!(history.total(&session).unwrap(), expected);
    assert!(
        history.kept_lines() < LINES as usize / 2,
        "{} lines kept one by one",
        history.kept_lines()
    );
    assert!(horizon.kept() > Xid::FIRST_NORMAL);
}
