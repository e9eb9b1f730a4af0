//! Which ids are handed out, and what is known of those that are not.

use std::thread;

use procarray::{AssignError, Membership, SnapshotSession, SnapshotView, Snapshots, Xid};

use super::{FIRST, Parents, assign_family, end, id, pass, runs, runs_now};

/// Where 32 bits end.
const EPOCH: u64 = 1 << 32;

pub(crate) fn a_transaction_has_one_id<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(2, id(FIRST));
    let mut session = array.register().unwrap();
    assert_eq!(session.xid(), None);
    assert_eq!(session.assign(), Ok(id(FIRST)));
    pass(&array);
    assert_eq!(session.assign(), Ok(id(FIRST)));
    assert_eq!(session.xid(), Some(id(FIRST)));
    end(&mut session);
    assert_eq!(session.xid(), None);
    assert_eq!(session.assign(), Ok(id(FIRST + 2)));
}

pub(crate) fn a_child_is_younger_than_its_parent<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(1, id(FIRST));
    let mut session = array.register().unwrap();
    assert_eq!(session.assign_child(), Ok(id(FIRST + 1)));
    assert_eq!(session.xid(), Some(id(FIRST)));
    assert_eq!(session.assign_child(), Ok(id(FIRST + 2)));
    assert_eq!(session.assign(), Ok(id(FIRST)));
}

pub(crate) fn owned_are_the_running_transactions_ids_only<P: Snapshots>(
    make: impl Fn(usize, Xid) -> P,
) {
    let array = make(2, id(FIRST));
    let mut session = array.register().unwrap();
    let mut parents = Parents::new();
    let mut family = assign_family(&mut session, 2, &mut parents);
    let others = pass(&array);
    family.extend(assign_family(&mut session, 2, &mut parents));
    assert!(family.iter().all(|&xid| session.owns(xid)));
    assert!(
        ![
            others,
            id(FIRST - 1),
            array.next_xid(),
            Xid::INVALID,
            Xid::MAX
        ]
        .iter()
        .any(|&xid| session.owns(xid))
    );
    end(&mut session);
    assert!(!family.iter().any(|&xid| session.owns(xid)));
}

pub(crate) fn next_is_the_first_not_handed_out<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(1, id(FIRST));
    assert_eq!(array.next_xid(), id(FIRST));
    let mut session = array.register().unwrap();
    session.snapshot().unwrap();
    assert_eq!(array.next_xid(), id(FIRST), "a snapshot takes no id");
    session.assign_child().unwrap();
    assert_eq!(array.next_xid(), id(FIRST + 2));
    end(&mut session);
    assert_eq!(array.next_xid(), id(FIRST + 2));
}

pub(crate) fn special_ids_are_not_handed_out<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(2, id(EPOCH - 2));
    let mut session = array.register().unwrap();
    let family = assign_family(&mut session, 3, &mut Parents::new());
    let expected = [EPOCH - 2, EPOCH - 1, EPOCH + 3, EPOCH + 4].map(id);
    assert_eq!(family, expected);
    end(&mut session);

    for first in [0, 1, 2, EPOCH, EPOCH + 1, EPOCH + 2] {
        let array = make(1, id(first));
        let normal = id(first - first % EPOCH + 3);
        assert_eq!(array.next_xid(), normal, "from {first} on");
        let mut session = array.register().unwrap();
        assert_eq!(session.assign(), Ok(normal), "from {first} on");
        end(&mut session);
        session.snapshot().unwrap();
        assert_eq!(
            session.taken().xmin(),
            id(normal.get() + 1),
            "nothing special is in the way"
        );
    }
}

/// 0, 1 and 2 ended before the first id; their likes of later epochs never run and hold nothing back.
pub(crate) fn special_ids_have_ended<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(3, id(EPOCH - 5));
    let [mut reader, mut writer] = [(); 2].map(|()| array.register().unwrap());
    let oldest = writer.assign().unwrap();
    while pass(&array) < id(EPOCH + 10) {}
    let next = array.next_xid();
    let snapshot = reader.snapshot().unwrap().clone();
    for special in [0, 1, 2, EPOCH, EPOCH + 1, EPOCH + 2].map(id) {
        assert!(!runs(&snapshot, special, &Parents::new()), "{special}");
        assert!(
            !runs_now(&mut reader, special, &Parents::new()),
            "{special}"
        );
    }
    assert_eq!(array.next_xid(), next);
    assert_eq!(snapshot.xmin(), oldest);
    end(&mut writer);
    reader.release();
    assert_eq!(reader.snapshot().unwrap().xmin(), next);
    assert_eq!(array.horizon(), next);
}

pub(crate) fn a_set_can_span_two_epochs<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(6, id(EPOCH - 5));
    let mut sessions: Vec<_> = (0..4).map(|_| array.register().unwrap()).collect();
    let mut reader = array.register().unwrap();
    let mut parents = Parents::new();
    let families: Vec<_> = sessions
        .iter_mut()
        .map(|session| assign_family(session, 3, &mut parents))
        .collect();
    pass(&array);
    for (ended, session) in sessions.iter_mut().enumerate() {
        end(session);
        let snapshot = reader.snapshot().unwrap().clone();
        for (at, family) in families.iter().enumerate() {
            for &xid in family {
                assert_eq!(runs(&snapshot, xid, &parents), at > ended, "{xid}");
                assert_eq!(runs_now(&mut reader, xid, &parents), at > ended, "{xid}");
            }
        }
        let oldest = families.get(ended + 1).map(|family| family[0]);
        assert_eq!(snapshot.xmin(), oldest.unwrap_or(array.next_xid()));
        reader.release();
        assert_eq!(array.horizon(), snapshot.xmin());
    }
}

pub(crate) fn equal_low_halves_are_different_ids<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(3, id(5 * EPOCH + FIRST));
    let [mut writer, mut reader] = [(); 2].map(|()| array.register().unwrap());
    let xid = writer.assign().unwrap();
    pass(&array);
    for (epoch, expected) in [
        (0, Membership::Completed),
        (4, Membership::Completed),
        (5, Membership::Running),
        (6, Membership::Running),
    ] {
        let like = id(xid.get() % EPOCH + epoch * EPOCH);
        assert_eq!(reader.is_running(like), Ok(expected), "{like}");
        assert_eq!(
            reader.snapshot().unwrap().membership(like),
            expected,
            "{like}"
        );
    }
}

pub(crate) fn at_the_stop_no_id_is_handed_out<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let array = make(2, id(FIRST));
    array.set_stop(id(FIRST + 2));
    let [mut one, mut other] = [(); 2].map(|()| array.register().unwrap());
    one.assign().unwrap();
    one.assign_child().unwrap();
    let stopped = AssignError::Stopped {
        next: id(FIRST + 2),
        stop: id(FIRST + 2),
    };
    assert_eq!(one.assign(), Ok(id(FIRST)), "the id it has is no new one");
    assert_eq!(one.assign_child(), Err(stopped));
    assert_eq!(other.assign(), Err(stopped));
    assert_eq!((other.xid(), array.next_xid()), (None, id(FIRST + 2)));
    assert!(other.snapshot().is_ok(), "reading goes on");
    end(&mut one);
    array.set_stop(id(FIRST + 3));
    assert_eq!(other.assign(), Ok(id(FIRST + 2)));
    assert!(one.assign().is_err());
}

pub(crate) fn few_ids_slip_past_the_stop<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    const SESSIONS: usize = 4;
    let array = make(SESSIONS, id(FIRST));
    let stop = FIRST + 1000;
    array.set_stop(id(stop));
    thread::scope(|scope| {
        for _ in 0..SESSIONS {
            scope.spawn(|| {
                let mut session = array.register().unwrap();
                while session.assign().is_ok() {
                    end(&mut session);
                }
            });
        }
    });
    let next = array.next_xid().get();
    assert!((stop..stop + SESSIONS as u64).contains(&next), "{next}");
}
