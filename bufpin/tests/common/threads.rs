//! Several sessions at once, in real threads.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use bufpin::{PinError, PinSession, Pins};

use super::{Store, WORDS, read, touch};
use txnkit_sync::Random;

pub(crate) fn one_page_is_read_once_for_all<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let store = Store::default();
    let pool = make(store.clone(), 4, 4);
    store.close(true);
    thread::scope(|scope| {
        for _ in 0..4 {
            let session = pool.register().unwrap();
            scope.spawn(move || touch(&session, 1));
        }
        store.wait_until_read(1);
        thread::sleep(Duration::from_millis(2));
        store.close(false);
    });
    assert_eq!(store.reads(), [1]);
}

pub(crate) fn a_reader_of_one_page_does_not_hold_up_another<P: Pins>(
    make: impl Fn(Store, usize, usize) -> P,
) {
    let store = Store::default();
    let pool = make(store.clone(), 4, 2);
    let (one, two) = (pool.register().unwrap(), pool.register().unwrap());
    touch(&two, 2);
    store.close(true);
    thread::scope(|scope| {
        scope.spawn(move || touch(&one, 1));
        store.wait_until_read(1);
        // The store is closed: this comes back because nothing of it is needed.
        assert_eq!(read(&two, 2, 0), 0);
        store.close(false);
    });
}

/// 16 buffers, 40 pages: each thread raises counters, each in a word of its own of every page, for about as long as a test may take. In the end
/// each counter is as high as its thread says, in the pool and, after a flush, in the store.
pub(crate) fn no_write_is_lost_while_pages_come_and_go<P: Pins>(
    make: impl Fn(Store, usize, usize) -> P,
) {
    const PAGES: u64 = 40;
    const THREADS: u64 = 3;
    let store = Store::default();
    let pool = make(store.clone(), 16, THREADS as usize + 2);
    let mut random = Random::seeded();
    let stop = AtomicBool::new(false);
    let raised: Vec<[u64; PAGES as usize]> = thread::scope(|scope| {
        let stop = &stop;
        let flusher = pool.register().unwrap();
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                // Writes fail now and then, see below.
                let _ = flusher.flush_all();
                thread::yield_now();
            }
        });
        let raisers: Vec<_> = (0..THREADS)
            .map(|me| {
                let (session, store) = (pool.register().unwrap(), store.clone());
                let mut random = random.split();
                scope.spawn(move || {
                    let mut raised = [0; PAGES as usize];
                    let start = Instant::now();
                    let mut step = 0;
                    while start.elapsed() < Duration::from_millis(300) {
                        let page = random.below(PAGES);
                        // Reads and writes fail now and then.
                        if let Ok(mut held) = session.pin_exclusive(page) {
                            let count = &mut raised[page as usize];
                            assert_eq!(held.read(me as usize), *count, "page {page}");
                            *count += 1;
                            held.write(me as usize, *count);
                        }
                        let other = random.below(PAGES);
                        if let Ok(pin) = session.pin(other) {
                            let held = session.lock_shared(&pin).unwrap();
                            assert_eq!(held.read(me as usize), raised[other as usize]);
                            drop(held);
                            session.unpin(pin);
                        }
                        assert_eq!(session.held(), 0);
                        step += 1;
                        store.fail_writes(step % 97 == 0);
                        store.fail_reads(step % 89 == 0);
                    }
                    raised
                })
            })
            .collect();
        let raised = raisers.into_iter().map(|raiser| raiser.join().unwrap());
        let raised = raised.collect();
        stop.store(true, Ordering::Relaxed);
        raised
    });
    store.fail_writes(false);
    store.fail_reads(false);
    let session = pool.register().unwrap();
    let total = |counts: &[u64; PAGES as usize]| counts.iter().sum::<u64>();
    assert!(raised.iter().map(total).sum::<u64>() > 100);
    for page in 0..PAGES {
        for (me, counts) in raised.iter().enumerate() {
            assert_eq!(read(&session, page, me), counts[page as usize]);
        }
    }
    session.flush_all().unwrap();
    for page in 0..PAGES {
        let counts: Vec<u64> = raised.iter().map(|counts| counts[page as usize]).collect();
        assert_eq!(store.page(page)[..THREADS as usize], counts);
    }
}

/// All words of a page are always equal, whoever looks, in the pool and in the store.
pub(crate) fn a_page_is_seen_whole<P: Pins>(make: impl Fn(Store, usize, usize) -> P) {
    let store = Store::default();
    let pool = make(store.clone(), 2, 4);
    thread::scope(|scope| {
        for writer in 0..2 {
            let session = pool.register().unwrap();
            scope.spawn(move || {
                for step in 0..2000 {
                    if let Ok(mut page) = session.pin_exclusive(step % 3) {
                        (0..WORDS).for_each(|word| page.write(word, step * 2 + writer));
                    }
                }
            });
        }
        let session = pool.register().unwrap();
        scope.spawn(move || {
            for step in 0..4000 {
                if let Ok(page) = session.pin_shared(step % 3) {
                    let words: Vec<u64> = page.words().collect();
                    assert!(words.iter().all(|&word| word == words[0]), "{words:?}");
                }
            }
        });
        for page in 0..400 {
            let words = store.page(page % 3);
            assert!(words.iter().all(|&word| word == words[0]), "{words:?}");
        }
    });
}

/// One buffer and two sessions that each want another page: each gets it, or hears that it is pinned.
pub(crate) fn two_who_want_the_last_buffer_both_end<P: Pins>(
    make: impl Fn(Store, usize, usize) -> P,
) {
    let pool = make(Store::default(), 1, 2);
    thread::scope(|scope| {
        for me in 0..2 {
            let session = pool.register().unwrap();
            scope.spawn(move || {
                let mut got = 0;
                for step in 0..3000 {
                    match session.pin_exclusive(me) {
                        Ok(mut page) => {
                            assert_eq!(page.read(0), got);
                            got += 1;
                            page.write(0, got);
                        }
                        Err(PinError::AllPinned { .. }) => thread::yield_now(),
                        Err(error) => panic!("step {step}: {error}"),
                    }
                }
                assert!(got > 0);
            });
        }
    });
}
