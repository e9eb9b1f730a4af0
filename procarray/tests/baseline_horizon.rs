//! Which baseline derives the horizon at every snapshot, and that it is the one that is returned on request.
#![cfg(feature = "baselines")]

use procarray::baseline::{FullStructs, HotArray, Layout, LazyHorizon, ListArray};
use procarray::{SnapshotSession, SnapshotView, Snapshots, Xid};
use txnkit_sync::lock::{LockOfToday, RawRwLock};

fn end(session: &mut impl SnapshotSession) {
    session.assign().unwrap();
    session.end(|_, _| Ok::<_, ()>(())).unwrap();
}

/// A reader with an old snapshot holds back what another one's snapshot finds; the horizons of the second reader, before and after.
fn derived<Y: Layout, L: RawRwLock + 'static>(array: &ListArray<Y, L>) -> [Option<Xid>; 3] {
    let [mut old, mut young, mut writer] = [(); 3].map(|()| array.register().unwrap());
    let before = young.global_xmin();
    let xmin = old.snapshot().unwrap().xmin();
    end(&mut writer);
    young.snapshot().unwrap();
    let held = young.global_xmin();
    assert_eq!(array.horizon(), xmin);
    old.release();
    young.release();
    young.snapshot().unwrap();
    assert_eq!(array.horizon(), array.next_xid());
    [before, held, young.global_xmin()]
}

#[test]
fn full_structs_and_the_hot_array_derive_it_at_every_snapshot() {
    let first = Xid::new((1 << 32) - 1);
    let expected = [None, Some(first), Some(Xid::new((1 << 32) + 3))];
    assert_eq!(
        derived(&FullStructs::<LockOfToday>::new(3, first)),
        expected
    );
    assert_eq!(derived(&HotArray::<LockOfToday>::new(3, first)), expected);
}

#[test]
fn the_lazy_one_does_not() {
    assert_eq!(
        derived(&LazyHorizon::<LockOfToday>::new(3, Xid::new(1000))),
        [None; 3]
    );
}
