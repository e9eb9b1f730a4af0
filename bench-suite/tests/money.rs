//! The check after a run: every variant passes it, and a broken one does not.

mod common;
#[path = "common/liar.rs"]
mod liar;

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use bench_suite::cell::Tables;
use bench_suite::heap::Heap;
use bench_suite::registry;
use bench_suite::rng::Rng;
use bench_suite::run::{FIRST_XID, run_cell};
use bench_suite::tpcb::{Bank, Transfer};
use bufpin::BufferPool;
use common::spec;
use liar::{Liar, Lie};
use multixact::LockTable;
use procarray::ProcArray;
use slru::{MemoryStore, StatusLog};
use txn_manager::{Core, Isolation, Lsn, NoRedo, Redo, RedoError, SnapMap, Xid, XidRun};

#[test]
fn every_variant_adds_up() {
    for tables in [Tables::Unlogged, Tables::Permanent] {
        for array in registry::ARRAYS {
            let mut spec = spec(array.name);
            spec.tables = tables;
            let result =
                registry::run(&spec).unwrap_or_else(|error| panic!("{}: {error:#}", array.name));
            assert!(
                result.transactions > 0 && result.tps > 0.0,
                "{}: nothing was counted",
                array.name
            );
            assert!(result.latency_ns.p50 > 0 && result.latency_ns.max >= result.latency_ns.p999);
            assert_eq!(result.spec, spec);
        }
    }
}

#[test]
fn every_status_store_adds_up() {
    for store in registry::STORES {
        let mut spec = spec("ours");
        spec.variants.insert("slru".into(), store.name.into());
        let result =
            registry::run(&spec).unwrap_or_else(|error| panic!("{}: {error:#}", store.name));
        assert!(
            result.transactions > 0,
            "{}: nothing was counted",
            store.name
        );
    }
}

/// Every pool, with room for all pages and with room for a tenth of them.
#[test]
fn every_pool_adds_up() {
    for pool in registry::POOLS {
        for buffers in [0, 64] {
            let mut spec = spec("ours");
            spec.variants.insert("bufpin".into(), pool.name.into());
            spec.buffers = buffers;
            let result =
                registry::run(&spec).unwrap_or_else(|error| panic!("{}: {error:#}", pool.name));
            assert!(
                result.transactions > 0,
                "{}: nothing was counted",
                pool.name
            );
        }
    }
}

#[test]
fn a_variant_that_forgets_a_commit_is_caught() {
    let array = Liar::new(ProcArray::new(4, FIRST_XID), Lie::ForgetsStatus);
    let error = run_cell(&spec("ours"), array, status(), pool()).unwrap_err();
    let message = format!("{error:#}");
    assert!(
        message.contains("transactions committed, but history has"),
        "{message}"
    );
}

/// Stops the first transaction after its third changed row, with all three rows changed and nothing committed.
struct Halts {
    changes: Mutex<u32>,
    halted: Sender<()>,
    go_on: Mutex<Receiver<()>>,
}

impl Redo for Halts {
    fn commit(&self, _: Xid, _: &[XidRun]) -> Result<Lsn, RedoError> {
        Ok(Lsn::INVALID)
    }

    fn abort(&self, _: Xid, _: &[XidRun]) {}

    fn reserve_ids(&self, _: Xid) -> Result<(), RedoError> {
        Ok(())
    }

    fn change(&self, _: Xid, _: &[u8]) -> Result<Lsn, RedoError> {
        let nth = {
            let mut changes = self.changes.lock().unwrap();
            *changes += 1;
            *changes
        };
        if nth == 3 {
            self.halted.send(()).map_err(RedoError::new)?;
            self.go_on.lock().unwrap().recv().map_err(RedoError::new)?;
        }
        Ok(Lsn::INVALID)
    }
}

fn pool() -> BufferPool<bufpin::MemoryStore> {
    BufferPool::new(bufpin::MemoryStore::new(), Bank::pages(1) as usize, 4)
}

fn status() -> StatusLog<MemoryStore> {
    StatusLog::new(MemoryStore::new(), 16, FIRST_XID)
}

fn locks() -> LockTable<MemoryStore> {
    LockTable::new(MemoryStore::new(), MemoryStore::new(), 16, 16, 4)
}

#[test]
fn a_variant_that_loses_an_update_is_caught() {
    let (halted, is_halted) = channel();
    let (let_go, go_on) = channel();
    let redo = Halts {
        changes: Mutex::new(0),
        halted,
        go_on: Mutex::new(go_on),
    };
    let core = Core::new(
        Liar::new(ProcArray::new(4, FIRST_XID), Lie::NobodyRuns),
        status(),
        locks(),
        SnapMap::off(),
        redo,
    );
    let heap = Heap::new(core, pool());
    let bank = Bank::load(&heap.client().unwrap().pins, 1, Tables::Permanent).unwrap();
    let transfer = |delta| Transfer {
        aid: 7,
        tid: 3,
        bid: 0,
        delta,
    };
    let run = |delta| {
        let mut client = heap.client().unwrap();
        bank.transact(
            &heap,
            &mut client,
            Isolation::ReadCommitted,
            0,
            transfer(delta),
        )
        .unwrap()
    };
    thread::scope(|scope| {
        let overwritten = scope.spawn(|| run(100));
        is_halted.recv().unwrap();
        assert!(run(1).committed);
        let_go.send(()).unwrap();
        assert!(overwritten.join().unwrap().committed);
    });
    let error = bank.check(&mut heap.client().unwrap(), 2).unwrap_err();
    assert!(
        error.to_string().contains("the money does not add up"),
        "{error}"
    );
}

#[test]
fn a_conflict_aborts_and_the_money_still_adds_up() {
    let core = Core::new(
        ProcArray::new(4, FIRST_XID),
        status(),
        locks(),
        SnapMap::off(),
        NoRedo,
    );
    let heap = Heap::new(core, pool());
    let bank = Bank::load(&heap.client().unwrap().pins, 1, Tables::Unlogged).unwrap();
    let mut outcomes = Vec::new();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|number| {
                let (heap, bank) = (&heap, &bank);
                scope.spawn(move || {
                    let mut client = heap.client().unwrap();
                    let mut rng = Rng::new(1, number);
                    (0..500)
                        .map(|_| {
                            let transfer = Transfer::random(&mut rng, 1);
                            bank.transact(
                                heap,
                                &mut client,
                                Isolation::RepeatableRead,
                                number as usize,
                                transfer,
                            )
                            .unwrap()
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        outcomes.extend(
            clients
                .into_iter()
                .flat_map(|client| client.join().unwrap()),
        );
    });
    let committed = outcomes.iter().filter(|outcome| outcome.committed).count() as u64;
    let mut client = heap.client().unwrap();
    bank.check(&mut client, committed).unwrap();
    let error = bank.check(&mut client, committed + 1).unwrap_err();
    assert!(error.to_string().contains("history"), "{error}");
}

#[test]
fn transfers_are_spread_over_the_whole_bank() {
    let mut rng = Rng::new(42, 0);
    let transfers: Vec<_> = (0..20_000).map(|_| Transfer::random(&mut rng, 3)).collect();
    assert!(
        transfers.iter().all(|t| t.aid < 300_000
            && t.tid < 30
            && t.bid < 3
            && (-5000..=5000).contains(&t.delta))
    );
    for bid in 0..3 {
        let share = transfers.iter().filter(|t| t.bid == bid).count();
        assert!(
            (6_000..7_400).contains(&share),
            "branch {bid} has {share} of 20000"
        );
    }
    assert!(transfers.iter().any(|t| t.aid > 290_000) && transfers.iter().any(|t| t.tid == 29));
    assert!(transfers.iter().any(|t| t.delta < -4900) && transfers.iter().any(|t| t.delta > 4900));
    let again: Vec<_> = {
        let mut rng = Rng::new(42, 0);
        (0..100).map(|_| Transfer::random(&mut rng, 3)).collect()
    };
    assert_eq!(again, transfers[..100], "a seed gives the same run");
    assert_ne!(
        Transfer::random(&mut Rng::new(42, 1), 3),
        transfers[0],
        "clients differ"
    );
}
