//! The locks under shuttle: more threads than loom can take, in random schedules.
//!
//! The schedules come from the printed `SHUTTLE_RANDOM_SEED`, the same ones every time unless it is set; a failure prints one that replays it.
#![cfg(txnkit_model = "shuttle")]

extern crate alloc;

use alloc::sync::Arc;

use shuttle::thread;
use txnkit_sync::lock::{
    LockOf2011, LockOfToday, Mutex, MutexGuard, ParkMutex, RawMutex, RawRwLock, RwLock, SpinLock,
};
use txnkit_sync::model::{assert_breaks, check};
use txnkit_sync::published::Published;

const THREADS: usize = 8;

fn run(actor: impl Fn(usize) + Send + Sync + 'static) {
    let actor = Arc::new(actor);
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let actor = Arc::clone(&actor);
            thread::spawn(move || actor(number))
        })
        .collect();
    for thread in threads {
        thread.join().expect("an actor panicked");
    }
}

fn mutex<R: RawMutex + 'static>() {
    check(|| {
        let mutex = Arc::new(Mutex::<usize, R>::new(0));
        run({
            let mutex = Arc::clone(&mutex);
            move |number| {
                let mut value = mutex.lock();
                let before = *value;
                if number % 2 == 0 {
                    thread::yield_now();
                } else {
                    *value += 1;
                    MutexGuard::unlocked(&mut value, thread::yield_now);
                    *value -= 1;
                    return;
                }
                *value = before + 1;
            }
        });
        assert_eq!(*mutex.lock(), THREADS / 2);
    });
}

fn rwlock<R: RawRwLock + 'static>() {
    check(|| {
        let lock = Arc::new(RwLock::<(usize, usize), R>::new((0, 0)));
        run({
            let lock = Arc::clone(&lock);
            move |number| {
                for round in 0..2 {
                    if (number + round) % 2 == 0 {
                        let mut pair = lock.write();
                        pair.0 += 1;
                        thread::yield_now();
                        pair.1 += 1;
                    } else {
                        let pair = lock.read();
                        let before = *pair;
                        thread::yield_now();
                        assert_eq!(pair.0, pair.1);
                        assert_eq!(*pair, before);
                    }
                }
            }
        });
        assert_eq!(*lock.read(), (THREADS, THREADS));
    });
}

#[test]
fn spin_lock() {
    mutex::<SpinLock>();
}

#[test]
fn park_mutex() {
    mutex::<ParkMutex>();
}

#[test]
fn lock_of_today() {
    rwlock::<LockOfToday>();
}

#[test]
fn lock_of_2011() {
    rwlock::<LockOf2011>();
}

/// Orderings are nothing to shuttle, missing steps are.
#[test]
fn twins_break() {
    assert_breaks("park_mutex", &["sync.park.awaited"]);
    assert_breaks(
        "lock_of_today",
        &[
            "sync.today.retry",
            "sync.today.release-ok",
            "sync.today.dequeue-release-ok",
        ],
    );
    assert_breaks("lock_of_2011", &["sync.2011.release-ok"]);
}

#[test]
fn published() {
    check(|| {
        let published = Arc::new(Published::new((0, 0), THREADS));
        run({
            let published = Arc::clone(&published);
            move |number| {
                if number % 2 == 0 {
                    published
                        .replace((number, number))
                        .expect("a spare for each");
                } else {
                    let (left, right) = published.reader().read(|pair| *pair);
                    assert_eq!(left, right);
                }
            }
        });
    });
}
