//! Parents of sub-transactions.
#![cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]

use slru::{MemoryStore, Parents, StatusErrorKind, Xid};

fn id(number: u64) -> Xid {
    Xid::new(number)
}

#[test]
fn parents_are_found_up_to_the_top() {
    let parents = Parents::new(MemoryStore::new(), 16, id(3));
    let chain = [5, 7, 8, 2047, 2048, 5000, 100_000].map(id);
    for pair in chain.windows(2) {
        assert_eq!(parents.parent(pair[1]).unwrap(), None);
        parents.set(pair[1], pair[0]).unwrap();
        parents.set(pair[1], pair[0]).unwrap();
        assert_eq!(parents.parent(pair[1]).unwrap(), Some(pair[0]));
    }
    let top = |xid, oldest| parents.topmost(id(xid), id(oldest)).unwrap().get();
    assert_eq!(top(100_000, 3), 5);
    assert_eq!(top(100_000, 2048), 2047, "the first one before the oldest");
    assert_eq!(top(6, 3), 6);
    assert_eq!(top(5, 3), 5);
    assert_eq!(parents.parent(id(1 << 40)).unwrap(), None);
}

#[test]
fn a_parent_may_be_of_the_epoch_before() {
    let first = (1 << 32) - 10;
    let parents = Parents::new(MemoryStore::new(), 16, id(first));
    parents.set(id((1 << 32) + 7), id(first)).unwrap();
    assert_eq!(parents.parent(id((1 << 32) + 7)).unwrap(), Some(id(first)));
}

#[test]
fn what_cannot_be_a_parent_is_refused() {
    let parents = Parents::new(MemoryStore::new(), 16, id(3));
    parents.set(id(20), id(10)).unwrap();
    for (child, parent) in [
        (20, 11),
        (30, 30),
        (30, 31),
        (30, 2),
        (30, 0),
        ((1 << 31) + 30, 30),
    ] {
        let error = parents.set(id(child), id(parent)).unwrap_err();
        let expected = StatusErrorKind::NotParent {
            child: id(child),
            parent: id(parent),
        };
        assert_eq!(error.kind(), &expected);
    }
    assert_eq!(parents.parent(id(20)).unwrap(), Some(id(10)));
}

#[test]
fn neighbours_and_evicted_pages_keep_their_parents() {
    let parents = Parents::new(MemoryStore::new(), 16, id(3));
    // 100 pages through a pool of 16, every id a child of the one before the last.
    for child in 5..200_000 {
        parents.set(id(child), id(child - 2)).unwrap();
    }
    for child in (5..200_000).step_by(77) {
        assert_eq!(parents.parent(id(child)).unwrap(), Some(id(child - 2)));
    }
}

#[test]
fn old_parents_are_forgotten_by_the_page() {
    let parents = Parents::new(MemoryStore::new(), 16, id(3));
    for child in 5..10_000 {
        parents.set(id(child), id(4)).unwrap();
    }
    parents.truncate(id(5000)).unwrap();
    let error = parents.parent(id(100)).unwrap_err();
    let (xid, oldest) = (id(100), id(4096));
    assert_eq!(error.kind(), &StatusErrorKind::TooOld { xid, oldest });
    assert_eq!(parents.parent(id(4096)).unwrap(), Some(id(4)));
    parents.truncate(id(100)).unwrap();
    assert!(parents.parent(id(4000)).is_err(), "it does not go back");
    parents.truncate(id(1 << 40)).unwrap();
    assert_eq!(parents.parent(id(9999)).unwrap(), Some(id(4)));
}
