//! What a thread that stands still in a bad place costs the others, counted.
//!
//! `RUSTFLAGS='--cfg txnkit_inject' cargo test -p procarray --test inject`
#![cfg(txnkit_inject)]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use procarray::{Membership, ProcArray, SnapshotSession, SnapshotView, Snapshots, Xid};
use txnkit_sync::inject::{Counter, Gate, on};

/// How often a session tries to read by itself, and how often a waiter looks before it parks, as the README says.
const ATTEMPTS: u64 = 16;
const LOOKS: u64 = 100;

/// The places are the process's, so one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ended(session: &mut impl SnapshotSession) -> Xid {
    session.end(|_, _| Ok::<_, ()>(())).unwrap().unwrap()
}

/// The leader loses its processor while the count is odd: 40 sessions that end and 40 that take snapshots try and look so many times, park, and
/// do nothing more until it returns.
#[test]
fn a_leader_that_stands_still_makes_nobody_spin() {
    const EACH: u64 = 40;
    let _alone = alone();
    let array = ProcArray::new(2 * EACH as usize + 1, Xid::FIRST_NORMAL);
    let mut leader = array.register().unwrap();
    let first = leader.assign().unwrap();
    let mut enders: Vec<_> = (0..EACH).map(|_| array.register().unwrap()).collect();
    for ender in &mut enders {
        ender.assign().unwrap();
    }
    let gate = Gate::at("procarray.done.odd");
    thread::scope(|scope| {
        let leader = scope.spawn(move || ended(&mut leader));
        gate.wait_until_reached();
        let (looks, attempts) = (
            Counter::at("procarray.ends.look"),
            Counter::at("procarray.done.attempt"),
        );
        let parked = Counter::at("procarray.ends.parked");
        let enders: Vec<_> = enders
            .into_iter()
            .map(|mut session| scope.spawn(move || ended(&mut session)))
            .collect();
        let takers: Vec<_> = (0..EACH)
            .map(|_| {
                let mut session = array.register().unwrap();
                scope.spawn(move || session.snapshot().unwrap().membership(first))
            })
            .collect();
        while parked.get() < 2 * EACH {
            thread::yield_now();
        }
        assert_eq!(looks.get(), 2 * EACH * LOOKS);
        assert_eq!(attempts.get(), EACH * ATTEMPTS);
        assert!(!leader.is_finished());
        gate.open();
        assert_eq!(leader.join().unwrap(), first);
        for ender in enders {
            ender.join().unwrap();
        }
        for taker in takers {
            assert_eq!(taker.join().unwrap(), Membership::Completed);
        }
        assert_eq!(parked.get(), 2 * EACH, "woken once, for good");
    });
    assert_eq!(array.horizon(), array.next_xid());
    // All forty ends and all forty copies waited for one leader, which served them in few changes.
    assert!(array.completion_count() < EACH);
}

/// A session assigns and ends between every two steps of a reader: the reader gives up after so many tries and reads as the leader.
#[test]
fn a_reader_beside_an_endless_writer_tries_so_many_times() {
    let _alone = alone();
    let array: &'static ProcArray = Box::leak(Box::new(ProcArray::new(3, Xid::FIRST_NORMAL)));
    let mut runs_on = array.register().unwrap();
    let running = runs_on.assign().unwrap();
    let mut reader = array.register().unwrap();
    let writer = Mutex::new(array.register().unwrap());
    let attempts = Counter::at("procarray.done.attempt");
    let _writer = on("procarray.done.read", move || {
        let mut writer = writer.lock().unwrap();
        writer.assign().unwrap();
        ended(&mut *writer);
    });

    let snapshot = reader.snapshot().unwrap();
    assert_eq!(attempts.get(), ATTEMPTS);
    // What the leader read is whole: of every transaction that ended while the reader tried.
    let last = Xid::new(running.get() + ATTEMPTS);
    assert_eq!(snapshot.membership(running), Membership::Running);
    assert_eq!(snapshot.membership(last), Membership::Completed);
    assert_eq!(snapshot.xmax().get(), last.get() + 1);

    assert_eq!(reader.is_running(running), Ok(Membership::Running));
    assert_eq!(attempts.get(), 2 * ATTEMPTS);
}

/// Sessions may be dropped while the leader stands still: their ids leave with the others'.
#[test]
fn a_session_dropped_behind_a_leader_that_stands_still_ends() {
    let _alone = alone();
    let array = ProcArray::new(2, Xid::FIRST_NORMAL);
    let (mut leader, mut dropped) = (array.register().unwrap(), array.register().unwrap());
    leader.assign().unwrap();
    let xid = dropped.assign().unwrap();
    let gate = Gate::at("procarray.done.odd");
    let parked = Counter::at("procarray.ends.parked");
    thread::scope(|scope| {
        scope.spawn(move || ended(&mut leader));
        gate.wait_until_reached();
        let dropper = scope.spawn(move || drop(dropped));
        while parked.get() == 0 {
            thread::yield_now();
        }
        assert!(!dropper.is_finished());
        assert_eq!(array.horizon(), Xid::FIRST_NORMAL);
        gate.open();
    });
    assert!(array.horizon() > xid);
}
