//! Which sets running transactions may still look at.
//!
//! # Rules
//!
//! Words: *X*: a session's oldest set; *next*: the next set's number; *H*: the announced oldest.
//!
//! 1. Before a transaction locks a row by its own id or by a set, its session loads next, stores that in X (Relaxed), `fence(SeqCst)`, and loads H. If H is beyond
//!    what it stored, it does the same again. So no set that the transaction makes or is a member of is before X: one with a running member is
//!    kept as long as that member runs. One without may be forgotten while somebody reads it, who is told so.
//! 2. Who wants the oldest loads next, raises H to it by `fetch_max`, `fence(SeqCst)`, scans all X (Acquire) and takes the minimum.
//! 3. The fences are ordered one way or the other: the session sees H, or the scan sees X. So what was returned is never beyond a session in use.
//! 4. Ending stores "none" in X (Release), which pairs with the Acquire of the scan: what the session read, it read before anybody forgets it.
//! 5. What is returned is the maximum of all minima so far, which rule 3 makes safe.

use alloc::boxed::Box;

use txnkit_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use txnkit_sync::{Padded, broken, fence_at, ord};

use crate::error::RegisterError;

/// No transaction in the session uses sets.
const NONE: u64 = u64::MAX;

/// Every session's oldest set.
pub struct Oldest {
    places: Box<[Padded<Place>]>,
    announced: Padded<AtomicU64>,
    returned: AtomicU64,
}

struct Place {
    in_use: AtomicBool,
    oldest: AtomicU64,
}

impl Oldest {
    /// So many places, all free.
    pub fn new(sessions: usize) -> Self {
        let place = |_| {
            Padded::new(Place {
                in_use: AtomicBool::new(false),
                oldest: AtomicU64::new(NONE),
            })
        };
        Self {
            places: (0..sessions).map(place).collect(),
            announced: Padded::new(AtomicU64::new(0)),
            returned: AtomicU64::new(0),
        }
    }

    /// A place, freed by `leave`. Lock-free: one look at every place.
    ///
    /// # Errors
    /// [`RegisterError`] when all are in use.
    pub fn register(&self) -> Result<usize, RegisterError> {
        let free = |place: &Padded<Place>| {
            // Acquire pairs with the Release in `leave`.
            place
                .in_use
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        };
        self.places.iter().position(free).ok_or(RegisterError {
            sessions: self.places.len(),
        })
    }

    /// Frees a place.
    pub fn leave(&self, at: usize) {
        self.end(at);
        // Pairs with the Acquire in `register`.
        self.places[at].in_use.store(false, Ordering::Release);
    }

    /// Rule 1: the session at `at` begins to use sets; `next` loads the next number. Lock-free.
    pub fn begin(&self, at: usize, next: impl Fn() -> u64) {
        let oldest = &self.places[at].oldest;
        loop {
            let from = next();
            oldest.store(from, Ordering::Relaxed);
            // Pairs with the fence in `compute`.
            fence_at!("multixact.oldest.begin-fence", SeqCst);
            if self.announced.load(Ordering::Relaxed) <= from
                || broken!("multixact.oldest.unchecked")
            {
                return;
            }
        }
    }

    /// The session's own X, which only it changes.
    pub fn of(&self, at: usize) -> u64 {
        self.places[at].oldest.load(Ordering::Relaxed)
    }

    /// Does the session at `at` use sets?
    pub fn is_begun(&self, at: usize) -> bool {
        self.of(at) != NONE
    }

    /// Rule 4: the session at `at` uses no sets. Wait-free.
    pub fn end(&self, at: usize) {
        // Pairs with the Acquire of the scan.
        self.places[at]
            .oldest
            .store(NONE, ord!("multixact.oldest.end", Release));
    }

    /// Rule 2: the oldest in use. `next` is the next number, loaded before. Wait-free.
    pub fn compute(&self, next: u64) -> u64 {
        if !broken!("multixact.oldest.not-announced") {
            self.announced.fetch_max(next, Ordering::Relaxed);
        }
        // Pairs with the fence in `begin`.
        fence_at!("multixact.oldest.scan-fence", SeqCst);
        let found = self.places.iter().fold(next, |oldest, place| {
            // Pairs with the Release in `end`.
            oldest.min(place.oldest.load(ord!("multixact.oldest.scan", Acquire)))
        });
        // Pairs with itself: who returns another's result acquires what its scan acquired.
        self.returned
            .fetch_max(found, ord!("multixact.oldest.returned", AcqRel))
            .max(found)
    }
}

impl core::fmt::Debug for Oldest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Oldest").finish_non_exhaustive()
    }
}
