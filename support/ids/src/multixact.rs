//! Numbers of member sets, and positions in member space.

use core::fmt;

use crate::{IdError, widen};

/// The number of a set of row lockers. 64-bit, never wraps; a low half of 0 is never handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[repr(transparent)]
pub struct MultiXactId(u64);

impl MultiXactId {
    /// No set.
    pub const INVALID: Self = Self(0);
    /// The first number handed out.
    pub const FIRST: Self = Self(1);

    /// The set with this number.
    #[inline]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The low half, as PostgreSQL stores it.
    #[inline]
    pub const fn low32(self) -> MultiXactId32 {
        MultiXactId32(self.0 as u32)
    }

    /// Is the low half 0? Such a number is never handed out.
    #[inline]
    pub const fn is_special(self) -> bool {
        self.0 as u32 == 0
    }

    /// The next number that can be handed out (a low half of 0 is skipped); `None` after the last.
    #[inline]
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(number) => Some(Self(number).or_first_of_epoch()),
            None => None,
        }
    }

    /// This number, taken as the next to hand out, after `seen` was found to be in use: the one after `seen` if that is further
    /// on, otherwise unchanged.
    ///
    /// # Proof obligation
    /// `seen` lies within 2^31 of this number.
    ///
    /// # Errors
    /// [`IdError::Exhausted`] when no number is left.
    pub const fn advanced_past(self, seen: MultiXactId32) -> Result<Self, IdError> {
        if seen.0 == 0 || seen.precedes(self.low32()) {
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

    #[inline]
    pub(crate) const fn or_first_of_epoch(self) -> Self {
        if self.is_special() {
            Self(self.0 | 1)
        } else {
            self
        }
    }
}

impl fmt::Display for MultiXactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<MultiXactId> for u64 {
    fn from(id: MultiXactId) -> Self {
        id.0
    }
}

/// The low half of a [`MultiXactId`], as PostgreSQL stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[repr(transparent)]
pub struct MultiXactId32(u32);

impl MultiXactId32 {
    /// The 32-bit number.
    #[inline]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Is this number older than `other`? Circular, without special values.
    #[inline]
    pub const fn precedes(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// The next number, from 2^32 − 1 to 1.
    #[inline]
    pub const fn next(self) -> Self {
        match self.0.wrapping_add(1) {
            0 => Self(1),
            next => Self(next),
        }
    }

    /// The 64-bit number nearest to `reference` with this low half; 0 stays [`MultiXactId::INVALID`].
    ///
    /// # Proof obligation
    /// The true number lies less than 2^31 from `reference`.
    ///
    /// # Errors
    /// [`IdError`] where the result would be negative or beyond 2^64 − 1.
    #[inline]
    pub const fn widen_near(self, reference: MultiXactId) -> Result<MultiXactId, IdError> {
        if self.0 == 0 {
            return Ok(MultiXactId::INVALID);
        }
        match widen(self.0, reference.0) {
            Ok(number) => Ok(MultiXactId(number)),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for MultiXactId32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A position in member space. 64-bit, never wraps; PostgreSQL up to version 18 stores the low half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[repr(transparent)]
pub struct MultiXactOffset(u64);

impl MultiXactOffset {
    /// "Not written": no set begins here.
    pub const UNSET: Self = Self(0);
    /// Where the first set begins.
    pub const FIRST: Self = Self(1);

    /// The position with this number.
    #[inline]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The low half, as PostgreSQL up to version 18 stores it.
    #[inline]
    pub const fn low32(self) -> MultiXactOffset32 {
        MultiXactOffset32(self.0 as u32)
    }

    /// The position `members` further on; `None` beyond 2^64 − 1.
    #[inline]
    pub const fn checked_add(self, members: u64) -> Option<Self> {
        match self.0.checked_add(members) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

impl fmt::Display for MultiXactOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The low half of a [`MultiXactOffset`], as PostgreSQL up to version 18 stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[repr(transparent)]
pub struct MultiXactOffset32(u32);

impl MultiXactOffset32 {
    /// The 32-bit position.
    #[inline]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Does this position come before `other`? Circular.
    #[inline]
    pub const fn precedes(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// The position `members` further on, past 2^32 − 1 round to 0.
    #[inline]
    pub const fn wrapping_add(self, members: u32) -> Self {
        Self(self.0.wrapping_add(members))
    }

    /// The 64-bit position nearest to `reference` with this low half.
    ///
    /// # Proof obligation
    /// The true position lies less than 2^31 from `reference`.
    ///
    /// # Errors
    /// [`IdError`] where the result would be negative or beyond 2^64 − 1.
    #[inline]
    pub const fn widen_near(self, reference: MultiXactOffset) -> Result<MultiXactOffset, IdError> {
        match widen(self.0, reference.0) {
            Ok(number) => Ok(MultiXactOffset(number)),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for MultiXactOffset32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
