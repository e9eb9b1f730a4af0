//! Locks: raw ones that a mechanism can be generic over, and guards around them.
//!
//! A raw lock belongs to nobody: any thread may free it once the one that took it handed over the right to. That is what lets a
//! [`MutexGuard`] be sent to another thread, and why no raw lock here remembers a thread.

#[cfg(feature = "std")]
mod lock_of_2011;
#[cfg(feature = "std")]
mod lock_of_today;
mod mutex;
#[cfg(feature = "std")]
mod park_mutex;
#[cfg(feature = "std")]
mod rwlock;
mod spin;
#[cfg(feature = "std")]
mod waiter;

#[cfg(feature = "std")]
pub use lock_of_2011::LockOf2011;
#[cfg(feature = "std")]
pub use lock_of_today::LockOfToday;
pub use mutex::{Mutex, MutexGuard};
#[cfg(feature = "std")]
pub use park_mutex::ParkMutex;
#[cfg(feature = "std")]
pub use rwlock::{ReadGuard, RwLock, WriteGuard};
pub use spin::SpinLock;

/// A lock for one.
///
/// # Safety
/// An implementation excludes: from a `lock`, or a `try_lock` that answered `true`, to the `unlock` after it no other one succeeds, and
/// what happened before an `unlock` happens before the next lock. Any thread may unlock. None of the functions unwinds.
pub unsafe trait RawMutex: Send + Sync {
    /// A free lock.
    #[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
    const NEW: Self;

    /// A free lock.
    #[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
    fn new() -> Self;

    /// Takes the lock, waiting for it. Blocks on the holder.
    fn lock(&self);

    /// Takes the lock if it is free. Does not wait; may answer `false` when it races with an `unlock`.
    #[must_use = "whoever got the lock has to free it"]
    fn try_lock(&self) -> bool;

    /// Frees the lock.
    ///
    /// # Safety
    /// The caller holds it.
    unsafe fn unlock(&self);
}

/// A lock for one writer or many readers.
///
/// # Safety
/// An implementation excludes: while an exclusive holder exists there is no other holder of either kind. What happened before an unlock
/// happens before every later lock that it made possible. Any thread may unlock. None of the functions unwinds.
pub unsafe trait RawRwLock: Send + Sync {
    /// A free lock.
    #[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
    const NEW: Self;

    /// A free lock.
    #[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
    fn new() -> Self;

    /// Takes the lock beside other readers. Blocks on a writer.
    fn lock_shared(&self);

    /// As [`lock_shared`](Self::lock_shared), if no writer holds it. Does not block on a holder.
    #[must_use = "whoever got the lock has to free it"]
    fn try_lock_shared(&self) -> bool;

    /// Gives back one reader's hold.
    ///
    /// # Safety
    /// The caller holds the lock shared.
    unsafe fn unlock_shared(&self);

    /// Takes the lock alone. Blocks on every holder.
    fn lock_exclusive(&self);

    /// As [`lock_exclusive`](Self::lock_exclusive), if nobody holds it. Does not block on a holder.
    #[must_use = "whoever got the lock has to free it"]
    fn try_lock_exclusive(&self) -> bool;

    /// Gives back the writer's hold.
    ///
    /// # Safety
    /// The caller holds the lock exclusively.
    unsafe fn unlock_exclusive(&self);
}
