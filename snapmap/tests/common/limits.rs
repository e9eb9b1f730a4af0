//! How far a pruner may go.

use super::{BUCKET, LATEST, Make, THRESHOLD, id, take};

pub(crate) fn an_empty_map_allows_the_horizon<M: Make>() {
    let map = M::on(THRESHOLD, BUCKET);
    for now in [0, 59, 60, 61, 1_000_000] {
        assert_eq!(map.limit(now, id(77)), id(77));
    }
    assert_eq!(map.check(id(3), map.stamp()), Ok(()));
}

pub(crate) fn it_is_never_before_the_horizon<M: Make>() {
    let map = M::on(THRESHOLD, BUCKET);
    for now in 0..300 {
        take(&map, now, 100 + now);
        for horizon in [3, 90 + now, 100 + now] {
            let limit = map.limit(now, id(horizon));
            assert!(limit >= id(horizon));
            // Nor beyond what runs now.
            assert!(limit <= id(100 + now), "{limit} at {now}");
        }
    }
}

pub(crate) fn a_snapshot_held_for_ever_does_not_stop_it<M: Make>() {
    let map = M::on(THRESHOLD, BUCKET);
    let held = take(&map, 0, 100);
    for now in 1..1000 {
        take(&map, now, 100 + now);
        let limit = map.limit(now, held.xmin);
        if now >= LATEST + BUCKET {
            // Late by two buckets and, its snapshot not being the first of its bucket, one more.
            assert!(limit > id(100 + now - LATEST - BUCKET), "{limit} at {now}");
        }
        if now > THRESHOLD {
            assert!(limit <= id(100 + now - THRESHOLD), "{limit} at {now}");
        }
    }
}

pub(crate) fn a_running_id_does_stop_it<M: Make>() {
    let map = M::on(THRESHOLD, BUCKET);
    // Id 100 runs, so every snapshot has it for its xmin.
    for now in 0..1000 {
        take(&map, now, 100);
        assert!(map.limit(now, id(50)) <= id(100));
    }
}

pub(crate) fn it_never_falls<M: Make>() {
    let map = M::on(THRESHOLD, BUCKET);
    let mut before = id(0);
    for now in 0..2000 {
        // With stretches in which nobody comes.
        if now / 100 % 3 != 1 {
            take(&map, now, 100 + now);
        }
        let limit = map.limit(now, id(3));
        assert!(limit >= before, "{limit} after {before} at {now}");
        before = limit;
    }
    assert!(before > id(1500));
}

pub(crate) fn a_clock_that_goes_back_changes_nothing<M: Make>() {
    let map = M::on(THRESHOLD, BUCKET);
    for now in 0..500 {
        take(&map, now, 100 + now);
    }
    let limit = map.limit(499, id(3));
    let stamp = map.stamp();
    // The clock is set back, while ids go on.
    let young = take(&map, 100, 700);
    assert_eq!(map.stamp(), stamp);
    assert_eq!(young.check(&map), Ok(()));
    assert_eq!(map.limit(100, id(3)), limit);
    assert_eq!(map.limit(499, id(3)), limit);
    // Until it is where it was, the snapshots taken meanwhile count as older; none is refused early.
    for now in 100..500 + THRESHOLD {
        let snapshot = take(&map, now, 700 + now);
        map.limit(now, id(3));
        assert_eq!(snapshot.check(&map), Ok(()));
    }
}

pub(crate) fn it_works_across_jumps_of_ids<M: Make>() {
    for jump in [1 << 31, (1 << 31) + 1, 1 << 32, (1 << 32) + 7, 1 << 40] {
        let map = M::on(THRESHOLD, BUCKET);
        let old = take(&map, 0, 100);
        let mut xmin = 100;
        for step in 1..20 {
            xmin += jump;
            take(&map, step * BUCKET, xmin);
            let now = step * BUCKET;
            let limit = map.limit(now, old.xmin);
            if now > THRESHOLD {
                // What a snapshot had that is just as old as the threshold.
                let newest = 100 + jump * ((now - THRESHOLD) / BUCKET);
                assert!(limit <= id(newest), "{limit} beyond {newest}");
            }
            if now >= LATEST + BUCKET {
                assert!(limit > old.xmin);
                assert!(old.check(&map).is_err());
            }
        }
    }
}

pub(crate) fn extreme_settings_and_instants_are_harmless<M: Make>() {
    for (threshold, bucket) in [
        (0, 0),
        (0, u64::MAX),
        (u64::MAX, 0),
        (u64::MAX, u64::MAX),
        (1, 1),
    ] {
        let map = M::on(threshold, bucket);
        let mut before = id(0);
        for (now, xmin) in [0, 1, 2, 1 << 63, u64::MAX - 1, u64::MAX, u64::MAX]
            .into_iter()
            .zip(100..)
        {
            let snapshot = take(&map, now, xmin);
            let limit = map.limit(now, id(3));
            assert!(before <= limit && limit <= id(xmin));
            assert_eq!(snapshot.check(&map), Ok(()));
            before = limit;
        }
    }
}
