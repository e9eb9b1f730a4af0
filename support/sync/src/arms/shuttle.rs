//! Shuttle's threads.

pub(crate) mod atomic {
    pub use shuttle::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        fence,
    };
}

pub(crate) use shuttle::sync::{Condvar, Mutex};

/// Lets another thread run.
pub fn spin_loop() {
    shuttle::thread::yield_now();
}

/// A cell with closures for access, as loom has them.
#[derive(Debug, Default)]
pub struct UnsafeCell<T: ?Sized>(core::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// A cell with `value` in it.
    pub const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> UnsafeCell<T> {
    /// Reads through a pointer: no writer may be at work.
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Writes through a pointer: nobody else may be at work.
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
