//! What the baselines do as PostgreSQL did, and the front does not: 64 children are shown, more send readers to the parent store.
#![cfg(feature = "baselines")]

use procarray::baseline::{CHILDREN_CACHED, FullStructs, HotArray, LazyHorizon};
use procarray::{Membership, SnapshotSession, SnapshotView, Snapshots, Xid};
use txnkit_sync::lock::LockOfToday;

const FIRST: Xid = Xid::new(1000);

fn end(session: &mut impl SnapshotSession) {
    session.end(|_, _| Ok::<_, ()>(())).unwrap();
}

/// What readers are told of a transaction with `count` children, in a new array: of its children by a snapshot and for now.
fn answers<P: Snapshots>(array: &P, count: usize) -> Vec<[Membership; 2]> {
    let [mut writer, mut passing, mut reader] = [(); 3].map(|()| array.register().unwrap());
    let children: Vec<_> = (0..count).map(|_| writer.assign_child().unwrap()).collect();
    passing.assign().unwrap();
    end(&mut passing);
    let snapshot = reader.snapshot().unwrap().clone();
    let top = writer.xid().unwrap();
    assert_eq!(
        snapshot.membership(top),
        Membership::Running,
        "a running top is never in doubt"
    );
    assert_eq!(
        reader.is_running(top),
        Ok(Membership::Running),
        "a running top is never in doubt"
    );
    children
        .iter()
        .map(|&child| {
            [
                snapshot.membership(child),
                reader.is_running(child).unwrap(),
            ]
        })
        .collect()
}

fn sixty_four_are_exact_and_more_ask_the_parent(array: &impl Snapshots) {
    assert_eq!(
        answers(array, CHILDREN_CACHED),
        [[Membership::Running; 2]; CHILDREN_CACHED]
    );
    // The snapshot trusts none of the children any more; who asks for now finds the first 64 at once.
    let mut overflowed = answers(array, CHILDREN_CACHED + 1);
    assert_eq!(overflowed.pop(), Some([Membership::AskParent; 2]));
    assert_eq!(
        overflowed,
        [[Membership::AskParent, Membership::Running]; CHILDREN_CACHED]
    );
    // It lasts as long as the transaction: the next one in the same slot starts afresh.
    assert_eq!(answers(array, 1), [[Membership::Running; 2]]);
}

fn the_overflow_of_one_is_the_doubt_of_all(array: &impl Snapshots) {
    let [mut many, mut few, mut reader] = [(); 3].map(|()| array.register().unwrap());
    let child = few.assign_child().unwrap();
    assert!((0..=CHILDREN_CACHED).all(|_| many.assign_child().is_ok()));
    let ended = few.xid().unwrap();
    let before = reader.snapshot().unwrap().clone();
    assert_eq!(
        before.membership(child),
        Membership::Running,
        "nothing has ended, so all of it lies beyond xmax"
    );
    end(&mut few);
    few.assign().unwrap();
    end(&mut few);
    let snapshot = reader.snapshot().unwrap().clone();
    let top = many.xid().unwrap();
    assert!(ended < snapshot.xmin(), "and is known to have ended");
    assert_eq!(
        snapshot.membership(Xid::new(snapshot.xmax().get() - 1)),
        Membership::AskParent
    );
    assert!(
        !snapshot.is_running_with(Xid::new(snapshot.xmax().get() - 1), |_| None),
        "no parent, so ended"
    );
    assert!(snapshot.is_running_with(Xid::new(top.get() + 1), |_| Some(top)));
    end(&mut many);
    let snapshot = reader.snapshot().unwrap();
    assert_eq!(
        snapshot.membership(Xid::new(top.get() + 1)),
        Membership::Completed
    );
}

#[test]
fn full_structs() {
    sixty_four_are_exact_and_more_ask_the_parent(&FullStructs::<LockOfToday>::new(3, FIRST));
    the_overflow_of_one_is_the_doubt_of_all(&FullStructs::<LockOfToday>::new(3, FIRST));
}

#[test]
fn hot_array() {
    sixty_four_are_exact_and_more_ask_the_parent(&HotArray::<LockOfToday>::new(3, FIRST));
    the_overflow_of_one_is_the_doubt_of_all(&HotArray::<LockOfToday>::new(3, FIRST));
}

#[test]
fn lazy_horizon() {
    sixty_four_are_exact_and_more_ask_the_parent(&LazyHorizon::<LockOfToday>::new(3, FIRST));
    the_overflow_of_one_is_the_doubt_of_all(&LazyHorizon::<LockOfToday>::new(3, FIRST));
}
