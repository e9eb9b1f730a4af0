//! Loom's threads.

pub(crate) mod atomic {
    pub use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        fence,
    };
}

pub use loom::cell::UnsafeCell;
pub(crate) use loom::sync::{Condvar, Mutex};

/// Lets another thread run.
pub fn spin_loop() {
    loom::thread::yield_now();
}
