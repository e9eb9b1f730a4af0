//! The ancestors: two designs of a buffer's header, each with headers on lines of their own or side by side, behind the same traits as the front.
//!
//! | type | how a buffer is pinned |
//! |---|---|
//! | [`HeaderSpinlock`] | before PostgreSQL 9.6: a spinlock in the header, plain fields under it |
//! | [`CasLoop`] | 9.6 and after: a 32-bit word, changed by compare-and-swap while nobody has its lock bit |
//!
//! All else is the same for both and stands in `pool` and `session`: the page table, 128 partitions of a hash table, each under a reader-writer lock
//! that is held shared while a found buffer is pinned; the content lock, a reader-writer lock of its own; the sweep's hand, moved buffer by buffer;
//! a lock per buffer for whoever reads or writes the page, on which others wait.
//!
//! # What was kept, what was changed
//!
//! Kept, because it is what costs: two shared locks and two changes of the header around each use of a page that is in the pool; usage raised by the
//! pin itself; the private count that keeps a session's further pins away from the header. A read that failed leaves a buffer that is the page's
//! but not valid; whoever pins it next reads.
//!
//! Changed, so that all variants answer alike: a page is words and is written under the exclusive lock only, so nobody changes one that is
//! being written to the store.

mod header;
mod pool;
mod session;

pub use header::{CasHeader, Header, SpinHeader};
pub use pool::{BaselinePool, Dense, Density, Sparse};
pub use session::BaselineSession;

/// The header under a spinlock. `L` is the reader-writer lock of pages and partitions, `D` says how close headers lie.
pub type HeaderSpinlock<S, L, D, const W: usize = { crate::PAGE_WORDS }> =
    BaselinePool<S, SpinHeader, L, D, W>;

/// The header as one word in a compare-and-swap loop.
pub type CasLoop<S, L, D, const W: usize = { crate::PAGE_WORDS }> =
    BaselinePool<S, CasHeader, L, D, W>;
