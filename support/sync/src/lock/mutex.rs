//! A value that one thread at a time may touch.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use super::{RawMutex, SpinLock};
use crate::cell::UnsafeCell;

/// A value behind a raw lock. No poisoning: a guard dropped by a panic frees the lock.
pub struct Mutex<T, R: RawMutex = SpinLock> {
    raw: R,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through the raw lock, by one thread at a time, so sharing the mutex moves the value at most.
unsafe impl<T: Send, R: RawMutex> Sync for Mutex<T, R> {}

impl<T, R: RawMutex> Mutex<T, R> {
    #[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
    /// A free mutex around `value`.
    pub const fn new(value: T) -> Self {
        Self {
            raw: R::NEW,
            value: UnsafeCell::new(value),
        }
    }

    #[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
    /// A free mutex around `value`.
    pub fn new(value: T) -> Self {
        Self {
            raw: R::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T, R> {
        self.raw.lock();
        MutexGuard::new(self)
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T, R>> {
        self.raw.try_lock().then(|| MutexGuard::new(self))
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

impl<T, R: RawMutex> fmt::Debug for Mutex<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

/// The right to touch a mutex's value.
#[must_use = "the mutex is free again as soon as the guard is dropped"]
pub struct MutexGuard<'a, T, R: RawMutex = SpinLock> {
    mutex: &'a Mutex<T, R>,
    /// `&Mutex<T>` may be shared when `T` is `Send`; `&T`, which the guard gives out, only when `T` is `Sync`.
    value: PhantomData<&'a mut T>,
}

impl<'a, T, R: RawMutex> MutexGuard<'a, T, R> {
    /// The caller just took the lock.
    fn new(mutex: &'a Mutex<T, R>) -> Self {
        Self {
            mutex,
            value: PhantomData,
        }
    }

    /// Frees the lock while `f` runs and takes it again afterwards, also when `f` panics.
    pub fn unlocked<U>(guard: &mut Self, f: impl FnOnce() -> U) -> U {
        struct Relock<'a, R: RawMutex>(&'a R);
        impl<R: RawMutex> Drop for Relock<'_, R> {
            fn drop(&mut self) {
                self.0.lock();
            }
        }
        // SAFETY: the guard holds the lock, and `&mut` to it says that nobody has a reference to the value through it.
        unsafe { guard.mutex.raw.unlock() };
        let _relock = Relock(&guard.mutex.raw);
        f()
    }
}

impl<T, R: RawMutex> Deref for MutexGuard<'_, T, R> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock; no `&mut` to the value exists beside `&self`.
        self.mutex.value.with(|value| unsafe { &*value })
    }
}

impl<T, R: RawMutex> DerefMut for MutexGuard<'_, T, R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock and `&mut self` is the only way to the value.
        self.mutex.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T, R: RawMutex> Drop for MutexGuard<'_, T, R> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard holds the lock and goes.
        unsafe { self.mutex.raw.unlock() };
    }
}

impl<T: fmt::Debug, R: RawMutex> fmt::Debug for MutexGuard<'_, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
