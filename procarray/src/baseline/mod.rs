//! The ancestors: three designs that were compared in 2011, rebuilt behind the same traits as the front.
//!
//! | type | where a snapshot finds what it reads | the horizon |
//! |---|---|---|
//! | [`FullStructs`] | one struct of 800 bytes a session | derived at every snapshot |
//! | [`HotArray`] | entries of 12 bytes in an array of their own | derived at every snapshot |
//! | [`LazyHorizon`] | the same entries, xmin left unread | derived when asked for |
//!
//! All else is the same for the three, and stands in files of its own: the members under one reader-writer lock (`array`), ids
//! under another (`ids`), what a session remembers by itself (`session`), the set as lists (`snapshot`). `full_structs`, `hot_array`
//! and `lazy_horizon` hold just what differs: where the fields lie, and whether a snapshot reads xmin.
//!
//! # What was kept, what was changed
//!
//! Kept, because it is what costs: the shared lock for every snapshot and the exclusive one for every end; the id lock, under which an
//! id becomes visible before a later one can be handed out; 32-bit ids compared in a circle; a cache of 64 children a session,
//! whose overflow sends every reader to the parent store; a linear search in the snapshot's lists.
//!
//! Changed, so that all variants answer alike and only the layout is compared:
//! - the taker's own ids *are* in its snapshot (the visibility test asks "mine?" first); PostgreSQL leaves them out;
//! - the list of members is sorted by slot in all three; in PostgreSQL the sorting came together with the hot array;
//! - the last completed id is kept in 64 bits, and stands beside the lock that guards it, not beside the next id;
//! - the end of a transaction leaves xmin alone: here the caller says when its snapshots are out of use.
//!
//! # 32 bits inside
//!
//! Shared memory holds the low halves of ids. They are widened against the id after the last completed one, which is right as
//! long as every id that runs and every xmin that is registered lies less than 2^31 before the next id. The id generator keeps to
//! that: it refuses an id further than that from the horizon ([`AssignError::Stopped`](crate::AssignError::Stopped)), and goes on
//! as soon as the old transaction has ended or the old snapshot is released.

mod array;
pub mod full_structs;
pub mod hot_array;
mod ids;
mod layout;
pub mod lazy_horizon;
mod session;
mod snapshot;

pub use array::ListArray;
pub use layout::{CHILDREN_CACHED, Fields, Layout};
pub use session::ListSession;
pub use snapshot::ListSnapshot;

/// Full per-session structs; the horizon at every snapshot. `L` is the lock, of which there are two.
pub type FullStructs<L> = ListArray<full_structs::FullLayout, L>;

/// Hot fields in dense entries; the horizon at every snapshot.
pub type HotArray<L> = ListArray<hot_array::HotLayout, L>;

/// Hot fields in dense entries; the horizon on request.
pub type LazyHorizon<L> = ListArray<lazy_horizon::LazyLayout, L>;
