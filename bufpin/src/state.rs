//! The state word of a buffer, in which everything about it is decided.
//!
//! | bits | meaning |
//! |---|---|
//! | 0 to 17 | pins: how many sessions have the buffer pinned, strays included |
//! | 18 to 21 | usage: how often of late, at most [`MAX_USAGE`]; the sweep lowers it |
//! | 22 | dirty: the page differs from the store's |
//! | 23 | valid: the page is there; without it, it is on its way in |
//! | 24 | tagged: the buffer is some page's |
//! | 25 | a session waits to be the only one that has it pinned |
//! | 26 | sessions wait for the content lock |
//! | 34 to 51 | sharers: how many sessions hold the content lock shared, strays included |
//! | 52 | the content lock is held by one who writes the page to the store: beside sharers |
//! | 53 | the content lock is held alone |
//!
//! After construction the word is changed by read-modify-write operations only. So every Release on it heads a release sequence that
//! no later operation ends, whosever it is: an Acquire that reads any later value synchronises with it.

use txnkit_sync::atomic::{AtomicU32, AtomicU64};
use txnkit_sync::lock::Mutex;

use crate::lock::Queue;
use crate::traits::NO_PAGE;

/// One pin.
pub(crate) const PIN: u64 = 1;
const PINS: u64 = (1 << 18) - 1;
/// One step of usage.
pub(crate) const USAGE: u64 = 1 << 18;
/// All usage bits.
pub(crate) const USAGES: u64 = 0xf << 18;
/// Where usage stops rising.
pub(crate) const MAX_USAGE: u64 = 5;
pub(crate) const DIRTY: u64 = 1 << 22;
pub(crate) const VALID: u64 = 1 << 23;
pub(crate) const TAGGED: u64 = 1 << 24;
/// Somebody waits to be the only one that has the buffer pinned.
pub(crate) const CLEANUP: u64 = 1 << 25;
/// The queue of the content lock is not empty.
pub(crate) const QUEUED: u64 = 1 << 26;
/// One sharer of the content lock.
pub(crate) const SHARED: u64 = 1 << 34;
const SHARERS: u64 = ((1 << 18) - 1) << 34;
/// The content lock of one who writes back.
pub(crate) const WRITING: u64 = 1 << 52;
/// The content lock held alone.
pub(crate) const EXCLUSIVE: u64 = 1 << 53;

/// How many sessions have the buffer pinned.
#[inline(always)]
pub(crate) const fn pins(state: u64) -> u64 {
    state & PINS
}

/// How often it was used of late.
#[inline(always)]
pub(crate) const fn usage(state: u64) -> u64 {
    (state & USAGES) / USAGE
}

/// How many sessions hold the content lock shared.
#[inline(always)]
pub(crate) const fn sharers(state: u64) -> u64 {
    (state & SHARERS) / SHARED
}

/// Could the content lock be taken as `mode` ([`SHARED`], [`WRITING`] or [`EXCLUSIVE`])?
#[inline(always)]
pub(crate) const fn fits(mode: u64, state: u64) -> bool {
    let conflicting = match mode {
        SHARED => EXCLUSIVE,
        WRITING => EXCLUSIVE | WRITING,
        _ => EXCLUSIVE | WRITING | SHARERS,
    };
    state & conflicting == 0
}

/// What there is of a buffer beside its page and its version.
#[derive(Debug)]
pub struct Descriptor {
    pub(crate) state: AtomicU64,
    /// The page it holds, or [`NO_PAGE`]. Written by who holds the content lock alone and the page untagged.
    pub(crate) page: AtomicU64,
    /// The slot, plus 1, of the session that waits to be alone; 0 if none does.
    pub(crate) waiter: AtomicU32,
    /// The next one, plus 1, in its partition's list of buffers without a cell. Under the partition's lock.
    pub(crate) next: AtomicU32,
    /// Who waits for the content lock.
    pub(crate) queue: Mutex<Queue>,
}

impl Descriptor {
    txnkit_sync::const_fn! {
        /// A buffer without a page.
        pub(crate) fn new() -> Self {
            Self {
                state: AtomicU64::new(0),
                page: AtomicU64::new(NO_PAGE),
                waiter: AtomicU32::new(0),
                next: AtomicU32::new(0),
                queue: Mutex::new(Queue::new()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_modes_fit_as_they_should() {
        let held = [0, SHARED, 3 * SHARED, WRITING, WRITING + SHARED, EXCLUSIVE];
        let expected = [
            (SHARED, [true, true, true, true, true, false]),
            (WRITING, [true, true, true, false, false, false]),
            (EXCLUSIVE, [true, false, false, false, false, false]),
        ];
        for (mode, answers) in expected {
            for (state, answer) in held.into_iter().zip(answers) {
                assert_eq!(fits(mode, state | PINS | USAGES | DIRTY), answer);
            }
        }
    }

    #[test]
    fn no_field_overlaps_another() {
        let fields = [
            PINS, USAGES, DIRTY, VALID, TAGGED, CLEANUP, QUEUED, SHARERS, WRITING, EXCLUSIVE,
        ];
        assert_eq!(
            fields.iter().sum::<u64>(),
            fields.iter().fold(0, |all, field| all | field)
        );
        assert!(pins(PINS) == sharers(SHARERS) && usage(USAGES) == 15);
    }
}
