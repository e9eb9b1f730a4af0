//! Positions in the redo log.

use core::fmt;
use core::str::FromStr;

use crate::ParseLsnError;

/// A byte position in the redo log. Shown as PostgreSQL does: both halves in hexadecimal, a slash between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[repr(transparent)]
pub struct Lsn(u64);

impl Lsn {
    /// No position: nothing has to be flushed.
    pub const INVALID: Self = Self(0);

    /// The position `bytes` from the log's beginning.
    #[inline]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The position in bytes.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Is there a position at all?
    #[inline]
    pub const fn is_valid(self) -> bool {
        self.0 != 0
    }

    /// The position `bytes` further on; `None` beyond 2^64 − 1.
    #[inline]
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(bytes) => Some(Self(bytes)),
            None => None,
        }
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 as u32)
    }
}

impl FromStr for Lsn {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Self, ParseLsnError> {
        let (high, low) = text.split_once('/').ok_or(ParseLsnError)?;
        Ok(Self((half(high)? as u64) << 32 | half(low)? as u64))
    }
}

fn half(digits: &str) -> Result<u32, ParseLsnError> {
    let well_formed =
        matches!(digits.len(), 1..=8) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if !well_formed {
        return Err(ParseLsnError);
    }
    u32::from_str_radix(digits, 16).map_err(|_| ParseLsnError)
}
