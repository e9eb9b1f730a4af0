//! Which transactions the kept sets' members are, so that the 32 bits that are stored of each can be told apart.
//!
//! # Rules
//!
//! Terms: *block*: 2^s sets in a row, with the oldest member's id of those made in it; *floor*: the least of all blocks; *newest*: the newest member's id.
//!
//! 1. Before a set is made, under the lock that hands out its number: newest and floor with the set's ids in them stay less than 2^31 apart, or the set
//!    is refused.
//! 2. So whoever reads a kept set takes each member for the id nearest below newest, and is right, however much later it loads newest.
//! 3. Blocks of which every set was truncated away count no more; they are looked for only when rule 1 would refuse.
//! 4. There are at most [`BLOCKS`]; when they run out, s grows by one and neighbours become one, with the older of their ids. So a floor may be
//!    too old, never too new.

use alloc::vec::Vec;

use txnkit_ids::{MultiXactId, Xid};

use crate::error::MultiXactError;

/// Blocks remembered, the memory being bounded whatever the number of sets.
const BLOCKS: usize = 64;

/// How far the ids of kept sets' members may lie apart.
const SPAN: u64 = 1 << 31;

/// What is known of the kept sets' members.
pub(crate) struct Xids {
    /// Sorted by number.
    blocks: Vec<Block>,
    /// s in the rules.
    shift: u32,
    floor: u64,
    newest: u64,
}

#[derive(Clone, Copy)]
struct Block {
    number: u64,
    floor: u64,
}

/// From where to where the ids of kept sets' members reach: too far from those that were asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooFar {
    oldest: Xid,
    newest: Xid,
}

impl TooFar {
    /// Of a set with members from `first` to `last`: names the one that lies outside.
    pub(crate) fn error(self, first: Xid, last: Xid) -> MultiXactError {
        MultiXactError::MemberTooFar {
            xid: if last > self.newest { last } else { first },
            oldest: self.oldest,
            newest: self.newest,
        }
    }
}

impl Xids {
    /// No set is kept.
    pub(crate) const fn none() -> Self {
        Self {
            blocks: Vec::new(),
            shift: 0,
            floor: u64::MAX,
            newest: 0,
        }
    }

    /// Sets up to `last` are kept, with members from `oldest` to `newest`.
    pub(crate) fn kept(last: MultiXactId, oldest: Xid, newest: Xid) -> Self {
        let mut xids = Self::none();
        xids.add(last, oldest, newest);
        xids
    }

    /// The newest member's id.
    pub(crate) const fn newest(&self) -> u64 {
        self.newest
    }

    /// Rule 1, for a set with members from `first` to `last` when the sets from `oldest_kept` on are kept.
    pub(crate) fn check(
        &mut self,
        oldest_kept: MultiXactId,
        first: Xid,
        last: Xid,
    ) -> Result<(), TooFar> {
        if self.fits(first, last) {
            return Ok(());
        }
        self.forget_before(oldest_kept);
        if self.fits(first, last) {
            return Ok(());
        }
        Err(TooFar {
            oldest: Xid::new(self.floor),
            newest: Xid::new(self.newest),
        })
    }

    fn fits(&self, first: Xid, last: Xid) -> bool {
        let (floor, newest) = (self.floor.min(first.get()), self.newest.max(last.get()));
        newest - floor < SPAN
    }

    /// Rule 3.
    fn forget_before(&mut self, oldest_kept: MultiXactId) {
        let first = oldest_kept.get() >> self.shift;
        self.blocks.retain(|block| block.number >= first);
        match self.blocks.iter().map(|block| block.floor).min() {
            Some(floor) => self.floor = floor,
            None => *self = Self::none(),
        }
    }

    /// A set was made: the newest one so far.
    pub(crate) fn add(&mut self, id: MultiXactId, first: Xid, last: Xid) {
        self.floor = self.floor.min(first.get());
        self.newest = self.newest.max(last.get());
        let number = id.get() >> self.shift;
        match self.blocks.last_mut() {
            Some(block) if block.number == number => block.floor = block.floor.min(first.get()),
            _ => self.blocks.push(Block {
                number,
                floor: first.get(),
            }),
        }
        while self.blocks.len() > BLOCKS {
            self.widen_blocks();
        }
    }

    /// Rule 4.
    fn widen_blocks(&mut self) {
        self.shift += 1;
        self.blocks.iter_mut().for_each(|block| block.number >>= 1);
        self.blocks.dedup_by(|next, kept| {
            let same = next.number == kept.number;
            if same {
                kept.floor = kept.floor.min(next.floor);
            }
            same
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn x(number: u64) -> Xid {
        Xid::new(number)
    }

    fn id(number: u64) -> MultiXactId {
        MultiXactId::new(number)
    }

    #[test]
    fn the_span_is_held_to_the_last_id() {
        let mut xids = Xids::kept(id(1), x(100), x(100));
        for first in [100, 200] {
            assert_eq!(xids.check(id(1), x(first), x(100 + SPAN - 1)), Ok(()));
            assert!(xids.check(id(1), x(first), x(100 + SPAN)).is_err());
        }
        let mut xids = Xids::kept(id(1), x(SPAN + 100), x(SPAN + 100));
        assert_eq!(xids.check(id(1), x(101), x(101)), Ok(()));
        assert_eq!(
            xids.check(id(1), x(100), x(100)),
            Err(TooFar {
                oldest: x(SPAN + 100),
                newest: x(SPAN + 100)
            })
        );
    }

    #[test]
    fn what_was_truncated_counts_no_more() {
        let mut xids = Xids::none();
        xids.add(id(1), x(100), x(110));
        xids.add(id(2), x(SPAN), x(SPAN));
        assert!(xids.check(id(1), x(SPAN + 200), x(SPAN + 200)).is_err());
        assert_eq!(xids.check(id(2), x(SPAN + 200), x(SPAN + 200)), Ok(()));
        xids.add(id(2), x(SPAN + 200), x(SPAN + 200));
        // Nothing is kept: a new life.
        assert_eq!(xids.check(id(3), x(5), x(5)), Ok(()));
        xids.add(id(3), x(5), x(5));
        assert_eq!(xids.newest(), 5);
    }

    /// However blocks were widened: nothing that is kept was forgotten.
    #[test]
    fn memory_is_bounded_and_the_floor_never_too_new() {
        let mut random = txnkit_sync::Random::seeded();
        for _ in 0..50 {
            let (mut xids, mut made) = (Xids::none(), Vec::new());
            let mut number = 1 + random.below(1000);
            for _ in 0..500 {
                number += 1 + random.below(40);
                let first = 1_000_000 - random.below(1_000_000);
                xids.add(id(number), x(first), x(first + 10));
                made.push((number, first));
                assert!(xids.blocks.len() <= BLOCKS);
            }
            let at = random.below(made.len() as u64) as usize;
            xids.forget_before(id(made[at].0));
            let floor = made[at..].iter().map(|made| made.1).min().unwrap();
            assert!(xids.floor <= floor);
            // And not much too old: the blocks before the one that is cut are gone.
            let cut = made[at].0 >> xids.shift << xids.shift;
            let since = made.iter().filter(|made| made.0 >= cut);
            assert_eq!(xids.floor, since.map(|made| made.1).min().unwrap());
        }
    }
}
