//! Slots and their handles.

use std::thread;

use procarray::{SnapshotSession, SnapshotView, Snapshots, Xid};

use super::{FIRST, Parents, assign_family, end, id, pass, runs, runs_now, seen_running};

pub(crate) fn slots_run_out_and_come_back<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(3, id(FIRST));
    let mut sessions = Vec::new();
    let error = loop {
        match array.register() {
            Ok(session) => sessions.push(session),
            Err(error) => break error,
        }
    };
    assert!(sessions.len() >= 3);
    assert_eq!(
        (error.sessions, array.sessions()),
        (sessions.len(), sessions.len())
    );
    assert!(
        sessions
            .iter_mut()
            .all(|session| session.assign().is_ok() && session.snapshot().is_ok())
    );
    for at in [0, 1, sessions.len() - 1] {
        drop(sessions.swap_remove(at));
        sessions.push(array.register().unwrap());
        assert_eq!(array.register().err(), Some(error));
    }
}

pub(crate) fn a_reused_slot_is_clean<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(2, id(FIRST));
    for count in [3, 70] {
        let mut parents = Parents::new();
        let mut session = array.register().unwrap();
        let family = assign_family(&mut session, count, &mut parents);
        session.snapshot().unwrap();
        drop(session);
        let mut session = array.register().unwrap();
        assert_eq!(session.xid(), None);
        assert!(!family.iter().any(|&xid| session.owns(xid)));
        let xid = session.assign().unwrap();
        let snapshot = session.snapshot().unwrap().clone();
        assert!(!family.iter().any(|&xid| runs(&snapshot, xid, &parents) || runs_now(&mut session, xid, &parents)));
        assert_eq!(array.horizon(), xid);
        let record = |_: Xid, children: &[procarray::XidRun]| {
            if children.is_empty() {
                Ok(())
            } else {
                Err("children")
            }
        };
        assert_eq!(session.end(record), Ok(Some(xid)));
    }
}

pub(crate) fn a_dropped_session_ends_its_ids<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(3, id(FIRST));
    let [mut writer, mut reader] = [(); 2].map(|()| array.register().unwrap());
    let mut parents = Parents::new();
    let family = assign_family(&mut writer, 2, &mut parents);
    let before = reader.snapshot().unwrap().clone();
    reader.release();
    drop(writer);
    let after = reader.snapshot().unwrap().clone();
    for &xid in &family {
        assert!(runs(&before, xid, &parents));
        assert!(!runs(&after, xid, &parents));
        assert!(!runs_now(&mut reader, xid, &parents));
    }
    assert_eq!(array.horizon(), array.next_xid());
}

pub(crate) fn a_dropped_session_releases_its_snapshot<P: Snapshots>(
    make: impl Fn(usize, Xid) -> P,
) {
    let array = make(2, id(FIRST));
    let mut session = array.register().unwrap();
    let xmin = session.snapshot().unwrap().xmin();
    pass(&array);
    assert_eq!(array.horizon(), xmin);
    drop(session);
    assert_eq!(array.horizon(), array.next_xid());
}

/// A connection is served by one thread after the other.
pub(crate) fn a_session_moves_between_threads<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(3, id(FIRST));
    let array = &array;
    let mut reader = array.register().unwrap();
    let mut session = array.register().unwrap();
    for _ in 0..3 {
        let mut here = thread::scope(|scope| {
            let begin = scope.spawn(move || {
                session.snapshot().unwrap();
                session.assign_child().unwrap();
                session
            });
            begin.join().unwrap()
        });
        let xid = here.xid().unwrap();
        pass(array);
        assert!(here.owns(xid));
        assert!(here.taken().is_running_with(xid, |_| None));
        assert!(seen_running(&mut reader, xid));
        session = thread::scope(|scope| {
            let finish = scope.spawn(move || {
                assert_eq!(end(&mut here), Some(xid));
                here.release();
                here
            });
            finish.join().unwrap()
        });
        assert!(!seen_running(&mut reader, xid));
        assert_eq!(array.horizon(), array.next_xid());
    }
    thread::scope(|scope| {
        session.assign().unwrap();
        scope.spawn(move || drop(session));
    });
    assert_eq!(array.horizon(), array.next_xid());
}
