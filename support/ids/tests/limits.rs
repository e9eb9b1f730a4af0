//! Limits, measured on PostgreSQL 15: the last id given, the first refused, the warnings between.

use txnkit_ids::{IdError, IdLimits, LimitDistances, MultiXactId, Room, Xid, Xid32};

#[test]
fn transaction_ids_stop_three_million_before_the_wrap_point() {
    let limits = IdLimits::from_oldest(Xid::new(744), LimitDistances::POSTGRES_14).unwrap();
    assert_eq!(limits.wrap, Xid::new(744 + 0x7FFF_FFFF));
    assert!(limits.check(Xid::new(2_144_484_390)).is_ok());
    let refused = limits.check(Xid::new(2_144_484_391)).unwrap_err();
    assert_eq!((refused.next, refused.stop), (2_144_484_391, 2_144_484_391));
    assert_eq!(refused.wrap, limits.wrap.get());
}

#[test]
fn member_sets_stop_three_million_before_the_wrap_point() {
    let limits =
        IdLimits::from_oldest_multixact(MultiXactId::FIRST, LimitDistances::POSTGRES_14).unwrap();
    assert!(limits.check(MultiXactId::new(2_144_483_647)).is_ok());
    assert!(limits.check(MultiXactId::new(2_144_483_648)).is_err());
}

#[test]
fn warnings_begin_forty_million_before_the_wrap_point_and_count_down_to_it() {
    let limits = IdLimits::from_oldest(Xid::new(744), LimitDistances::POSTGRES_14).unwrap();
    let warn = limits.wrap.get() - 40_000_000;
    assert_eq!(limits.check(Xid::new(warn - 1)), Ok(Room::Enough));
    assert_eq!(
        limits.check(Xid::new(warn)),
        Ok(Room::Low {
            remaining: 40_000_000
        })
    );
    assert_eq!(
        limits.check(Xid::new(warn + 5)),
        Ok(Room::Low {
            remaining: 39_999_995
        })
    );
}

#[test]
fn versions_differ_in_their_distances() {
    let oldest = Xid::from_epoch(6, Xid32::new(1_000));
    let distance = |d| {
        let l = IdLimits::from_oldest(oldest, d).unwrap();
        (l.wrap.get() - l.warn.get(), l.wrap.get() - l.stop.get())
    };
    assert_eq!(
        distance(LimitDistances::POSTGRES_13),
        (11_000_000, 1_000_000)
    );
    assert_eq!(
        distance(LimitDistances::POSTGRES_14),
        (40_000_000, 3_000_000)
    );
    assert_eq!(
        distance(LimitDistances::POSTGRES_19),
        (100_000_000, 3_000_000)
    );
}

#[test]
fn limits_step_over_special_ids() {
    // The wrap point would be 1:0, 1:1 and 1:2.
    for low in 0..3_u32 {
        let oldest = Xid::new((1 << 32) + u64::from(low) - 0x7FFF_FFFF);
        let limits = IdLimits::from_oldest(oldest, LimitDistances::POSTGRES_14).unwrap();
        assert_eq!(limits.wrap, Xid::from_epoch(1, Xid32::new(low + 3)));
    }
    // The stop limit would be 1:1.
    let oldest = Xid::new((1 << 32) + 1 + 3_000_000 - 0x7FFF_FFFF);
    let limits = IdLimits::from_oldest(oldest, LimitDistances::POSTGRES_14).unwrap();
    assert_eq!(limits.stop, Xid::from_epoch(0, Xid32::new(u32::MAX - 1)));
    let oldest = MultiXactId::new((1 << 32) - 0x7FFF_FFFF);
    let limits = IdLimits::from_oldest_multixact(oldest, LimitDistances::POSTGRES_14).unwrap();
    assert_eq!(limits.wrap, MultiXactId::new((1 << 32) + 1));
}

#[test]
fn limits_beyond_the_last_id_are_an_error() {
    assert_eq!(
        IdLimits::from_oldest(Xid::MAX, LimitDistances::POSTGRES_14),
        Err(IdError::Exhausted {
            reference: u64::MAX
        })
    );
}
