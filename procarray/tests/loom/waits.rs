//! Waiting and deadlocks.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use procarray::{Waiter, Waits};
use txnkit_sync::model::{Histogram, assert_breaks, check};

use super::xid;

/// Waits of a model's execution, which outlive it.
fn leaked(sessions: usize) -> &'static Waits {
    Box::leak(Box::new(Waits::new(sessions)))
}

/// Transactions 1, 2, … and whether each has ended.
struct Transactions(Vec<AtomicBool>);

impl Transactions {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self((0..count).map(|_| AtomicBool::new(false)).collect()))
    }

    /// Without any order of its own: the waits' fences have to be enough.
    fn end(&self, id: u64, waits: &Waits) {
        self.0[id as usize - 1].store(true, Ordering::Relaxed);
        waits.wake(xid(id));
    }

    fn runs(&self, id: u64) -> bool {
        !self.0[id as usize - 1].load(Ordering::Relaxed)
    }

    /// `own` waits for `target`; returns how often it parked, or `None` if it had to give way.
    fn wait(&self, waiter: &mut Waiter<'_>, own: u64, target: u64) -> Option<u32> {
        let waiting = waiter.wait_for(Some(xid(own)), xid(target));
        let mut parked = 0;
        while self.runs(target) {
            if let Some(deadlock) = waiting.deadlock() {
                assert_eq!(deadlock.cycle.first().unwrap().0, xid(own));
                return None;
            }
            parked += 1;
            waiting.park(u64::MAX);
        }
        Some(parked)
    }
}

#[test]
fn no_wake_up_is_lost() {
    static SEEN: Histogram = Histogram::new();
    check(|| {
        let (waits, transactions) = (leaked(1), Transactions::new(2));
        let mut waiter = waits.register().unwrap();
        let theirs = transactions.clone();
        let waiter = thread::spawn(move || theirs.wait(&mut waiter, 2, 1));
        let ender = thread::spawn(move || transactions.end(1, waits));
        ender.join().unwrap();
        SEEN.count(waiter.join().unwrap().unwrap());
    });
    SEEN.assert_seen(&["0", "1"]);
}

/// Each of two waits for the other: the younger one gives way and the older one goes on.
#[test]
fn of_two_that_wait_for_each_other_the_younger_gives_way() {
    static SEEN: Histogram = Histogram::new();
    check(|| {
        let (waits, transactions) = (leaked(2), Transactions::new(2));
        let actors: Vec<_> = [(1, 2), (2, 1)]
            .into_iter()
            .map(|(own, target)| {
                let mut waiter = waits.register().unwrap();
                let transactions = transactions.clone();
                thread::spawn(move || {
                    let waited = transactions.wait(&mut waiter, own, target);
                    transactions.end(own, waits);
                    waited
                })
            })
            .collect();
        let waited: Vec<_> = actors
            .into_iter()
            .map(|actor| actor.join().unwrap())
            .collect();
        assert_eq!(waited[1], None, "the younger one is the victim");
        SEEN.count(waited[0].expect("the older one goes on"));
    });
    SEEN.assert_seen(&["0", "1"]);
}

/// A place is used for 1 → 9 and then for 3 → 4, while 9 waits for 3: half of each would be a cycle, with 9 the youngest.
#[test]
fn halves_of_two_waits_are_no_edge() {
    static SEEN: Histogram = Histogram::new();
    check(|| {
        let waits = leaked(2);
        let (mut reused, mut asker) = (waits.register().unwrap(), waits.register().unwrap());
        let reuser = thread::spawn(move || {
            drop(reused.wait_for(Some(xid(1)), xid(9)));
            drop(reused.wait_for(Some(xid(3)), xid(4)));
        });
        let asker = thread::spawn(move || {
            let waiting = asker.wait_for(Some(xid(9)), xid(3));
            assert_eq!(waiting.deadlock(), None);
            // For the histogram: how much of the other place is to be seen.
            let seen = format!("{waits:?}");
            drop(waiting);
            seen.matches(':').count()
        });
        reuser.join().unwrap();
        SEEN.count(asker.join().unwrap());
    });
    SEEN.assert_seen(&["1", "2"]);
}

/// 3 has waited for 4, and only then does 4 wait for 9, which waits for 3 all the time.
#[test]
fn waits_one_after_another_are_no_cycle() {
    static SEEN: Histogram = Histogram::new();
    check(|| {
        let waits = leaked(3);
        let [mut first, mut second, mut asker] = [(); 3].map(|()| waits.register().unwrap());
        let others = thread::spawn(move || {
            drop(first.wait_for(Some(xid(3)), xid(4)));
            drop(second.wait_for(Some(xid(4)), xid(9)));
        });
        let asker = thread::spawn(move || {
            let waiting = asker.wait_for(Some(xid(9)), xid(3));
            assert_eq!(waiting.deadlock(), None);
            let seen = format!("{waits:?}");
            drop(waiting);
            seen.matches(':').count()
        });
        others.join().unwrap();
        SEEN.count(asker.join().unwrap());
    });
    SEEN.assert_seen(&["1", "2"]);
}

#[test]
fn weakened_waits_fail() {
    assert_breaks(
        "waits::no_wake_up_is_lost",
        &[
            "procarray.waits.wake-fence",
            "procarray.waits.publish-fence",
        ],
    );
    assert_breaks(
        "waits::of_two_that_wait_for_each_other_the_younger_gives_way",
        &[
            "procarray.waits.publish-fence",
            "procarray.waits.victim-not-told",
        ],
    );
    assert_breaks(
        "waits::halves_of_two_waits_are_no_edge",
        &[
            "procarray.waits.turn",
            "procarray.waits.publish",
            "procarray.waits.writer-fence",
            "procarray.waits.reader-fence",
            "procarray.waits.no-recheck",
        ],
    );
    assert_breaks(
        "waits::waits_one_after_another_are_no_cycle",
        &["procarray.waits.no-last-look"],
    );
}
