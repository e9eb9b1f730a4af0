//! The pool itself: its memory, its store, its sessions' slots.

use core::fmt;

use txnkit_sync::atomic::{AtomicU64, Ordering};
use txnkit_sync::park::{DefaultPark, Park};
use txnkit_sync::{Padded, ord};

use crate::error::RegisterError;
use crate::form::{Fixed, Memory};
use crate::lock::Slot;
use crate::page::{Frame, PAGE_WORDS};
use crate::session::Session;
use crate::state::{CLEANUP, DIRTY, Descriptor, TAGGED, VALID, pins, usage};
use crate::store::PageStore;
use crate::traits::Pins;
use crate::unpinned::Version;

/// The most sessions a pool can have: each has a buffer pinned, and its content lock, once at most, and 18 bits count them.
pub const MAX_SESSIONS: usize = (1 << 18) - 2;

/// The most buffers a pool can have: their numbers, plus 1, are 32 bits wide.
const MAX_BUFFERS: usize = u32::MAX as usize - 1;

/// A pool of buffers over a store `S`, in either [form](Memory): [`BufferPool`] or [`FixedBufferPool`].
pub struct Pool<S, M, const W: usize = PAGE_WORDS> {
    pub(crate) memory: M,
    pub(crate) store: S,
    /// How far the sweep has gone, all passes counted.
    pub(crate) hand: Padded<AtomicU64>,
    /// The stamp of the next session's pins.
    stamps: Padded<AtomicU64>,
}

/// The pool with memory from the allocator, sized when it is built.
///
/// A buffer costs `8 * W` bytes for its page, 16 for its version, 16 in the mapping table, and a descriptor on a cache line of its own (128 bytes
/// on x86-64, where lines are fetched in pairs).
#[cfg(feature = "alloc")]
pub type BufferPool<S, const W: usize = PAGE_WORDS, P = DefaultPark> =
    Pool<S, crate::form::Heap<W, P>, W>;

/// The pool of const capacity: `N` buffers of `W` words, `SESSIONS` sessions. Fits in a `static`.
///
/// ```
/// use bufpin::{FixedBufferPool, PageStore, PinSession, Pins, StoreError};
///
/// /// Every page holds its own number.
/// struct Numbers;
/// impl PageStore<4> for Numbers {
///     fn read(&self, page: u64, into: &mut [u64; 4]) -> Result<(), StoreError> {
///         into[0] = page;
///         Ok(())
///     }
///     fn write(&self, _page: u64, _from: &[u64; 4]) -> Result<(), StoreError> {
///         Err(StoreError::new("these pages are read-only", 0))
///     }
/// }
///
/// static POOL: FixedBufferPool<Numbers, 8, 2, 4> = FixedBufferPool::new_fixed(Numbers);
///
/// let session = POOL.register().unwrap();
/// assert_eq!(session.pin_shared(70).unwrap().read(0), 70);
/// ```
pub type FixedBufferPool<
    S,
    const N: usize,
    const SESSIONS: usize,
    const W: usize = PAGE_WORDS,
    P = DefaultPark,
> = Pool<S, Fixed<N, SESSIONS, W, P>, W>;

#[cfg(feature = "alloc")]
impl<S: PageStore> BufferPool<S> {
    /// A pool of `buffers` buffers (at least 1, fewer than 2^32) for so many sessions (at most [`MAX_SESSIONS`]), without a page in it.
    pub fn new(store: S, buffers: usize, sessions: usize) -> Self {
        Self::with_words(store, buffers, sessions)
    }
}

#[cfg(feature = "alloc")]
impl<S: PageStore<W>, const W: usize, P: Park> BufferPool<S, W, P> {
    /// As [`BufferPool::new`], with pages of `W` words and parking `P`.
    pub fn with_words(store: S, buffers: usize, sessions: usize) -> Self {
        let (buffers, sessions) = (buffers.clamp(1, MAX_BUFFERS), sessions.min(MAX_SESSIONS));
        Self::assemble(crate::form::Heap::new(buffers, sessions), store)
    }
}

impl<S, const N: usize, const SESSIONS: usize, const W: usize, P: Park>
    FixedBufferPool<S, N, SESSIONS, W, P>
{
    txnkit_sync::const_fn! {
        /// A pool without a page in it. Does not compile without a buffer, or with more than [`MAX_SESSIONS`].
        pub fn new_fixed(store: S) -> Self {
            const { assert!(N > 0 && N <= MAX_BUFFERS, "there is at least one buffer, and their numbers fit 32 bits") };
            const { assert!(SESSIONS <= MAX_SESSIONS, "18 bits count the sessions") };
            Self::assemble(Fixed::new(), store)
        }
    }
}

impl<S, M, const W: usize> Pool<S, M, W> {
    txnkit_sync::const_fn! {
        fn assemble(memory: M, store: S) -> Self {
            Self {
                memory,
                store,
                hand: Padded::new(AtomicU64::new(0)),
                stamps: Padded::new(AtomicU64::new(1)),
            }
        }
    }

    /// The store. What the pool holds of a page may be newer than what the store has.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// A stamp that no pin has.
    pub(crate) fn next_stamp(&self) -> u64 {
        self.stamps.fetch_add(1, Ordering::Relaxed)
    }
}

impl<S, M: Memory<W>, const W: usize> Pool<S, M, W> {
    #[inline]
    pub(crate) fn descriptor(&self, buffer: u32) -> &Descriptor {
        &self.memory.descriptors()[buffer as usize]
    }

    #[inline]
    pub(crate) fn version(&self, buffer: u32) -> &Version {
        &self.memory.versions()[buffer as usize]
    }

    #[inline]
    pub(crate) fn frame(&self, buffer: u32) -> &Frame<W> {
        &self.memory.frames()[buffer as usize]
    }

    pub(crate) fn slot(&self, at: u32) -> &Slot<M::Park> {
        &self.memory.slots()[at as usize]
    }

    /// How many sessions can be registered at a time.
    pub fn sessions(&self) -> usize {
        self.memory.slots().len()
    }

    /// What buffer `buffer` is used for, if there is such a one: for reports, since it may change at any time. Wait-free.
    pub fn buffer(&self, buffer: u32) -> Option<BufferState> {
        let descriptor = self.memory.descriptors().get(buffer as usize)?;
        // Pairs with the Release that made the page valid.
        let state = descriptor.state.load(Ordering::Acquire);
        let page = descriptor.page.load(Ordering::Relaxed);
        Some(BufferState {
            page: (state & (TAGGED | VALID) == TAGGED | VALID).then_some(page),
            pins: pins(state) as u32,
            usage: usage(state) as u32,
            dirty: state & DIRTY != 0,
            cleanup: state & CLEANUP != 0,
        })
    }
}

/// What a buffer was used for at one moment: see [`Pool::buffer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferState {
    /// The page it holds, if any. Taken a moment after the rest.
    pub page: Option<u64>,
    /// How many sessions have it pinned, those included that are about to find out that it is not the page they look for.
    pub pins: u32,
    /// How often it was used of late: 0 to 5.
    pub usage: u32,
    /// Does the page differ from the store's?
    pub dirty: bool,
    /// Does a session wait to be the only one that has it pinned?
    pub cleanup: bool,
}

impl<S: PageStore<W>, M: Memory<W>, const W: usize> Pins for Pool<S, M, W> {
    type Session<'a>
        = Session<'a, S, M, W>
    where
        Self: 'a;

    /// Lock-free: looks at each slot once.
    fn register(&self) -> Result<Session<'_, S, M, W>, RegisterError> {
        for (at, slot) in self.memory.slots().iter().enumerate() {
            // Acquire pairs with the Release in the drop of the slot's last session.
            let free = !slot.in_use.load(Ordering::Relaxed)
                && slot
                    .in_use
                    .compare_exchange(
                        false,
                        true,
                        ord!("bufpin.pool.register", Acquire),
                        Ordering::Relaxed,
                    )
                    .is_ok();
            if free {
                return Ok(Session::new(self, at as u32));
            }
        }
        Err(RegisterError {
            sessions: self.sessions(),
        })
    }

    fn buffers(&self) -> usize {
        self.memory.descriptors().len()
    }
}

impl<S, M: Memory<W>, const W: usize> fmt::Debug for Pool<S, M, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("buffers", &self.memory.descriptors().len())
            .field("words", &W)
            .field("sessions", &self.sessions())
            .finish_non_exhaustive()
    }
}
