//! Numbers of member sets and positions in member space round the 32-bit circle.

use txnkit_ids::{IdError, MultiXactId, MultiXactId32, MultiXactOffset, MultiXactOffset32};

#[test]
fn a_replayed_set_moves_the_next_number_only_forward_and_over_zero() {
    let next = MultiXactId::new(4_294_967_290);
    let saw = |next: MultiXactId, low| next.advanced_past(MultiXactId32::new(low)).unwrap();
    assert_eq!(saw(next, 4_294_967_295).low32(), MultiXactId32::new(1));
    assert_eq!(
        saw(saw(next, 4_294_967_295), 4_294_967_200).low32(),
        MultiXactId32::new(1)
    );
    let after_one = saw(next, 1);
    assert_eq!(after_one, MultiXactId::new((1 << 32) + 2));
    assert_eq!(saw(after_one, 2_147_483_700), after_one);
    assert_eq!(saw(next, 0), next);
}

#[test]
fn zero_is_never_a_set() {
    assert_eq!(MultiXactId32::new(u32::MAX).next(), MultiXactId32::new(1));
    assert_eq!(
        MultiXactId::new(u64::from(u32::MAX)).next(),
        Some(MultiXactId::new((1 << 32) + 1))
    );
    assert_eq!(MultiXactId::new(u64::MAX).next(), None);
    assert_eq!(
        MultiXactId32::new(0).widen_near(MultiXactId::new(7 << 32)),
        Ok(MultiXactId::INVALID)
    );
}

#[test]
fn the_order_of_sets_is_circular_without_special_values() {
    assert!(MultiXactId32::new(u32::MAX).precedes(MultiXactId32::new(0)));
    assert!(MultiXactId32::new(0).precedes(MultiXactId32::new(1)));
    assert!(!MultiXactId32::new(2_147_483_700).precedes(MultiXactId32::new(2_147_483_699)));
}

#[test]
fn member_space_goes_round_inside_a_set_on_disk_and_straight_on_in_64_bits() {
    let end = MultiXactOffset::new(4_294_967_290).checked_add(10).unwrap();
    assert_eq!(end.low32(), MultiXactOffset32::new(4));
    assert_eq!(
        MultiXactOffset32::new(4_294_967_295).wrapping_add(3),
        MultiXactOffset32::new(2)
    );
    assert_eq!(
        MultiXactOffset32::new(4).widen_near(MultiXactOffset::new(4_294_967_290)),
        Ok(end)
    );
    assert!(MultiXactOffset32::new(4_294_967_290).precedes(MultiXactOffset32::new(4)));
    assert_eq!(
        MultiXactOffset32::new(u32::MAX).widen_near(MultiXactOffset::FIRST),
        Err(IdError::BeforeFirst {
            low: u32::MAX,
            reference: 1
        })
    );
}
