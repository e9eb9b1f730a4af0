//! Where an array keeps its memory: growing (`alloc`) or of const capacity (fits a `static`).

use core::fmt::Debug;

use arrayvec::ArrayVec;
use txnkit_ids::XidRun;
use txnkit_sync::Padded;
use txnkit_sync::atomic::AtomicU64;
use txnkit_sync::park::Park;

use crate::done::OldWord;
use crate::slot::Slot;

/// How many separate runs of child ids a session of the const-capacity form remembers.
pub const FIXED_CHILD_RUNS: usize = 16;

/// A list that may have a fixed capacity.
pub trait Buffer<T: Copy>: AsRef<[T]> + AsMut<[T]> + Clone + Debug + Default + Send {
    /// Removes all elements.
    fn clear(&mut self);
    /// Is there no room for another element?
    fn is_full(&self) -> bool;
    /// Removes the elements from the place `len` on.
    fn truncate(&mut self, len: usize);
    /// Appends `value`, or says `false` when the list is full.
    fn push(&mut self, value: T) -> bool;
}

impl<T: Copy + Debug + Send, const N: usize> Buffer<T> for ArrayVec<T, N> {
    fn clear(&mut self) {
        Self::clear(self);
    }
    fn is_full(&self) -> bool {
        Self::is_full(self)
    }
    fn truncate(&mut self, len: usize) {
        Self::truncate(self, len);
    }
    fn push(&mut self, value: T) -> bool {
        self.try_push(value).is_ok()
    }
}

#[cfg(feature = "alloc")]
impl<T: Copy + Debug + Send> Buffer<T> for alloc::vec::Vec<T> {
    fn clear(&mut self) {
        Self::clear(self);
    }
    fn is_full(&self) -> bool {
        false
    }
    fn truncate(&mut self, len: usize) {
        Self::truncate(self, len);
    }
    fn push(&mut self, value: T) -> bool {
        Self::push(self, value);
        true
    }
}

/// The memory of an array; [`Growing`] and [`Fixed`] are the two forms there are.
pub trait Form: Sized + 'static {
    /// How a session waits.
    type Park: Park;
    /// The sessions' slots.
    type Slots: AsRef<[Padded<Slot<Self>>]> + Send + Sync;
    /// The shared window of done bits; its length is a power of two.
    type Window: AsRef<[AtomicU64]> + Send + Sync;
    /// A session's copy of the window.
    type WindowCopy: AsRef<[u64]> + AsMut<[u64]> + Clone + Send;
    /// The shared list of words that left the window with running ids in them.
    type OldWords: AsRef<[OldWord]> + Send + Sync;
    /// A session's copy of that list: (word number, running bits).
    type OldCopy: Buffer<(u64, u64)>;
    /// A transaction's child ids.
    type Children: Buffer<XidRun>;
    /// A window copy in which nothing has ended.
    const EMPTY_COPY: Self::WindowCopy;
    /// An empty list of old words.
    const NO_OLD: Self::OldCopy;
    /// An empty list of children.
    const NO_CHILDREN: Self::Children;
}

/// Memory from the allocator: sessions and old words sized when the array is built, children without limit.
#[cfg(feature = "alloc")]
#[derive(Debug)]
pub struct Growing<const W: usize, P>(core::marker::PhantomData<P>);

#[cfg(feature = "alloc")]
impl<const W: usize, P: Park> Form for Growing<W, P> {
    type Park = P;
    type Slots = alloc::boxed::Box<[Padded<Slot<Self>>]>;
    type Window = [AtomicU64; W];
    type WindowCopy = [u64; W];
    type OldWords = alloc::boxed::Box<[OldWord]>;
    type OldCopy = alloc::vec::Vec<(u64, u64)>;
    type Children = alloc::vec::Vec<XidRun>;
    const EMPTY_COPY: [u64; W] = [0; W];
    const NO_OLD: Self::OldCopy = alloc::vec::Vec::new();
    const NO_CHILDREN: Self::Children = alloc::vec::Vec::new();
}

/// Memory inside the array itself, all capacities const.
#[derive(Debug)]
pub struct Fixed<const N: usize, const OLD: usize, const W: usize, P>(core::marker::PhantomData<P>);

impl<const N: usize, const OLD: usize, const W: usize, P: Park> Form for Fixed<N, OLD, W, P> {
    type Park = P;
    type Slots = [Padded<Slot<Self>>; N];
    type Window = [AtomicU64; W];
    type WindowCopy = [u64; W];
    type OldWords = [OldWord; OLD];
    type OldCopy = ArrayVec<(u64, u64), OLD>;
    type Children = ArrayVec<XidRun, FIXED_CHILD_RUNS>;
    const EMPTY_COPY: [u64; W] = [0; W];
    const NO_OLD: Self::OldCopy = ArrayVec::new_const();
    const NO_CHILDREN: Self::Children = ArrayVec::new_const();
}
