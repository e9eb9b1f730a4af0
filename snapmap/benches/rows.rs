//! What each operation costs: one function a row, each running `calls` calls and returning the time they took.

use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use snapmap::{AgeMap, SnapMap, Xid};

/// One row: what is measured, and how.
pub(crate) struct Row {
    /// `operation/variation`.
    pub(crate) name: &'static str,
    /// Runs so many calls and returns the time they took.
    pub(crate) run: fn(calls: u64) -> Duration,
}

/// Every row of this crate.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "note/on",
        run: note,
    },
    Row {
        name: "limit",
        run: limit,
    },
    Row {
        name: "limit/beyond",
        run: limit_beyond,
    },
    Row {
        name: "check",
        run: check,
    },
    Row {
        name: "advance/same",
        run: advance,
    },
];

/// A map of an hour that was advanced once a minute for three hours, in seconds.
fn map() -> SnapMap {
    let map = SnapMap::new(3600, 60);
    for minute in 0..180 {
        map.advance(minute * 60, || Xid::new(1000 + minute));
    }
    map
}

/// The first second after those three hours.
const NOW: u64 = 180 * 60 - 1;

fn time(calls: u64, mut call: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    start.elapsed()
}

/// What taking a snapshot pays: the stamp, over that of a map that is off.
fn note(calls: u64) -> Duration {
    let (on, off) = (map(), SnapMap::off());
    let stamp = |map: &SnapMap| {
        time(calls, || {
            black_box(black_box(map).stamp());
        })
    };
    let with = stamp(&on);
    let without = stamp(&off);
    // A measurement of nothing at all is none.
    with.saturating_sub(without).max(Duration::from_nanos(1))
}

/// The limit where the horizon is further on than what the threshold allows.
fn limit(calls: u64) -> Duration {
    let map = map();
    let horizon = Xid::new(5000);
    time(calls, || {
        black_box(map.limit(black_box(NOW), horizon));
    })
}

/// The limit where it is beyond the horizon.
fn limit_beyond(calls: u64) -> Duration {
    let map = map();
    let horizon = Xid::new(5);
    time(calls, || {
        black_box(map.limit(black_box(NOW), horizon));
    })
}

/// A check that lets the snapshot pass.
fn check(calls: u64) -> Duration {
    let map = map();
    let (xmin, stamp) = (Xid::new(5000), map.stamp());
    time(calls, || {
        black_box(map.check(black_box(xmin), stamp).is_ok());
    })
}

/// A call in a bucket that has its row.
fn advance(calls: u64) -> Duration {
    let map = map();
    time(calls, || {
        black_box(&map).advance(black_box(NOW), || Xid::new(9000));
    })
}
