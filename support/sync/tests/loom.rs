//! The locks and the parking place under loom, each ordering and each step that matters weakened once.
#![cfg(txnkit_model = "loom")]

extern crate alloc;

use alloc::sync::Arc;

use loom::thread;
use txnkit_sync::atomic::{AtomicU32, Ordering::Relaxed};
use txnkit_sync::cell::UnsafeCell;
use txnkit_sync::lock::{
    LockOf2011, LockOfToday, Mutex, MutexGuard, ParkMutex, RawMutex, RawRwLock, RwLock, SpinLock,
};
use txnkit_sync::model::{Histogram, assert_breaks, check, check_preempting};
use txnkit_sync::park::{Park, ThreadPark};
use txnkit_sync::published::Published;
use txnkit_sync::{broken, new_park, ord};

/// Runs `actors` in threads of their own, which all have gone when it returns.
fn run<const N: usize>(actors: [Box<dyn FnOnce() + Send>; N]) {
    let threads = actors.map(|actor| thread::spawn(actor));
    for thread in threads {
        thread.join().expect("an actor panicked");
    }
}

fn mutex<R: RawMutex + 'static>(histogram: &'static Histogram) {
    check(move || {
        let mutex = Arc::new(Mutex::<u32, R>::new(0));
        let adder = || {
            let mutex = Arc::clone(&mutex);
            Box::new(move || *mutex.lock() += 1) as Box<dyn FnOnce() + Send>
        };
        let trier = || {
            let mutex = Arc::clone(&mutex);
            Box::new(move || {
                let outcome = match mutex.try_lock() {
                    Some(mut value) => {
                        *value += 10;
                        "got"
                    }
                    None => "busy",
                };
                histogram.count(outcome);
            }) as Box<dyn FnOnce() + Send>
        };
        run([adder(), adder(), trier()]);
        assert!(matches!(*mutex.lock(), 2 | 12));
    });
    histogram.assert_seen(&["got", "busy"]);
}

/// A guard that lets go for a while has the lock again afterwards.
fn unlocked<R: RawMutex + 'static>() {
    check(|| {
        let mutex = Arc::new(Mutex::<u32, R>::new(0));
        let other = Arc::clone(&mutex);
        run([
            Box::new({
                let mutex = Arc::clone(&mutex);
                move || {
                    let mut guard = mutex.lock();
                    *guard += 1;
                    MutexGuard::unlocked(&mut guard, || ());
                    *guard += 1;
                }
            }),
            Box::new(move || *other.lock() += 1),
        ]);
        assert_eq!(*mutex.lock(), 3);
    });
}

#[test]
fn spin_lock() {
    static OUTCOMES: Histogram = Histogram::new();
    mutex::<SpinLock>(&OUTCOMES);
}

#[test]
fn spin_lock_unlocked() {
    unlocked::<SpinLock>();
}

#[test]
fn spin_lock_twins_break() {
    assert_breaks("spin_lock", &["sync.spin.lock", "sync.spin.unlock"]);
}

#[test]
fn park_mutex() {
    static OUTCOMES: Histogram = Histogram::new();
    mutex::<ParkMutex>(&OUTCOMES);
}

#[test]
fn park_mutex_unlocked() {
    unlocked::<ParkMutex>();
}

#[test]
fn park_mutex_twins_break() {
    assert_breaks(
        "park_mutex",
        &[
            "sync.park.lock",
            "sync.park.await",
            "sync.park.unlock",
            "sync.park.awaited",
        ],
    );
}

type Actor = Box<dyn FnOnce() + Send>;

fn writer<R: RawRwLock + 'static>(lock: &Arc<RwLock<u32, R>>) -> Actor {
    let lock = Arc::clone(lock);
    Box::new(move || *lock.write() += 1)
}

fn reader<R: RawRwLock + 'static>(
    lock: &Arc<RwLock<u32, R>>,
    histogram: &'static Histogram,
) -> Actor {
    let lock = Arc::clone(lock);
    Box::new(move || histogram.count(*lock.read()))
}

fn writers<R: RawRwLock + 'static>(preemptions: usize) {
    check_preempting(preemptions, || {
        let lock = Arc::new(RwLock::<u32, R>::new(0));
        run([writer(&lock), writer(&lock), writer(&lock)]);
        assert_eq!(*lock.read(), 3);
    });
}

fn readers_and_writer<R: RawRwLock + 'static>(preemptions: usize, histogram: &'static Histogram) {
    check_preempting(preemptions, move || {
        let lock = Arc::new(RwLock::<u32, R>::new(0));
        run([
            reader(&lock, histogram),
            writer(&lock),
            reader(&lock, histogram),
        ]);
        assert_eq!(*lock.read(), 1);
    });
    histogram.assert_seen(&["0", "1"]);
}

/// Two writers that find the lock held, so that they can queue up, and its holder.
fn waiters<R: RawRwLock + 'static>(preemptions: usize) {
    check_preempting(preemptions, || {
        let (raw, data) = (Arc::new(R::new()), Arc::new(Shared(UnsafeCell::new(0))));
        raw.lock_exclusive();
        let waiter = || {
            let (raw, data) = (Arc::clone(&raw), Arc::clone(&data));
            Box::new(move || {
                raw.lock_exclusive();
                // SAFETY: the lock is held.
                data.0.with_mut(|data| unsafe { *data += 1 });
                // SAFETY: it was taken above.
                unsafe { raw.unlock_exclusive() };
            }) as Actor
        };
        let (held, written) = (Arc::clone(&raw), Arc::clone(&data));
        let holder = Box::new(move || {
            // SAFETY: the lock is held, by this actor in effect.
            written.0.with_mut(|data| unsafe { *data += 1 });
            // SAFETY: as above.
            unsafe { held.unlock_exclusive() };
        });
        run([waiter(), waiter(), holder]);
        // SAFETY: the actors have gone.
        assert_eq!(data.0.with(|data| unsafe { *data }), 3);
    });
}

/// Two readers that meet inside: each waits, within its hold, until the other is there too.
fn readers_together<R: RawRwLock + 'static>(histogram: &'static Histogram) {
    check(move || {
        let (lock, inside) = (
            Arc::new(RwLock::<u32, R>::new(0)),
            Arc::new(AtomicU32::new(0)),
        );
        let meet = || {
            let (lock, inside) = (Arc::clone(&lock), Arc::clone(&inside));
            Box::new(move || {
                let value = lock.read();
                let met = inside.fetch_add(1, Relaxed) == 1;
                histogram.count(if met { "together" } else { "alone" });
                assert_eq!(*value, 0);
                inside.fetch_sub(1, Relaxed);
            }) as Actor
        };
        run([meet(), meet()]);
    });
    histogram.assert_seen(&["together", "alone"]);
}

#[test]
fn lock_of_today_writers() {
    writers::<LockOfToday>(2);
}

#[test]
fn lock_of_today_waiters() {
    waiters::<LockOfToday>(1);
}

#[test]
fn lock_of_today_readers_and_writer() {
    static OUTCOMES: Histogram = Histogram::new();
    readers_and_writer::<LockOfToday>(2, &OUTCOMES);
}

#[test]
fn lock_of_today_readers_together() {
    static OUTCOMES: Histogram = Histogram::new();
    readers_together::<LockOfToday>(&OUTCOMES);
}

#[test]
fn lock_of_today_twins_break() {
    assert_breaks(
        "lock_of_today_writers",
        &[
            "sync.today.attempt",
            "sync.today.release",
            "sync.today.retry",
            "sync.today.release-ok",
            "sync.today.dequeue-release-ok",
        ],
    );
    assert_breaks(
        "lock_of_today_readers_and_writer",
        &["sync.today.attempt", "sync.today.release"],
    );
}

#[test]
fn lock_of_2011_writers() {
    // With two the time limit ends it.
    writers::<LockOf2011>(1);
}

#[test]
fn lock_of_2011_waiters() {
    waiters::<LockOf2011>(1);
}

#[test]
fn lock_of_2011_readers_and_writer() {
    static OUTCOMES: Histogram = Histogram::new();
    readers_and_writer::<LockOf2011>(1, &OUTCOMES);
}

#[test]
fn lock_of_2011_readers_together() {
    static OUTCOMES: Histogram = Histogram::new();
    readers_together::<LockOf2011>(&OUTCOMES);
}

#[test]
fn lock_of_2011_twins_break() {
    assert_breaks(
        "lock_of_2011_waiters",
        &[
            "sync.2011.spin-lock",
            "sync.2011.spin-unlock",
            "sync.2011.release-ok",
        ],
    );
}

#[test]
fn parking_place() {
    check(|| {
        let (place, data) = (
            Arc::new(new_park!(ThreadPark)),
            Arc::new(Shared(UnsafeCell::new(0))),
        );
        let (giver, written) = (Arc::clone(&place), Arc::clone(&data));
        run([
            Box::new(move || {
                // SAFETY: the other actor touches the cell only after it got the permit.
                written.0.with_mut(|data| unsafe { *data = 7 });
                giver.unpark();
            }),
            Box::new(move || {
                place.park();
                // SAFETY: the permit was given after the write.
                assert_eq!(data.0.with(|data| unsafe { *data }), 7);
            }),
        ]);
    });
}

/// A cell that the protocol under test guards.
struct Shared(UnsafeCell<u32>);
// SAFETY: the tests say who touches it when; loom checks that.
unsafe impl Sync for Shared {}

/// A message passed through a flag: the smallest model with something to break.
#[test]
fn instrument() {
    check(|| {
        let (data, flag) = (
            Arc::new(Shared(UnsafeCell::new(0))),
            Arc::new(AtomicU32::new(0)),
        );
        let (to, raised) = (Arc::clone(&data), Arc::clone(&flag));
        run([
            Box::new(move || {
                // SAFETY: the other actor touches the cell only after the flag is up.
                to.0.with_mut(|data| unsafe { *data = 7 });
                // Release pairs with the Acquire below.
                raised.store(1, ord!("test.raise", Release));
                let _harmless = broken!("test.harmless");
            }),
            // Acquire pairs with the Release above.
            Box::new(move || {
                if flag.load(ord!("test.look", Acquire)) == 1 {
                    // SAFETY: the flag was raised after the write.
                    assert_eq!(data.0.with(|data| unsafe { *data }), 7);
                }
            }),
        ]);
    });
}

#[test]
fn instrument_twins_break() {
    assert_breaks("instrument", &["test.raise", "test.look"]);
}

#[test]
#[should_panic(expected = "test.harmless: passed")]
fn a_twin_that_passes_is_reported() {
    assert_breaks("instrument", &["test.raise", "test.harmless"]);
}

#[test]
#[should_panic(expected = "test.misspelt: never reached")]
fn a_twin_that_is_never_reached_is_reported() {
    assert_breaks("instrument", &["test.misspelt"]);
}

#[test]
#[should_panic(expected = "no test has this name")]
fn a_twin_of_no_test_is_reported() {
    assert_breaks("misspelt", &["test.raise"]);
}

#[test]
#[should_panic(expected = "`blue` never occurred")]
fn an_outcome_that_never_occurs_is_reported() {
    let histogram = Histogram::new();
    histogram.count("red");
    histogram.assert_seen(&["red", "blue"]);
}

#[test]
fn published() {
    static SEEN: Histogram = Histogram::new();
    check(|| {
        let published = Arc::new(Published::new((0, 0), 2));
        let writer = |value| {
            let published = Arc::clone(&published);
            Box::new(move || published.replace((value, value)).expect("a spare for each")) as Actor
        };
        let reader = {
            let published = Arc::clone(&published);
            Box::new(move || {
                let (left, right) = published.reader().read(|pair| *pair);
                assert_eq!(left, right);
                SEEN.count(left);
            }) as Actor
        };
        run([writer(1), writer(2), reader]);
    });
    SEEN.assert_seen(&["0", "1", "2"]);
}

#[test]
fn published_twins_break() {
    assert_breaks(
        "published",
        &["sync.published.store", "sync.published.load"],
    );
}
