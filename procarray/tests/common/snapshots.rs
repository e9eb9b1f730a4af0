//! What is in a snapshot.

use procarray::{Membership, SnapshotSession, SnapshotView, Snapshots, Xid};

use super::{FIRST, Parents, assign_family, end, id, pass, runs, runs_now, seen_running};

pub(crate) fn in_an_idle_array_nothing_runs<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(1, id(FIRST));
    let mut session = array.register().unwrap();
    let snapshot = session.snapshot().unwrap();
    assert_eq!((snapshot.xmin(), snapshot.xmax()), (id(FIRST), id(FIRST)));
    assert_eq!(snapshot.membership(id(FIRST - 1)), Membership::Completed);
    assert_eq!(
        snapshot.membership(id(FIRST)),
        Membership::Running,
        "not handed out"
    );
    assert_eq!(
        snapshot.membership(Xid::MAX),
        Membership::Running,
        "not handed out"
    );
    assert_eq!(session.is_running(id(FIRST - 1)), Ok(Membership::Completed));
    assert_eq!(session.is_running(id(FIRST)), Ok(Membership::Running));
}

pub(crate) fn before_the_first_snapshot_every_id_runs<P: Snapshots>(
    make: impl Fn(usize, Xid) -> P,
) {
    let array = make(2, id(FIRST));
    let mut reused = array.register().unwrap();
    let ended = [pass(&array), pass(&array)];
    reused.snapshot().unwrap();
    drop(reused);
    let session = array.register().unwrap();
    for xid in ended {
        assert_eq!(session.taken().membership(xid), Membership::Running);
    }
}

pub(crate) fn an_id_runs_for_everybody_until_its_end<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(4, id(FIRST));
    let [mut writer, mut reader, mut other] = [(); 3].map(|()| array.register().unwrap());
    let xid = writer.assign().unwrap();
    pass(&array);
    for session in [&mut reader, &mut other, &mut writer] {
        assert!(seen_running(session, xid));
        assert!(runs_now(session, xid, &Parents::new()));
    }
    assert_eq!(end(&mut writer), Some(xid));
    for session in [&mut reader, &mut other, &mut writer] {
        assert!(!seen_running(session, xid));
        assert!(!runs_now(session, xid, &Parents::new()));
    }
}

pub(crate) fn a_taken_snapshot_does_not_change<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(4, id(FIRST));
    let [mut first, mut second, mut reader] = [(); 3].map(|()| array.register().unwrap());
    let xids = [
        first.assign().unwrap(),
        second.assign().unwrap(),
        pass(&array),
    ];
    let kept = reader.snapshot().unwrap().clone();
    end(&mut first);
    let between = reader.snapshot().unwrap().clone();
    end(&mut second);
    let later = [first.assign().unwrap(), second.assign().unwrap()];
    let last = reader.snapshot().unwrap().clone();
    let running = |snapshot: &dyn Fn(Xid) -> bool| xids.map(snapshot);
    let none = Parents::new();
    assert_eq!(running(&|xid| runs(&kept, xid, &none)), [true, true, false]);
    assert_eq!(
        running(&|xid| runs(&between, xid, &none)),
        [false, true, false]
    );
    assert_eq!(
        running(&|xid| runs(&last, xid, &none)),
        [false, false, false]
    );
    assert_eq!(
        running(&|xid| runs(reader.taken(), xid, &none)),
        [false, false, false]
    );
    for xid in later {
        assert!(
            [&kept, &between, &last]
                .iter()
                .all(|snapshot| runs(*snapshot, xid, &none))
        );
    }
}

pub(crate) fn xmin_and_xmax_bound_the_set<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(4, id(FIRST));
    let [mut old, mut young, mut reader] = [(); 3].map(|()| array.register().unwrap());
    pass(&array);
    let oldest = old.assign().unwrap();
    pass(&array);
    let running = young.assign().unwrap();
    let ended = pass(&array);
    let bounds = |snapshot: &<P::Session<'_> as SnapshotSession>::Snapshot| {
        (snapshot.xmin(), snapshot.xmax())
    };
    assert_eq!(
        bounds(reader.snapshot().unwrap()),
        (oldest, id(ended.get() + 1))
    );
    end(&mut old);
    assert_eq!(
        bounds(reader.snapshot().unwrap()),
        (running, id(ended.get() + 1))
    );
    let unended = old.assign().unwrap();
    assert_eq!(
        bounds(reader.snapshot().unwrap()),
        (running, id(ended.get() + 1)),
        "nothing has ended since"
    );
    assert_eq!(reader.taken().membership(unended), Membership::Running);
    end(&mut young);
    assert_eq!(bounds(reader.snapshot().unwrap()), (unended, unended));
    end(&mut old);
    assert_eq!(
        bounds(reader.snapshot().unwrap()),
        (id(unended.get() + 1), id(unended.get() + 1))
    );
}

pub(crate) fn own_ids_are_in_the_set<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(2, id(FIRST));
    let mut session = array.register().unwrap();
    let mut parents = Parents::new();
    let family = assign_family(&mut session, 3, &mut parents);
    pass(&array);
    let snapshot = session.snapshot().unwrap().clone();
    for xid in family {
        assert!(runs(&snapshot, xid, &parents));
        assert!(runs_now(&mut session, xid, &parents));
    }
}

pub(crate) fn running_now_is_not_as_of_the_snapshot<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(3, id(FIRST));
    let [mut writer, mut reader] = [(); 2].map(|()| array.register().unwrap());
    let xid = writer.assign().unwrap();
    pass(&array);
    reader.snapshot().unwrap();
    end(&mut writer);
    assert_eq!(reader.taken().membership(xid), Membership::Running);
    assert_eq!(reader.is_running(xid), Ok(Membership::Completed));
    assert_eq!(
        reader.taken().membership(xid),
        Membership::Running,
        "asking for now takes no snapshot"
    );
}

pub(crate) fn children_run_as_long_as_their_parent<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(3, id(FIRST));
    let [mut writer, mut reader] = [(); 2].map(|()| array.register().unwrap());
    let mut parents = Parents::new();
    let mut family = assign_family(&mut writer, 2, &mut parents);
    pass(&array);
    family.extend(assign_family(&mut writer, 2, &mut parents));
    pass(&array);
    let before = reader.snapshot().unwrap().clone();
    end(&mut writer);
    let after = reader.snapshot().unwrap().clone();
    for xid in family {
        assert!(runs(&before, xid, &parents));
        assert!(!runs(&after, xid, &parents));
        assert!(!runs_now(&mut reader, xid, &parents));
    }
}

pub(crate) fn answers_do_not_depend_on_the_number_of_children<P: Snapshots>(
    make: impl Fn(usize, Xid) -> P,
) {
    for count in [0, 1, 63, 64, 65, 200] {
        let array = make(4, id(FIRST));
        let [mut writer, mut bystander, mut reader] = [(); 3].map(|()| array.register().unwrap());
        let mut parents = Parents::new();
        let ended = pass(&array);
        let other = assign_family(&mut bystander, 1, &mut parents);
        let family = assign_family(&mut writer, count, &mut parents);
        pass(&array);
        let before = reader.snapshot().unwrap().clone();
        for &xid in family.iter().chain(&other) {
            assert!(runs(&before, xid, &parents), "{xid} of {count} children");
            assert!(
                runs_now(&mut reader, xid, &parents),
                "{xid} of {count} children"
            );
        }
        assert!(!runs(&before, ended, &parents));
        end(&mut writer);
        let after = reader.snapshot().unwrap().clone();
        for &xid in &family {
            assert!(
                runs(&before, xid, &parents),
                "{xid} of {count} children, as of before"
            );
            assert!(
                !runs(&after, xid, &parents),
                "{xid} of {count} children, ended"
            );
            assert!(
                !runs_now(&mut reader, xid, &parents),
                "{xid} of {count} children, ended"
            );
        }
        assert!(
            other
                .iter()
                .all(|&xid| runs(&after, xid, &parents) && runs_now(&mut reader, xid, &parents))
        );
    }
}

/// Several sessions take ids in turn, each transaction as many as fit, so that no two neighbours belong together; then the sessions
/// end one after the other.
pub(crate) fn answers_do_not_depend_on_whose_turn_it_is<P: Snapshots>(
    make: impl Fn(usize, Xid) -> P,
) {
    const WRITERS: usize = 5;
    let array = make(WRITERS + 2, id(FIRST));
    let mut writers: Vec<_> = (0..WRITERS).map(|_| array.register().unwrap()).collect();
    let mut reader = array.register().unwrap();
    let mut parents = Parents::new();
    for _ in 0..100 {
        for writer in &mut writers {
            let top = writer.assign().unwrap();
            if let Ok(child) = writer.assign_child() {
                parents.insert(child, top);
            }
        }
    }
    pass(&array);
    while let Some(mut writer) = writers.pop() {
        let top = end(&mut writer).unwrap();
        let running: Vec<_> = writers.iter().map(|writer| writer.xid().unwrap()).collect();
        assert!(!running.contains(&top));
        let snapshot = reader.snapshot().unwrap().clone();
        for (&child, top) in &parents {
            assert_eq!(runs(&snapshot, *top, &parents), running.contains(top));
            assert_eq!(runs(&snapshot, child, &parents), running.contains(top));
            assert_eq!(
                runs_now(&mut reader, child, &parents),
                running.contains(top)
            );
        }
    }
}

/// A few ids run while thousands come and go.
pub(crate) fn old_running_ids_are_remembered<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    const WRITERS: usize = 6;
    let array = make(WRITERS + 2, id(FIRST));
    let mut reader = array.register().unwrap();
    let mut writers: Vec<_> = (0..WRITERS).map(|_| array.register().unwrap()).collect();
    let mut passing = array.register().unwrap();
    let mut passed = Vec::new();
    for writer in &mut writers {
        writer.assign().unwrap();
        passed.extend((0..900).map(|_| {
            passing.assign().unwrap();
            end(&mut passing).unwrap()
        }));
    }
    let none = Parents::new();
    while let Some(writer) = writers.pop() {
        let snapshot = reader.snapshot().unwrap();
        assert!(writers.iter().chain([&writer]).all(|writer| runs(
            snapshot,
            writer.xid().unwrap(),
            &none
        )));
        assert!(passed.iter().all(|&xid| !runs(snapshot, xid, &none)));
        let gone = writer.xid().unwrap();
        drop(writer);
        assert!(!runs(reader.snapshot().unwrap(), gone, &none));
    }
}
