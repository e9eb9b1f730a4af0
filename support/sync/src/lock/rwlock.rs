//! A value that one thread may change or many may read.

use core::fmt;
use core::ops::{Deref, DerefMut};

use super::{LockOfToday, RawRwLock};
use crate::cell::UnsafeCell;

/// A value behind a raw reader-writer lock. No poisoning: a guard dropped by a panic frees the lock.
pub struct RwLock<T, R: RawRwLock = LockOfToday> {
    raw: R,
    value: UnsafeCell<T>,
}

// SAFETY: the raw lock lets one thread change the value, which moves it at most (`Send`), or several read it (`Sync`), never both.
unsafe impl<T: Send + Sync, R: RawRwLock> Sync for RwLock<T, R> {}

impl<T, R: RawRwLock> RwLock<T, R> {
    #[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
    /// A free lock around `value`.
    pub const fn new(value: T) -> Self {
        Self {
            raw: R::NEW,
            value: UnsafeCell::new(value),
        }
    }

    #[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
    /// A free lock around `value`.
    pub fn new(value: T) -> Self {
        Self {
            raw: R::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until no writer holds the lock. A thread that reads again while it reads may wait for itself.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T, R> {
        self.raw.lock_shared();
        ReadGuard { lock: self }
    }

    /// Waits until nobody holds the lock.
    #[inline]
    pub fn write(&self) -> WriteGuard<'_, T, R> {
        self.raw.lock_exclusive();
        WriteGuard { lock: self }
    }

    /// As [`read`](Self::read), if no writer holds the lock.
    #[inline]
    pub fn try_read(&self) -> Option<ReadGuard<'_, T, R>> {
        self.raw.try_lock_shared().then(|| ReadGuard { lock: self })
    }

    /// As [`write`](Self::write), if nobody holds the lock.
    #[inline]
    pub fn try_write(&self) -> Option<WriteGuard<'_, T, R>> {
        self.raw
            .try_lock_exclusive()
            .then(|| WriteGuard { lock: self })
    }

    /// The value, which nobody else can reach.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: `&mut self` is the only way to the value, and lasts as long as what is returned.
        self.value.with_mut(|value| unsafe { &mut *value })
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T, R: RawRwLock> fmt::Debug for RwLock<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").finish_non_exhaustive()
    }
}

/// The right to read a lock's value.
#[must_use = "the lock is given back as soon as the guard is dropped"]
pub struct ReadGuard<'a, T, R: RawRwLock = LockOfToday> {
    lock: &'a RwLock<T, R>,
}

impl<T, R: RawRwLock> Deref for ReadGuard<'_, T, R> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock shared, so there is no writer.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T, R: RawRwLock> Drop for ReadGuard<'_, T, R> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard holds the lock shared and goes.
        unsafe { self.lock.raw.unlock_shared() };
    }
}

impl<T: fmt::Debug, R: RawRwLock> fmt::Debug for ReadGuard<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The right to change a lock's value.
#[must_use = "the lock is free again as soon as the guard is dropped"]
pub struct WriteGuard<'a, T, R: RawRwLock = LockOfToday> {
    lock: &'a RwLock<T, R>,
}

impl<T, R: RawRwLock> Deref for WriteGuard<'_, T, R> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock alone; no `&mut` to the value exists beside `&self`.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T, R: RawRwLock> DerefMut for WriteGuard<'_, T, R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock alone and `&mut self` is the only way to the value.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T, R: RawRwLock> Drop for WriteGuard<'_, T, R> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard holds the lock alone and goes.
        unsafe { self.lock.raw.unlock_exclusive() };
    }
}

impl<T: fmt::Debug, R: RawRwLock> fmt::Debug for WriteGuard<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
