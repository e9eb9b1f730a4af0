//! A page of row versions, word by word.
//!
//! | words | what |
//! |---|---|
//! | 0 | bits 0 to 15: how many slots were ever in use; 16 to 31: the first free one of those, plus 1 |
//! | 1 to 1023 | 341 slots of three words: xmin; xmax; bits 0 to 31 the value, 32 to 43 where the next older version is, 44 to 63 how many are behind |
//!
//! The page's rows have the first slots, each with its newest version in it; older versions of any of them stand in the slots behind. "Where" is a slot plus 1,
//! 0 for nowhere, or 4095 for the table's side list, which takes what finds no room here. A free slot links the next free one in the same place.

use bufpin::{Exclusive, PAGE_WORDS, PinSession, Shared};
use txn_manager::Xid;

/// Slots on a page.
pub(super) const SLOTS: usize = (PAGE_WORDS - 1) / SLOT_WORDS;

const SLOT_WORDS: usize = 3;

const SPILLED: u64 = 4095;

/// The most versions behind one that are counted.
const MOST_BEHIND: u32 = (1 << 20) - 1;

/// Where the next older version is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Older {
    Nowhere,
    /// In this slot of the page.
    Slot(usize),
    /// In the table's side list.
    Spilled,
}

/// One version of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) xmin: Xid,
    /// The creator of the next version.
    pub(super) xmax: Xid,
    pub(super) value: i32,
    pub(super) older: Older,
    /// In the newest version: how many are behind it.
    pub(super) behind: u32,
}

impl Version {
    /// A version that everybody sees.
    pub(super) const LOADED: Self = Self {
        xmin: Xid::FROZEN,
        xmax: Xid::INVALID,
        value: 0,
        older: Older::Nowhere,
        behind: 0,
    };

    fn pack(&self) -> u64 {
        let older = match self.older {
            Older::Nowhere => 0,
            Older::Slot(slot) => slot as u64 + 1,
            Older::Spilled => SPILLED,
        };
        u64::from(self.value as u32) | older << 32 | u64::from(self.behind.min(MOST_BEHIND)) << 44
    }
}

/// A page that can be read.
pub(super) trait Read {
    /// The word.
    fn word(&self, at: usize) -> u64;

    /// The version in a slot.
    #[inline]
    fn version(&self, slot: usize) -> Version {
        let at = 1 + slot * SLOT_WORDS;
        let packed = self.word(at + 2);
        Version {
            xmin: Xid::new(self.word(at)),
            xmax: Xid::new(self.word(at + 1)),
            value: packed as u32 as i32,
            older: match packed >> 32 & SPILLED {
                0 => Older::Nowhere,
                SPILLED => Older::Spilled,
                slot => Older::Slot(slot as usize - 1),
            },
            behind: (packed >> 44) as u32,
        }
    }

    /// Who created the version in a slot.
    #[inline]
    fn xmin(&self, slot: usize) -> Xid {
        Xid::new(self.word(1 + slot * SLOT_WORDS))
    }
}

/// A page that can be written.
pub(super) trait Write: Read {
    /// Sets the word.
    fn set_word(&mut self, at: usize, value: u64);

    /// Puts a version into a slot.
    #[inline]
    fn set_version(&mut self, slot: usize, version: &Version) {
        let at = 1 + slot * SLOT_WORDS;
        self.set_word(at, version.xmin.get());
        self.set_word(at + 1, version.xmax.get());
        self.set_word(at + 2, version.pack());
    }

    /// Makes an untouched page one of so many rows of value 0.
    fn format(&mut self, rows: usize) {
        for slot in 0..rows {
            self.set_version(slot, &Version::LOADED);
        }
        self.set_word(0, rows as u64);
    }

    /// A slot for another version, if there is one.
    fn allocate(&mut self) -> Option<usize> {
        let header = self.word(0);
        let (used, free) = (header & 0xFFFF, header >> 16 & 0xFFFF);
        if free != 0 {
            let slot = free as usize - 1;
            let next = self.word(1 + slot * SLOT_WORDS + 2) >> 32 & SPILLED;
            self.set_word(0, used | next << 16);
            return Some(slot);
        }
        if used as usize == SLOTS {
            return None;
        }
        self.set_word(0, used + 1);
        Some(used as usize)
    }

    /// Frees the slots of a chain from `at` on; says whether it goes on in the side list.
    fn free_chain(&mut self, mut at: Older) -> bool {
        while let Older::Slot(slot) = at {
            at = self.version(slot).older;
            let header = self.word(0);
            self.set_word(1 + slot * SLOT_WORDS + 2, (header >> 16 & 0xFFFF) << 32);
            self.set_word(0, header & 0xFFFF | (slot as u64 + 1) << 16);
        }
        at == Older::Spilled
    }
}

impl<S: PinSession> Read for Shared<'_, S> {
    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.read(at)
    }
}

impl<S: PinSession> Read for Exclusive<'_, S> {
    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.read(at)
    }
}

impl<S: PinSession> Write for Exclusive<'_, S> {
    #[inline]
    fn set_word(&mut self, at: usize, value: u64) {
        self.write(at, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain([u64; PAGE_WORDS]);

    impl Read for Plain {
        fn word(&self, at: usize) -> u64 {
            self.0[at]
        }
    }

    impl Write for Plain {
        fn set_word(&mut self, at: usize, value: u64) {
            self.0[at] = value;
        }
    }

    #[test]
    fn a_version_comes_back_as_it_was_stored() {
        let mut page = Plain([0; PAGE_WORDS]);
        for older in [
            Older::Nowhere,
            Older::Slot(0),
            Older::Slot(SLOTS - 1),
            Older::Spilled,
        ] {
            for (value, behind) in [(0, 0), (-1, 1), (i32::MIN, MOST_BEHIND)] {
                let version = Version {
                    xmin: Xid::new(1 << 40),
                    xmax: Xid::MAX,
                    value,
                    older,
                    behind,
                };
                page.set_version(SLOTS - 1, &version);
                assert_eq!(page.version(SLOTS - 1), version);
            }
        }
    }

    #[test]
    fn every_slot_is_handed_out_once_and_again_when_freed() {
        let mut page = Plain([0; PAGE_WORDS]);
        page.format(10);
        assert!((0..10).all(|slot| page.version(slot) == Version::LOADED));
        let slots: Vec<usize> = core::iter::from_fn(|| page.allocate()).collect();
        assert_eq!(slots, (10..SLOTS).collect::<Vec<_>>());
        // A chain of three of them.
        for (slot, older) in [
            (20, Older::Slot(30)),
            (30, Older::Slot(40)),
            (40, Older::Spilled),
        ] {
            page.set_version(
                slot,
                &Version {
                    older,
                    ..Version::LOADED
                },
            );
        }
        assert!(page.free_chain(Older::Slot(20)));
        let mut again: Vec<usize> = core::iter::from_fn(|| page.allocate()).collect();
        again.sort_unstable();
        assert_eq!(again, [20, 30, 40]);
        assert!(!page.free_chain(Older::Nowhere));
    }
}
