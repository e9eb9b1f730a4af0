//! What every snapshot reads, packed: twelve bytes a session, five sessions to a cache line and more.

use alloc::boxed::Box;

use txnkit_sync::atomic::{AtomicBool, AtomicU8, AtomicU32};

use super::layout::{ChildCache, Fields, Layout, no_children};

/// The hot fields of a session.
#[derive(Debug)]
#[repr(C)]
struct Entry {
    xid: AtomicU32,
    xmin: AtomicU32,
    flags: AtomicU8,
    overflowed: AtomicBool,
    cached: AtomicU8,
}

#[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
static_assertions::const_assert_eq!(size_of::<Entry>(), 12);

/// The rest: what was left of the full struct, the children among it.
#[derive(Debug)]
#[repr(C)]
struct Rest {
    _all_else: [u64; 66],
    children: ChildCache,
}

/// The entries, and beside them the rest.
#[derive(Debug)]
pub struct HotLayout {
    entries: Box<[Entry]>,
    rest: Box<[Rest]>,
}

impl Layout for HotLayout {
    const GLOBAL_XMIN: bool = true;

    fn new(sessions: usize) -> Self {
        let entry = |_| Entry {
            xid: AtomicU32::new(0),
            xmin: AtomicU32::new(0),
            flags: AtomicU8::new(0),
            overflowed: AtomicBool::new(false),
            cached: AtomicU8::new(0),
        };
        let rest = |_| Rest {
            _all_else: [0; 66],
            children: no_children(),
        };
        Self {
            entries: (0..sessions).map(entry).collect(),
            rest: (0..sessions).map(rest).collect(),
        }
    }

    #[inline]
    fn fields(&self, slot: u32) -> Fields<'_> {
        let entry = &self.entries[slot as usize];
        Fields {
            xid: &entry.xid,
            xmin: &entry.xmin,
            flags: &entry.flags,
            overflowed: &entry.overflowed,
            cached: &entry.cached,
            children: &self.rest[slot as usize].children,
        }
    }
}
