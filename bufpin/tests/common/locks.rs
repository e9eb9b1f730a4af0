//! Content locks and their guards.

use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bufpin::{LockError, PinError, PinSession, Pins};

use super::{Store, WORDS, read, write};

pub(crate) fn what_is_written_is_read<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let pool = make(Store::default(), 2, 2);
    let (one, two) = (pool.register().unwrap(), pool.register().unwrap());
    for value in 1..5 {
        write(&one, 1, 3, value);
        assert_eq!(read(&two, 1, 3), value);
        let mut page = two.pin_exclusive(1).unwrap();
        assert_eq!(page.read(3), value);
        page.write(2, value);
        assert_eq!(page.words().collect::<Vec<_>>(), [0, 0, value, value]);
    }
}

pub(crate) fn readers_share_and_a_writer_is_alone<P: Pins>(
    make: impl Fn(Store, usize, usize) -> P,
) {
    let pool = make(Store::default(), 2, 3);
    let (one, two, three) = (
        pool.register().unwrap(),
        pool.register().unwrap(),
        pool.register().unwrap(),
    );
    let first = one.pin_shared(1).unwrap();
    let second = two.pin_shared(1).unwrap();
    let wrote = AtomicBool::new(false);
    thread::scope(|scope| {
        let wrote = &wrote;
        scope.spawn(move || {
            write(&three, 1, 0, 1);
            wrote.store(true, Ordering::SeqCst);
        });
        thread::yield_now();
        assert_eq!((first.read(0), second.read(0)), (0, 0));
        drop(first);
        thread::yield_now();
        assert_eq!(second.read(0), 0);
        assert!(!wrote.load(Ordering::SeqCst));
        drop(second);
    });
    assert_eq!(read(&one, 1, 0), 1);
}

pub(crate) fn a_second_lock_of_one_session_is_refused<P: Pins>(
    make: impl Fn(Store, usize, usize) -> P,
) {
    let pool = make(Store::default(), 2, 1);
    let session = pool.register().unwrap();
    let (pin, again) = (session.pin(1).unwrap(), session.pin(1).unwrap());
    let refused = Some(LockError::AlreadyLocked);
    let guard = session.lock_shared(&pin).unwrap();
    assert_eq!(session.lock_shared(&again).err(), refused);
    assert_eq!(session.lock_exclusive(&pin).err(), refused);
    assert_eq!(
        session.pin_exclusive(1).err(),
        Some(PinError::AlreadyLocked { page: 1 })
    );
    drop(guard);
    let guard = session.lock_exclusive(&again).unwrap();
    assert_eq!(session.lock_shared(&pin).err(), refused);
    assert_eq!(
        session.pin_shared(1).err(),
        Some(PinError::AlreadyLocked { page: 1 })
    );
    drop(guard);
    assert_eq!(session.held(), 2, "what was refused left nothing behind");
    drop(session.lock_shared(&pin).unwrap());
    session.unpin(pin);
    session.unpin(again);
}

pub(crate) fn several_pages_can_be_locked_at_a_time<P: Pins>(
    make: impl Fn(Store, usize, usize) -> P,
) {
    let pool = make(Store::default(), 4, 1);
    let session = pool.register().unwrap();
    let mut to = session.pin_exclusive(1).unwrap();
    let from = session.pin_shared(2).unwrap();
    to.write(0, from.read(0) + 1);
    // A third page comes in meanwhile.
    assert_eq!(read(&session, 3, 0), 0);
    drop((to, from));
    assert_eq!(read(&session, 1, 0), 1);
    assert_eq!(session.held(), 0);
}

pub(crate) fn a_forgotten_guard_is_given_back<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let pool = make(Store::default(), 4, 2);
    let (mut one, two) = (pool.register().unwrap(), pool.register().unwrap());
    // By the last unpin.
    let pin = one.pin(1).unwrap();
    let mut guard = one.lock_exclusive(&pin).unwrap();
    guard.write(0, 1);
    core::mem::forget(guard);
    one.unpin(pin);
    assert_eq!(read(&two, 1, 0), 1);
    // By `release_all`.
    core::mem::forget(one.pin_exclusive(1).unwrap());
    core::mem::forget(one.pin_shared(2).unwrap());
    assert_eq!(one.release_all(), 2);
    write(&two, 1, 0, 2);
    write(&two, 2, 0, 2);
    assert_eq!(read(&one, 1, 0), 2);
}

pub(crate) fn a_joined_guard_gives_back_its_own_pin_only<P: Pins>(
    make: impl Fn(Store, usize, usize) -> P,
) {
    let pool = make(Store::default(), 1, 1);
    let session = pool.register().unwrap();
    let pin = session.pin(1).unwrap();
    drop(session.pin_shared(1).unwrap());
    drop(session.pin_exclusive(1).unwrap());
    assert_eq!(session.held(), 1);
    assert!(session.pin(2).is_err(), "page 1 is pinned still");
    let guard = session.lock_shared(&pin).unwrap();
    assert_eq!(guard.buffer(), pin.buffer());
    drop(guard);
    session.unpin(pin);
    assert_eq!(session.held(), 0);
    drop(session.pin_shared(2).unwrap());
}

pub(crate) fn a_word_that_the_page_has_not_is_none<P: Pins>(
    make: impl Fn(Store, usize, usize) -> P,
) {
    let pool = make(Store::default(), 1, 1);
    let session = pool.register().unwrap();
    let page = session.pin_shared(1).unwrap();
    assert_eq!(page.get(WORDS - 1), Some(0));
    assert_eq!(page.get(WORDS), None);
}
