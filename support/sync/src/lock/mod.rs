//! Locks: raw ones that a mechanism can be generic over, and guards around them.

mod mutex;
mod spin;

pub use mutex::{Mutex, MutexGuard};
pub use spin::SpinLock;

/// A lock for one.
pub trait RawMutex: Send + Sync {
    /// A free lock.
    #[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
    #[expect(clippy::declare_interior_mutable_const, reason = "a constructor: every use makes a new lock")]
    const NEW: Self;

    /// A free lock.
    #[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
    fn new() -> Self;

    /// Takes the lock, waiting for it.
    fn lock(&self);

    /// Takes the lock if it is free.
    fn try_lock(&self) -> bool;

    /// Frees the lock.
    ///
    /// # Safety
    /// The caller holds it.
    unsafe fn unlock(&self);
}
