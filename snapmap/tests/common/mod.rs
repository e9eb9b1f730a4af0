//! What every map does, the front and the baselines alike: each function is one behaviour, tested of whatever type of map it is given.
//! `suite!` turns them into tests.

use snapmap::{AgeMap, SnapMap, SnapshotTooOld, Stamp, Xid};

pub(crate) mod ages;
pub(crate) mod limits;
pub(crate) mod threads;

/// A type of map that can be made.
pub(crate) trait Make: AgeMap + Send + Sized {
    /// A map with this threshold and these buckets.
    fn on(threshold: u64, bucket: u64) -> Self;
}

impl Make for SnapMap {
    fn on(threshold: u64, bucket: u64) -> Self {
        Self::new(threshold, bucket)
    }
}

/// Just the rows that [`THRESHOLD`] needs: the oldest is dropped all the time.
impl Make for SnapMap<8> {
    fn on(threshold: u64, bucket: u64) -> Self {
        Self::with_places(threshold, bucket)
    }
}

#[cfg(feature = "baselines")]
mod baselines {
    use snapmap::baseline::{LockEveryMinute, LockEverySnapshot};

    macro_rules! make {
        ($($map:ty)*) => {
            $(impl super::Make for $map {
                fn on(threshold: u64, bucket: u64) -> Self {
                    Self::new(threshold, bucket)
                }
            })*
        };
    }

    make!(LockEverySnapshot LockEveryMinute);
}

/// The threshold of most tests, and the bucket.
pub(crate) const THRESHOLD: u64 = 60;
pub(crate) const BUCKET: u64 = 10;
/// After so long a snapshot no longer keeps what it alone holds back.
pub(crate) const LATEST: u64 = THRESHOLD + 2 * BUCKET;

/// The id with this number.
pub(crate) fn id(number: u64) -> Xid {
    Xid::new(number)
}

/// A snapshot, as far as a map knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snapshot {
    pub(crate) taken: u64,
    pub(crate) stamp: Stamp,
    pub(crate) xmin: Xid,
}

/// Takes a snapshot whose xmin is `xmin` at `now`, as a session does, the map moved on first.
pub(crate) fn take(map: &impl AgeMap, now: u64, xmin: u64) -> Snapshot {
    map.advance(now, || id(xmin));
    let stamp = map.stamp();
    map.taken(|| now, id(xmin));
    Snapshot {
        taken: now,
        stamp,
        xmin: id(xmin),
    }
}

impl Snapshot {
    pub(crate) fn check(&self, map: &impl AgeMap) -> Result<(), SnapshotTooOld> {
        map.check(self.xmin, self.stamp)
    }
}

/// One module of tests for one type of map.
macro_rules! suite {
    ($name:ident, $map:ty) => {
        mod $name {
            use super::*;
            suite! { @each $map;
                ages::a_snapshot_as_old_as_the_threshold_is_not_refused
                ages::an_older_snapshot_is_refused_once_pruning_went_beyond_it
                ages::without_pruning_no_snapshot_is_refused
                ages::a_snapshot_that_needs_nothing_of_what_went_is_not_refused
                ages::the_error_says_what_was_found
                ages::a_clock_of_transactions_will_do
                ages::after_a_long_stretch_without_snapshots_the_young_pass
                ages::a_threshold_of_zero_refuses_after_two_buckets
                limits::an_empty_map_allows_the_horizon
                limits::it_is_never_before_the_horizon
                limits::a_snapshot_held_for_ever_does_not_stop_it
                limits::a_running_id_does_stop_it
                limits::it_never_falls
                limits::a_clock_that_goes_back_changes_nothing
                limits::it_works_across_jumps_of_ids
                limits::extreme_settings_and_instants_are_harmless
                threads::no_removed_row_is_used
                threads::what_is_refused_never_falls
            }
        }
    };
    (@each $map:ty; $($module:ident::$behaviour:ident)*) => {
        $(#[test]
        fn $behaviour() {
            common::$module::$behaviour::<$map>();
        })*
    };
}
