//! One session's place in the array.

use txnkit_sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use txnkit_sync::lock::{Mutex, SpinLock};

use crate::form::Form;
use crate::snapshot::Snapshot;
use crate::traits::Membership;

/// No snapshot registered.
pub(crate) const NO_XMIN: u64 = u64::MAX;
/// No id handed out.
pub(crate) const NO_XID: u64 = 0;
/// An id is being handed out to this session and will be stored in a moment.
pub(crate) const ASSIGNING: u64 = u64::MAX;

/// What the others may read of a session, and what it lends to a leader while it waits.
///
/// Padded to lines of its own by the array.
pub struct Slot<F: Form> {
    /// Owner: compare-and-swap at register, Release at drop.
    pub(crate) in_use: AtomicBool,
    /// The registered snapshot's xmin; written by the owner, read by whoever computes a horizon.
    pub(crate) xmin: AtomicU64,
    /// The top-level id, [`NO_XID`] or [`ASSIGNING`]; written by the owner, read by the leader.
    pub(crate) top: AtomicU64,
    /// The next waiter in a chain, as index + 1.
    pub(crate) next: AtomicU32,
    /// Where this session's request stands (see `ends`).
    pub(crate) state: AtomicU32,
    /// What this session asks of the leader, an `ends::Request` as a number.
    pub(crate) request: AtomicU32,
    pub(crate) park: F::Park,
    /// Held by the session as long as it lives, lent to the leader while it waits.
    pub(crate) private: Mutex<Private<F>, SpinLock>,
}

/// A session's own memory.
#[derive(Debug)]
pub(crate) struct Private<F: Form> {
    pub(crate) snapshot: Snapshot<F>,
    /// The transaction's top-level id or [`NO_XID`].
    pub(crate) top: u64,
    pub(crate) children: F::Children,
    /// Which ids end: [`NO_XID`] for the whole transaction, else the children from this one on.
    pub(crate) end_from: u64,
    /// The id a probe asks for, and the leader's answer.
    pub(crate) probe: u64,
    pub(crate) answer: Membership,
}

impl<F: Form> Private<F> {
    pub(crate) const NEW: Self = Self {
        snapshot: Snapshot::EMPTY,
        top: NO_XID,
        children: F::NO_CHILDREN,
        end_from: NO_XID,
        probe: NO_XID,
        answer: Membership::Completed,
    };
}

impl<F: Form> core::fmt::Debug for Slot<F> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

txnkit_sync::const_fn! {
    /// A free slot.
    pub(crate) fn new_slot<F: Form>() -> Slot<F> {
        Slot {
            in_use: AtomicBool::new(false),
            xmin: AtomicU64::new(NO_XMIN),
            top: AtomicU64::new(NO_XID),
            next: AtomicU32::new(0),
            state: AtomicU32::new(0),
            request: AtomicU32::new(0),
            park: txnkit_sync::new_park!(F::Park),
            private: Mutex::new(Private::NEW),
        }
    }
}

#[cfg(all(
    test,
    feature = "std",
    target_pointer_width = "64",
    not(any(txnkit_model = "loom", txnkit_model = "shuttle"))
))]
mod tests {
    use static_assertions::assert_eq_size;
    use txnkit_sync::Padded;
    use txnkit_sync::park::DefaultPark;

    use super::Slot;
    use crate::array::WINDOW_WORDS;
    use crate::form::Growing;

    // What the README says a session costs.
    assert_eq_size!(Padded<Slot<Growing<WINDOW_WORDS, DefaultPark>>>, [u8; 768]);
}
