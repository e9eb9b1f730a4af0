//! What the 2012 patch moves between its two sets of buffers.
#![cfg(feature = "baselines")]

use slru::baseline::{History, HistoryStats};
use slru::{Lsn, MemoryStore, Status, StatusStore, Xid};
use txnkit_sync::lock::LockOfToday;

const PAGE: u64 = 32_768;

#[test]
fn looks_and_copies_are_counted() {
    let log = History::<_, LockOfToday>::new(MemoryStore::new(), 4, Xid::FIRST_NORMAL);
    let id = |page: u64| Xid::new(page * PAGE + 5);
    for page in 0..6 {
        log.set(id(page), Status::Committed, Lsn::INVALID).unwrap();
    }
    // Four buffers: the two oldest pages have moved.
    assert_eq!(log.stats().copies, 2);
    for page in 0..6 {
        assert_eq!(log.get(id(page)), Ok(Status::Committed));
    }
    let expected = HistoryStats {
        active_hits: 4,
        history_hits: 2,
        reads: 0,
        copies: 2,
    };
    assert_eq!(log.stats(), expected);
    // A page that is set again comes back, and another one goes.
    log.set(Xid::new(6), Status::Aborted, Lsn::INVALID).unwrap();
    assert_eq!(log.stats().copies, 3);
    assert_eq!(log.get(Xid::new(6)), Ok(Status::Aborted));
    assert_eq!(log.stats().active_hits, 5);
}
