//! One function per row of the cost card. Each prepares its state and returns what runs a number of steps, which is what is timed.

use core::hint::black_box;

use slru::{Lsn, MemoryStore, Status, StatusLog, StatusStore, Xid};

/// Ids on a page.
const PAGE: u64 = 32_768;

/// Runs so many steps.
pub(crate) type Run = Box<dyn FnMut(u64)>;

/// A row: its id on the cost card, and what prepares it.
pub(crate) struct Row {
    pub(crate) id: &'static str,
    pub(crate) prepare: fn() -> Run,
}

pub(crate) const ROWS: &[Row] = &[
    Row {
        id: "status/one-page/1",
        prepare: one_page,
    },
    Row {
        id: "status/96-pages/1",
        prepare: pages_96,
    },
    Row {
        id: "status/set/1",
        prepare: set,
    },
];

fn one_page() -> Run {
    get(1)
}

fn pages_96() -> Run {
    get(96)
}

fn get(pages: u64) -> Run {
    let log = committed(pages);
    let mut ids = Ids::below(pages * PAGE);
    Box::new(move |steps| {
        for _ in 0..steps {
            black_box(
                log.get(ids.next())
                    .is_ok_and(|status| status == Status::Committed),
            );
        }
    })
}

fn set() -> Run {
    let log = committed(96);
    let mut ids = Ids::below(96 * PAGE);
    Box::new(move |steps| {
        for _ in 0..steps {
            black_box(log.set(ids.next(), Status::Committed, Lsn::INVALID).is_ok());
        }
    })
}

/// A log of committed ids, all pages in the pool.
fn committed(pages: u64) -> StatusLog<MemoryStore> {
    let log = StatusLog::new(MemoryStore::new(), pages as usize, Xid::FIRST_NORMAL);
    for xid in 3..pages * PAGE {
        log.set(Xid::new(xid), Status::Committed, Lsn::INVALID)
            .expect("memory does not fail");
    }
    log
}

/// Random ids from 3 on, about a nanosecond each.
struct Ids {
    state: u64,
    bound: u64,
}

impl Ids {
    fn below(bound: u64) -> Self {
        Self {
            state: 0x9E37_79B9_7F4A_7C15,
            bound: black_box(bound - 3),
        }
    }

    #[inline]
    fn next(&mut self) -> Xid {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // The high half scaled to the range: no division.
        Xid::new(3 + (((self.state >> 32) * self.bound) >> 32))
    }
}
