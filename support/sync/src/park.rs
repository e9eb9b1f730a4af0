//! One-permit blocking, the only blocking primitive.

/// A place where one thread waits for a permit that another gives.
///
/// A permit given before `park` is kept, two are one. `park` may return without one. Implementations must not unwind.
pub trait Park: Send + Sync + 'static {
    /// Does `park` really wait? Where it is `false`, operations that would have to wait answer `WouldBlock` instead.
    const CAN_BLOCK: bool;

    /// A place without a permit.
    #[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
    const NEW: Self;

    /// A place without a permit.
    #[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
    fn new() -> Self;

    /// Waits for a permit and takes it. May return early.
    fn park(&self);

    /// As [`park`](Self::park), for at most `timeout_ns` nanoseconds; says whether a permit was taken.
    fn park_timeout(&self, timeout_ns: u64) -> bool;

    /// Gives a permit.
    fn unpark(&self);
}

/// No waiting: `park` returns at once.
#[derive(Debug, Default)]
pub struct NoPark;

impl Park for NoPark {
    const CAN_BLOCK: bool = false;
    #[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
    const NEW: Self = Self;
    #[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
    fn new() -> Self {
        Self
    }
    fn park(&self) {}
    fn park_timeout(&self, _timeout_ns: u64) -> bool {
        false
    }
    fn unpark(&self) {}
}

/// How sessions wait unless told otherwise: threads with `std`, else not at all.
#[cfg(any(feature = "std", txnkit_model = "loom", txnkit_model = "shuttle"))]
pub type DefaultPark = ThreadPark;
/// How sessions wait unless told otherwise: threads with `std`, else not at all.
#[cfg(not(any(feature = "std", txnkit_model = "loom", txnkit_model = "shuttle")))]
pub type DefaultPark = NoPark;

#[cfg(any(feature = "std", txnkit_model = "loom", txnkit_model = "shuttle"))]
pub use thread::ThreadPark;

#[cfg(any(feature = "std", txnkit_model = "loom", txnkit_model = "shuttle"))]
mod thread {
    #[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
    use crate::arm::{Condvar, Mutex};
    use std::sync::PoisonError;
    #[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
    use std::sync::{Condvar, Mutex};

    use super::Park;

    /// Parks the calling thread, with the operating system's help.
    ///
    /// `park` returns only with the permit. Several threads may wait at one place: a permit lets one of them go. Under a model no timeout
    /// ever passes: `park_timeout` waits for the permit.
    #[derive(Debug)]
    pub struct ThreadPark {
        permit: Mutex<bool>,
        given: Condvar,
    }

    impl Park for ThreadPark {
        const CAN_BLOCK: bool = true;

        #[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
        const NEW: Self = Self {
            permit: Mutex::new(false),
            given: Condvar::new(),
        };

        #[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
        fn new() -> Self {
            Self {
                permit: Mutex::new(false),
                given: Condvar::new(),
            }
        }

        fn park(&self) {
            let mut permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
            while !*permit {
                permit = self
                    .given
                    .wait(permit)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            *permit = false;
        }

        fn park_timeout(&self, timeout_ns: u64) -> bool {
            let mut permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
            if !*permit {
                let timeout = core::time::Duration::from_nanos(timeout_ns);
                permit = self
                    .given
                    .wait_timeout(permit, timeout)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            core::mem::take(&mut *permit)
        }

        fn unpark(&self) {
            *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.given.notify_one();
        }
    }
}
