//! Waiting for a transaction's end, and deadlocks.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;

use procarray::{
    Deadlock, Membership, ProcArray, RegisterError, SnapshotSession, Snapshots, Waiter, Waits, Xid,
};

const LONG_NS: u64 = 60_000_000_000;

fn id(number: u64) -> Xid {
    Xid::new(number)
}

#[test]
fn places_run_out_and_come_back() {
    let waits: Waits = Waits::new(1);
    let waiter = waits.register().unwrap();
    assert_eq!(waits.register().err(), Some(RegisterError { sessions: 1 }));
    drop(waiter);
    assert!(waits.register().is_ok());
}

#[test]
fn a_wait_ends_at_its_timeout_and_holds_nothing_back() {
    let waits: Waits = Waits::new(2);
    let mut waiter = waits.register().unwrap();
    let waiting = waiter.wait_for(Some(id(5)), id(3));
    assert!(!waiting.park(1000));
    assert_eq!(format!("{waits:?}"), "{Xid(5): Xid(3)}");
    drop(waiting);
    assert_eq!(format!("{waits:?}"), "{}");
    let mut other = waits.register().unwrap();
    assert_eq!(other.wait_for(Some(id(3)), id(5)).deadlock(), None);
}

#[test]
fn a_wake_reaches_who_waits_for_that_id_and_no_other() {
    let waits: Waits = Waits::new(3);
    let [mut first, mut second, mut third] = [(); 3].map(|()| waits.register().unwrap());
    // 3 and 67 are of one bucket.
    let waiting = [
        first.wait_for(None, id(3)),
        second.wait_for(None, id(3)),
        third.wait_for(None, id(67)),
    ];
    waits.wake(id(4));
    waits.wake(id(3));
    let woken = waiting.map(|waiting| waiting.park(0));
    assert_eq!(woken, [true, true, false]);
}

#[test]
fn a_cycle_of_three_is_told_to_the_youngest() {
    let waits: Waits = Waits::new(4);
    let [mut a, mut b, mut c, mut d] = [(); 4].map(|()| waits.register().unwrap());
    let b = b.wait_for(Some(id(20)), id(30));
    let c = c.wait_for(Some(id(30)), id(10));
    assert_eq!(c.deadlock(), None);
    let behind = d.wait_for(Some(id(40)), id(20));
    let a = a.wait_for(Some(id(10)), id(20));
    // Who closes it is not the youngest, so that one is woken; who stands behind the cycle is not of it.
    assert_eq!((a.deadlock(), behind.deadlock()), (None, None));
    assert!(c.park(0) && !b.park(0) && !behind.park(0));
    let deadlock = c.deadlock().unwrap();
    let cycle = [(30, 10), (10, 20), (20, 30)].map(|(waiter, awaited)| (id(waiter), id(awaited)));
    assert_eq!(
        deadlock,
        Deadlock {
            cycle: cycle.into()
        }
    );
    assert_eq!(
        deadlock.to_string(),
        "deadlock: 30 waits for 10, 10 waits for 20, 20 waits for 30; abort this transaction, the youngest of them"
    );
    drop(a);
    assert_eq!(c.deadlock(), None);
}

#[test]
fn who_has_no_id_is_in_no_deadlock() {
    let waits: Waits = Waits::new(2);
    let [mut a, mut b] = [(); 2].map(|()| waits.register().unwrap());
    let _b = b.wait_for(None, Xid::INVALID);
    assert_eq!(a.wait_for(None, Xid::INVALID).deadlock(), None);
}

/// Sessions in a ring, each with an id, wait for the next one's: all but the youngest come through, in every round.
#[test]
fn a_ring_of_real_sessions_loses_one_and_no_other() {
    const RING: usize = 8;
    const ROUNDS: usize = 20;
    let array = ProcArray::new(RING, Xid::FIRST_NORMAL);
    let waits: Waits = Waits::new(RING);
    for _ in 0..ROUNDS {
        let mut sessions: Vec<_> = (0..RING).map(|_| array.register().unwrap()).collect();
        let ids: Vec<Xid> = sessions
            .iter_mut()
            .map(|session| session.assign().unwrap())
            .collect();
        let (victim, victims) = channel();
        let waited = Mutex::new(0);
        thread::scope(|scope| {
            for (at, mut session) in sessions.into_iter().enumerate() {
                let (waits, waited, victim) = (&waits, &waited, victim.clone());
                let (own, target) = (ids[at], ids[(at + 1) % RING]);
                scope.spawn(move || {
                    let mut waiter = waits.register().unwrap();
                    match wait(&mut session, &mut waiter, own, target) {
                        Some(deadlock) => victim.send((own, deadlock.cycle.len())).unwrap(),
                        None => *waited.lock().unwrap() += 1,
                    }
                    session.end(|_, _| Ok::<_, ()>(())).unwrap();
                    waits.wake(own);
                });
            }
        });
        drop(victim);
        let victims: Vec<_> = victims.iter().collect();
        assert_eq!(victims, [(*ids.iter().max().unwrap(), RING)]);
        assert_eq!(*waited.lock().unwrap(), RING - 1);
    }
}

fn wait(
    session: &mut impl SnapshotSession,
    waiter: &mut Waiter<'_>,
    own: Xid,
    target: Xid,
) -> Option<Deadlock> {
    let waiting = waiter.wait_for(Some(own), target);
    while session.is_running(target).unwrap() == Membership::Running {
        if let Some(deadlock) = waiting.deadlock() {
            return Some(deadlock);
        }
        assert!(waiting.park(LONG_NS), "a wake-up was lost");
    }
    None
}
