//! Two bits per id, and what a store of them promises.

use txnkit_ids::{Lsn, Xid, XidRun};

use crate::page::PAGE_WORDS;
use crate::{Layout, StatusError};

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Nothing is recorded. It runs, or it ended without a word (a crash): only the one who knows who runs can tell.
    InProgress = 0,
    /// It committed.
    Committed = 1,
    /// It aborted.
    Aborted = 2,
    /// A sub-transaction of one that was about to commit: its fate is its parent's. See [`StatusStore::set_tree`].
    SubCommitted = 3,
}

impl Status {
    /// The status in the lowest two bits.
    #[inline]
    const fn from_bits(bits: u64) -> Self {
        match bits & 3 {
            0 => Self::InProgress,
            1 => Self::Committed,
            2 => Self::Aborted,
            _ => Self::SubCommitted,
        }
    }
}

/// A place to keep and look up statuses.
///
/// # What may follow what
///
/// | recorded | may become |
/// |---|---|
/// | in progress | anything |
/// | sub-committed | committed, aborted |
/// | committed | (sub-committed is ignored) |
/// | aborted | |
///
/// Setting what is recorded already is always allowed, so a call that failed half-way can be repeated as it was.
///
/// # Ids that are never handed out
///
/// Low halves 1 and 2 are always committed; a low half of 0 has no status. None of them can be set.
pub trait StatusStore: Send + Sync {
    /// The status of one id.
    ///
    /// # Errors
    /// [`StatusError`] when the id is too old or too far ahead to have a status, or the store fails.
    fn get(&self, xid: Xid) -> Result<Status, StatusError>;

    /// Records the status of one id. `log` is the position up to which the log must be durable before the status may be, or
    /// [`Lsn::INVALID`] if it is already.
    ///
    /// # Errors
    /// [`StatusError`]; the status is as it was before.
    fn set(&self, xid: Xid, status: Status, log: Lsn) -> Result<(), StatusError>;

    /// Records the final status of a transaction and all its sub-transactions.
    ///
    /// *Committed* takes effect at one instant, the one at which `top`'s status is stored, for readers without a lock: children
    /// are sub-committed before it and committed after it (those so near to `top` that one store sets both, with it). A reader that
    /// finds [`Status::SubCommitted`] asks for the parent's status and takes that; so whoever finds `top` in progress finds no
    /// child committed, and whoever finds it or one child committed finds no child in progress. *Aborted* needs no such care: a
    /// child of a transaction that did not commit did not either, whatever is recorded for it.
    ///
    /// # Errors
    /// [`StatusError`]. If `top` is not committed then, nothing of the tree is; if it is, all of the tree is, some
    /// children still by way of their parent. Either way the call can be repeated, and has to be before the parent links may be forgotten.
    fn set_tree(
        &self,
        top: Xid,
        children: &[XidRun],
        status: Status,
        log: Lsn,
    ) -> Result<(), StatusError>;

    /// Makes durable every status that was set before the call, as far as the store is.
    ///
    /// # Errors
    /// [`StatusError`]; when syncing failed, the store is not used any more until it is opened anew.
    fn flush(&self) -> Result<(), StatusError>;
}

#[cfg(feature = "alloc")]
impl<S: StatusStore + ?Sized> StatusStore for alloc::boxed::Box<S> {
    fn get(&self, xid: Xid) -> Result<Status, StatusError> {
        (**self).get(xid)
    }

    fn set(&self, xid: Xid, status: Status, log: Lsn) -> Result<(), StatusError> {
        (**self).set(xid, status, log)
    }

    fn set_tree(
        &self,
        top: Xid,
        children: &[XidRun],
        status: Status,
        log: Lsn,
    ) -> Result<(), StatusError> {
        (**self).set_tree(top, children, status, log)
    }

    fn flush(&self) -> Result<(), StatusError> {
        (**self).flush()
    }
}

/// Ids in a word.
const WORD_IDS: u64 = 32;
/// Ids on a page.
const PAGE_IDS: u64 = WORD_IDS * PAGE_WORDS as u64;
/// The lower bit of every id in a word.
const LOW_BITS: u64 = 0x5555_5555_5555_5555;

/// The page that holds an id.
#[inline]
pub(crate) const fn page_of(xid: Xid) -> u64 {
    Layout::STATUS.page_of(xid)
}

/// The word on its page that holds an id.
#[inline]
pub(crate) const fn word_of(xid: Xid) -> usize {
    (xid.get() / WORD_IDS % PAGE_WORDS as u64) as usize
}

/// The first id on a page.
pub(crate) const fn first_of(page: u64) -> Xid {
    Layout::STATUS.first_of(page)
}

/// An id's status in its word.
#[inline]
pub(crate) const fn status_in(word: u64, xid: Xid) -> Status {
    Status::from_bits(word >> (xid.get() % WORD_IDS * 2))
}

/// Some ids of one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WordIds {
    pub(crate) page: u64,
    pub(crate) word: usize,
    /// Both bits of each id.
    pub(crate) mask: u64,
}

/// Setting a status that may not follow the one recorded: the first such id, by its position in the word, and what is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) position: u32,
    pub(crate) recorded: Status,
}

impl WordIds {
    pub(crate) const fn one(xid: Xid) -> Self {
        Self::some(xid, 1)
    }

    /// `count` ids from `first` on, none of them in the next word.
    const fn some(first: Xid, count: u32) -> Self {
        let all = u64::MAX >> (64 - 2 * count);
        Self {
            page: page_of(first),
            word: word_of(first),
            mask: all << (first.get() % WORD_IDS * 2),
        }
    }

    /// A run's ids, word by word.
    pub(crate) fn of_run(run: XidRun) -> impl Iterator<Item = Self> + Clone {
        let mut next = run.first().get();
        let mut left = run.len();
        core::iter::from_fn(move || {
            let count = left.min((WORD_IDS - next % WORD_IDS) as u32);
            let piece = (count > 0).then(|| Self::some(Xid::new(next), count));
            next = next.wrapping_add(u64::from(count));
            left -= count;
            piece
        })
    }

    pub(crate) const fn same_word(&self, other: &Self) -> bool {
        self.page == other.page && self.word == other.word
    }

    /// These ids and those of `other`, which are of the same word.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            mask: self.mask | other.mask,
            ..self
        }
    }

    /// The first id.
    pub(crate) const fn first(&self) -> Xid {
        self.at(self.mask.trailing_zeros() / 2)
    }

    /// The id at a position in the word.
    pub(crate) const fn at(&self, position: u32) -> Xid {
        Xid::new(self.page * PAGE_IDS + self.word as u64 * WORD_IDS + position as u64)
    }

    /// `word` with all these ids at `status`.
    pub(crate) const fn set_in(&self, word: u64, status: Status) -> Result<u64, Refused> {
        let ids = self.mask & LOW_BITS;
        let (low, high) = (word & ids, word >> 1 & ids);
        let (committed, aborted) = (low & !high, high & !low);
        let refused = match status {
            Status::InProgress => low | high,
            Status::Committed => aborted,
            Status::Aborted => committed,
            Status::SubCommitted => aborted,
        };
        if refused != 0 {
            let position = refused.trailing_zeros() / 2;
            return Err(Refused {
                position,
                recorded: Status::from_bits(word >> (position * 2)),
            });
        }
        let kept = if matches!(status, Status::SubCommitted) {
            committed * 3
        } else {
            0
        };
        let mask = self.mask & !kept;
        Ok((word & !mask) | ((LOW_BITS * status as u64) & mask))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use alloc::vec::Vec;

    use super::*;

    const ALL: [Status; 4] = [
        Status::InProgress,
        Status::Committed,
        Status::Aborted,
        Status::SubCommitted,
    ];

    #[test]
    fn every_transition_is_allowed_or_refused_as_the_table_says() {
        use Status::{Aborted, Committed, InProgress, SubCommitted};
        for from in ALL {
            for to in ALL {
                let wanted = match (from, to) {
                    (InProgress, _) | (SubCommitted, Committed | Aborted) => Some(to),
                    (Committed, SubCommitted) => Some(Committed),
                    _ if from == to => Some(to),
                    _ => None,
                };
                for position in 0..32 {
                    let xid = Xid::new(320 + position);
                    // Neighbours of every status, to be left alone.
                    let neighbours = 0x1B1B_1B1B_1B1B_1B1B & !WordIds::one(xid).mask;
                    let word = neighbours | (from as u64) << (2 * position);
                    match (WordIds::one(xid).set_in(word, to), wanted) {
                        (Ok(new), Some(status)) => {
                            assert_eq!(status_in(new, xid), status, "{from:?} to {to:?}");
                            assert_eq!(
                                new & !WordIds::one(xid).mask,
                                neighbours,
                                "{from:?} to {to:?}"
                            );
                        }
                        (Err(refused), None) => {
                            assert_eq!(
                                refused,
                                Refused {
                                    position: position as u32,
                                    recorded: from
                                }
                            );
                        }
                        other => panic!("{from:?} to {to:?}: {other:?}"),
                    }
                }
            }
        }
    }

    #[test]
    fn a_run_comes_in_pieces_of_one_word_each() {
        let run = XidRun::new(Xid::new(PAGE_IDS - 40), 100).unwrap();
        let ids: Vec<u64> = WordIds::of_run(run)
            .flat_map(|piece| {
                (0..32)
                    .filter(move |&p| piece.mask >> (2 * p) & 3 == 3)
                    .map(move |p| piece.at(p).get())
            })
            .collect();
        assert_eq!(ids, (PAGE_IDS - 40..PAGE_IDS + 60).collect::<Vec<_>>());
        let counts: Vec<u32> = WordIds::of_run(run)
            .map(|piece| piece.mask.count_ones() / 2)
            .collect();
        assert_eq!(counts, [8, 32, 32, 28]);
    }
}
