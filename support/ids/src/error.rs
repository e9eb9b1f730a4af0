//! What can go wrong with ids.

use core::fmt;

/// An id that cannot exist: before the first one or after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdError {
    /// Widening gave a number below zero: the 32-bit id is older than the first id there ever was.
    ///
    /// The reference is wrong or the 32-bit id is damaged.
    BeforeFirst {
        /// The 32-bit id as it was found.
        low: u32,
        /// The 64-bit id it was widened against.
        reference: u64,
    },
    /// The result would be beyond 2^64 − 1.
    Exhausted {
        /// The id that was to be moved forward.
        reference: u64,
    },
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeforeFirst { low, reference } => write!(
                f,
                "the 32-bit id {low} taken as near {reference} lies before the first id; check the reference and where the id was read"
            ),
            Self::Exhausted { reference } => write!(
                f,
                "no 64-bit id is left after {reference}; no log gets here by counting, so the number it came from is damaged"
            ),
        }
    }
}

impl core::error::Error for IdError {}

/// A run of ids that cannot exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// A run holds at least one id.
    Empty,
    /// The run would hold an id whose low half is 0, 1 or 2, or pass 2^64 − 1: a run lies within one epoch.
    Special {
        /// The first id asked for.
        first: u64,
        /// How many ids were asked for.
        len: u32,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a run of ids must hold at least one id"),
            Self::Special { first, len } => write!(
                f,
                "a run of {len} ids from {first} would hold an id that is never handed out (low half 0, 1 or 2); split it there"
            ),
        }
    }
}

impl core::error::Error for RunError {}

/// No id may be handed out: the stop limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitReached {
    /// The id that would have been next, as a number.
    pub next: u64,
    /// The first id that may not be handed out.
    pub stop: u64,
    /// Where ids would begin to be confused with the oldest ones.
    pub wrap: u64,
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "id {} was not handed out: the limit is {} (data would be lost at {}); freeze old ids and set the limits anew",
            self.next, self.stop, self.wrap
        )
    }
}

impl core::error::Error for LimitReached {}

/// A text is not a log position: two hexadecimal numbers of at most 32 bits with a slash between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseLsnError;

impl fmt::Display for ParseLsnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "not a log position: wanted two hexadecimal numbers of up to 8 digits with a slash between, as in 16/B374D848",
        )
    }
}

impl core::error::Error for ParseLsnError {}
