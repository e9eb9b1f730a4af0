//! Which snapshots are refused.

use core::cell::Cell;

use snapmap::{AgeMap, SnapshotTooOld};

use super::{BUCKET, LATEST, Make, Snapshot, THRESHOLD, id, take};

/// Takes snapshots from `from` to `to`, one a bucket, each with a younger xmin; returns the first one and the last.
fn run<M: Make>(map: &M, from: u64, to: u64, xmin: u64) -> (Snapshot, Snapshot) {
    let first = take(map, from, xmin);
    let later = (from + BUCKET..=to).step_by(BUCKET as usize);
    let last = later
        .zip(xmin + 1..)
        .map(|(now, xmin)| take(map, now, xmin));
    (first, last.last().unwrap_or(first))
}

/// Of a map that is off.
pub(crate) fn nothing_is_refused_and_nobody_asked(map: &impl AgeMap) {
    let asked = Cell::new(false);
    for now in [0, 5, 1000, u64::MAX] {
        map.advance(now, || {
            asked.set(true);
            id(now)
        });
        map.taken(
            || {
                asked.set(true);
                now
            },
            id(now),
        );
        assert_eq!(map.limit(now, id(7)), id(7));
    }
    assert!(!asked.get());
    assert_eq!(map.check(id(3), map.stamp()), Ok(()));
}

pub(crate) fn a_snapshot_as_old_as_the_threshold_is_not_refused<M: Make>() {
    // At every place of a bucket.
    for start in 1000..1000 + BUCKET {
        let map = M::on(THRESHOLD, BUCKET);
        let mut snapshots: Vec<Snapshot> = Vec::new();
        for now in start..start + 3 * LATEST {
            // A snapshot every unit, with a younger xmin each time.
            snapshots.push(take(&map, now, now));
            map.limit(now, id(3));
            for snapshot in &snapshots {
                if now - snapshot.taken <= THRESHOLD {
                    assert_eq!(snapshot.check(&map), Ok(()), "{snapshot:?} at {now}");
                }
            }
        }
    }
}

pub(crate) fn an_older_snapshot_is_refused_once_pruning_went_beyond_it<M: Make>() {
    for start in 1000..1000 + BUCKET {
        let map = M::on(THRESHOLD, BUCKET);
        let (old, _) = run(&map, start, start + LATEST + BUCKET, 500);
        assert_eq!(old.check(&map), Ok(()));
        let limit = map.limit(start + LATEST + BUCKET, old.xmin);
        assert!(limit > old.xmin, "{limit} from {start}");
        let refused = old.check(&map).unwrap_err();
        assert!(refused.refused_before >= limit);
    }
}

pub(crate) fn without_pruning_no_snapshot_is_refused<M: Make>() {
    let map = M::on(THRESHOLD, BUCKET);
    let (old, last) = run(&map, 0, 5 * LATEST, 500);
    assert_eq!(old.check(&map), Ok(()));
    // Pruning within the horizon takes nothing from anybody.
    assert_eq!(map.limit(5 * LATEST, last.xmin), last.xmin);
    assert_eq!(old.check(&map), Ok(()));
}

pub(crate) fn a_snapshot_that_needs_nothing_of_what_went_is_not_refused<M: Make>() {
    let map = M::on(THRESHOLD, BUCKET);
    // Nothing ends for a long time: the oldest snapshot is as good as the newest.
    let old = take(&map, 0, 500);
    for now in (BUCKET..=5 * LATEST).step_by(BUCKET as usize) {
        take(&map, now, 500);
    }
    assert_eq!(map.limit(5 * LATEST, id(400)), id(500));
    assert_eq!(old.check(&map), Ok(()));
    assert!(map.check(id(499), old.stamp).is_err());
}

pub(crate) fn the_error_says_what_was_found<M: Make>() {
    let map = M::on(THRESHOLD, BUCKET);
    let (old, _) = run(&map, 0, 2 * LATEST, 500);
    let limit = map.limit(2 * LATEST, old.xmin);
    let error = old.check(&map).unwrap_err();
    let expected = SnapshotTooOld {
        xmin: old.xmin,
        taken_at: old.stamp,
        refused_before: limit,
    };
    assert_eq!(error, expected);
    let text = error.to_string();
    assert!(text.starts_with("snapshot too old"), "{text}");
    assert!(
        text.contains("500") && text.contains(&limit.to_string()),
        "{text}"
    );
}

pub(crate) fn a_clock_of_transactions_will_do<M: Make>() {
    // Snapshots may be 600 ids old, kept in steps of 100: the clock is the next id.
    let map = M::on(600, 100);
    let old = take(&map, 10_000, 10_000);
    for next in (10_010..=10_600).step_by(10) {
        take(&map, next, next);
        map.limit(next, id(9_000));
        assert_eq!(old.check(&map), Ok(()), "at {next}");
    }
    for next in (10_610..=10_900).step_by(10) {
        take(&map, next, next);
    }
    assert!(map.limit(10_900, id(9_000)) > id(10_000));
    assert!(old.check(&map).is_err());
}

pub(crate) fn after_a_long_stretch_without_snapshots_the_young_pass<M: Make>() {
    let map = M::on(THRESHOLD, BUCKET);
    run(&map, 0, 100, 500);
    // Far longer than any ring.
    let start = 1_000_000;
    let (young, last) = run(&map, start, start + THRESHOLD, 900);
    let limit = map.limit(start + THRESHOLD, id(3));
    assert!(
        limit <= young.xmin,
        "{limit}: what the young one needs has gone"
    );
    assert_eq!(young.check(&map), Ok(()));
    assert_eq!(last.check(&map), Ok(()));
    // What was there before the stretch is long old enough.
    assert!(map.limit(start + LATEST + BUCKET, id(3)) > id(510));
}

pub(crate) fn a_threshold_of_zero_refuses_after_two_buckets<M: Make>() {
    let map = M::on(0, BUCKET);
    let (old, _) = run(&map, 100, 100 + 3 * BUCKET, 500);
    assert!(map.limit(100 + 3 * BUCKET, id(3)) > id(500));
    assert!(old.check(&map).is_err());
}
