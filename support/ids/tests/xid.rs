//! Transaction ids: PostgreSQL's constants and order, and widening.

use static_assertions::{assert_eq_align, assert_eq_size, assert_impl_all, assert_not_impl_any};
use txnkit_ids::{IdError, MultiXactId, MultiXactOffset, Xid, Xid32, XidRun};

assert_eq_size!(Xid, u64);
assert_eq_align!(Xid, u64);
assert_eq_size!(Xid32, u32);
assert_eq_size!(Option<XidRun>, [u64; 3]);
assert_eq_size!(MultiXactId, u64);
assert_eq_size!(MultiXactOffset, u64);
assert_impl_all!(Xid: Copy, Ord, core::hash::Hash, Send, Sync, Unpin);
assert_impl_all!(XidRun: Copy, Eq, Send, Sync);
// A circular order cannot sort, and no id is a good default.
assert_not_impl_any!(Xid32: PartialOrd);
assert_not_impl_any!(Xid: Default);

fn at(epoch: u32, low: u32) -> Xid {
    Xid::from_epoch(epoch, Xid32::new(low))
}

#[test]
fn special_ids_are_0_1_and_2_of_every_epoch() {
    for epoch in [0, 1, 7, u32::MAX] {
        for low in 0..3 {
            assert!(at(epoch, low).is_special());
        }
        assert!(!at(epoch, 3).is_special());
        assert!(!at(epoch, u32::MAX).is_special());
    }
}

#[test]
fn next_and_previous_step_over_special_ids() {
    assert_eq!(at(0, u32::MAX).next(), Some(at(1, 3)));
    assert_eq!(at(1, 3).previous(), Some(at(0, u32::MAX)));
    for low in 0..3 {
        assert_eq!(at(1, low).next(), Some(at(1, 3)), "from low half {low}");
        assert_eq!(
            at(1, low).previous(),
            Some(at(0, u32::MAX)),
            "from low half {low}"
        );
    }
    assert_eq!(at(4, 10).next(), Some(at(4, 11)));
    assert_eq!(at(4, 10).previous(), Some(at(4, 9)));
    assert_eq!(Xid::MAX.next(), None);
    assert_eq!(Xid::FIRST_NORMAL.previous(), None);
    assert_eq!(Xid32::new(u32::MAX).next(), Xid32::new(3));
    assert_eq!(Xid32::new(3).previous(), Xid32::new(u32::MAX));
}

#[test]
fn low_halves_compare_round_the_circle_and_special_ones_precede_all() {
    let x = Xid32::new;
    assert!(x(5).precedes(x(6)) && x(6).follows(x(5)));
    assert!(x(4_294_967_290).precedes(x(5)) && x(5).follows(x(4_294_967_290)));
    assert!(x(3).precedes(x(3 + 0x7FFF_FFFF)));
    assert!(!x(3).precedes(x(3 + 0x8000_0001)));
    // At exactly half the circle each is before the other, and none after.
    assert!(x(3).precedes(x(3 + 0x8000_0000)) && x(3 + 0x8000_0000).precedes(x(3)));
    assert!(!x(3).follows(x(3 + 0x8000_0000)));
    for special in 0..3 {
        assert!(x(special).precedes(x(3)) && x(special).precedes(x(u32::MAX)));
    }
    assert!(!x(7).precedes(x(7)) && !x(7).follows(x(7)));
}

#[test]
fn widening_near_gives_the_nearest_id() {
    let near = |low, reference| Xid32::new(low).widen_near(reference);
    assert_eq!(near(100, at(5, 50)), Ok(at(5, 100)));
    assert_eq!(near(u32::MAX, at(5, 50)), Ok(at(4, u32::MAX)));
    assert_eq!(near(50, at(5, u32::MAX)), Ok(at(6, 50)));
    assert_eq!(near(2, at(9, 77)), Ok(Xid::FROZEN));
    assert_eq!(
        near(u32::MAX, at(0, 50)),
        Err(IdError::BeforeFirst {
            low: u32::MAX,
            reference: 50
        })
    );
    assert_eq!(
        near(50, Xid::MAX),
        Err(IdError::Exhausted {
            reference: u64::MAX
        })
    );
}

#[test]
fn widening_at_most_never_gives_a_younger_id() {
    let at_most = |low, newest| Xid32::new(low).widen_at_most(newest);
    assert_eq!(at_most(50, at(5, 50)), Ok(at(5, 50)));
    assert_eq!(at_most(51, at(5, 50)), Ok(at(4, 51)));
    // Further than half the circle, where the nearest would be wrong.
    assert_eq!(at_most(10, at(5, u32::MAX)), Ok(at(5, 10)));
    assert_eq!(at_most(1, at(5, 50)), Ok(Xid::BOOTSTRAP));
    assert_eq!(
        at_most(51, at(0, 50)),
        Err(IdError::BeforeFirst {
            low: 51,
            reference: 50
        })
    );
}

#[test]
fn an_id_seen_moves_the_next_one_only_forward_and_a_special_one_never() {
    let next = at(0, 2_147_484_700);
    for unmoved in [0, 1, 2, 2_147_484_699] {
        assert_eq!(
            next.advanced_past(Xid32::new(unmoved)),
            Ok(next),
            "saw {unmoved}"
        );
    }
    assert_eq!(
        next.advanced_past(Xid32::new(2_147_484_700)),
        Ok(at(0, 2_147_484_701))
    );
    assert_eq!(
        next.advanced_past(Xid32::new(2_147_485_000)),
        Ok(at(0, 2_147_485_001))
    );
    assert_eq!(
        at(0, 4_294_967_290).advanced_past(Xid32::new(5)),
        Ok(at(1, 6))
    );
    assert_eq!(
        at(0, 4_294_967_290).advanced_past(Xid32::new(u32::MAX)),
        Ok(at(1, 3))
    );
    assert_eq!(
        Xid::MAX.advanced_past(Xid32::new(u32::MAX)),
        Err(IdError::Exhausted {
            reference: u64::MAX
        })
    );
}

#[test]
fn rounding_up_to_an_interval_never_lands_on_a_special_id() {
    assert_eq!(at(0, 4_294_967_100).round_up(1024), Ok(at(1, 3)));
    assert_eq!(Xid::new(5).round_up(1024), Ok(Xid::new(1024)));
    assert_eq!(Xid::new(1024).round_up(1024), Ok(Xid::new(1024)));
    assert_eq!(Xid::new(0).round_up(1024), Ok(Xid::FIRST_NORMAL));
    assert_eq!(Xid::new(77).round_up(0), Ok(Xid::new(77)));
    assert_eq!(
        Xid::MAX.round_up(1024),
        Err(IdError::Exhausted {
            reference: u64::MAX
        })
    );
}

#[test]
fn distances_and_sums_are_checked() {
    assert_eq!(Xid::new(10).distance_from(Xid::new(4)), Some(6));
    assert_eq!(Xid::new(4).distance_from(Xid::new(10)), None);
    assert_eq!(Xid::MAX.checked_add(1), None);
    assert_eq!(Xid::new(1).checked_sub(2), None);
    assert_eq!(u64::from(at(1, 7)), (1 << 32) + 7);
    assert_eq!(at(3, 9).epoch(), 3);
}
