//! Runs of consecutive ids.

use txnkit_ids::{RunError, Xid, XidRun};

#[test]
fn a_run_holds_its_ids_and_no_other() {
    let run = XidRun::new(Xid::new(100), 3).unwrap();
    assert_eq!(
        (run.first(), run.last(), run.len()),
        (Xid::new(100), Xid::new(102), 3)
    );
    let held: Vec<u64> = (90..110).filter(|&n| run.contains(Xid::new(n))).collect();
    assert_eq!(held, [100, 101, 102]);
    assert_eq!(
        run.iter().map(Xid::get).collect::<Vec<_>>(),
        [100, 101, 102]
    );
    assert_eq!(run.iter().len(), 3);
}

#[test]
fn a_run_without_ids_or_with_a_special_one_is_refused() {
    let last_of_epoch = u64::from(u32::MAX);
    assert_eq!(XidRun::new(Xid::new(100), 0), Err(RunError::Empty));
    assert_eq!(
        XidRun::single(Xid::new(2)),
        Err(RunError::Special { first: 2, len: 1 })
    );
    assert_eq!(
        XidRun::single(Xid::new(1 << 32)),
        Err(RunError::Special {
            first: 1 << 32,
            len: 1
        })
    );
    assert!(XidRun::new(Xid::new(last_of_epoch - 1), 2).is_ok());
    assert_eq!(
        XidRun::new(Xid::new(last_of_epoch - 1), 3),
        Err(RunError::Special {
            first: last_of_epoch - 1,
            len: 3
        })
    );
    // The greatest run there can be, and the end of all ids.
    assert!(XidRun::new(Xid::new(3), u32::MAX - 2).is_ok());
    assert!(XidRun::new(Xid::new(3), u32::MAX - 1).is_err());
    let end = XidRun::single(Xid::MAX).unwrap();
    assert_eq!(end.iter().collect::<Vec<_>>(), [Xid::MAX]);
}

#[test]
fn a_run_takes_in_only_the_id_right_after_its_last() {
    let mut run = XidRun::single(Xid::new(100)).unwrap();
    assert!(run.extend_with(Xid::new(101)));
    for other in [99, 100, 101, 103] {
        assert!(!run.extend_with(Xid::new(other)), "took {other}");
    }
    assert_eq!(run.len(), 2);
    let mut at_end = XidRun::single(Xid::new(u64::from(u32::MAX))).unwrap();
    assert!(!at_end.extend_with(Xid::new(1 << 32)));
    assert!(!at_end.extend_with(Xid::new((1 << 32) + 3)));
}

#[test]
fn a_run_divides_at_an_id() {
    let run = XidRun::new(Xid::new(100), 3).unwrap();
    for at in 90..110 {
        let at = Xid::new(at);
        let ids = |part: Option<XidRun>| part.into_iter().flatten().collect::<Vec<_>>();
        let (older, younger): (Vec<Xid>, Vec<Xid>) = run.iter().partition(|&xid| xid < at);
        assert_eq!((ids(run.before(at)), ids(run.from(at))), (older, younger));
    }
    assert_eq!(run.from(Xid::MAX), None);
    assert_eq!(run.before(Xid::MAX), Some(run));
}
