//! When to warn and when to stop handing out ids.

use crate::{IdError, LimitReached, MultiXactId, Xid};

/// How far from the oldest id in use the low halves begin to be confused: half of the 32-bit circle.
const HALF_CIRCLE: u64 = (u32::MAX >> 1) as u64;

/// How long before the wrap point to warn and to stop, in ids. A PostgreSQL version's own, or the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitDistances {
    /// Warn from this many ids before the wrap point on.
    pub warn: u32,
    /// Hand out nothing from this many ids before the wrap point on.
    pub stop: u32,
}

impl LimitDistances {
    /// Transaction ids in PostgreSQL 13.
    pub const POSTGRES_13: Self = Self {
        warn: 11_000_000,
        stop: 1_000_000,
    };
    /// Numbers of member sets in PostgreSQL 13.
    pub const POSTGRES_13_MULTIXACT: Self = Self {
        warn: 10_000_100,
        stop: 100,
    };
    /// PostgreSQL 14 to 18, transaction ids and member sets alike.
    pub const POSTGRES_14: Self = Self {
        warn: 40_000_000,
        stop: 3_000_000,
    };
    /// PostgreSQL 19, transaction ids and member sets alike.
    pub const POSTGRES_19: Self = Self {
        warn: 100_000_000,
        stop: 3_000_000,
    };
}

/// From which id on to warn, from which to stop, and where data would be lost.
///
/// The stop limit is what makes widening 32-bit ids safe: while it is kept, every id in use lies within 2^31 of the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdLimits<I = Xid> {
    /// The first id that comes with a warning.
    pub warn: I,
    /// The first id that is not handed out.
    pub stop: I,
    /// The id that would be confused with the oldest one.
    pub wrap: I,
}

/// What [`IdLimits::check`] says of an id that may be handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// The warning limit is not reached.
    Enough,
    /// The warning limit is reached.
    Low {
        /// How many ids are left before the wrap point (not before the stop limit).
        remaining: u64,
    },
}

impl IdLimits<Xid> {
    /// The limits that follow from the oldest transaction id in use.
    ///
    /// Distances larger than half the circle count as half the circle.
    ///
    /// # Errors
    /// [`IdError::Exhausted`] where the wrap point would be beyond 2^64 − 1.
    pub const fn from_oldest(oldest: Xid, distances: LimitDistances) -> Result<Self, IdError> {
        let Some(wrap) = oldest.checked_add(HALF_CIRCLE) else {
            return Err(IdError::Exhausted {
                reference: oldest.get(),
            });
        };
        // PostgreSQL steps over special numbers by adding (wrap) or taking away (stop, warn) three.
        let wrap = if wrap.is_special() {
            wrap.get() + 3
        } else {
            wrap.get()
        };
        Ok(Self {
            warn: Self::before(wrap, distances.warn),
            stop: Self::before(wrap, distances.stop),
            wrap: Xid::new(wrap),
        })
    }

    const fn before(wrap: u64, distance: u32) -> Xid {
        let number = wrap.saturating_sub(distance as u64);
        if Xid::new(number).is_special() {
            Xid::new(number.saturating_sub(3))
        } else {
            Xid::new(number)
        }
    }
}

impl IdLimits<MultiXactId> {
    /// The limits that follow from the oldest member set in use.
    ///
    /// # Errors
    /// [`IdError::Exhausted`] where the wrap point would be beyond 2^64 − 1.
    pub const fn from_oldest_multixact(
        oldest: MultiXactId,
        distances: LimitDistances,
    ) -> Result<Self, IdError> {
        let Some(wrap) = oldest.get().checked_add(HALF_CIRCLE) else {
            return Err(IdError::Exhausted {
                reference: oldest.get(),
            });
        };
        let wrap = MultiXactId::new(wrap).or_first_of_epoch().get();
        Ok(Self {
            warn: Self::before(wrap, distances.warn),
            stop: Self::before(wrap, distances.stop),
            wrap: MultiXactId::new(wrap),
        })
    }

    const fn before(wrap: u64, distance: u32) -> MultiXactId {
        let id = MultiXactId::new(wrap.saturating_sub(distance as u64));
        if id.is_special() {
            MultiXactId::new(id.get().saturating_sub(1))
        } else {
            id
        }
    }
}

impl<I: Copy + Ord + Into<u64>> IdLimits<I> {
    /// May `next` be handed out, and should somebody be told?
    ///
    /// # Errors
    /// [`LimitReached`] at or after the stop limit; nothing is to be handed out then.
    #[inline]
    pub fn check(&self, next: I) -> Result<Room, LimitReached> {
        if next >= self.stop {
            return Err(LimitReached {
                next: next.into(),
                stop: self.stop.into(),
                wrap: self.wrap.into(),
            });
        }
        if next < self.warn {
            return Ok(Room::Enough);
        }
        Ok(Room::Low {
            remaining: self.wrap.into() - next.into(),
        })
    }
}
