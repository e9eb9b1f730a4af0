//! Consecutive ids as one value.

use crate::{RunError, Xid};

/// Consecutive transaction ids: at least one, none special, all of one epoch.
///
/// A transaction's children are mostly handed out one after the other, so a few runs hold thousands of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "(u64, u32)", into = "(u64, u32)"))]
pub struct XidRun {
    first: Xid,
    len: u32,
}

impl XidRun {
    /// The `len` ids from `first` on.
    ///
    /// # Errors
    /// [`RunError`] when `len` is 0 or a special id would be among them.
    #[inline]
    pub const fn new(first: Xid, len: u32) -> Result<Self, RunError> {
        if len == 0 {
            return Err(RunError::Empty);
        }
        if first.is_special() || first.low32().get().checked_add(len - 1).is_none() {
            return Err(RunError::Special {
                first: first.get(),
                len,
            });
        }
        Ok(Self { first, len })
    }

    /// The run of `xid` alone.
    ///
    /// # Errors
    /// [`RunError::Special`] when `xid` is special.
    #[inline]
    pub const fn single(xid: Xid) -> Result<Self, RunError> {
        Self::new(xid, 1)
    }

    /// The oldest id.
    #[inline]
    pub const fn first(self) -> Xid {
        self.first
    }

    /// The youngest id.
    #[inline]
    pub const fn last(self) -> Xid {
        Xid::new(self.first.get() + (self.len - 1) as u64)
    }

    /// How many ids; at least 1.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a run is never empty")]
    pub const fn len(self) -> u32 {
        self.len
    }

    /// Is `xid` among them?
    #[inline]
    pub const fn contains(self, xid: Xid) -> bool {
        xid.get().wrapping_sub(self.first.get()) < self.len as u64
    }

    /// Takes `xid` in if it is the one right after the last; says whether it did.
    #[inline]
    pub const fn extend_with(&mut self, xid: Xid) -> bool {
        let fits = !xid.is_special()
            && self.len < u32::MAX
            && xid.get().wrapping_sub(self.first.get()) == self.len as u64;
        if fits {
            self.len += 1;
        }
        fits
    }

    /// The part from `xid` on, if any of the run is.
    #[inline]
    pub const fn from(self, xid: Xid) -> Option<Self> {
        let skipped = xid.get().saturating_sub(self.first.get());
        if skipped >= self.len as u64 {
            return None;
        }
        Some(Self {
            first: Xid::new(self.first.get() + skipped),
            len: self.len - skipped as u32,
        })
    }

    /// The part before `xid`, if any of the run is.
    #[inline]
    pub const fn before(self, xid: Xid) -> Option<Self> {
        let kept = xid.get().saturating_sub(self.first.get());
        match kept {
            0 => None,
            kept if kept < self.len as u64 => Some(Self {
                first: self.first,
                len: kept as u32,
            }),
            _ => Some(self),
        }
    }

    /// The ids, oldest first.
    #[inline]
    pub const fn iter(self) -> XidRunIter {
        XidRunIter {
            next: self.first.get(),
            left: self.len,
        }
    }
}

impl IntoIterator for XidRun {
    type Item = Xid;
    type IntoIter = XidRunIter;

    fn into_iter(self) -> XidRunIter {
        self.iter()
    }
}

impl TryFrom<(u64, u32)> for XidRun {
    type Error = RunError;

    fn try_from((first, len): (u64, u32)) -> Result<Self, RunError> {
        Self::new(Xid::new(first), len)
    }
}

impl From<XidRun> for (u64, u32) {
    fn from(run: XidRun) -> Self {
        (run.first.get(), run.len)
    }
}

/// The ids of an [`XidRun`], oldest first.
#[derive(Debug, Clone)]
pub struct XidRunIter {
    next: u64,
    left: u32,
}

impl Iterator for XidRunIter {
    type Item = Xid;

    fn next(&mut self) -> Option<Xid> {
        self.left = self.left.checked_sub(1)?;
        let xid = Xid::new(self.next);
        self.next = self.next.wrapping_add(1);
        Some(xid)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for XidRunIter {}
impl core::iter::FusedIterator for XidRunIter {}
