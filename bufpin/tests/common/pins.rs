//! Pins: what is read, what is counted.

use std::thread;

use bufpin::{LockError, NO_PAGE, PinError, PinSession, Pins};

use super::{Store, WORDS, read, touch, write};

pub(crate) fn a_page_is_read_once_and_stays<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let store = Store::default();
    let pool = make(store.clone(), 4, 2);
    assert_eq!(pool.buffers(), 4);
    let (one, two) = (pool.register().unwrap(), pool.register().unwrap());
    for _ in 0..10 {
        touch(&one, 5);
        touch(&two, 5);
    }
    assert_eq!(store.reads(), [5]);
    let (a, b) = (one.pin(5).unwrap(), two.pin(5).unwrap());
    assert_eq!(a.buffer(), b.buffer());
    one.unpin(a);
    two.unpin(b);
}

pub(crate) fn pages_that_were_never_written_are_zeros<P: Pins>(
    make: impl Fn(Store, usize, usize) -> P,
) {
    let pool = make(Store::default(), 1, 1);
    let session = pool.register().unwrap();
    write(&session, 1, 0, 7);
    let page = session.pin_shared(2).unwrap();
    assert_eq!(page.words().collect::<Vec<_>>(), [0; WORDS]);
}

pub(crate) fn pins_of_one_page_are_counted<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let pool = make(Store::default(), 1, 1);
    let session = pool.register().unwrap();
    let pins: Vec<_> = (0..5).map(|_| session.pin(1).unwrap()).collect();
    assert_eq!(session.held(), 5);
    for (left, pin) in (0..5).rev().zip(pins) {
        assert!(matches!(session.pin(2), Err(PinError::AllPinned { .. })));
        session.unpin(pin);
        assert_eq!(session.held(), left);
    }
    touch(&session, 2);
}

pub(crate) fn every_number_but_the_reserved_one_is_a_page<P: Pins>(
    make: impl Fn(Store, usize, usize) -> P,
) {
    let pool = make(Store::default(), 4, 1);
    let session = pool.register().unwrap();
    for page in [0, 1, u64::from(u32::MAX), 1 << 32, NO_PAGE - 1] {
        write(&session, page, 1, page);
        assert_eq!(read(&session, page, 1), page);
    }
    assert_eq!(session.pin(NO_PAGE), Err(PinError::Reserved));
    assert!(matches!(
        session.pin_shared(NO_PAGE),
        Err(PinError::Reserved)
    ));
    assert_eq!(session.held(), 0);
}

pub(crate) fn a_forgotten_pin_is_counted_and_given_back<P: Pins>(
    make: impl Fn(Store, usize, usize) -> P,
) {
    let pool = make(Store::default(), 2, 1);
    let mut session = pool.register().unwrap();
    let _ = session.pin(1).unwrap();
    let stale = session.pin(1).unwrap();
    let _ = session.pin(2).unwrap();
    assert_eq!(session.held(), 3);
    assert!(session.pin(3).is_err());
    assert_eq!(session.release_all(), 3);
    assert_eq!(session.held(), 0);
    touch(&session, 3);
    touch(&session, 4);
    // The same buffers again; the old pin is nobody's.
    let held = [session.pin(1).unwrap(), session.pin(2).unwrap()];
    assert_eq!(session.lock_shared(&stale).err(), Some(LockError::NotHeld));
    session.unpin(stale);
    assert_eq!(session.held(), 2);
    held.into_iter().for_each(|pin| session.unpin(pin));
    assert_eq!(session.release_all(), 0);
}

pub(crate) fn a_foreign_pin_is_refused<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let pool = make(Store::default(), 2, 2);
    let (one, two) = (pool.register().unwrap(), pool.register().unwrap());
    let (pin, own) = (one.pin(1).unwrap(), two.pin(1).unwrap());
    assert_eq!(two.lock_shared(&pin).err(), Some(LockError::NotHeld));
    assert_eq!(two.lock_exclusive(&pin).err(), Some(LockError::NotHeld));
    two.unpin(pin);
    assert_eq!((one.held(), two.held()), (1, 1));
    drop(two.lock_exclusive(&own).unwrap());
    two.unpin(own);
}

pub(crate) fn many_pages_can_be_pinned_at_a_time<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    const MANY: u64 = 8;
    let pool = make(Store::default(), 20, 1);
    let session = pool.register().unwrap();
    let pins: Vec<_> = (0..MANY).map(|page| session.pin(page).unwrap()).collect();
    for (page, pin) in pins.iter().enumerate() {
        session
            .lock_exclusive(pin)
            .unwrap()
            .write(0, page as u64 + 1);
    }
    for (page, pin) in pins.into_iter().enumerate().rev() {
        let again = session.pin(page as u64).unwrap();
        assert_eq!(again.buffer(), pin.buffer());
        assert_eq!(
            session.lock_shared(&again).unwrap().read(0),
            page as u64 + 1
        );
        session.unpin(pin);
        session.unpin(again);
    }
    assert_eq!(session.held(), 0);
}

pub(crate) fn a_dropped_session_gives_everything_back<P: Pins>(
    make: impl Fn(Store, usize, usize) -> P,
) {
    let store = Store::default();
    let pool = make(store.clone(), 2, 2);
    let session = pool.register().unwrap();
    let _ = session.pin(1).unwrap();
    let pin = session.pin(2).unwrap();
    let mut guard = session.lock_exclusive(&pin).unwrap();
    guard.write(0, 9);
    core::mem::forget(guard);
    drop(session);
    let session = pool.register().unwrap();
    assert_eq!(read(&session, 2, 0), 9);
    for page in 3..6 {
        write(&session, page, 0, page);
    }
    assert_eq!(store.page(2)[0], 9);
}

pub(crate) fn slots_run_out_and_come_back<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let pool = make(Store::default(), 1, 2);
    let one = pool.register().unwrap();
    let two = pool.register().unwrap();
    let error = pool.register().err().expect("there are two slots");
    assert_eq!(error.sessions, 2);
    assert!(error.to_string().contains("all 2 slots"));
    drop(one);
    let three = pool.register().unwrap();
    touch(&two, 1);
    touch(&three, 1);
}

pub(crate) fn a_session_moves_between_threads<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let pool = make(Store::default(), 2, 1);
    let session = pool.register().unwrap();
    let pin = session.pin(1).unwrap();
    thread::scope(|scope| {
        let mover = scope.spawn(move || {
            session.lock_exclusive(&pin).unwrap().write(0, 3);
            (session, pin)
        });
        let (session, pin) = mover.join().unwrap();
        assert_eq!(session.lock_shared(&pin).unwrap().read(0), 3);
        session.unpin(pin);
    });
}
