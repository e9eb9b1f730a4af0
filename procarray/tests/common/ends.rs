//! How a transaction ends.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use procarray::{EndError, SnapshotSession, SnapshotView, Snapshots, Xid, XidRun};

use super::{FIRST, Parents, assign_family, end, id, pass, runs_now, seen_running};

pub(crate) fn record_gets_the_whole_family<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(2, id((1 << 32) - 4));
    let mut session = array.register().unwrap();
    let mut parents = Parents::new();
    let mut family = assign_family(&mut session, 4, &mut parents);
    pass(&array);
    family.extend(&assign_family(&mut session, 2, &mut parents)[1..]);
    let mut recorded = Vec::new();
    let record = |top: Xid, children: &[XidRun]| {
        recorded.push(top);
        recorded.extend(children.iter().flat_map(|run| run.iter()));
        Ok::<_, ()>(())
    };
    assert_eq!(session.end(record), Ok(Some(family[0])));
    assert_eq!(recorded, family);

    session.assign().unwrap();
    let alone = |_: Xid, children: &[XidRun]| {
        if children.is_empty() {
            Ok(())
        } else {
            Err(children.to_vec())
        }
    };
    assert!(
        session.end(alone).is_ok(),
        "the next transaction begins without children"
    );
}

/// Whoever looks while the status is being recorded sees the id run, and is not kept waiting.
pub(crate) fn record_runs_while_the_id_still_does<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(3, id(FIRST));
    let [mut writer, mut reader] = [(); 2].map(|()| array.register().unwrap());
    writer.assign_child().unwrap();
    let ended = writer.end(|top, children| {
        let ended = pass(&array);
        assert!(seen_running(&mut reader, top));
        assert!(
            children
                .iter()
                .flat_map(|run| run.iter())
                .all(|child| seen_running(&mut reader, child))
        );
        assert!(!seen_running(&mut reader, ended));
        assert!(array.horizon() <= top);
        Ok::<_, ()>(())
    });
    assert!(!seen_running(&mut reader, ended.unwrap().unwrap()));
}

pub(crate) fn without_an_id_nothing_is_recorded<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(1, id(FIRST));
    let mut session = array.register().unwrap();
    session.snapshot().unwrap();
    assert_eq!(session.end(|_, _| Err("called")), Ok(None));
    session.assign().unwrap();
    end(&mut session);
    assert_eq!(session.end(|_, _| Err("called")), Ok(None));
}

pub(crate) fn what_could_not_be_recorded_still_runs<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(3, id(FIRST));
    let [mut writer, mut reader] = [(); 2].map(|()| array.register().unwrap());
    let mut parents = Parents::new();
    let family = assign_family(&mut writer, 2, &mut parents);
    for _ in 0..2 {
        assert_eq!(
            writer.end(|_, _| Err("disk full")),
            Err(EndError::NotRecorded("disk full"))
        );
        pass(&array);
        assert!(seen_running(&mut reader, family[0]));
        assert!(
            family
                .iter()
                .all(|&xid| writer.owns(xid) && runs_now(&mut reader, xid, &parents))
        );
    }
    assert_eq!(end(&mut writer), Some(family[0]));
    assert!(
        !family
            .iter()
            .any(|&xid| runs_now(&mut reader, xid, &parents))
    );
}

pub(crate) fn a_panic_while_recording_leaves_the_id_running<P: Snapshots>(
    make: impl Fn(usize, Xid) -> P,
) {
    let array = make(3, id(FIRST));
    let [mut writer, mut reader] = [(); 2].map(|()| array.register().unwrap());
    let xid = writer
        .assign_child()
        .map(|_| writer.xid().unwrap())
        .unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        writer.end(|_, _| -> Result<(), ()> { panic!("meant to") })
    }));
    assert!(panicked.is_err());
    pass(&array);
    assert!(seen_running(&mut reader, xid), "and no lock is held");
    assert_eq!(array.horizon(), xid);
    assert_eq!(writer.xid(), Some(xid));
    assert_eq!(end(&mut writer), Some(xid));
    assert!(!seen_running(&mut reader, xid));
}

pub(crate) fn an_end_keeps_the_snapshot<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(2, id(FIRST));
    let mut session = array.register().unwrap();
    let xid = session.assign().unwrap();
    let xmin = session.snapshot().unwrap().xmin();
    end(&mut session);
    pass(&array);
    assert_eq!(session.taken().xmin(), xmin);
    assert!(session.taken().is_running_with(xid, |_| None));
    assert_eq!(array.horizon(), xmin);
    session.release();
    assert!(array.horizon() > xmin);
}

/// A sub-transaction is rolled back: its children leave, with their status, and the older ones and the parent run on.
pub(crate) fn the_youngest_children_can_end_alone<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(3, id(FIRST));
    let [mut writer, mut reader] = [(); 2].map(|()| array.register().unwrap());
    let mut parents = Parents::new();
    let mut family = assign_family(&mut writer, 3, &mut parents);
    pass(&array);
    family.extend(&assign_family(&mut writer, 3, &mut parents)[1..]);
    let undone = family.split_off(3);
    let before = reader.snapshot().unwrap().clone();

    let mut recorded = Vec::new();
    let record = |children: &[XidRun]| {
        recorded.extend(children.iter().flat_map(|run| run.iter()));
        Ok::<_, ()>(())
    };
    assert_eq!(writer.end_children(undone[0], record), Ok(()));
    assert_eq!(recorded, undone);
    for &xid in &undone {
        assert!(!writer.owns(xid) && !runs_now(&mut reader, xid, &parents));
        assert!(
            before.is_running_with(xid, |_| None),
            "a taken snapshot does not change"
        );
    }
    for &xid in &family {
        assert!(writer.owns(xid) && runs_now(&mut reader, xid, &parents));
    }
    assert_eq!(array.horizon(), family[0]);

    assert_eq!(writer.end_children(undone[0], |_| Err("called")), Ok(()));
    let next = writer.assign_child().unwrap();
    let mut recorded = Vec::new();
    let record = |top: Xid, children: &[XidRun]| {
        recorded.push(top);
        recorded.extend(children.iter().flat_map(|run| run.iter()));
        Ok::<_, ()>(())
    };
    writer.end(record).unwrap();
    family.push(next);
    assert_eq!(recorded, family, "what ended alone does not end again");
}

pub(crate) fn children_that_could_not_be_recorded_still_run<P: Snapshots>(
    make: impl Fn(usize, Xid) -> P,
) {
    let array = make(3, id(FIRST));
    let [mut writer, mut reader] = [(); 2].map(|()| array.register().unwrap());
    let mut parents = Parents::new();
    let family = assign_family(&mut writer, 4, &mut parents);
    assert_eq!(
        writer.end_children(family[2], |_| Err("disk full")),
        Err(EndError::NotRecorded("disk full"))
    );
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        writer.end_children(family[2], |_| -> Result<(), ()> { panic!("meant to") })
    }));
    assert!(panicked.is_err());
    pass(&array);
    for &xid in &family {
        assert!(writer.owns(xid) && runs_now(&mut reader, xid, &parents));
    }
    assert_eq!(writer.end_children(family[0], |_| Ok::<_, ()>(())), Ok(()));
    assert!(
        family
            .iter()
            .all(|&xid| writer.owns(xid) == (xid == family[0]))
    );
}
