//! A creator that stands still after its number was handed out.
//!
//! `RUSTFLAGS='--cfg txnkit_inject' cargo test -p multixact --test inject --features baselines`
#![cfg(txnkit_inject)]

use std::sync::Mutex;
use std::thread;

use multixact::baseline::{CondvarWait, SleepRetry};
use multixact::{LockSession, LockSets, LockTable, Member, Mode, MultiXactId, Xid};
use slru::MemoryStore;
use txnkit_sync::inject::Gate;

/// The place is the process's, so one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn member(xid: u64) -> Member {
    Member {
        xid: Xid::new(xid),
        mode: Mode::ForShare,
    }
}

/// Does a reader of the set before it have to wait for the one who stands still?
fn waits<L: LockSets>(table: &L) -> bool {
    let _alone = ALONE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let (mut first, mut second) = (table.register().unwrap(), table.register().unwrap());
    let before = first.create(&[member(10), member(11)]).unwrap();
    let gate = Gate::at("multixact.sets.allocated");
    thread::scope(|scope| {
        let stopped = scope.spawn(move || second.create(&[member(12)]).unwrap());
        gate.wait_until_reached();
        let reader = scope.spawn(|| table.members(before).unwrap());
        // Long enough for a reader that does not have to wait; one that has to cannot end before the gate opens.
        for _ in 0..200 {
            if reader.is_finished() {
                break;
            }
            thread::sleep(core::time::Duration::from_millis(1));
        }
        let waits = !reader.is_finished();
        gate.open();
        assert_eq!(reader.join().unwrap(), [member(10), member(11)]);
        assert_eq!(stopped.join().unwrap(), MultiXactId::new(before.get() + 1));
        waits
    })
}

#[test]
fn nobody_waits_for_a_creator() {
    let table = LockTable::new(MemoryStore::new(), MemoryStore::new(), 16, 16, 2);
    assert!(!waits(&table));
}

#[test]
fn in_the_baselines_readers_wait() {
    let table = SleepRetry::new(MemoryStore::new(), MemoryStore::new(), 16, 16, 2);
    assert!(waits(&table));
    let table = CondvarWait::new(MemoryStore::new(), MemoryStore::new(), 16, 16, 2);
    assert!(waits(&table));
}
