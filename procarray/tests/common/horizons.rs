//! How far back anybody can still see.

use procarray::{SnapshotSession, SnapshotView, Snapshots, Xid};

use super::{FIRST, end, id, pass};

pub(crate) fn an_idle_array_holds_nothing_back<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(2, id(FIRST));
    assert_eq!(array.horizon(), id(FIRST));
    let idle = array.register().unwrap();
    for passed in 1..200 {
        pass(&array);
        assert_eq!(array.horizon(), id(FIRST + passed));
    }
    drop(idle);
}

pub(crate) fn a_running_id_holds_it<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(3, id(FIRST));
    let [mut old, mut young] = [(); 2].map(|()| array.register().unwrap());
    let (first, second) = (old.assign().unwrap(), young.assign().unwrap());
    for _ in 0..200 {
        pass(&array);
        assert_eq!(array.horizon(), first);
    }
    end(&mut old);
    assert_eq!(array.horizon(), second);
    end(&mut young);
    assert_eq!(array.horizon(), array.next_xid());
}

pub(crate) fn a_child_does_not_hold_it_longer_than_its_parent<P: Snapshots>(
    make: impl Fn(usize, Xid) -> P,
) {
    let array = make(2, id(FIRST));
    let mut session = array.register().unwrap();
    session.assign_child().unwrap();
    pass(&array);
    session.assign_child().unwrap();
    assert_eq!(array.horizon(), id(FIRST));
    end(&mut session);
    assert_eq!(array.horizon(), array.next_xid());
}

pub(crate) fn a_snapshot_holds_it_until_released<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(2, id(FIRST));
    let mut reader = array.register().unwrap();
    pass(&array);
    let xmin = reader.snapshot().unwrap().xmin();
    for _ in 0..200 {
        pass(&array);
        assert_eq!(array.horizon(), xmin);
    }
    reader.release();
    assert_eq!(array.horizon(), array.next_xid());
    let again = reader.snapshot().unwrap().xmin();
    assert_eq!(again, array.next_xid());
    pass(&array);
    assert_eq!(array.horizon(), again);
}

/// The nested case: what is registered goes when the oldest goes, not when a newer one comes.
pub(crate) fn a_newer_snapshot_keeps_the_older_registered<P: Snapshots>(
    make: impl Fn(usize, Xid) -> P,
) {
    let array = make(2, id(FIRST));
    let mut reader = array.register().unwrap();
    let outer = reader.snapshot().unwrap().clone();
    for _ in 0..3 {
        pass(&array);
        assert!(reader.snapshot().unwrap().xmin() > outer.xmin());
        assert_eq!(array.horizon(), outer.xmin());
    }
    reader.release();
    let inner = reader.snapshot().unwrap().xmin();
    pass(&array);
    assert_eq!(array.horizon(), inner);
}

pub(crate) fn the_oldest_of_several_snapshots_holds_it<P: Snapshots>(
    make: impl Fn(usize, Xid) -> P,
) {
    let array = make(4, id(FIRST));
    let mut readers = [(); 3].map(|()| array.register().unwrap());
    let xmins: Vec<_> = readers
        .iter_mut()
        .map(|reader| {
            let xmin = reader.snapshot().unwrap().xmin();
            pass(&array);
            xmin
        })
        .collect();
    readers[1].release();
    assert_eq!(array.horizon(), xmins[0]);
    readers[0].release();
    assert_eq!(array.horizon(), xmins[2]);
    readers[1].snapshot().unwrap();
    assert_eq!(array.horizon(), xmins[2]);
    readers[2].release();
    assert_eq!(array.horizon(), array.next_xid());
}

pub(crate) fn release_without_a_snapshot_changes_nothing<P: Snapshots>(
    make: impl Fn(usize, Xid) -> P,
) {
    let array = make(2, id(FIRST));
    let mut session = array.register().unwrap();
    session.release();
    let xid = session.assign().unwrap();
    session.release();
    session.release();
    pass(&array);
    assert_eq!(array.horizon(), xid);
    assert_eq!(session.xid(), Some(xid));
}
