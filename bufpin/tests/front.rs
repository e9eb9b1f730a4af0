//! What only the front does: recent buffers, the cleanup lock, reads without a pin, the page table when it is full.

#![cfg(feature = "std")]

extern crate alloc;

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::thread;

use bufpin::{
    BufferPool, CleanupError, FixedBufferPool, LockError, PageStore, PinError, PinSession, Pins,
    StoreError,
};

#[macro_use]
#[expect(
    dead_code,
    unused_macros,
    reason = "the behaviours are run by `behaviour.rs`"
)]
mod common;

use common::{Store, WORDS, read, touch, write};

type Pool = BufferPool<Store, WORDS>;

fn pool(buffers: usize, sessions: usize) -> Pool {
    Pool::with_words(Store::default(), buffers, sessions)
}

#[test]
fn a_recent_buffer_is_found_without_the_table_and_checked() {
    let store = Store::default();
    let pool = Pool::with_words(store.clone(), 2, 1);
    let session = pool.register().unwrap();
    write(&session, 1, 0, 1);
    let pin = session.pin(1).unwrap();
    let recent = pin.buffer();
    let again = session.pin_recent(recent, 1).unwrap();
    assert_eq!(again.buffer(), recent);
    session.unpin(again);
    session.unpin(pin);
    for page in 2..6 {
        touch(&session, page);
    }
    // Another page's buffer by now, or the same one's again, or one that does not exist: the right page comes all the same.
    for buffer in [recent, 1 - recent, 2, u32::MAX] {
        let pin = session.pin_recent(buffer, 1).unwrap();
        assert_eq!(session.lock_shared(&pin).unwrap().read(0), 1);
        session.unpin(pin);
    }
    assert_eq!(store.reads(), [1, 2, 3, 4, 5, 1]);
    assert_eq!(
        session.pin_recent(0, bufpin::NO_PAGE),
        Err(PinError::Reserved)
    );
    assert_eq!(session.held(), 0);
}

#[test]
fn the_state_of_a_buffer_can_be_looked_at() {
    let pool = pool(2, 2);
    let (one, two) = (pool.register().unwrap(), pool.register().unwrap());
    let state = |buffer| pool.buffer(buffer).unwrap();
    assert_eq!((state(0).page, state(0).pins, state(0).usage), (None, 0, 0));
    assert_eq!(pool.buffer(2), None);
    let pins = [one.pin(7).unwrap(), one.pin(7).unwrap()];
    let other = two.pin(7).unwrap();
    let buffer = other.buffer();
    assert_eq!(state(buffer).page, Some(7));
    assert_eq!(state(buffer).pins, 2, "one a session");
    pins.into_iter().for_each(|pin| one.unpin(pin));
    two.unpin(other);
    for _ in 0..10 {
        touch(&one, 7);
    }
    assert_eq!((state(buffer).pins, state(buffer).usage), (0, 5));
    assert!(!state(buffer).dirty);
    write(&one, 7, 0, 1);
    assert!(state(buffer).dirty);
}

#[test]
fn pinned_buffers_are_passed_and_not_lowered() {
    let pool = pool(3, 1);
    let session = pool.register().unwrap();
    for _ in 0..9 {
        touch(&session, 1);
    }
    let pin = session.pin(1).unwrap();
    for page in 2..30 {
        touch(&session, page);
    }
    assert_eq!(pool.buffer(pin.buffer()).unwrap().usage, 5);
    session.unpin(pin);
}

/// A pins the page and idles. B waits for it without holding the lock; C is told that B waits; C pinned twice is told so.
#[test]
fn a_cleanup_waiter_waits_for_the_last_foreign_pin() {
    let pool = pool(4, 4);
    let [a, b, c, d] = [(); 4].map(|()| pool.register().unwrap());
    let idle = a.pin(7).unwrap();
    let cleaned = AtomicBool::new(false);
    thread::scope(|scope| {
        let cleaned = &cleaned;
        let waiter = scope.spawn(move || {
            let pin = b.pin(7).unwrap();
            let mut page = b.lock_cleanup(&pin).unwrap();
            cleaned.store(true, Ordering::SeqCst);
            page.write(0, 1);
            drop(page);
            b.unpin(pin);
        });
        let pin = c.pin(7).unwrap();
        while !pool.buffer(idle.buffer()).unwrap().cleanup {
            thread::yield_now();
        }
        assert_eq!(c.lock_cleanup(&pin).err(), Some(CleanupError::AnotherWaits));
        let second = c.pin(7).unwrap();
        let own = c.lock_cleanup(&pin).err().unwrap();
        assert_eq!(own, CleanupError::OwnPins { pins: 2 });
        assert!(own.to_string().contains("incorrect local pin count: 2"));
        c.unpin(second);
        assert_eq!(c.try_lock_cleanup(&pin).err(), Some(CleanupError::Pinned));
        // Readers and writers come and go meanwhile: the waiter does not have the lock.
        assert_eq!(read(&d, 7, 0), 0);
        write(&d, 7, 1, 1);
        c.unpin(pin);
        thread::sleep(Duration::from_millis(1));
        assert!(!cleaned.load(Ordering::SeqCst));
        a.unpin(idle);
        waiter.join().unwrap();
    });
    assert_eq!(read(&d, 7, 0), 1);
}

#[test]
fn a_cleanup_lock_that_nobody_is_in_the_way_of_comes_at_once() {
    let pool = pool(2, 2);
    let (one, two) = (pool.register().unwrap(), pool.register().unwrap());
    let pin = one.pin(1).unwrap();
    drop(one.lock_cleanup(&pin).unwrap());
    let guard = one.try_lock_cleanup(&pin).unwrap();
    // A pin that comes later is harmless.
    let late = two.pin(1).unwrap();
    assert_eq!(
        two.try_lock_exclusive(&late).err(),
        Some(LockError::WouldBlock)
    );
    drop(guard);
    assert_eq!(
        two.try_lock_cleanup(&late).err(),
        Some(CleanupError::Pinned)
    );
    drop(two.try_lock_exclusive(&late).unwrap());
    let locked = two.lock_shared(&late).unwrap();
    assert_eq!(
        one.try_lock_exclusive(&pin).err(),
        Some(LockError::WouldBlock)
    );
    drop(locked);
    two.unpin(late);
    assert_eq!(
        two.lock_cleanup(&pin).err(),
        Some(CleanupError::Lock(LockError::NotHeld))
    );
    one.unpin(pin);
}

#[test]
fn a_page_can_be_read_without_a_pin_while_nobody_changes_it() {
    let pool = pool(2, 2);
    let (one, two) = (pool.register().unwrap(), pool.register().unwrap());
    let look = |page| two.read_unpinned(page, |words| (words.get(0), words.get(WORDS)));
    assert_eq!(look(1), None, "not in the pool");
    write(&one, 1, 0, 5);
    assert_eq!(look(1), Some((Some(5), None)));
    let guard = one.pin_exclusive(1).unwrap();
    assert_eq!(look(1), None, "being changed");
    drop(guard);
    assert!(look(1).is_some());
    let guard = one.pin_shared(1).unwrap();
    assert!(look(1).is_some());
    drop(guard);
    assert_eq!(
        two.read_unpinned(1, |_| write(&one, 1, 0, 6)),
        None,
        "changed meanwhile"
    );
    assert_eq!(
        two.read_unpinned(1, |_| (2..9).for_each(|page| touch(&one, page))),
        None,
        "evicted meanwhile"
    );
    assert_eq!(look(1), None);
    assert_eq!(look(bufpin::NO_PAGE), None);
    assert_eq!(two.held(), 0);
}

/// Readers without a pin see a page's words as they were at one moment, or nothing.
#[test]
fn what_is_read_without_a_pin_belongs_together() {
    let pool = pool(2, 3);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            let (session, stop) = (pool.register().unwrap(), &stop);
            scope.spawn(move || {
                let mut seen = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    let words =
                        session.read_unpinned(1, |words| [0, 1, 2, 3].map(|at| words.get(at)));
                    if let Some([first, rest @ ..]) = words {
                        assert!(rest.iter().all(|&word| word == first), "{words:?}");
                        seen += 1;
                    }
                    thread::yield_now();
                }
                seen
            });
        }
        let session = pool.register().unwrap();
        for step in 0..20_000 {
            let mut page = session.pin_exclusive(1).unwrap();
            (0..WORDS).for_each(|word| page.write(word, step));
            drop(page);
            if step % 50 == 0 {
                touch(&session, 2 + step % 5);
                touch(&session, 7 + step % 7);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Fifteen buffers can be had for hundreds of pages in tables of every small size: nothing is lost when windows are full.
#[test]
fn pools_of_every_small_size_find_all_their_pages() {
    for buffers in 1..40 {
        let pool = pool(buffers, 1);
        let session = pool.register().unwrap();
        for round in 0..8 {
            let base = round * 1000;
            let pins: Vec<_> = (0..buffers as u64)
                .map(|page| session.pin(base + page).unwrap())
                .collect();
            let mut places: Vec<_> = pins.iter().map(|pin| pin.buffer()).collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), buffers, "each page has a buffer of its own");
            pins.into_iter().for_each(|pin| session.unpin(pin));
        }
        assert_eq!(session.take_stats().misses, 8 * buffers as u64);
    }
}

/// Ends where waiting would be needed: no parking.
#[test]
fn without_parking_nothing_waits() {
    use txnkit_sync::park::NoPark;
    let pool = BufferPool::<Store, WORDS, NoPark>::with_words(Store::default(), 2, 2);
    let (one, two) = (pool.register().unwrap(), pool.register().unwrap());
    let guard = one.pin_exclusive(1).unwrap();
    assert_eq!(
        two.pin_shared(1).err(),
        Some(PinError::WouldBlock { page: 1 })
    );
    let pin = two.pin(1).unwrap();
    assert_eq!(two.lock_exclusive(&pin).err(), Some(LockError::WouldBlock));
    drop(guard);
    let held = one.pin(1).unwrap();
    assert_eq!(two.lock_cleanup(&pin).err(), Some(CleanupError::Pinned));
    one.unpin(held);
    drop(two.lock_cleanup(&pin).unwrap());
    two.unpin(pin);
    assert_eq!((one.held(), two.held()), (0, 0));
}

/// The pool of const capacity stands in a `static`.
#[test]
fn a_static_pool_works() {
    struct Numbers;
    impl PageStore<WORDS> for Numbers {
        fn read(&self, page: u64, into: &mut [u64; WORDS]) -> Result<(), StoreError> {
            into.fill(page);
            Ok(())
        }
        fn write(&self, _page: u64, _from: &[u64; WORDS]) -> Result<(), StoreError> {
            Err(StoreError::new("read-only", 3))
        }
    }
    static POOL: FixedBufferPool<Numbers, 5, 2, WORDS> = FixedBufferPool::new_fixed(Numbers);
    let session = POOL.register().unwrap();
    for page in (0..50).chain(0..50) {
        assert_eq!(read(&session, page, 3), page);
    }
    write(&session, 1, 0, 0);
    let error = session.flush_all().unwrap_err();
    assert!(error.to_string().contains("read-only (code 3)"), "{error}");
    assert_eq!(POOL.store().read(3, &mut [0; WORDS]), Ok(()));
}

#[test]
fn a_million_pins_of_one_page_fit() {
    let pool = pool(1, 1);
    let mut session = pool.register().unwrap();
    for _ in 0..1_000_000 {
        let _ = session.pin(3).unwrap();
    }
    assert_eq!(session.release_all(), 1_000_000);
    assert_eq!(pool.buffer(0).unwrap().pins, 0);
}
