//! Which sets are in use, under every interleaving and memory order that loom finds within its bounds, and the weakened twins.
//!
//! `RUSTFLAGS='--cfg txnkit_model="loom"' cargo test --release -p multixact --test loom`
//!
//! Sets themselves are read from pages that their creator has written before it told the number, through the pool of `slru`, which has models of its
//! own.
#![cfg(txnkit_model = "loom")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use multixact::oldest::Oldest;
use txnkit_sync::model::{Histogram, assert_breaks, check};

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
    assert_breaks(
        "a_set_in_use_is_not_passed_by_two",
        &["multixact.oldest.returned"],
    );
}
