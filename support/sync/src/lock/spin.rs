//! A lock that spins.

use super::RawMutex;
use crate::atomic::{AtomicBool, Ordering};
use crate::{hint, ord};

/// How often a waiter looks before it lets other threads run.
#[cfg(feature = "std")]
const LOOKS: u32 = 100;

/// Test-and-test-and-set; waiters spin, then yield the processor where there is an operating system.
#[derive(Debug)]
pub struct SpinLock(AtomicBool);

// SAFETY: only the thread whose exchange found `false` holds the lock, until it stores `false`; the orderings say so to the next one.
unsafe impl RawMutex for SpinLock {
    #[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
    const NEW: Self = Self(AtomicBool::new(false));

    #[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    #[inline]
    fn lock(&self) {
        while !self.try_lock() {
            #[cfg(feature = "std")]
            let mut looks = 0;
            while self.0.load(Ordering::Relaxed) {
                hint::spin_loop();
                #[cfg(feature = "std")]
                if !crate::MODEL {
                    looks += 1;
                    if looks > LOOKS {
                        std::thread::yield_now();
                    }
                }
            }
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        // Acquire pairs with the Release in `unlock`.
        self.0
            .compare_exchange(
                false,
                true,
                ord!("sync.spin.lock", Acquire),
                Ordering::Relaxed,
            )
            .is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        // Release pairs with the Acquire in `try_lock`.
        self.0.store(false, ord!("sync.spin.unlock", Release));
    }
}
