//! Who has to make room, and what becomes of changes.

use bufpin::{FlushError, PinError, PinSession, Pins};

use super::{Store, read, touch, write};

/// 10 pages in 12 buffers, round and round.
pub(crate) fn a_set_that_fits_is_read_once<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let store = Store::default();
    let pool = make(store.clone(), 12, 1);
    let session = pool.register().unwrap();
    for _ in 0..20 {
        for page in 0..10 {
            touch(&session, page);
        }
    }
    assert_eq!(store.reads(), (0..10).collect::<Vec<_>>());
}

pub(crate) fn pinned_pages_stay<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let store = Store::default();
    let pool = make(store.clone(), 6, 2);
    let (one, two) = (pool.register().unwrap(), pool.register().unwrap());
    let pins: Vec<_> = (0..5).map(|page| one.pin(page).unwrap()).collect();
    for page in 100..120 {
        touch(&two, page);
    }
    for page in 0..5 {
        touch(&two, page);
    }
    assert_eq!(store.reads().len(), 5 + 20);
    pins.into_iter().for_each(|pin| one.unpin(pin));
}

/// All 8 buffers pinned and one more asked for.
pub(crate) fn all_pinned_is_an_error_and_passes<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let pool = make(Store::default(), 8, 2);
    let (one, two) = (pool.register().unwrap(), pool.register().unwrap());
    let mut pins: Vec<_> = (0..4).map(|page| one.pin(page).unwrap()).collect();
    let others: Vec<_> = (4..8).map(|page| two.pin(page).unwrap()).collect();
    let full = PinError::AllPinned {
        page: 99,
        buffers: 8,
    };
    for _ in 0..3 {
        assert_eq!(one.pin(99), Err(full));
        assert_eq!(two.pin_shared(99).err(), Some(full));
    }
    assert!(full.to_string().contains("no unpinned buffer among 8"));
    // A page that is in can be pinned nevertheless.
    touch(&one, 7);
    assert_eq!((one.held(), two.held()), (4, 4));
    one.unpin(pins.pop().unwrap());
    touch(&two, 99);
    pins.into_iter().for_each(|pin| one.unpin(pin));
    others.into_iter().for_each(|pin| two.unpin(pin));
}

pub(crate) fn often_used_pages_stay_longer<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let store = Store::default();
    let pool = make(store.clone(), 4, 1);
    let session = pool.register().unwrap();
    for _ in 0..10 {
        touch(&session, 1);
    }
    for page in 10..20 {
        touch(&session, page);
        // Used more often than the sweep comes by.
        touch(&session, 1);
        touch(&session, 1);
    }
    assert_eq!(store.reads().iter().filter(|&&page| page == 1).count(), 1);
    // But not for ever.
    for page in 20..60 {
        touch(&session, page);
    }
    touch(&session, 1);
    assert_eq!(store.reads().iter().filter(|&&page| page == 1).count(), 2);
}

pub(crate) fn changes_come_back<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let pool = make(Store::default(), 3, 1);
    let session = pool.register().unwrap();
    for round in 1..4 {
        for page in 0..10 {
            write(&session, page, (page % 4) as usize, round * 100 + page);
        }
        for page in 0..10 {
            let found = read(&session, page, (page % 4) as usize);
            assert_eq!(found, round * 100 + page);
        }
    }
}

pub(crate) fn clean_pages_are_not_written<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let store = Store::default();
    let pool = make(store.clone(), 3, 1);
    let session = pool.register().unwrap();
    for page in 0..10 {
        assert_eq!(read(&session, page, 0), 0);
        // Locked, but not written.
        drop(session.pin_exclusive(page).unwrap());
    }
    session.pin_exclusive(3).unwrap().mark_dirty();
    for page in 10..20 {
        touch(&session, page);
    }
    assert_eq!(store.writes(), [3]);
}

pub(crate) fn flush_writes_every_dirty_page_once<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let store = Store::default();
    let pool = make(store.clone(), 8, 1);
    let session = pool.register().unwrap();
    for page in 0..8 {
        touch(&session, page);
    }
    for page in [2, 5, 6] {
        write(&session, page, 0, page);
    }
    let pin = session.pin(5).unwrap();
    assert_eq!(session.flush_all(), Ok(3));
    assert_eq!(session.flush_all(), Ok(0));
    let mut written = store.writes();
    written.sort_unstable();
    assert_eq!(written, [2, 5, 6]);
    assert_eq!(store.page(5)[0], 5);
    session.lock_exclusive(&pin).unwrap().write(0, 55);
    assert_eq!(session.flush_all(), Ok(1));
    assert_eq!(store.page(5)[0], 55);
    session.unpin(pin);
}

pub(crate) fn a_lock_of_the_callers_stops_a_flush<P: Pins>(
    make: impl Fn(Store, usize, usize) -> P,
) {
    let store = Store::default();
    let pool = make(store.clone(), 4, 1);
    let session = pool.register().unwrap();
    write(&session, 1, 0, 1);
    let guard = session.pin_shared(2).unwrap();
    assert_eq!(session.flush_all(), Err(FlushError::Locked));
    drop(guard);
    assert_eq!(store.writes(), [] as [u64; 0]);
    assert_eq!(session.flush_all(), Ok(1));
}

pub(crate) fn what_was_done_is_counted<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let pool = make(Store::default(), 2, 1);
    let session = pool.register().unwrap();
    write(&session, 1, 0, 1);
    touch(&session, 2);
    for _ in 0..3 {
        touch(&session, 1);
    }
    let first = session.take_stats();
    assert_eq!((first.hits, first.misses), (3, 2));
    assert_eq!((first.evictions, first.write_backs), (0, 0));
    for page in 3..6 {
        touch(&session, page);
    }
    let second = session.take_stats();
    assert_eq!((second.hits, second.misses), (0, 3));
    assert_eq!(second.evictions, 3);
    session.flush_all().unwrap();
    let all = second.write_backs + session.take_stats().write_backs;
    assert_eq!(all, 1, "the one change was written once");
}
