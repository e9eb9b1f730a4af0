//! A lock that spins a while and then sleeps.
//!
//! - The word is `FREE`, `HELD` (nobody sleeps) or `AWAITED` (somebody may sleep). Free, it is taken by one exchange; `HELD`, given back by one.
//! - Who has spun in vain puts `AWAITED` there. If that replaced `FREE`, the lock is taken, with a word that says too much at worst: others may
//!   still sleep. Else the thread waits for the permit.
//! - Who frees an `AWAITED` lock gives the permit. One permit for all sleepers is enough: the one that takes it either gets the lock, as
//!   `AWAITED`, and gives the permit again when it frees it, or puts `AWAITED` under the holder, who then gives it.

use super::RawMutex;
use crate::atomic::{AtomicU32, Ordering::Relaxed};
use crate::park::{Park, ThreadPark};
use crate::{MODEL, broken, hint, new_park, ord};

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// Looks before a sleep: about as long as a sleep and a wake-up would cost.
const LOOKS: u32 = if MODEL { 1 } else { 100 };

/// A lock for sections that may be longer than a few instructions: waiters spin for a bounded while, then park. Blocks on the holder.
///
/// Not fair: whoever comes when it is free takes it. Under a model it looks once.
#[derive(Debug)]
pub struct ParkMutex {
    word: AtomicU32,
    sleepers: ThreadPark,
}

impl ParkMutex {
    #[cold]
    fn spin_and_park(&self) {
        for _ in 0..LOOKS {
            if self.word.load(Relaxed) == FREE && self.try_lock() {
                return;
            }
            hint::spin_loop();
        }
        let awaited = if broken!("sync.park.awaited") {
            HELD
        } else {
            AWAITED
        };
        // Acquire pairs with the Release in `unlock`.
        while self.word.swap(awaited, ord!("sync.park.await", Acquire)) != FREE {
            self.sleepers.park();
        }
    }
}

// SAFETY: only the thread whose exchange or swap replaced `FREE` holds the lock, until it swaps `FREE` in; the orderings say so to the
// next one.
unsafe impl RawMutex for ParkMutex {
    #[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
    const NEW: Self = Self {
        word: AtomicU32::new(FREE),
        sleepers: new_park!(ThreadPark),
    };

    #[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
    fn new() -> Self {
        Self {
            word: AtomicU32::new(FREE),
            sleepers: new_park!(ThreadPark),
        }
    }

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.spin_and_park();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        // Acquire pairs with the Release in `unlock`.
        self.word
            .compare_exchange(FREE, HELD, ord!("sync.park.lock", Acquire), Relaxed)
            .is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        // Release pairs with the Acquires in `try_lock` and `spin_and_park`.
        if self.word.swap(FREE, ord!("sync.park.unlock", Release)) == AWAITED {
            self.sleepers.unpark();
        }
    }
}
