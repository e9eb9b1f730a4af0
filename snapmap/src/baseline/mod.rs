//! The ancestors: PostgreSQL's `old_snapshot_threshold` of 2016, rebuilt behind the same trait as the front.
//!
//! | type | what every snapshot pays |
//! |---|---|
//! | [`LockEverySnapshot`] | a spinlock for the clock, one for the newest xmin, and the map's lock, exclusively (9.6 before its release) |
//! | [`LockEveryMinute`] | the two spinlocks; the map's lock only for the first snapshot of a minute (commit 7e3da1c473) |
//!
//! Either can be off; then nothing shared is touched. All else is the same for both: the words and their spinlocks (`control`) and the ring
//! (`minutes`), whose lock is the lightweight lock of that time.
//!
//! # What was kept, what was changed
//!
//! Kept, because it is what costs: the clock is read and clamped under a spinlock at every snapshot, the newest xmin is raised under another, the
//! threshold is read under a third at every check, and all of it lies side by side. The ring has a place for every minute, and a stretch without
//! snapshots is filled with the xmin that ends it.
//!
//! Changed, so that all maps keep what [`AgeMap`](crate::AgeMap) promises:
//! - ids have 64 bits: with 32, a map that stood for two thousand million ids let rows go that were needed;
//! - a snapshot is refused by its xmin, not by its time. Its time is read after its xmin was fixed, so a backend that stood still in between, or
//!   between its time and its row in the map, was older than the map believed and read what was no longer there;
//! - the threshold only rises, whoever comes last;
//! - the limit's instant is rounded down; it was rounded up, which refused snapshots up to a minute younger than the threshold;
//! - the newest row is never taken for older than it is, where the latest xmin of all was used for the running minute;
//! - the head's time is that of the oldest minute everywhere, and time goes on with the ring;
//! - a minute is widened where the ring would be longer than the 60 days that could be set.
//!
//! Left out: the log position of snapshots and pages. It spared a page older than the snapshot the check, and missed changes without a log record; here
//! the caller says when to check.
//!
//! [`AgeMap::stamp`](crate::AgeMap::stamp) is the clamped clock as last seen, for the error's text only.

mod control;
pub mod lock_every_minute;
pub mod lock_every_snapshot;
mod minutes;

pub use lock_every_minute::LockEveryMinute;
pub use lock_every_snapshot::LockEverySnapshot;
