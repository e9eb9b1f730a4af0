//! Parents of sub-transactions.
#![cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]

use std::fs;

use slru::{FileStore, FixedParents, Layout, MemoryStore, NoStore, Parents, StatusErrorKind, Xid};

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

#[test]
fn what_cannot_be_a_child_is_refused() {
    let parents = Parents::new(MemoryStore::new(), 16, id(3));
    for special in [1 << 32, (1 << 32) + 2] {
        let error = parents.set(id(special), id(special - 9)).unwrap_err();
        let expected = StatusErrorKind::Special { xid: id(special) };
        assert_eq!(error.kind(), &expected);
    }
    let far = (1 << 31) + 4096;
    let error = parents.set(id(far), id(far - 1)).unwrap_err();
    assert!(matches!(error.kind(), StatusErrorKind::Future { .. }));
    // Nothing was extended.
    assert_eq!(parents.parent(id(5000)), Ok(None));
    parents.truncate(id(far)).unwrap();
    assert_eq!(parents.parent(id(100)), Ok(None));
}

#[test]
fn in_place_and_without_a_store() {
    static PARENTS: FixedParents<NoStore, 2> = FixedParents::new_fixed(NoStore, Xid::FIRST_NORMAL);
    PARENTS.set(id(9), id(8)).unwrap();
    assert_eq!(PARENTS.topmost(id(9), id(3)), Ok(id(8)));
}

#[test]
fn every_parent_is_where_postgresql_keeps_it() {
    let low = u64::from(u32::MAX);
    for (child, file, byte) in [
        (2047, "0000", 8188),
        (2048, "0000", 8192),
        (65_536, "0001", 0),
        (low, "FFFF", 262_140),
        ((3 << 32) + low, "FFFF", 262_140),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let first = Layout::PARENTS.page_of(id(child));
        let store = FileStore::create(dir.path(), Layout::PARENTS, first).unwrap();
        let parents = Parents::new(store, 16, id(child));
        parents.set(id(child), id(child - 5)).unwrap();
        parents.flush().unwrap();
        let bytes = fs::read(dir.path().join(file)).unwrap();
        let wanted = ((child - 5) as u32).to_le_bytes();
        assert_eq!(bytes[byte..byte + 4], wanted, "{child}");
        let others = bytes[..byte].iter().chain(&bytes[byte + 4..]);
        assert!(others.copied().all(|b| b == 0), "{child}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

/// A start begins with what may still run, whatever a life before has left; the folder may be empty.
#[test]
fn nothing_survives_a_restart_and_no_file_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["0000", "0003", "FFFF"] {
        fs::write(dir.path().join(name), vec![1; 262_144]).unwrap();
    }
    let (oldest, next) = (id(30_000), id(32_766));
    let first = Layout::PARENTS.page_of(oldest);
    let store = FileStore::create_anew(dir.path(), Layout::PARENTS, first).unwrap();
    let parents = Parents::open(store, 16, oldest, next).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert_eq!(parents.parent(id(32_765)), Ok(None));
    assert_eq!(parents.topmost(id(29_000), oldest), Ok(id(29_000)));
    // From page to page, and from file to file.
    for child in 30_001..140_000 {
        parents.set(id(child), id(child - 1)).unwrap();
    }
    assert_eq!(parents.topmost(id(139_999), oldest), Ok(id(30_000)));
    let too_early = Parents::open(MemoryStore::new(), 16, next, oldest).unwrap_err();
    assert_eq!(
        too_early.kind(),
        &StatusErrorKind::Backwards {
            oldest: next,
            next: oldest
        }
    );
}

#[test]
fn files_go_when_all_their_pages_precede() {
    let dir = tempfile::tempdir().unwrap();
    let end = 1_u64 << 32;
    let first = id(end - 100_000);
    let page = Layout::PARENTS.page_of(first);
    let store = FileStore::create(dir.path(), Layout::PARENTS, page).unwrap();
    let parents = Parents::new(store, 16, first);
    for child in (end - 99_999..end + 100_000).filter(|&child| !id(child).is_special()) {
        parents
            .set(id(child), id(child).previous().unwrap())
            .unwrap();
    }
    parents.flush().unwrap();
    let names = || {
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["0000", "0001", "FFFE", "FFFF"]);
    for (oldest, left) in [
        (end - 65_537, vec!["0000", "0001", "FFFE", "FFFF"]),
        (end - 65_536, vec!["0000", "0001", "FFFF"]),
        (end - 1, vec!["0000", "0001", "FFFF"]),
        (end + 3, vec!["0000", "0001"]),
        (end + 65_535, vec!["0000", "0001"]),
        (end + 65_536, vec!["0001"]),
    ] {
        parents.truncate(id(oldest)).unwrap();
        assert_eq!(names(), left, "{oldest}");
        let child = end + 99_999;
        let top = if oldest > end - 65_537 {
            oldest
        } else {
            end - 65_537
        };
        let top = parents.topmost(id(child), id(top + 1)).unwrap();
        assert!(
            top <= id(oldest + 1) && top >= id(oldest).previous().unwrap(),
            "{top}"
        );
    }
}
