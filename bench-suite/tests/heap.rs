//! The heap by itself: versions, waiting, pruning.

use core::time::Duration;
use std::sync::mpsc::channel;
use std::thread;

use bench_suite::heap::{Client, Entry, Heap, History, Table, Total, Update};
use bufpin::BufferPool;
use multixact::LockTable;
use procarray::ProcArray;
use slru::{MemoryStore, StatusLog};
use txn_manager::{Isolation, NoRedo, SnapMap, TxnManager, Xid};

type Mechanisms = (
    ProcArray,
    StatusLog<MemoryStore>,
    LockTable<MemoryStore>,
    SnapMap,
    NoRedo,
);
type Pool = BufferPool<bufpin::MemoryStore>;
type TestClient<'a> = Client<'a, Mechanisms, Pool>;

const CLIENTS: usize = 4;

struct Fixture {
    heap: Heap<Mechanisms, Pool>,
    table: Table,
}

/// How a table is laid out.
#[derive(Clone, Copy)]
enum Form {
    Dense,
    Spread,
}

impl Fixture {
    fn new(form: Form, rows: usize) -> Self {
        Self::with_buffers(form, rows, 64)
    }

    fn with_buffers(form: Form, rows: usize, buffers: usize) -> Self {
        let pool = Pool::new(bufpin::MemoryStore::new(), buffers, CLIENTS);
        let heap = Heap::new(TxnManager::in_memory(CLIENTS), pool);
        let pins = heap.client().unwrap().pins;
        let table = match form {
            Form::Dense => Table::dense(&pins, 0, rows),
            Form::Spread => Table::spread(&pins, 0, rows),
        };
        drop(pins);
        Self {
            table: table.unwrap(),
            heap,
        }
    }

    fn begin(&self, isolation: Isolation) -> TestClient<'_> {
        let mut client = self.heap.client().unwrap();
        client.session.begin(isolation).unwrap();
        client.session.statement().unwrap();
        client
    }

    fn add(&self, client: &mut TestClient<'_>, row: usize, delta: i32) -> Update {
        self.table.add(&self.heap, client, row, delta).unwrap()
    }

    /// `times` transactions, each adding one.
    fn count_up(&self, row: usize, times: u32) {
        let mut client = self.heap.client().unwrap();
        for _ in 0..times {
            client.session.begin(Isolation::ReadCommitted).unwrap();
            client.session.statement().unwrap();
            self.add(&mut client, row, 1);
            client.session.commit().unwrap();
        }
    }

    fn read(&self, row: usize) -> i32 {
        self.table
            .read(&self.begin(Isolation::ReadCommitted), row)
            .unwrap()
            .unwrap()
    }

    fn versions(&self, row: usize) -> usize {
        self.table
            .versions(&self.heap.client().unwrap(), row)
            .unwrap()
    }
}

#[test]
fn rows_are_small() {
    let bytes = Table::dense_pages(10_000_000) * 8192;
    assert!(bytes < 640_000_000, "ten million rows must fit into 640 MB");
}

#[test]
fn rows_are_apart_in_both_forms() {
    for form in [Form::Dense, Form::Spread] {
        let heap = Fixture::new(form, 5);
        assert_eq!(heap.table.len(), 5);
        for row in 0..5 {
            heap.count_up(row, row as u32 + 1);
        }
        assert_eq!(
            (0..5).map(|row| heap.read(row)).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5]
        );
        let client = heap.begin(Isolation::ReadCommitted);
        assert_eq!(heap.table.sum(&client).unwrap(), 15);
        let error = heap.table.read(&client, 5).unwrap_err();
        assert!(error.to_string().contains("row 5"), "{error}");
    }
}

#[test]
fn an_updater_waits_for_the_one_before_it() {
    let heap = Fixture::new(Form::Dense, 1);
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
            second.session.commit().unwrap();
        });
        started.recv().unwrap();
        let early = second_is_done.recv_timeout(Duration::from_millis(50));
        assert!(early.is_err(), "the row is locked, yet: {early:?}");
        first.session.commit().unwrap();
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
    let heap = Fixture::new(Form::Dense, 1);
    heap.count_up(0, 3);
    let mut aborted = heap.begin(Isolation::ReadCommitted);
    heap.add(&mut aborted, 0, 100);
    heap.add(&mut aborted, 0, 1000);
    assert_eq!(heap.table.read(&aborted, 0).unwrap(), Some(1103));
    assert_eq!(heap.read(0), 3);
    aborted.session.abort().unwrap();
    assert_eq!(heap.read(0), 3);
    heap.count_up(0, 1);
    assert_eq!(heap.read(0), 4);
}

#[test]
fn repeatable_read_does_not_overwrite_what_it_does_not_see() {
    let heap = Fixture::new(Form::Dense, 2);
    let mut old = heap.begin(Isolation::RepeatableRead);
    heap.count_up(0, 1);
    assert_eq!(heap.table.read(&old, 0).unwrap(), Some(0));
    assert_eq!(
        heap.add(&mut old, 1, 5),
        Update::Done { value: 5, waits: 0 }
    );
    assert_eq!(heap.add(&mut old, 0, 5), Update::Conflict { waits: 0 });
    old.session.abort().unwrap();
    assert_eq!((heap.read(0), heap.read(1)), (1, 0));
}

#[test]
fn pruning_keeps_chains_short() {
    let heap = Fixture::new(Form::Dense, 1);
    for _ in 0..100 {
        heap.count_up(0, 100);
        let versions = heap.versions(0);
        // A horizon serves for 32 ids, and a chain is looked through at every doubling of its length.
        assert!(versions <= 65, "{versions} versions");
    }
    assert_eq!(heap.read(0), 10_000);
}

#[test]
fn pruning_spares_what_somebody_sees() {
    let heap = Fixture::new(Form::Dense, 1);
    heap.count_up(0, 10);
    let mut old = heap.begin(Isolation::RepeatableRead);
    heap.count_up(0, 1000);
    assert_eq!(heap.table.read(&old, 0).unwrap(), Some(10));
    assert!(heap.versions(0) > 1000);
    old.session.commit().unwrap();
    // The next doubling of the chain at the latest.
    heap.count_up(0, 1100);
    assert!(heap.versions(0) < 1100);
    assert_eq!(heap.read(0), 2110);
}

#[test]
fn a_chain_of_any_length_can_be_dropped() {
    let heap = Fixture::new(Form::Dense, 1);
    let old = heap.begin(Isolation::RepeatableRead);
    heap.count_up(0, 100_000);
    assert_eq!(heap.table.read(&old, 0).unwrap(), Some(0));
    drop(old);
    drop(heap);
}

/// Rows of one page fill it with versions that an old snapshot needs; what finds no room is kept aside, and goes when nobody needs it.
#[test]
fn versions_that_find_no_room_are_kept_aside() {
    const ROWS: usize = 200;
    let heap = Fixture::new(Form::Dense, ROWS);
    let old = heap.begin(Isolation::RepeatableRead);
    for round in 1..=3 {
        for row in 0..ROWS {
            heap.count_up(row, 1);
            assert_eq!(heap.read(row), round);
        }
    }
    let mut aborted = heap.begin(Isolation::ReadCommitted);
    for row in 0..ROWS {
        heap.add(&mut aborted, row, 100);
    }
    aborted.session.abort().unwrap();
    for row in 0..ROWS {
        assert_eq!(heap.table.read(&old, row).unwrap(), Some(0));
        heap.count_up(row, 1);
        assert_eq!((heap.read(row), heap.versions(row)), (4, 5));
    }
    drop(old);
    for row in 0..ROWS {
        heap.count_up(row, 40);
        assert_eq!(heap.read(row), 44);
        assert!(heap.versions(row) < 44);
    }
}

/// A pool of a few buffers for many more pages: rows are the same.
#[test]
fn a_small_pool_keeps_every_row() {
    const ROWS: usize = 300;
    let heap = Fixture::with_buffers(Form::Spread, ROWS, 20);
    thread::scope(|scope| {
        for thread in 0..CLIENTS - 1 {
            let heap = &heap;
            scope.spawn(move || {
                let mut client = heap.heap.client().unwrap();
                for i in 0..2000 {
                    client.session.begin(Isolation::ReadCommitted).unwrap();
                    client.session.statement().unwrap();
                    heap.add(&mut client, (i * 7 + thread * 3) % ROWS, 1);
                    client.session.commit().unwrap();
                }
            });
        }
    });
    let client = heap.begin(Isolation::ReadCommitted);
    let added = 2000 * (CLIENTS as i64 - 1);
    assert_eq!(heap.table.sum(&client).unwrap(), added);
}

#[test]
fn history_counts_what_committed_and_stays_small() {
    const LINES: u32 = 50_000;
    let heap = Fixture::with_buffers(Form::Dense, 1, 128).heap;
    let history = History::new(1 << 40);
    let mut client = heap.client().unwrap();
    let mut expected = Total::default();
    for i in 0..LINES {
        client.session.begin(Isolation::ReadCommitted).unwrap();
        let entry = Entry {
            xid: client.session.xid().unwrap(),
            aid: i,
            tid: 0,
            bid: 0,
            delta: i as i32,
        };
        history.insert(&heap, &client, 0, entry).unwrap();
        if i % 10 == 0 {
            client.session.abort().unwrap();
        } else {
            client.session.commit().unwrap();
            expected.lines += 1;
            expected.delta += i64::from(i);
        }
    }
    client.session.begin(Isolation::ReadCommitted).unwrap();
    client.session.statement().unwrap();
    assert_eq!(history.total(&client).unwrap(), expected);
    assert!(
        history.kept_lines() < LINES as usize / 2,
        "{} lines kept one by one",
        history.kept_lines()
    );
    assert!(heap.horizon.kept() > Xid::FIRST_NORMAL);
}
