//! What a session shows to the others, wherever a design keeps it.

use core::array;

use txnkit_ids::Xid32;
use txnkit_sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// How many children a session shows before its set overflows.
pub const CHILDREN_CACHED: usize = 64;

/// In [`Fields::flags`]: a session that snapshots and horizons pass over. Nothing sets it here; it is read because it was.
const IN_VACUUM: u8 = 0x02;

/// The ids of the first children.
pub(super) type ChildCache = [AtomicU32; CHILDREN_CACHED];

/// An empty cache.
pub(super) fn no_children() -> ChildCache {
    array::from_fn(|_| AtomicU32::new(0))
}

/// One of the designs: where the fields of a session stand, and which of them a snapshot reads.
pub trait Layout: Send + Sync + 'static {
    /// Does every snapshot read every session's xmin, to derive the horizon by the way?
    const GLOBAL_XMIN: bool;

    /// The memory for so many sessions, none of them with an id.
    fn new(sessions: usize) -> Self;

    /// The fields of the session in `slot`.
    fn fields(&self, slot: u32) -> Fields<'_>;
}

/// The shared fields of one session; 0 stands for "none". Their owner is the only one that writes them.
///
/// `xid`, `overflowed` and the children are set under the id lock alone, while readers hold the array lock, so they are atomics.
/// Relaxed is enough wherever an id *below the snapshot's xmax* is concerned: a later id has ended then, and this id's store came
/// before that one through the id lock, and that one's end came before the reader through the array lock. Whether a reader sees an id at or
/// above xmax makes no difference to it. All are cleared under the exclusive array lock.
#[derive(Debug)]
pub struct Fields<'a> {
    /// The top-level id.
    pub xid: &'a AtomicU32,
    /// The registered xmin.
    pub xmin: &'a AtomicU32,
    /// Flags that take the session out of horizons.
    pub flags: &'a AtomicU8,
    /// Are there more children than the cache holds?
    pub overflowed: &'a AtomicBool,
    /// How many children are in the cache.
    pub cached: &'a AtomicU8,
    /// The children.
    pub children: &'a [AtomicU32; CHILDREN_CACHED],
}

impl Fields<'_> {
    /// Is the session to be passed over?
    #[inline]
    pub(super) fn in_vacuum(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & IN_VACUUM != 0
    }

    /// The top-level id, if it has one.
    #[inline]
    pub(super) fn running(&self) -> Option<Xid32> {
        Some(Xid32::new(self.xid.load(Ordering::Relaxed))).filter(|xid| xid.is_normal())
    }

    /// The registered xmin, if there is one.
    #[inline]
    pub(super) fn registered(&self) -> Option<Xid32> {
        // Acquire pairs with the Release in `release`: what the owner read under its snapshot was read before anybody removes it.
        Some(Xid32::new(self.xmin.load(Ordering::Acquire))).filter(|xmin| xmin.is_normal())
    }

    /// Registers `xmin` unless an older one is. The caller holds the array lock, shared.
    #[inline]
    pub(super) fn register(&self, xmin: Xid32) {
        if self.xmin.load(Ordering::Relaxed) == 0 {
            self.xmin.store(xmin.get(), Ordering::Relaxed);
        }
    }

    /// Takes the registered xmin back, without a lock.
    #[inline]
    pub(super) fn release(&self) {
        // Pairs with the Acquire in `registered`.
        self.xmin.store(0, Ordering::Release);
    }

    /// The children shown. Those left out are announced by [`Fields::overflowed`].
    #[inline]
    pub(super) fn shown_children(&self) -> impl Iterator<Item = u32> {
        // Acquire pairs with the Release in `show_child`: an entry that is counted is there, no older transaction's in its stead.
        let count = usize::from(self.cached.load(Ordering::Acquire));
        self.children
            .iter()
            .take(count)
            .map(|child| child.load(Ordering::Relaxed))
    }

    /// Shows another child. The caller is the owner and holds the id lock.
    pub(super) fn show_child(&self, child: Xid32) {
        let count = self.cached.load(Ordering::Relaxed);
        match self.children.get(usize::from(count)) {
            Some(place) => {
                place.store(child.get(), Ordering::Relaxed);
                // Pairs with the Acquire in `shown_children`.
                self.cached.store(count + 1, Ordering::Release);
            }
            None => self.overflowed.store(true, Ordering::Relaxed),
        }
    }

    /// Shows no children from `from` on any more, of those it showed. The caller holds the array lock, exclusively.
    pub(super) fn clear_children(&self, from: Xid32) {
        let older = self
            .shown_children()
            .take_while(|&child| Xid32::new(child).precedes(from))
            .count();
        self.cached.store(older as u8, Ordering::Relaxed);
    }

    /// Shows no ids any more. The caller holds the array lock, exclusively.
    pub(super) fn clear_ids(&self) {
        self.xid.store(0, Ordering::Relaxed);
        self.overflowed.store(false, Ordering::Relaxed);
        self.cached.store(0, Ordering::Relaxed);
    }
}
