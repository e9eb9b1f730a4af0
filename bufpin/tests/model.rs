//! Long random histories of one thread with several sessions, step by step against an oracle that could not be simpler.

#![cfg(feature = "std")]

extern crate alloc;

use alloc::collections::BTreeMap;

use bufpin::{BufferPool, LockError, PinError, PinSession, Pins};

#[macro_use]
#[expect(
    dead_code,
    unused_macros,
    reason = "the behaviours are run by `behaviour.rs`"
)]
mod common;

use common::{READ_FAILED, Store, WORDS};
use txnkit_sync::Random;

/// What every pin, word and buffer has to be.
#[derive(Default)]
struct Oracle {
    /// The current words of each page.
    pages: BTreeMap<u64, [u64; WORDS]>,
    /// Pins by page and session.
    pins: BTreeMap<(u64, usize), Vec<bufpin::Pin>>,
}

impl Oracle {
    /// Pages that somebody has pinned.
    fn pinned_pages(&self) -> usize {
        let mut pages: Vec<u64> = self
            .pins
            .iter()
            .filter(|(_, pins)| !pins.is_empty())
            .map(|(&(page, _), _)| page)
            .collect();
        pages.dedup();
        pages.len()
    }

    fn is_pinned(&self, page: u64) -> bool {
        self.pins
            .iter()
            .any(|(&(at, _), pins)| at == page && !pins.is_empty())
    }

    fn held(&self, session: usize) -> usize {
        self.pins
            .iter()
            .filter(|((_, owner), _)| *owner == session)
            .map(|(_, pins)| pins.len())
            .sum()
    }
}

/// Runs one history; every answer is compared.
fn history<P: Pins>(
    make: &impl Fn(Store, usize, usize) -> P,
    random: &mut Random,
    check: impl Fn(&P),
) {
    let store = Store::default();
    let buffers = 1 + random.below(6) as usize;
    let pages = 1 + random.below(12);
    let pool = make(store.clone(), buffers, 3);
    let mut sessions: Vec<Option<P::Session<'_>>> =
        (0..3).map(|_| Some(pool.register().unwrap())).collect();
    let mut oracle = Oracle::default();
    for step in 0..300 {
        let at = random.below(3) as usize;
        let page = random.below(pages);
        let session = sessions[at].as_ref().unwrap();
        match random.below(20) {
            0..7 => {
                // Full only when every buffer holds a pinned page and this is not one of them.
                let full = oracle.pinned_pages() == buffers && !oracle.is_pinned(page);
                match session.pin(page) {
                    Ok(pin) => {
                        assert!(!full, "step {step}");
                        oracle.pins.entry((page, at)).or_default().push(pin);
                    }
                    Err(error) => {
                        assert_eq!(error, PinError::AllPinned { page, buffers }, "step {step}");
                        assert!(full, "step {step}");
                    }
                }
            }
            7..12 => {
                if let Some(pin) = oracle.pins.get_mut(&(page, at)).and_then(Vec::pop) {
                    session.unpin(pin);
                }
            }
            12..15 => {
                if let Some(pin) = oracle.pins.get(&(page, at)).and_then(|pins| pins.last()) {
                    let word = random.below(WORDS as u64) as usize;
                    session
                        .lock_exclusive(pin)
                        .unwrap()
                        .write(word, step + 1000);
                    oracle.pages.entry(page).or_default()[word] = step + 1000;
                }
            }
            15..17 => {
                if let Some(pin) = oracle.pins.get(&(page, at)).and_then(|pins| pins.last()) {
                    let found: Vec<u64> = session.lock_shared(pin).unwrap().words().collect();
                    let expected = oracle.pages.get(&page).copied().unwrap_or_default();
                    assert_eq!(found, expected, "step {step}");
                    let other = &sessions[(at + 1) % 3].as_ref().unwrap();
                    assert_eq!(other.lock_shared(pin).err(), Some(LockError::NotHeld));
                }
            }
            17 => {
                let written = session.flush_all().unwrap();
                assert!(written <= buffers);
                for (&page, words) in &oracle.pages {
                    assert_eq!(store.page(page), *words, "step {step}");
                }
                assert_eq!(session.flush_all(), Ok(0));
            }
            18 => {
                store.fail_reads(true);
                match session.pin(page) {
                    Ok(pin) => oracle.pins.entry((page, at)).or_default().push(pin),
                    Err(error) => assert!(
                        matches!(error, PinError::AllPinned { .. })
                            || matches!(error, PinError::Read { error, .. } if error == READ_FAILED)
                    ),
                }
                store.fail_reads(false);
            }
            _ => {
                let held = oracle.held(at);
                if random.below(2) == 0 {
                    let session = sessions[at].as_mut().unwrap();
                    assert_eq!(session.release_all(), held, "step {step}");
                } else {
                    sessions[at] = None;
                    sessions[at] = Some(pool.register().unwrap());
                }
                oracle.pins.retain(|&(_, owner), _| owner != at);
            }
        }
        let session = sessions[at].as_ref().unwrap();
        assert_eq!(session.held(), oracle.held(at), "step {step}");
        check(&pool);
    }
}

#[test]
fn the_front_does_as_the_oracle() {
    let mut random = Random::seeded();
    for _ in 0..60 {
        history(
            &BufferPool::<Store, WORDS>::with_words,
            &mut random.split(),
            |pool| assert!(pool.is_consistent()),
        );
    }
}

#[cfg(feature = "baselines")]
#[test]
fn the_baselines_do_as_the_oracle() {
    use bufpin::baseline::{CasLoop, Dense, HeaderSpinlock, Sparse};
    use txnkit_sync::lock::{LockOf2011, LockOfToday};

    let mut random = Random::seeded();
    for _ in 0..10 {
        let make = HeaderSpinlock::<Store, LockOf2011, Sparse, WORDS>::new;
        history(&make, &mut random.split(), |_| ());
        let make = CasLoop::<Store, LockOfToday, Dense, WORDS>::new;
        history(&make, &mut random.split(), |_| ());
    }
}
