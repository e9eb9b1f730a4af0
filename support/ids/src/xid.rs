//! Transaction ids: 64-bit in every API, 32-bit on disk.

use core::fmt;

use crate::{IdError, widen};

/// How many low halves (0, 1, 2) are never handed out.
const SPECIAL: u32 = 3;

/// A transaction id. Never wraps: plain comparison is age.
///
/// The high half is the *epoch*, the low half what PostgreSQL stores on disk. Ids whose low half is 0, 1 or 2 are never handed
/// out, in any epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[repr(transparent)]
pub struct Xid(u64);

impl Xid {
    /// No transaction.
    pub const INVALID: Self = Self(0);
    /// What a new cluster's first rows are made by; always committed.
    pub const BOOTSTRAP: Self = Self(1);
    /// Older than everything; always committed.
    pub const FROZEN: Self = Self(2);
    /// The first id handed out.
    pub const FIRST_NORMAL: Self = Self(SPECIAL as u64);
    /// The last id there is.
    pub const MAX: Self = Self(u64::MAX);

    /// The id with this number. Any number is accepted, special ones too.
    #[inline]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The id with this low half in this epoch.
    #[inline]
    pub const fn from_epoch(epoch: u32, low: Xid32) -> Self {
        Self((epoch as u64) << 32 | low.get() as u64)
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The low half, as PostgreSQL stores it.
    #[inline]
    pub const fn low32(self) -> Xid32 {
        Xid32(self.0 as u32)
    }

    /// How often the low half had gone round when the id was handed out.
    #[inline]
    pub const fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Is the low half 0, 1 or 2? Such an id is never handed out.
    #[inline]
    pub const fn is_special(self) -> bool {
        (self.0 as u32) < SPECIAL
    }

    /// The next id that can be handed out (low halves 0 to 2 are skipped); `None` after the last.
    #[inline]
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(number) => Some(Self(number).or_first_of_epoch()),
            None => None,
        }
    }

    /// The id before this one that can be handed out (low halves 2 to 0 are skipped); `None` before the first.
    #[inline]
    pub const fn previous(self) -> Option<Self> {
        let skipped = if self.low32().get() <= SPECIAL {
            self.low32().get() as u64 + 1
        } else {
            1
        };
        match self.0.checked_sub(skipped) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// This id and `distance` numbers on, special ids counted like others; `None` beyond 2^64 − 1.
    #[inline]
    pub const fn checked_add(self, distance: u64) -> Option<Self> {
        match self.0.checked_add(distance) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// This id and `distance` numbers back, special ids counted like others; `None` below 0.
    #[inline]
    pub const fn checked_sub(self, distance: u64) -> Option<Self> {
        match self.0.checked_sub(distance) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// How many numbers lie between `older` and this id; `None` when `older` is the younger one.
    #[inline]
    pub const fn distance_from(self, older: Self) -> Option<u64> {
        self.0.checked_sub(older.0)
    }

    /// The first id at or after this one whose number is a multiple of `interval`, or, where that is special, the first id of
    /// its epoch. An `interval` of 0 or 1 leaves the number as it is.
    ///
    /// # Errors
    /// [`IdError::Exhausted`] beyond 2^64 − 1.
    pub const fn round_up(self, interval: u64) -> Result<Self, IdError> {
        let interval = if interval == 0 { 1 } else { interval };
        match self.0.checked_next_multiple_of(interval) {
            Some(number) => Ok(Self(number).or_first_of_epoch()),
            None => Err(IdError::Exhausted { reference: self.0 }),
        }
    }

    /// This id, taken as the next one to hand out, after `seen` was found to be in use: the id after `seen` if that is
    /// further on, otherwise unchanged. Special ids never move it.
    ///
    /// # Proof obligation
    /// `seen` lies within 2^31 of this id, as every id of a cluster that keeps to its stop limit does.
    ///
    /// # Errors
    /// [`IdError::Exhausted`] when no id is left.
    pub const fn advanced_past(self, seen: Xid32) -> Result<Self, IdError> {
        if seen.is_special() || seen.precedes(self.low32()) {
            return Ok(self);
        }
        match seen.widen_near(self) {
            Ok(seen) => match seen.next() {
                Some(next) => Ok(next),
                None => Err(IdError::Exhausted { reference: self.0 }),
            },
            Err(error) => Err(error),
        }
    }

    /// The id itself, or the first one of its epoch that can be handed out.
    #[inline]
    pub(crate) const fn or_first_of_epoch(self) -> Self {
        if self.is_special() {
            Self(self.0 & !(u32::MAX as u64) | SPECIAL as u64)
        } else {
            self
        }
    }
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Xid> for u64 {
    fn from(xid: Xid) -> Self {
        xid.0
    }
}

/// The low half of an [`Xid`], as PostgreSQL stores it in rows, status files and log records.
///
/// Not `Ord`: the order below is circular and must not be used to sort ids that lie further than 2^31 apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[repr(transparent)]
pub struct Xid32(u32);

impl Xid32 {
    /// The 32-bit id with this number.
    #[inline]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Is it 3 or more?
    #[inline]
    pub const fn is_normal(self) -> bool {
        self.0 >= SPECIAL
    }

    /// Is it 0, 1 or 2?
    #[inline]
    pub const fn is_special(self) -> bool {
        self.0 < SPECIAL
    }

    /// Is this id older than `other`? Circular for normal ids; a special one is compared as a plain number, so it precedes
    /// every normal one.
    #[inline]
    pub const fn precedes(self, other: Self) -> bool {
        if self.is_normal() && other.is_normal() {
            (self.0.wrapping_sub(other.0) as i32) < 0
        } else {
            self.0 < other.0
        }
    }

    /// Is this id younger than `other`? The mirror image of [`precedes`](Self::precedes), except at a distance of exactly 2^31,
    /// where each precedes the other.
    #[inline]
    pub const fn follows(self, other: Self) -> bool {
        if self.is_normal() && other.is_normal() {
            (self.0.wrapping_sub(other.0) as i32) > 0
        } else {
            self.0 > other.0
        }
    }

    /// The next id, from 2^32 − 1 to 3.
    #[inline]
    pub const fn next(self) -> Self {
        let next = self.0.wrapping_add(1);
        if next < SPECIAL {
            Self(SPECIAL)
        } else {
            Self(next)
        }
    }

    /// The id before, from 3 (and from special ids) to 2^32 − 1.
    #[inline]
    pub const fn previous(self) -> Self {
        if self.0 <= SPECIAL {
            Self(u32::MAX)
        } else {
            Self(self.0 - 1)
        }
    }

    /// The 64-bit id nearest to `reference` with this low half. Special ids become those of epoch 0, whatever the reference.
    ///
    /// # Proof obligation
    /// The true id lies less than 2^31 from `reference`; if it does not, the result is another id with the same low half, and
    /// nothing can tell. A cluster that keeps to its stop limit gives the proof for every id that it still holds when
    /// `reference` is its next id.
    ///
    /// # Errors
    /// [`IdError`] where the result would be negative or beyond 2^64 − 1.
    #[inline]
    pub const fn widen_near(self, reference: Xid) -> Result<Xid, IdError> {
        if self.is_special() {
            return Ok(Xid(self.0 as u64));
        }
        match widen(self.0, reference.0) {
            Ok(number) => Ok(Xid(number)),
            Err(error) => Err(error),
        }
    }

    /// The youngest 64-bit id with this low half that is not younger than `newest`: its epoch, or the one before. Special ids
    /// become those of epoch 0.
    ///
    /// # Proof obligation
    /// The true id is not younger than `newest` and less than 2^32 older.
    ///
    /// # Errors
    /// [`IdError::BeforeFirst`] in epoch 0, where there is no epoch before.
    #[inline]
    pub const fn widen_at_most(self, newest: Xid) -> Result<Xid, IdError> {
        if self.is_special() {
            return Ok(Xid(self.0 as u64));
        }
        let in_epoch = Xid::from_epoch(newest.epoch(), self);
        if in_epoch.0 <= newest.0 {
            return Ok(in_epoch);
        }
        match in_epoch.0.checked_sub(1 << 32) {
            Some(number) => Ok(Xid(number)),
            None => Err(IdError::BeforeFirst {
                low: self.0,
                reference: newest.0,
            }),
        }
    }
}

impl fmt::Display for Xid32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
