//! Eight threads at once, in random interleavings of sequentially consistent steps.
//!
//! `RUSTFLAGS='--cfg txnkit_model="shuttle"' cargo test --release -p multixact --test shuttle`
//!
//! The schedules come from the printed `SHUTTLE_RANDOM_SEED`, the same ones every time unless it is set; a failure prints one that replays it.
#![cfg(txnkit_model = "shuttle")]

use std::collections::BTreeMap;
use std::sync::Arc;

use multixact::{
    LockSession, LockSets, LockTable, Member, MemoryStore, Mode, MultiXactError, MultiXactId, Xid,
    XidState,
};
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;
use txnkit_sync::model::{assert_breaks, check};

const THREADS: u64 = 8;

/// Rows that hold a set each.
type Rows = Mutex<BTreeMap<MultiXactId, Vec<Member>>>;

fn member(xid: u64) -> Member {
    Member {
        xid: Xid::new(xid),
        mode: Mode::ForShare,
    }
}

/// Pages with four positions and two members, a bank of two for each.
fn table() -> Arc<LockTable<MemoryStore>> {
    Arc::new(LockTable::new(
        MemoryStore::new(),
        MemoryStore::new(),
        1,
        1,
        THREADS as usize,
    ))
}

/// Every thread makes a set, tells it, reads another's and adds itself to that one: whole sets, equal to what their makers said.
#[test]
fn eight_threads_read_whole_sets() {
    check(|| {
        let table = table();
        let rows = Arc::new(Rows::default());
        let actors: Vec<_> = (0..THREADS)
            .map(|me| {
                let (table, rows) = (table.clone(), rows.clone());
                thread::spawn(move || {
                    let mut session = table.register().unwrap();
                    let members: Vec<_> =
                        (0..1 + me % 3).map(|i| member(10 + me * 3 + i)).collect();
                    let set = session.create(&members).unwrap();
                    let (other, said) = {
                        let mut rows = rows.lock().unwrap();
                        rows.insert(set, members);
                        let (other, said) = rows.iter().nth(me as usize % rows.len()).unwrap();
                        (*other, said.clone())
                    };
                    assert_eq!(table.members(other).as_ref(), Ok(&said));
                    let new = member(100 + me);
                    let expanded = session.expand(other, new, |_| XidState::Running).unwrap();
                    let mut more = said;
                    more.push(new);
                    more.sort_unstable();
                    assert_eq!(table.members(expanded).as_ref(), Ok(&more));
                    rows.lock().unwrap().insert(expanded, more);
                })
            })
            .collect();
        for actor in actors {
            actor.join().unwrap();
        }
        assert_eq!(table.next_id(), MultiXactId::new(1 + 2 * THREADS));
        for (set, members) in rows.lock().unwrap().iter() {
            assert_eq!(table.members(*set).as_ref(), Ok(members));
        }
    });
}

/// Seven threads make sets, two of them equal ones, and end; one forgets what is not in use, having taken it out of the rows. A set in use is there, and one
/// that is not is there or too old.
#[test]
fn what_is_forgotten_was_not_in_use() {
    check(|| {
        let table = table();
        let rows = Arc::new(Rows::default());
        let at_work = Arc::new(AtomicU64::new(THREADS - 1));
        let forgetter = {
            let (table, rows, at_work) = (table.clone(), rows.clone(), at_work.clone());
            thread::spawn(move || {
                while at_work.load(Ordering::Relaxed) > 0 {
                    thread::yield_now();
                    let oldest = table.oldest_in_use();
                    let mut rows = rows.lock().unwrap();
                    *rows = rows.split_off(&oldest);
                    drop(rows);
                    table.truncate(oldest).unwrap();
                }
            })
        };
        let actors: Vec<_> = (0..THREADS - 1)
            .map(|me| {
                let (table, rows, at_work) = (table.clone(), rows.clone(), at_work.clone());
                thread::spawn(move || {
                    let mut session = table.register().unwrap();
                    for round in 0..3 {
                        session.begin_use();
                        let first = 10 + (me / 2) * 10 + round * 100;
                        let members = [first, first + 1, first + 2].map(member);
                        let set = session.create(&members).unwrap();
                        rows.lock().unwrap().insert(set, members.into());
                        let other = rows.lock().unwrap().first_key_value().map(|row| *row.0);
                        if let Some(other) = other {
                            match table.members(other) {
                                Ok(found) => assert_eq!(found.len(), 3),
                                Err(MultiXactError::TooOld { .. }) => {}
                                Err(error) => panic!("{error}"),
                            }
                        }
                        assert_eq!(table.members(set).as_deref(), Ok(&members[..]));
                        session.end();
                    }
                    at_work.fetch_sub(1, Ordering::Relaxed);
                })
            })
            .collect();
        for actor in actors {
            actor.join().unwrap();
        }
        forgetter.join().unwrap();
        for (set, members) in rows.lock().unwrap().iter() {
            assert_eq!(table.members(*set).as_ref(), Ok(members));
        }
    });
}

#[test]
fn broken_steps_are_found() {
    assert_breaks(
        "eight_threads_read_whole_sets",
        &["multixact.sets.next-not-written"],
    );
    assert_breaks(
        "what_is_forgotten_was_not_in_use",
        &[
            "multixact.sets.cached-before-use",
            "multixact.sets.torn-by-truncation",
        ],
    );
}
