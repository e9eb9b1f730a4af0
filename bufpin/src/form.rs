//! Where a pool keeps its memory: on the heap (`alloc`), or in place with const capacity (fits a `static`).

use txnkit_sync::atomic::AtomicU64;
use txnkit_sync::lock::Mutex;
use txnkit_sync::park::Park;

use crate::lock::Slot;
use crate::mapping::Overflow;
use crate::page::Frame;
use crate::state::Descriptor;
use crate::unpinned::Version;

pub(crate) use txnkit_sync::Padded;

/// The arrays of a pool of pages of `W` words; [`Heap`] and [`Fixed`] are the two forms there are.
///
/// Descriptors, versions and frames have one element a buffer and are of one length; there are twice as many cells.
pub trait Memory<const W: usize>: Send + Sync {
    /// How a session waits.
    type Park: Park;
    /// The state of each buffer, on a line of its own.
    fn descriptors(&self) -> &[Padded<Descriptor>];
    /// The version of each buffer, densely: only writers store here, so that readers without a pin share the lines.
    fn versions(&self) -> &[Version];
    /// The page of each buffer.
    fn frames(&self) -> &[Frame<W>];
    /// The cells of the mapping table.
    fn cells(&self) -> &[AtomicU64];
    /// The partitions of the mapping table.
    fn partitions(&self) -> &[Padded<Mutex<Overflow>>];
    /// The sessions' slots.
    fn slots(&self) -> &[Padded<Slot<Self::Park>>];
}

macro_rules! fields {
    () => {
        type Park = P;

        #[inline]
        fn descriptors(&self) -> &[Padded<Descriptor>] {
            &self.descriptors
        }
        #[inline]
        fn versions(&self) -> &[Version] {
            &self.versions
        }
        #[inline]
        fn frames(&self) -> &[Frame<W>] {
            &self.frames
        }
        #[inline]
        fn partitions(&self) -> &[Padded<Mutex<Overflow>>] {
            &self.partitions
        }
        #[inline]
        fn slots(&self) -> &[Padded<Slot<P>>] {
            &self.slots
        }
    };
}

/// Memory in place: `N` buffers, `SESSIONS` sessions, one partition.
pub struct Fixed<const N: usize, const SESSIONS: usize, const W: usize, P> {
    descriptors: [Padded<Descriptor>; N],
    versions: [Version; N],
    frames: [Frame<W>; N],
    cells: [[AtomicU64; 2]; N],
    partitions: [Padded<Mutex<Overflow>>; 1],
    slots: [Padded<Slot<P>>; SESSIONS],
}

impl<const N: usize, const SESSIONS: usize, const W: usize, P: Park> Fixed<N, SESSIONS, W, P> {
    txnkit_sync::const_fn! {
        /// Memory without a page in it.
        pub(crate) fn new() -> Self {
            Self {
                descriptors: txnkit_sync::array_of!(Padded::new(Descriptor::new()); N),
                versions: txnkit_sync::array_of!(Version::new(); N),
                frames: txnkit_sync::array_of!(Frame::zero(); N),
                cells: txnkit_sync::array_of!([AtomicU64::new(0), AtomicU64::new(0)]; N),
                partitions: [Padded::new(Mutex::new(Overflow::new()))],
                slots: txnkit_sync::array_of!(Padded::new(Slot::new()); SESSIONS),
            }
        }
    }
}

impl<const N: usize, const SESSIONS: usize, const W: usize, P: Park> Memory<W>
    for Fixed<N, SESSIONS, W, P>
{
    #[inline]
    fn cells(&self) -> &[AtomicU64] {
        self.cells.as_flattened()
    }

    fields!();
}

impl<const N: usize, const SESSIONS: usize, const W: usize, P> core::fmt::Debug
    for Fixed<N, SESSIONS, W, P>
{
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Fixed").finish_non_exhaustive()
    }
}

#[cfg(feature = "alloc")]
pub use heap::Heap;

#[cfg(feature = "alloc")]
mod heap {
    use alloc::boxed::Box;

    use super::*;

    /// Partitions of the mapping table at most.
    const MAX_PARTITIONS: usize = 128;
    /// Buffers to a partition at least.
    const PARTITION_BUFFERS: usize = if txnkit_sync::MODEL { 1 } else { 8 };

    /// Memory on the heap, sized when it is built.
    pub struct Heap<const W: usize, P> {
        descriptors: Box<[Padded<Descriptor>]>,
        versions: Box<[Version]>,
        frames: Box<[Frame<W>]>,
        cells: Box<[AtomicU64]>,
        partitions: Box<[Padded<Mutex<Overflow>>]>,
        slots: Box<[Padded<Slot<P>>]>,
    }

    impl<const W: usize, P: Park> Heap<W, P> {
        /// Memory without a page in it.
        pub(crate) fn new(buffers: usize, sessions: usize) -> Self {
            fn boxed<T>(len: usize, make: impl Fn() -> T) -> Box<[T]> {
                (0..len).map(|_| make()).collect()
            }
            let partitions = (buffers / PARTITION_BUFFERS)
                .clamp(1, MAX_PARTITIONS)
                .next_power_of_two();
            Self {
                descriptors: boxed(buffers, || Padded::new(Descriptor::new())),
                versions: boxed(buffers, Version::new),
                frames: boxed(buffers, Frame::zero),
                cells: boxed(2 * buffers, || AtomicU64::new(0)),
                partitions: boxed(partitions, || Padded::new(Mutex::new(Overflow::new()))),
                slots: boxed(sessions, || Padded::new(Slot::new())),
            }
        }
    }

    impl<const W: usize, P: Park> Memory<W> for Heap<W, P> {
        #[inline]
        fn cells(&self) -> &[AtomicU64] {
            &self.cells
        }

        fields!();
    }

    impl<const W: usize, P> core::fmt::Debug for Heap<W, P> {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            f.debug_struct("Heap")
                .field("buffers", &self.descriptors.len())
                .finish_non_exhaustive()
        }
    }
}
