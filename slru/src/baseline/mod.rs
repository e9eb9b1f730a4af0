//! The status logs before the front: every look takes a lock.
//!
//! | type | pages in memory | lock of a look |
//! |---|---|---|
//! | [`SingleLock`] | one set of buffers, searched from end to end (PostgreSQL until 16) | the one control lock, shared |
//! | [`Banked`] | banks of 16 buffers, by page number (PostgreSQL 17) | the bank's control lock, shared |
//! | [`History`] | as `SingleLock`, and a second set for pages that are no longer set (a patch of 2012) | the control lock, shared; for an old page then that of the second set |
//!
//! Kept, because it is what costs: a look in a buffer takes the control lock shared, an absent page and every set take it exclusively, which
//! page leaves is found by a counter that looks raise. The lock is a parameter: that of 2011, which these designs had until 2015, or today's. No lock is held during I/O.
//!
//! All three are [`PagedStatusLog`](crate::PagedStatusLog)s over other [`Pages`](crate::Pages), so what a status means, trees and errors are the front's.

mod banked;
mod buffers;
mod history;

pub use banked::{Banked, Banks, SingleLock};
pub use buffers::Exclusive;
pub use history::{History, HistoryStats, TwoPools};
