//! The rows of the map, in a ring.

use txnkit_ids::Xid;

use crate::{Mapped, Stamp};

/// The newest rows, at most `N`: buckets rise strictly, xmins never fall.
#[derive(Debug)]
pub(crate) struct Ring<const N: usize> {
    rows: [Mapped; N],
    /// The place of the oldest row.
    oldest: usize,
    used: usize,
}

impl<const N: usize> Ring<N> {
    pub(crate) const EMPTY: Self = Self {
        rows: [Mapped {
            bucket: Stamp::new(0),
            next_xmin: Xid::INVALID,
        }; N],
        oldest: 0,
        used: 0,
    };

    /// The rows, the oldest first.
    fn iter(&self) -> impl Iterator<Item = Mapped> + '_ {
        let (newer, older) = self.rows.split_at(self.oldest);
        older.iter().chain(newer).take(self.used).copied()
    }

    /// Appends a row, over the oldest one when all places are used. The bucket is newer than every one before.
    ///
    /// An xmin below that of the row before would be a true lower bound too, but a useless one: who was stamped with this bucket was also
    /// stamped after the one before.
    pub(crate) fn push(&mut self, bucket: Stamp, next_xmin: Xid) {
        let before = self.iter().last().map_or(Xid::INVALID, |row| row.next_xmin);
        let at = (self.oldest + self.used) % N;
        self.rows[at] = Mapped {
            bucket,
            next_xmin: next_xmin.max(before),
        };
        if self.used < N {
            self.used += 1;
        } else {
            self.oldest = (self.oldest + 1) % N;
        }
    }

    /// The newest row whose bucket has ended at `instant`.
    pub(crate) fn last_until(&self, instant: u64) -> Option<Mapped> {
        self.iter()
            .take_while(|row| row.bucket.get() <= instant)
            .last()
    }

    /// The oldest row of a bucket after `bucket`.
    pub(crate) fn first_after(&self, bucket: Stamp) -> Option<Mapped> {
        self.iter().find(|row| row.bucket > bucket)
    }
}
