//! Stores that fail while sets are made and forgotten: nothing but the set in the making is lost.
#![cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]

extern crate alloc;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use multixact::{
    LockSession, LockSets, LockTable, Member, MemoryStore, Mode, MultiXactError, MultiXactId,
    MultiXactOffset, PageStore, PoolError, StoreError, Xid,
};
use slru::{Found, Lsn, PageBuf};

/// Memory that fails at the operations whose turn has come.
#[derive(Default)]
struct Faulty {
    pages: MemoryStore,
    /// Operations until one fails; 0: none does.
    fails_in: AtomicU64,
}

impl Faulty {
    fn turn(&self) -> Result<(), StoreError> {
        let left = self.fails_in.load(Ordering::Relaxed);
        self.fails_in
            .store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 1 {
            return Err(StoreError::Other { code: 5 });
        }
        Ok(())
    }
}

impl PageStore for Faulty {
    fn read(&self, page: u64, into: &mut PageBuf) -> Result<Found, StoreError> {
        self.turn()?;
        self.pages.read(page, into)
    }

    fn write(&self, page: u64, from: &PageBuf, log: Lsn) -> Result<(), StoreError> {
        self.turn()?;
        self.pages.write(page, from, log)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.pages.sync()
    }

    fn truncate(&self, first: u64) -> Result<(), StoreError> {
        self.turn()?;
        self.pages.truncate(first)
    }
}

fn members(first: u64, len: u64) -> Vec<Member> {
    let member = |xid| Member {
        xid: Xid::new(xid),
        mode: Mode::ForShare,
    };
    (first..first + len).map(member).collect()
}

/// A table whose fourth set needs new pages of both kinds.
fn table(offsets: &Arc<Faulty>, members: &Arc<Faulty>) -> LockTable<Arc<Faulty>> {
    LockTable::starting_at(
        offsets.clone(),
        members.clone(),
        [16, 16],
        2,
        MultiXactId::new(2044),
        MultiXactOffset::new(1620),
    )
}

/// Whichever operation of either store fails: a set is made whole or its maker gets an error, all others read as they were, and truncating goes on.
#[test]
fn a_set_that_fails_takes_no_other_with_it() {
    let mut failures = 0;
    for which in 0..2 {
        for turn in 1..6 {
            let stores = [Arc::default(), Arc::default()];
            let table = table(&stores[0], &stores[1]);
            let mut session = table.register().unwrap();
            let mut made = BTreeMap::new();
            for round in 0..8 {
                if round == 2 {
                    stores[which].fails_in.store(turn, Ordering::Relaxed);
                }
                let wanted = members(100 + round * 10, 5);
                match session.create(&wanted) {
                    Ok(set) => drop(made.insert(set, wanted)),
                    Err(MultiXactError::Pool(PoolError::Store(_))) => failures += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            stores[which].fails_in.store(0, Ordering::Relaxed);
            assert_eq!(table.next_id().get(), 2044 + 8);
            for (set, members) in &made {
                assert_eq!(table.members(*set).as_ref(), Ok(members));
            }
            session.end();
            for oldest in 2045..table.next_id().get() {
                table.truncate(MultiXactId::new(oldest)).unwrap();
                for (set, members) in made.range(MultiXactId::new(oldest)..) {
                    assert_eq!(table.members(*set).as_ref(), Ok(members));
                }
            }
        }
    }
    assert!(failures >= 2, "{failures} operations failed");
}
