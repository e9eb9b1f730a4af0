//! Sets and which of them are in use, under every interleaving and memory order that loom finds within its bounds, and the weakened twins.
//!
//! `RUSTFLAGS='--cfg txnkit_model="loom"' cargo test --release -p multixact --test loom`
//!
//! The pool under the sets has models of its own, in `slru`. Here a page has four positions or two members.
//!
//! | rules | model | twins |
//! |---|---|---|
//! | `oldest.rs` 1 to 4 | `a_set_in_use_is_not_passed` | either fence, the check, the announcement, Release, Acquire |
//! | `oldest.rs` 5 | `a_set_in_use_is_not_passed_by_two` | AcqRel of what is returned |
//! | `sets.rs` 1 and 2 | `a_told_set_is_whole` | the next position not written |
//! | `sets.rs` 5 and 6 | in `shuttle.rs` | error not looked at again, a cached set from before |
#![cfg(txnkit_model = "loom")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use multixact::oldest::Oldest;
use multixact::{LockSession, LockSets, LockTable, Member, MemoryStore, Mode, MultiXactId, Xid};
use txnkit_sync::model::{Histogram, assert_breaks, check, check_preempting};

/// What belongs to set 1: loom reports a race when two accesses are not ordered.
struct Plain(UnsafeCell<u64>);

// SAFETY: the point of the models: that the protocol orders the accesses, which loom checks.
unsafe impl Sync for Plain {}
// SAFETY: as above.
unsafe impl Send for Plain {}

/// A session that begins while 1 is the next number uses set 1; whoever gets an oldest beyond 1 forgets it.
fn use_model(forgetters: usize, seen: &'static Histogram) {
    check(move || {
        let oldest = Arc::new(Oldest::new(1));
        let next = Arc::new(AtomicU64::new(1));
        let set = Arc::new(Plain(UnsafeCell::new(0)));
        let forgotten = Arc::new(loom::sync::Mutex::new(false));
        let place = oldest.register().unwrap();
        let reader = {
            let (oldest, next, set) = (oldest.clone(), next.clone(), set.clone());
            thread::spawn(move || {
                let mut from = 0;
                let begun = core::cell::Cell::new(0);
                oldest.begin(place, || {
                    begun.set(next.load(Ordering::Relaxed));
                    begun.get()
                });
                if begun.get() == 1 {
                    // SAFETY: loom checks that no write is concurrent.
                    assert_eq!(set.0.with(|set| unsafe { *set }), 0);
                    from = 1;
                }
                oldest.end(place);
                from
            })
        };
        let forgetters: Vec<_> = (0..forgetters)
            .map(|_| {
                let (oldest, next, set) = (oldest.clone(), next.clone(), set.clone());
                let forgotten = forgotten.clone();
                thread::spawn(move || {
                    next.fetch_max(2, Ordering::Relaxed);
                    let beyond = oldest.compute(next.load(Ordering::Relaxed)) > 1;
                    let mut forgotten = forgotten.lock().unwrap();
                    if beyond && !*forgotten {
                        // SAFETY: loom checks that no other access is concurrent.
                        set.0.with_mut(|set| unsafe { *set = 1 });
                        *forgotten = true;
                    }
                    u64::from(beyond)
                })
            })
            .collect();
        let used = reader.join().unwrap();
        let beyond: u64 = forgetters
            .into_iter()
            .map(|forgetter| forgetter.join().unwrap())
            .sum();
        seen.count(beyond * 10 + used);
    });
}

#[test]
fn a_set_in_use_is_not_passed() {
    static SEEN: Histogram = Histogram::new();
    use_model(1, &SEEN);
    SEEN.assert_seen(&["1", "10", "11"]);
}

#[test]
fn a_set_in_use_is_not_passed_by_two() {
    static SEEN: Histogram = Histogram::new();
    use_model(2, &SEEN);
    SEEN.assert_seen(&["1", "11", "20", "21"]);
}

/// Two sets in the making, and a reader of the one whose number it is told first: nobody waits, and the set is whole. One preemption: two take minutes.
#[test]
fn a_told_set_is_whole() {
    static SEEN: Histogram = Histogram::new();
    check_preempting(1, || {
        let table = LockTable::new(MemoryStore::new(), MemoryStore::new(), 1, 1, 2);
        let table = Arc::new(table);
        let told = Arc::new(AtomicU64::new(0));
        let member = |me: u64| Member {
            xid: Xid::new(10 + me),
            mode: Mode::ForShare,
        };
        let makers: Vec<_> = (0..2)
            .map(|me| {
                let (table, told) = (table.clone(), told.clone());
                thread::spawn(move || {
                    let set = table.register().unwrap().create(&[member(me)]).unwrap();
                    if me == 0 {
                        // As a row is written that others read.
                        told.store(set.get(), Ordering::Release);
                    }
                })
            })
            .collect();
        let reader = {
            let (table, told) = (table.clone(), told.clone());
            thread::spawn(move || {
                let set = MultiXactId::new(told.load(Ordering::Acquire));
                if !set.is_special() {
                    assert_eq!(table.members(set).as_deref(), Ok(&[member(0)][..]));
                }
                SEEN.count(set);
            })
        };
        for actor in makers.into_iter().chain([reader]) {
            actor.join().unwrap();
        }
    });
    SEEN.assert_seen(&["0", "1", "2"]);
}

#[test]
fn weakened_use_fails() {
    assert_breaks(
        "a_set_in_use_is_not_passed",
        &[
            "multixact.oldest.begin-fence",
            "multixact.oldest.scan-fence",
            "multixact.oldest.unchecked",
            "multixact.oldest.not-announced",
            "multixact.oldest.end",
            "multixact.oldest.scan",
        ],
    );
    assert_breaks("a_told_set_is_whole", &["multixact.sets.next-not-written"]);
    assert_breaks(
        "a_set_in_use_is_not_passed_by_two",
        &["multixact.oldest.returned"],
    );
}
