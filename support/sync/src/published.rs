//! A value that is read without waiting while others replace it.
//!
//! - Values live in `1 + spares` places. One is current; a writer fills a free one and then makes it current, under a mutex.
//! - Natively a reader pins itself in an epoch collector, loads which place is current and reads there. A replaced place becomes free by
//!   a deferred call of the collector, thus when every reader that was pinned at the replacement has let go. Its value is dropped when
//!   the place is filled again, so that readers never run a destructor.
//! - A reader that stalls while it reads keeps places from becoming free: at most the spares, then [`Published::replace`] refuses.
//! - Under a model no place becomes free again, and `spares` has to cover all replacements: what the model checks is that a value is
//!   complete before it is seen. The collector is the library's to prove.
//! - Replacing allocates a little in the collector; reading does not. Neither is for a hot path: registering a reader allocates too.

use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;

use crate::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed};
use crate::cell::UnsafeCell;
use crate::lock::Mutex;
use crate::ord;

/// A value that readers see whole, old or new, while others replace it.
///
/// Reading is wait-free, apart from what the collector does now and then for all. Replacing blocks on other replacements, never on readers.
pub struct Published<T> {
    /// The place of the value to read.
    current: AtomicUsize,
    places: Arc<[Place<T>]>,
    writer: Mutex<Participant>,
    epochs: Epochs,
}

struct Place<T> {
    free: AtomicBool,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: a value is written only by the one writer, in a place that no reader can have found (`free`), and else only read (`Sync`); it may be
// dropped by another thread than the one that made it (`Send`).
unsafe impl<T: Send + Sync> Sync for Place<T> {}

/// No place was free: readers are still where the spare values were. Holds the value that was to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted<T>(pub T);

impl<T> fmt::Display for Exhausted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "no spare place for a new value is free, since readers have not yet left the earlier ones; \
             end long reads and try again, or construct with more spares",
        )
    }
}

impl<T: fmt::Debug> core::error::Error for Exhausted<T> {}

impl<T: Send + Sync> Published<T> {
    /// Publishes `value`, with room for `spares` more that are new or that readers have not left yet. With none, nothing can be replaced.
    pub fn new(value: T, spares: usize) -> Self {
        let place = |value: Option<T>| Place {
            free: AtomicBool::new(value.is_none()),
            value: UnsafeCell::new(value),
        };
        let epochs = Epochs::new();
        Self {
            current: AtomicUsize::new(0),
            places: core::iter::once(Some(value))
                .chain((0..spares).map(|_| None))
                .map(place)
                .collect(),
            writer: Mutex::new(epochs.register()),
            epochs,
        }
    }

    /// A handle to read with; one per thread is enough.
    pub fn reader(&self) -> Reader<'_, T> {
        Reader {
            published: self,
            participant: self.epochs.register(),
            stays: PhantomData,
        }
    }

    /// Publishes `value` in place of the current one. Readers that began before may still see the old one.
    ///
    /// # Errors
    /// [`Exhausted`], with the value, when all spare places are held up by readers.
    pub fn replace(&self, value: T) -> Result<(), Exhausted<T>> {
        let writer = self.writer.lock();
        let Some(free) = self.find_free(&writer) else {
            return Err(Exhausted(value));
        };
        let place = &self.places[free];
        // SAFETY: only this thread has the writer; no reader is in a free place, nor will one come before it is current.
        let dropped = place.value.with_mut(|old| unsafe { (*old).replace(value) });
        place.free.store(false, Relaxed);
        let old = self.current.load(Relaxed);
        // Release pairs with the Acquire in `read`.
        self.current
            .store(free, ord!("sync.published.store", Release));
        writer.free_when_left(&self.places, old);
        drop(writer);
        // Foreign code, so not under the lock.
        drop(dropped);
        Ok(())
    }

    fn find_free(&self, writer: &Participant) -> Option<usize> {
        // A place becomes free two epochs after its replacement; each try advances by one at most.
        (0..=EPOCHS_TO_FREE).find_map(|tried| {
            if tried > 0 {
                writer.advance();
            }
            // Acquire pairs with the Release in `free_when_left`.
            self.places
                .iter()
                .position(|place| place.free.load(Acquire))
        })
    }
}

impl<T> fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Published")
            .field("places", &self.places.len())
            .finish_non_exhaustive()
    }
}

/// Reads a [`Published`] value.
///
/// Not `Send`: its participation in the collector's epochs is kept in cells that only one thread may touch.
pub struct Reader<'a, T> {
    published: &'a Published<T>,
    participant: Participant,
    stays: PhantomData<*const ()>,
}

impl<T: Send + Sync> Reader<'_, T> {
    /// Reads the current value. Wait-free; as long as `read` runs no value that it could see is replaced in place.
    #[inline]
    pub fn read<U>(&self, read: impl FnOnce(&T) -> U) -> U {
        let _pinned = self.participant.pin();
        // Acquire pairs with the Release in `replace`.
        let current = self
            .published
            .current
            .load(ord!("sync.published.load", Acquire));
        self.published.places[current].value.with(|value| {
            // SAFETY: a current place was filled before it became current, and is not filled again before this reader is no longer
            // pinned.
            read(unsafe { (*value).as_ref().unwrap_unchecked() })
        })
    }
}

impl<T> fmt::Debug for Reader<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

const EPOCHS_TO_FREE: usize = 3;

#[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
use native::{Epochs, Participant};

#[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
mod native {
    use super::{Arc, Place};
    use crate::atomic::Ordering::Release;

    pub(super) struct Epochs(crossbeam_epoch::Collector);

    pub(super) struct Participant(crossbeam_epoch::LocalHandle);

    // SAFETY: a handle belongs to no particular thread, its cells only must not be touched by two at once. `Reader` takes the right to be
    // sent away again; the writer's handle is reached through its mutex, and no pin outlives the lock.
    unsafe impl Send for Participant {}

    impl Epochs {
        pub(super) fn new() -> Self {
            Self(crossbeam_epoch::Collector::new())
        }

        pub(super) fn register(&self) -> Participant {
            Participant(self.0.register())
        }
    }

    impl Participant {
        #[inline]
        pub(super) fn pin(&self) -> crossbeam_epoch::Guard {
            self.0.pin()
        }

        /// Lets the epochs go on, if no reader is in the way, and frees what is due.
        pub(super) fn advance(&self) {
            self.0.pin().flush();
        }

        /// Frees the place `old`, no longer current, when all readers have left it.
        pub(super) fn free_when_left<T: Send + Sync>(&self, places: &Arc<[Place<T>]>, old: usize) {
            let guard = self.0.pin();
            let places = Arc::clone(places);
            // SAFETY: the call may run in any thread, since `Arc<[Place<T>]>` is `Send`. It outlives no borrow in `T`: it runs while
            // the `Published` exists, or is dropped together with its collector.
            unsafe {
                guard.defer_unchecked(move || {
                    // Release pairs with the Acquire in `find_free`: the readers had left before.
                    places[old].free.store(true, Release);
                });
            }
            guard.flush();
        }
    }
}

#[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
use model::{Epochs, Participant};

/// No place becomes free again.
#[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
mod model {
    use super::{Arc, Place};

    pub(super) struct Epochs;

    pub(super) struct Participant;

    pub(super) struct Pinned;

    impl Epochs {
        pub(super) fn new() -> Self {
            Self
        }

        pub(super) fn register(&self) -> Participant {
            Participant
        }
    }

    impl Participant {
        pub(super) fn pin(&self) -> Pinned {
            Pinned
        }

        pub(super) fn advance(&self) {}

        pub(super) fn free_when_left<T>(&self, _places: &Arc<[Place<T>]>, _old: usize) {}
    }
}
