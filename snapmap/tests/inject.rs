//! What a thread that stands still in the worst place costs the others: nothing.
//!
//! `RUSTFLAGS='--cfg txnkit_inject' cargo test -p snapmap --test inject`
#![cfg(txnkit_inject)]

use std::thread;

use snapmap::{AgeMap, SnapMap, Xid};
use txnkit_sync::inject::Gate;

/// A thread stands still while it moves the map on, with the ring's lock: snapshots are taken, checked and pruned for as before, the map stays
/// where it is, and goes on with the next call afterwards.
#[test]
fn who_stands_still_with_the_rows_stops_nobody() {
    let map = &SnapMap::new(10, 1);
    for now in 0..20 {
        map.advance(now, || Xid::new(100 + now));
    }
    assert_eq!(map.limit(20, Xid::new(3)), Xid::new(109));
    let gate = Gate::at("snapmap.map.moving");
    thread::scope(|scope| {
        scope.spawn(|| map.advance(20, || Xid::new(120)));
        gate.wait_until_reached();
        assert_eq!(map.stamp().get(), 20);
        map.advance(20, || Xid::new(121));
        map.advance(40, || Xid::new(140));
        assert_eq!(map.stamp().get(), 20);
        // More would be allowed, if somebody could look.
        assert_eq!(map.limit(40, Xid::new(3)), Xid::new(109));
        assert_eq!(map.limit(40, Xid::new(115)), Xid::new(115));
        assert!(map.check(Xid::new(108), map.stamp()).is_err());
        assert_eq!(map.check(Xid::new(109), map.stamp()), Ok(()));
        gate.open();
    });
    assert_eq!(map.stamp().get(), 21);
    map.advance(40, || Xid::new(141));
    assert_eq!(map.limit(40, Xid::new(3)), Xid::new(120));
}
