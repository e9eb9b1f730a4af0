//! One big struct a session, the state of PostgreSQL 9.1: a snapshot jumps from struct to struct.

use alloc::boxed::Box;

use txnkit_sync::atomic::{AtomicBool, AtomicU8, AtomicU32};

use super::layout::{ChildCache, Fields, Layout, no_children};

/// All there is to know of a session, needed for snapshots or not.
///
/// The order is that of the original: queue links, semaphore and latch first, then the ids, in the middle a long stretch for locks
/// and replication, the children last. A snapshot touches a line at the front of each struct, and where there is an id one more at its
/// end.
#[derive(Debug)]
#[repr(C)]
struct Session {
    _links_semaphore_latch: [u64; 7],
    xid: AtomicU32,
    xmin: AtomicU32,
    _process_database_role: [u32; 4],
    flags: AtomicU8,
    _conflict_and_lock_waits: [u8; 7],
    _locks_held_and_replication: [u64; 56],
    overflowed: AtomicBool,
    cached: AtomicU8,
    children: ChildCache,
}

#[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
static_assertions::const_assert_eq!(size_of::<Session>(), 800);

/// The structs, reached through the list of members.
#[derive(Debug)]
pub struct FullLayout(Box<[Session]>);

impl Layout for FullLayout {
    const GLOBAL_XMIN: bool = true;

    fn new(sessions: usize) -> Self {
        let session = |_| Session {
            _links_semaphore_latch: [0; 7],
            xid: AtomicU32::new(0),
            xmin: AtomicU32::new(0),
            _process_database_role: [0; 4],
            flags: AtomicU8::new(0),
            _conflict_and_lock_waits: [0; 7],
            _locks_held_and_replication: [0; 56],
            overflowed: AtomicBool::new(false),
            cached: AtomicU8::new(0),
            children: no_children(),
        };
        Self((0..sessions).map(session).collect())
    }

    #[inline]
    fn fields(&self, slot: u32) -> Fields<'_> {
        let session = &self.0[slot as usize];
        Fields {
            xid: &session.xid,
            xmin: &session.xmin,
            flags: &session.flags,
            overflowed: &session.overflowed,
            cached: &session.cached,
            children: &session.children,
        }
    }
}
