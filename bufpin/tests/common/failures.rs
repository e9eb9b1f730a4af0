//! A store that fails.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::thread;

use bufpin::{FlushError, PinError, PinSession, Pins};

use super::{READ_FAILED, Store, WRITE_FAILED, read, touch, write};

pub(crate) fn a_failed_read_leaves_nothing<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let store = Store::default();
    let pool = make(store.clone(), 2, 1);
    let session = pool.register().unwrap();
    write(&session, 1, 0, 1);
    session.flush_all().unwrap();
    store.fail_reads(true);
    let failed = |page| PinError::Read {
        page,
        error: READ_FAILED,
    };
    for page in 2..12 {
        assert_eq!(session.pin(page), Err(failed(page)));
        assert_eq!(session.pin_exclusive(page).err(), Some(failed(page)));
    }
    assert_eq!(session.held(), 0);
    assert!(failed(7).to_string().contains("cannot read page 7"));
    store.fail_reads(false);
    for page in 1..12 {
        assert_eq!(read(&session, page, 0), u64::from(page == 1));
    }
}

pub(crate) fn a_failed_write_loses_nothing<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let store = Store::default();
    let pool = make(store.clone(), 2, 1);
    let session = pool.register().unwrap();
    write(&session, 1, 0, 11);
    write(&session, 2, 0, 12);
    store.fail_writes(true);
    for _ in 0..5 {
        let error = session.pin(3).unwrap_err();
        assert!(
            matches!(error, PinError::WriteBack { page: 1 | 2, error } if error == WRITE_FAILED),
            "{error}"
        );
    }
    assert_eq!(session.held(), 0);
    assert_eq!((read(&session, 1, 0), read(&session, 2, 0)), (11, 12));
    store.fail_writes(false);
    for page in 3..8 {
        touch(&session, page);
    }
    assert_eq!((store.page(1)[0], store.page(2)[0]), (11, 12));
    assert_eq!((read(&session, 1, 0), read(&session, 2, 0)), (11, 12));
}

pub(crate) fn a_failed_flush_can_be_repeated<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let store = Store::default();
    let pool = make(store.clone(), 4, 1);
    let session = pool.register().unwrap();
    write(&session, 1, 0, 1);
    store.fail_writes(true);
    let failed = FlushError::Write {
        page: 1,
        error: WRITE_FAILED,
    };
    assert_eq!(session.flush_all(), Err(failed));
    assert_eq!(session.flush_all(), Err(failed));
    store.fail_writes(false);
    assert_eq!(session.flush_all(), Ok(1));
    assert_eq!(store.page(1)[0], 1);
}

pub(crate) fn a_store_that_panics_leaves_no_lock<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let store = Store::default();
    let pool = make(store.clone(), 2, 2);
    let session = pool.register().unwrap();
    write(&session, 1, 0, 1);
    write(&session, 2, 0, 2);
    store.panic(true);
    for page in [3, 4] {
        catch_unwind(AssertUnwindSafe(|| session.pin(page))).unwrap_err();
    }
    catch_unwind(AssertUnwindSafe(|| session.flush_all())).unwrap_err();
    store.panic(false);
    assert_eq!(session.held(), 0);
    for page in 3..9 {
        write(&session, page, 0, page);
    }
    store.panic(true);
    // The page that was clean goes, then the read panics.
    catch_unwind(AssertUnwindSafe(|| session.pin(20))).unwrap_err();
    store.panic(false);
    let other = pool.register().unwrap();
    for page in 1..9 {
        assert_eq!(read(&other, page, 0), page);
    }
    touch(&other, 20);
}

pub(crate) fn who_waited_for_a_failed_read_tries_itself<P: Pins>(
    make: impl Fn(Store, usize, usize) -> P,
) {
    let store = Store::default();
    let pool = make(store.clone(), 4, 3);
    store.close(true);
    store.fail_reads(true);
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let session = pool.register().unwrap();
                scope.spawn(move || {
                    let failed = session.pin(1).is_err();
                    (session.held(), failed)
                })
            })
            .collect();
        store.wait_until_read(1);
        store.close(false);
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), (0, true));
        }
    });
    // Everybody got an answer of his own.
    assert_eq!(store.reads(), [1, 1, 1]);
    store.fail_reads(false);
    touch(&pool.register().unwrap(), 1);
}
