//! Eight sessions at once, in random interleavings of sequentially consistent steps.
//!
//! `RUSTFLAGS='--cfg txnkit_model="shuttle"' cargo test --release -p bufpin --test shuttle`
//!
//! A failure prints a schedule that replays it; `SHUTTLE_RANDOM_SEED` sets the seed.
#![cfg(txnkit_model = "shuttle")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bufpin::{BufferPool, MemoryStore, PageStore, PinError, PinSession, Pins, StoreError};
use shuttle::thread;
use txnkit_sync::model::{assert_breaks, check};

const WORDS: usize = 2;
const SESSIONS: u64 = 8;
const PAGES: u64 = 5;

type Pool = BufferPool<Flaky, WORDS>;
type Session<'a> = <Pool as Pins>::Session<'a>;

/// Pages in memory; every fifth read and every seventh write fails.
#[derive(Default)]
struct Flaky {
    pages: MemoryStore<WORDS>,
    calls: AtomicU64,
}

impl Flaky {
    fn fails(&self, every: u64) -> Result<(), StoreError> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if call % every == every - 1 {
            return Err(StoreError::new("now and then", 0));
        }
        Ok(())
    }
}

impl PageStore<WORDS> for Flaky {
    fn read(&self, page: u64, into: &mut [u64; WORDS]) -> Result<(), StoreError> {
        self.fails(5)?;
        self.pages.read(page, into)
    }
    fn write(&self, page: u64, from: &[u64; WORDS]) -> Result<(), StoreError> {
        assert_eq!(from[0], from[1], "a torn page is written");
        self.fails(7)?;
        self.pages.write(page, from)
    }
}

/// Three buffers, five pages: every session adds to pages, cleans up, looks with and without a pin, flushes. In the end nothing that was added is
/// missing, no pin is left, and everybody has come to an end.
#[test]
fn eight_sessions_lose_nothing() {
    check(|| {
        let pool = Arc::new(Pool::with_words(Flaky::default(), 3, SESSIONS as usize));
        let actors: Vec<_> = (0..SESSIONS)
            .map(|me| {
                let pool = pool.clone();
                thread::spawn(move || {
                    let session = pool.register().unwrap();
                    let mut added = [0; PAGES as usize];
                    for step in 0..3 {
                        let page = (me * 3 + step * 7) % PAGES;
                        added[page as usize] += u64::from(add(&session, page, me % 4 == step));
                        let other = (page + 1) % PAGES;
                        if let Ok(words) = session.pin_shared(other) {
                            assert_eq!(words.read(0), words.read(1), "torn");
                        }
                        let look = |words: &bufpin::Unpinned<'_>| [words.get(0), words.get(1)];
                        if let Some([first, second]) = session.read_unpinned(other, look) {
                            assert_eq!(first, second, "torn without a pin");
                        }
                    }
                    if me % 3 == 0 {
                        // A write may fail; the page stays dirty then.
                        let _ = session.flush_all();
                    }
                    assert_eq!(session.held(), 0);
                    added
                })
            })
            .collect();
        let added: Vec<_> = actors.into_iter().map(|it| it.join().unwrap()).collect();
        assert!(pool.is_consistent());
        assert!((0..3).all(|buffer| pool.buffer(buffer).unwrap().pins == 0));
        let session = pool.register().unwrap();
        for page in 0..PAGES {
            let sum: u64 = added.iter().map(|added| added[page as usize]).sum();
            let words = loop {
                // Failures pass.
                if let Ok(words) = session.pin_shared(page) {
                    break words;
                }
            };
            assert_eq!([words.read(0), words.read(1)], [sum, sum], "page {page}");
        }
    });
}

/// Adds 1 to both words of a page, with the cleanup lock if asked for; says whether the page could be had.
fn add(session: &Session<'_>, page: u64, clean: bool) -> bool {
    let pin = match session.pin(page) {
        Ok(pin) => pin,
        Err(PinError::AllPinned { .. } | PinError::Read { .. } | PinError::WriteBack { .. }) => {
            return false;
        }
        Err(error) => panic!("{error}"),
    };
    let locked = if clean {
        session.lock_cleanup(&pin).ok()
    } else {
        session.lock_exclusive(&pin).ok()
    };
    let added = locked.map(|mut words| {
        let value = words.read(0) + 1;
        words.write(0, value);
        words.write(1, value);
    });
    session.unpin(pin);
    // There may be another cleanup waiter already.
    assert!(added.is_some() || clean);
    added.is_some()
}

#[test]
fn broken_steps_are_found() {
    assert_breaks(
        "eight_sessions_lose_nothing",
        &[
            "bufpin.mapping.no-second-search",
            "bufpin.evict.dirty-unchecked",
            "bufpin.evict.pins-unchecked",
            "bufpin.lock.no-wake",
            "bufpin.cleanup.no-wake",
            "bufpin.evict.failed-left-locked",
        ],
    );
}
