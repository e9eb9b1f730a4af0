//! The memory a pool lives in: on the heap, or in arrays that fit a `static`.
//!
//! Slot `bank * PLACES + place` has the same index in every array. A page's bank is its number modulo the number of banks (a
//! power of two), its home place the rest modulo the places of a bank; so consecutive pages, up to as many as there are slots,
//! never share a home.

use txnkit_sync::Padded;
use txnkit_sync::atomic::{AtomicU8, AtomicU64};
use txnkit_sync::lock::Mutex;

use crate::page::{BANK_PLACES, PAGE_WORDS};
use crate::stats::SlruStats;

/// The page number of a slot that holds none.
pub(crate) const NO_PAGE: u64 = u64::MAX;

/// Which page a slot holds.
///
/// `sequence` is odd while the slot is empty or being filled, and even and different every time it is published: a reader that
/// finds the same even number before and after has read one page.
#[derive(Debug)]
pub struct Tag {
    pub(crate) sequence: AtomicU64,
    pub(crate) page: AtomicU64,
}

/// What the bank lock protects, apart from words and tags.
#[derive(Debug)]
pub struct Bank {
    pub(crate) states: [State; BANK_PLACES],
    /// A bit for every place whose page differs from the store's.
    pub(crate) dirty: u16,
    /// Where the clock looks next.
    pub(crate) hand: usize,
    /// What happened in the bank. A look without a lock is not among it.
    pub(crate) stats: SlruStats,
}

/// What a slot is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Holds no page.
    Empty,
    /// Its page is on the way in; nobody may look.
    Reading,
    /// Its page is on the way out; it can be read and set meanwhile.
    Writing,
    /// Holds a page, no I/O.
    Valid,
}

/// The arrays of a pool.
pub trait Frames: Send + Sync {
    /// Places in a bank, at most 16.
    const PLACES: usize;
    /// Two to the power of this many banks.
    fn bank_bits(&self) -> u32;
    /// A tag per slot.
    fn tags(&self) -> &[Tag];
    /// The words of all slots' pages, one page after the other.
    fn words(&self) -> &[AtomicU64];
    /// Per slot: was the page used since the clock last came by?
    fn marks(&self) -> &[AtomicU8];
    /// Per slot: the log position that has to be durable before the page is written.
    fn logs(&self) -> &[AtomicU64];
    /// Per slot: odd while a pair of words is being set, and one number further for every step.
    fn pairs(&self) -> &[AtomicU64];
    /// Per slot: held while the slot's I/O is under way.
    fn io(&self) -> &[Mutex<()>];
    /// The banks.
    fn banks(&self) -> &[Padded<Mutex<Bank>>];
}

macro_rules! fields {
    () => {
        fn tags(&self) -> &[Tag] {
            &self.tags
        }
        fn marks(&self) -> &[AtomicU8] {
            &self.marks
        }
        fn logs(&self) -> &[AtomicU64] {
            &self.logs
        }
        fn pairs(&self) -> &[AtomicU64] {
            &self.pairs
        }
        fn io(&self) -> &[Mutex<()>] {
            &self.io
        }
        fn banks(&self) -> &[Padded<Mutex<Bank>>] {
            &self.banks
        }
    };
}

impl Tag {
    txnkit_sync::const_fn! {
        pub(crate) fn empty() -> Self {
            Self { sequence: AtomicU64::new(1), page: AtomicU64::new(NO_PAGE) }
        }
    }
}

impl Bank {
    pub(crate) const fn empty() -> Self {
        Self {
            states: [State::Empty; BANK_PLACES],
            dirty: 0,
            hand: 0,
            stats: SlruStats::NONE,
        }
    }
}

#[cfg(feature = "alloc")]
pub use heap::HeapFrames;

#[cfg(feature = "alloc")]
mod heap {
    use alloc::boxed::Box;

    use super::*;

    /// The most pages a pool can have: 1 GiB of them.
    const MAX_PAGES: usize = 131_072;

    /// A pool's memory on the heap.
    pub struct HeapFrames {
        bank_bits: u32,
        tags: Box<[Tag]>,
        words: Box<[AtomicU64]>,
        marks: Box<[AtomicU8]>,
        logs: Box<[AtomicU64]>,
        pairs: Box<[AtomicU64]>,
        io: Box<[Mutex<()>]>,
        banks: Box<[Padded<Mutex<Bank>>]>,
    }

    impl HeapFrames {
        /// Memory for `pages` pages (8 KiB each), rounded up to 16 times a power of two, and down to 131 072.
        pub fn new(pages: usize) -> Self {
            let banks = pages
                .min(MAX_PAGES)
                .div_ceil(BANK_PLACES)
                .next_power_of_two();
            let slots = banks * BANK_PLACES;
            Self {
                bank_bits: banks.trailing_zeros(),
                tags: (0..slots).map(|_| Tag::empty()).collect(),
                words: (0..slots * PAGE_WORDS).map(|_| AtomicU64::new(0)).collect(),
                marks: (0..slots).map(|_| AtomicU8::new(0)).collect(),
                logs: (0..slots).map(|_| AtomicU64::new(0)).collect(),
                pairs: (0..slots).map(|_| AtomicU64::new(0)).collect(),
                io: (0..slots).map(|_| Mutex::new(())).collect(),
                banks: (0..banks)
                    .map(|_| Padded::new(Mutex::new(Bank::empty())))
                    .collect(),
            }
        }
    }

    impl Frames for HeapFrames {
        const PLACES: usize = BANK_PLACES;

        #[inline]
        fn bank_bits(&self) -> u32 {
            self.bank_bits
        }

        #[inline]
        fn words(&self) -> &[AtomicU64] {
            &self.words
        }

        fields!();
    }

    impl core::fmt::Debug for HeapFrames {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            f.debug_struct("HeapFrames")
                .field("pages", &self.tags.len())
                .finish_non_exhaustive()
        }
    }
}

#[cfg(not(any(
    txnkit_model = "loom",
    txnkit_model = "shuttle",
    txnkit_model = "coherence"
)))]
pub use fixed::FixedFrames;

#[cfg(not(any(
    txnkit_model = "loom",
    txnkit_model = "shuttle",
    txnkit_model = "coherence"
)))]
mod fixed {
    use super::*;

    /// The memory of a pool of `PAGES` pages, one bank, in place.
    pub struct FixedFrames<const PAGES: usize> {
        tags: [Tag; PAGES],
        words: [[AtomicU64; PAGE_WORDS]; PAGES],
        marks: [AtomicU8; PAGES],
        logs: [AtomicU64; PAGES],
        pairs: [AtomicU64; PAGES],
        io: [Mutex<()>; PAGES],
        banks: [Padded<Mutex<Bank>>; 1],
    }

    impl<const PAGES: usize> FixedFrames<PAGES> {
        /// Empty memory. Does not compile for fewer than 2 pages (the latest one stays, another is needed for the rest) or
        /// more than 16.
        pub(crate) const fn new() -> Self {
            const {
                assert!(
                    PAGES >= 2 && PAGES <= BANK_PLACES,
                    "a fixed pool has 2 to 16 pages"
                )
            };
            Self {
                tags: [const { Tag::empty() }; PAGES],
                words: [const { [const { AtomicU64::new(0) }; PAGE_WORDS] }; PAGES],
                marks: [const { AtomicU8::new(0) }; PAGES],
                logs: [const { AtomicU64::new(0) }; PAGES],
                pairs: [const { AtomicU64::new(0) }; PAGES],
                io: [const { Mutex::new(()) }; PAGES],
                banks: [const { Padded::new(Mutex::new(Bank::empty())) }; 1],
            }
        }
    }

    impl<const PAGES: usize> Frames for FixedFrames<PAGES> {
        const PLACES: usize = PAGES;

        #[inline]
        fn bank_bits(&self) -> u32 {
            0
        }

        #[inline]
        fn words(&self) -> &[AtomicU64] {
            self.words.as_flattened()
        }

        fields!();
    }

    impl<const PAGES: usize> core::fmt::Debug for FixedFrames<PAGES> {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            f.debug_struct("FixedFrames")
                .field("pages", &PAGES)
                .finish_non_exhaustive()
        }
    }
}
