//! What each operation costs: one function a row, each running `calls` calls and returning the time they took.

use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use multixact::{LockSession, LockSets, LockTable, Member, Mode, MultiXactId, Xid};
use slru::MemoryStore;

/// One row: what is measured, and how.
pub(crate) struct Row {
    /// `operation/variation/threads`.
    pub(crate) name: &'static str,
    /// Runs so many calls and returns the time they took.
    pub(crate) run: fn(calls: u64) -> Duration,
}

/// Every row of this crate.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "multixact/create/2",
        run: create,
    },
    Row {
        name: "multixact/members/2",
        run: members,
    },
];

fn table() -> LockTable<MemoryStore> {
    LockTable::new(MemoryStore::new(), MemoryStore::new(), 128, 128, 1)
}

fn pair(xid: u64) -> [Member; 2] {
    [xid, xid + 1].map(|xid| Member {
        xid: Xid::new(xid),
        mode: Mode::ForShare,
    })
}

/// A set of two that was not there before.
fn create(calls: u64) -> Duration {
    let table = table();
    let mut session = table.register().expect("there is a place");
    let start = Instant::now();
    for call in 0..calls {
        black_box(session.create(&pair(10 + call)).expect("there is room"));
        if call % 1_000_000 == 999_999 {
            session.end();
            table
                .truncate(table.next_id())
                .expect("memory does not fail");
        }
    }
    start.elapsed()
}

/// The members of one of 1000 sets of two.
fn members(calls: u64) -> Duration {
    let table = table();
    let mut session = table.register().expect("there is a place");
    for set in 0..1000 {
        session.create(&pair(10 + set)).expect("there is room");
    }
    let start = Instant::now();
    for call in 0..calls {
        let id = MultiXactId::new(1 + call * 7 % 1000);
        black_box(table.members(black_box(id)).expect("it was made"));
    }
    start.elapsed()
}
