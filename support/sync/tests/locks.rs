//! What the locks and the parking place promise, with real threads.
#![cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]

extern crate alloc;

use alloc::sync::Arc;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::panic::catch_unwind;
use std::sync::{Barrier, mpsc};
use std::thread;

use static_assertions::{assert_impl_all, assert_not_impl_any};
use txnkit_sync::Padded;
use txnkit_sync::lock::{
    LockOf2011, LockOfToday, Mutex, MutexGuard, ParkMutex, RawMutex, RawRwLock, ReadGuard, RwLock,
    SpinLock, WriteGuard,
};
use txnkit_sync::park::{NoPark, Park, ThreadPark};

type NotSync = core::cell::Cell<u8>;
type NotSend = alloc::rc::Rc<u8>;

assert_impl_all!(Padded<u8>: Send, Sync);
assert_not_impl_any!(Padded<NotSync>: Sync);
assert_not_impl_any!(Padded<NotSend>: Send);
assert_impl_all!(Mutex<NotSync>: Send, Sync);
assert_not_impl_any!(Mutex<NotSend>: Send, Sync);
// Any thread may free a raw lock, so a guard may go to another one together with its value.
assert_impl_all!(MutexGuard<'static, u8>: Send, Sync);
assert_impl_all!(MutexGuard<'static, NotSync>: Send);
assert_not_impl_any!(MutexGuard<'static, NotSync>: Sync);
assert_not_impl_any!(MutexGuard<'static, NotSend>: Send, Sync);
assert_impl_all!(RwLock<u8>: Send, Sync);
assert_not_impl_any!(RwLock<NotSync>: Sync);
assert_not_impl_any!(RwLock<NotSend>: Send, Sync);
assert_impl_all!(ReadGuard<'static, u8>: Send, Sync);
assert_not_impl_any!(ReadGuard<'static, NotSync>: Send, Sync);
assert_impl_all!(WriteGuard<'static, u8>: Send, Sync);
assert_not_impl_any!(WriteGuard<'static, NotSend>: Send, Sync);

/// More than this machine has processors, so that holders lose theirs.
fn crowd() -> u64 {
    thread::available_parallelism()
        .map_or(1, |cpus| cpus.get() as u64)
        .clamp(1, 8)
        * 2
        + 2
}

const ROUNDS: u64 = 2_000;

fn mutex_excludes<R: RawMutex>() {
    let mutex = Mutex::<(u64, u64), R>::new((0, 0));
    thread::scope(|scope| {
        for _ in 0..crowd() {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let mut pair = mutex.lock();
                    pair.0 += 1;
                    if pair.0.is_multiple_of(64) {
                        thread::yield_now();
                    }
                    pair.1 += 1;
                    assert_eq!(pair.0, pair.1);
                }
            });
        }
    });
    assert_eq!(mutex.into_inner(), (crowd() * ROUNDS, crowd() * ROUNDS));
}

fn mutex_guards<R: RawMutex>() {
    let mut mutex = Mutex::<u64, R>::new(0);
    let held = mutex.lock();
    assert!(mutex.try_lock().is_none());
    assert!(
        mutex.try_lock().is_none(),
        "a failed attempt must not free the lock"
    );
    thread::scope(|scope| {
        scope
            .spawn(|| drop(held))
            .join()
            .expect("another thread may free the lock");
    });
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        *mutex.lock() = 1;
        let _held = mutex.lock();
        panic!("with the lock held");
    }));
    assert!(unwound.is_err());
    assert_eq!(*mutex.try_lock().expect("a panic frees the lock"), 1);
    *mutex.get_mut() = 2;
    assert_eq!(mutex.into_inner(), 2);
}

fn mutex_unlocked<R: RawMutex>() {
    let mutex = Mutex::<u64, R>::new(0);
    let mut guard = mutex.lock();
    let answer = MutexGuard::unlocked(&mut guard, || {
        *mutex.try_lock().expect("the lock is free meanwhile") += 1;
        7
    });
    assert_eq!((answer, *guard), (7, 1));
    assert!(mutex.try_lock().is_none(), "it is taken again afterwards");
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        MutexGuard::unlocked(&mut guard, || panic!("without the lock"))
    }));
    assert!(unwound.is_err());
    assert!(
        mutex.try_lock().is_none(),
        "it is taken again after a panic, too"
    );
    drop(guard);
    assert!(mutex.try_lock().is_some());
}

macro_rules! for_mutexes {
    ($($module:ident: $raw:ty),*) => { $( mod $module {
        use super::*;
        #[test]
        fn excludes() { mutex_excludes::<$raw>(); }
        #[test]
        fn guards() { mutex_guards::<$raw>(); }
        #[test]
        fn unlocked() { mutex_unlocked::<$raw>(); }
    } )* };
}
for_mutexes!(spin: SpinLock, park: ParkMutex);

fn rwlock_excludes<R: RawRwLock>() {
    let lock = RwLock::<(u64, u64), R>::new((0, 0));
    let readers = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..crowd() {
            let (lock, readers) = (&lock, &readers);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    if (number + round).is_multiple_of(4) {
                        let mut pair = lock.write();
                        assert_eq!(readers.load(Relaxed), 0, "a reader beside a writer");
                        pair.0 += 1;
                        if pair.0.is_multiple_of(64) {
                            thread::yield_now();
                        }
                        pair.1 += 1;
                    } else {
                        let pair = lock.read();
                        readers.fetch_add(1, Relaxed);
                        assert_eq!(pair.0, pair.1);
                        readers.fetch_sub(1, Relaxed);
                    }
                }
            });
        }
    });
    let writes = crowd() * ROUNDS / 4;
    assert_eq!(lock.into_inner(), (writes, writes));
}

fn rwlock_guards<R: RawRwLock>() {
    let mut lock = RwLock::<u64, R>::new(0);
    let first = lock.read();
    let second = lock.try_read().expect("readers run together");
    assert!(lock.try_write().is_none());
    drop(first);
    assert!(lock.try_write().is_none(), "one reader is left");
    drop(second);
    let mut writer = lock.try_write().expect("nobody is left");
    *writer = 1;
    assert!(lock.try_read().is_none());
    assert!(lock.try_write().is_none());
    thread::scope(|scope| {
        scope
            .spawn(|| drop(writer))
            .join()
            .expect("another thread may give the lock back");
    });
    for write in [true, false] {
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _writer = write.then(|| lock.write());
            let _reader = (!write).then(|| lock.read());
            panic!("with the lock held");
        }));
        assert!(unwound.is_err());
        assert!(lock.try_write().is_some(), "a panic gives the lock back");
    }
    *lock.get_mut() += 1;
    assert_eq!(lock.into_inner(), 2);
}

/// Two readers are in at the same time: each waits inside for the other.
fn rwlock_shares<R: RawRwLock>() {
    let lock = RwLock::<(), R>::new(());
    let inside = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let _reader = lock.read();
                inside.wait();
            });
        }
    });
}

/// Whoever sleeps is woken: writers and readers queue up behind a holder, and all get their turn.
fn rwlock_wakes_all<R: RawRwLock>() {
    for first_writes in [true, false] {
        let lock = RwLock::<u64, R>::new(0);
        let writer = first_writes.then(|| lock.write());
        let reader = (!first_writes).then(|| lock.read());
        thread::scope(|scope| {
            for number in 0..8 {
                let lock = &lock;
                scope.spawn(move || {
                    if number % 2 == 0 {
                        *lock.write() += 1;
                    } else {
                        drop(lock.read());
                    }
                });
            }
            thread::yield_now();
            drop((writer, reader));
        });
        assert_eq!(lock.into_inner(), 4);
    }
}

macro_rules! for_rwlocks {
    ($($module:ident: $raw:ty),*) => { $( mod $module {
        use super::*;
        #[test]
        fn excludes() { rwlock_excludes::<$raw>(); }
        #[test]
        fn guards() { rwlock_guards::<$raw>(); }
        #[test]
        fn shares() { rwlock_shares::<$raw>(); }
        #[test]
        fn wakes_all() { rwlock_wakes_all::<$raw>(); }
    } )* };
}
for_rwlocks!(of_2011: LockOf2011, of_today: LockOfToday);

#[test]
fn locks_are_constants() {
    static SPIN: Mutex<u8> = Mutex::new(1);
    static PARK: Mutex<u8, ParkMutex> = Mutex::new(2);
    static TODAY: RwLock<u8> = RwLock::new(3);
    static OF_2011: RwLock<u8, LockOf2011> = RwLock::new(4);
    assert_eq!(
        (*SPIN.lock(), *PARK.lock(), *TODAY.read(), *OF_2011.read()),
        (1, 2, 3, 4)
    );
}

#[test]
fn a_permit_before_park_is_kept_and_two_are_one() {
    let place = ThreadPark::NEW;
    place.unpark();
    place.unpark();
    place.park();
    assert!(!place.park_timeout(1), "two permits are one");
    place.unpark();
    assert!(place.park_timeout(1));
    assert!(!place.park_timeout(0), "the timeout takes the permit too");
}

#[test]
fn park_waits_for_another_thread() {
    let (place, said) = (Arc::new(ThreadPark::NEW), Arc::new(AtomicU64::new(0)));
    let (ready, wait_ready) = mpsc::channel();
    let parked = thread::spawn({
        let (place, said) = (Arc::clone(&place), Arc::clone(&said));
        move || {
            ready.send(()).expect("the test listens");
            place.park();
            said.load(Relaxed)
        }
    });
    wait_ready.recv().expect("the thread started");
    said.store(1, Relaxed);
    place.unpark();
    assert_eq!(parked.join().expect("no panic"), 1);
    const { assert!(ThreadPark::CAN_BLOCK && !NoPark::CAN_BLOCK) };
    NoPark.park();
    assert!(!NoPark.park_timeout(u64::MAX));
}

#[test]
fn a_long_timeout_is_no_error() {
    let place = ThreadPark::NEW;
    place.unpark();
    assert!(place.park_timeout(u64::MAX));
    thread::scope(|scope| {
        scope.spawn(|| place.unpark());
        while !place.park_timeout(u64::MAX) {}
    });
}
