//! The pool around the headers: page table, content locks, frames, slots.

use alloc::boxed::Box;
use core::fmt;
use core::hash::{BuildHasherDefault, Hasher};
use core::ops::Deref;
use std::collections::HashMap;

use txnkit_sync::Padded;
use txnkit_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use txnkit_sync::lock::{Mutex, ParkMutex, RawRwLock, RwLock};

use super::header::Header;
use super::session::BaselineSession;
use crate::error::RegisterError;
use crate::page::Frame;
use crate::pool::MAX_SESSIONS;
use crate::store::PageStore;
use crate::traits::{NO_PAGE, Pins};

/// Partitions of the page table.
const PARTITIONS: usize = 128;

/// How close headers lie.
pub trait Density: Send + Sync + 'static {
    /// A header and its company.
    type Of<T: Send + Sync>: Deref<Target = T> + Send + Sync;
    /// Puts it there.
    fn place<T: Send + Sync>(value: T) -> Self::Of<T>;
}

/// Each on cache lines of its own.
#[derive(Debug)]
pub struct Sparse;

impl Density for Sparse {
    type Of<T: Send + Sync> = Padded<T>;
    fn place<T: Send + Sync>(value: T) -> Padded<T> {
        Padded::new(value)
    }
}

/// Side by side, so that neighbours share lines.
#[derive(Debug)]
pub struct Dense;

/// A value without padding.
#[derive(Debug)]
pub struct Bare<T>(T);

impl<T> Deref for Bare<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl Density for Dense {
    type Of<T: Send + Sync> = Bare<T>;
    fn place<T: Send + Sync>(value: T) -> Bare<T> {
        Bare(value)
    }
}

/// Page numbers are mixed by multiplication, as the front's are.
#[derive(Debug, Default)]
pub(super) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u64(&mut self, page: u64) {
        let mixed = (self.0 ^ page).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
}

/// A part of the page table.
pub(super) type Partition = HashMap<u64, u32, BuildHasherDefault<PageHasher>>;

/// A buffer without its page.
#[derive(Debug)]
pub(super) struct Descriptor<H, L: RawRwLock> {
    pub(super) header: H,
    /// The page, while tagged. Written under its partition's lock.
    pub(super) page: AtomicU64,
    /// The content lock.
    pub(super) content: RwLock<(), L>,
    /// Held by whoever reads or writes the page.
    pub(super) io: Mutex<(), ParkMutex>,
}

/// A pool of 9.6's outline, with headers `H`, reader-writer locks `L` and headers as close as `D` says.
///
/// A pin of a page that is in the pool blocks on the partition's lock; the docs of the traits say on what else operations block.
pub struct BaselinePool<
    S,
    H: Header,
    L: RawRwLock,
    D: Density,
    const W: usize = { crate::PAGE_WORDS },
> {
    pub(super) store: S,
    descriptors: Box<[D::Of<Descriptor<H, L>>]>,
    pub(super) frames: Box<[Frame<W>]>,
    partitions: Box<[Padded<RwLock<Partition, L>>]>,
    pub(super) hand: Padded<AtomicU64>,
    pub(super) slots: Box<[AtomicBool]>,
    pub(super) stamps: AtomicU64,
}

impl<S: PageStore<W>, H: Header, L: RawRwLock, D: Density, const W: usize>
    BaselinePool<S, H, L, D, W>
{
    /// A pool of `buffers` buffers (at least 1) for so many sessions, without a page in it.
    pub fn new(store: S, buffers: usize, sessions: usize) -> Self {
        let buffers = buffers.clamp(1, u32::MAX as usize - 1);
        let descriptor = || Descriptor {
            header: H::new(),
            page: AtomicU64::new(NO_PAGE),
            content: RwLock::new(()),
            io: Mutex::new(()),
        };
        Self {
            store,
            descriptors: (0..buffers).map(|_| D::place(descriptor())).collect(),
            frames: (0..buffers).map(|_| Frame::zero()).collect(),
            partitions: (0..PARTITIONS)
                .map(|_| Padded::new(RwLock::new(Partition::default())))
                .collect(),
            hand: Padded::new(AtomicU64::new(0)),
            slots: (0..sessions.min(MAX_SESSIONS))
                .map(|_| AtomicBool::new(false))
                .collect(),
            stamps: AtomicU64::new(1),
        }
    }

    #[inline]
    pub(super) fn descriptor(&self, buffer: u32) -> &Descriptor<H, L> {
        &self.descriptors[buffer as usize]
    }

    #[inline]
    pub(super) fn partition(&self, page: u64) -> &RwLock<Partition, L> {
        &self.partitions[crate::mapping::hash(page) as usize % PARTITIONS]
    }
}

impl<S: PageStore<W>, H: Header, L: RawRwLock, D: Density, const W: usize> Pins
    for BaselinePool<S, H, L, D, W>
{
    type Session<'a>
        = BaselineSession<'a, S, H, L, D, W>
    where
        Self: 'a;

    fn register(&self) -> Result<Self::Session<'_>, RegisterError> {
        // Acquire pairs with the Release in the drop of the slot's last session.
        let free = self
            .slots
            .iter()
            .position(|slot| !slot.swap(true, Ordering::Acquire));
        match free {
            Some(at) => Ok(BaselineSession::new(self, at)),
            None => Err(RegisterError {
                sessions: self.slots.len(),
            }),
        }
    }

    fn buffers(&self) -> usize {
        self.descriptors.len()
    }
}

impl<S, H: Header, L: RawRwLock, D: Density, const W: usize> fmt::Debug
    for BaselinePool<S, H, L, D, W>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BaselinePool")
            .field("buffers", &self.descriptors.len())
            .field("sessions", &self.slots.len())
            .finish_non_exhaustive()
    }
}
