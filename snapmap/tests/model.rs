//! Long random histories, step by step against an interpreter that keeps every row for ever.
//!
//! One thread, so a failing history comes again with the printed `TXNKIT_SEED`.

use snapmap::{AgeMap, Mapped, SnapMap, Stamp, Xid};

use txnkit_sync::Random;

const HISTORIES: usize = 200;
const STEPS: usize = 500;

/// Something of everything: small steps, gaps, jumps, ids beyond 2^31 and 2^32.
fn step(random: &mut Random, unit: u64) -> u64 {
    match random.below(40) {
        0 => random.below(200 * unit),
        1..5 => random.below(10 * unit),
        5..10 => 0,
        _ => random.below(unit + 1),
    }
}

fn ids(random: &mut Random) -> u64 {
    match random.below(60) {
        0 => 1 << 31,
        1 => 1 << 32,
        2..20 => 0,
        _ => random.below(50),
    }
}

/// Every row there ever was, and what follows from them.
struct Oracle {
    threshold: u64,
    bucket: u64,
    rows: Vec<Mapped>,
    /// The furthest limit that was ever possible, and that was ever returned beyond a horizon.
    usable: u64,
    refused_before: u64,
    /// By how much a clock was behind at the most when a row was made: a snapshot may be refused so much earlier.
    behind: u64,
}

impl Oracle {
    fn end_of(&self, now: u64) -> u64 {
        now - now % self.bucket + self.bucket
    }

    fn due(&self) -> u64 {
        self.rows.last().map_or(0, |row| row.bucket.get())
    }

    fn advance(&mut self, seen: u64, now: u64, next_xmin: u64) {
        let bucket = Stamp::new(self.end_of(seen));
        if bucket.get() > self.due() {
            self.behind = self.behind.max(now - seen);
            let next_xmin = Xid::new(next_xmin);
            self.rows.push(Mapped { bucket, next_xmin });
        }
    }

    fn limit(&mut self, now: u64, horizon: u64, places: usize) -> u64 {
        let old_enough = |row: &&Mapped| row.bucket.get() + self.threshold <= now;
        // Only whose clock is behind that of others finds that rows have been dropped which it could use.
        let dropped = if now + self.bucket < self.due() {
            self.rows.len().saturating_sub(places)
        } else {
            0
        };
        let row = self.rows[dropped..].iter().rfind(old_enough);
        self.usable = self.usable.max(row.map_or(0, |row| row.next_xmin.get()));
        if self.usable > horizon {
            self.refused_before = self.refused_before.max(self.usable);
        }
        self.usable.max(horizon)
    }
}

fn history<const N: usize>(random: &mut Random) {
    let threshold = [0, 1, 7, 60, 61, 600][random.below(6) as usize];
    let map = SnapMap::<N>::with_places(threshold, random.below(20));
    let bucket = map.bucket().unwrap();
    assert!(threshold <= bucket * (N as u64 - 2));
    let mut oracle = Oracle {
        threshold,
        bucket,
        rows: Vec::new(),
        usable: 0,
        refused_before: 0,
        behind: 0,
    };
    let (mut now, mut xmin) = (random.below(1000), 3);
    let mut held: Vec<(u64, Stamp, u64)> = Vec::new();
    for _ in 0..STEPS {
        now += step(random, bucket);
        xmin += ids(random);
        // Now and then somebody's clock is behind.
        let seen = if random.below(10) == 0 {
            now - random.below(now.min(5 * bucket) + 1)
        } else {
            now
        };
        match random.below(4) {
            0 | 1 => {
                map.advance(seen, || Xid::new(xmin));
                oracle.advance(seen, now, xmin);
            }
            2 => {
                let horizon = xmin - random.below(xmin.min(2000));
                let limit = map.limit(seen, Xid::new(horizon));
                assert_eq!(
                    limit.get(),
                    oracle.limit(seen, horizon, N),
                    "limit({seen}, {horizon})"
                );
            }
            _ => held.push((now, map.stamp(), xmin)),
        }
        assert_eq!(map.stamp().get(), oracle.due());
        assert_eq!(map.refused_before().get(), oracle.refused_before);
        let newest = oracle.rows.len().saturating_sub(N);
        assert!(map.mapping().eq(oracle.rows[newest..].iter().copied()));
        check(&map, &oracle, &mut held, now, random);
    }
}

/// A snapshot held: what the map and what its own time say of it.
fn check<const N: usize>(
    map: &SnapMap<N>,
    oracle: &Oracle,
    held: &mut Vec<(u64, Stamp, u64)>,
    now: u64,
    random: &mut Random,
) {
    if held.is_empty() {
        return;
    }
    let at = random.below(held.len() as u64) as usize;
    let (taken, stamp, xmin) = held[at];
    for row in oracle.rows.iter().filter(|row| row.bucket <= stamp) {
        assert!(row.next_xmin.get() <= xmin, "{row:?}, {stamp}, {xmin}");
    }
    let checked = map.check(Xid::new(xmin), stamp);
    assert_eq!(checked.is_err(), xmin < oracle.refused_before);
    if let Err(error) = checked {
        assert!(
            now - taken + oracle.behind > oracle.threshold,
            "{error}, though only {} old",
            now - taken
        );
        held.swap_remove(at);
    }
}

#[test]
fn the_map_answers_as_if_it_kept_every_row() {
    let mut random = Random::seeded();
    for _ in 0..HISTORIES {
        history::<3>(&mut random);
        history::<4>(&mut random);
        history::<11>(&mut random);
        history::<128>(&mut random);
    }
}

#[cfg(feature = "baselines")]
mod baselines {
    use snapmap::baseline::{LockEveryMinute, LockEverySnapshot};

    use super::*;

    /// Every snapshot is held for ever and asked for at every limit: it is refused if rows it needs may have gone, and only if it is old.
    fn history(map: &impl AgeMap, threshold: u64, minute: u64, random: &mut Random) {
        let (mut now, mut xmin) = (random.below(1000), 3);
        let mut snapshots: Vec<(u64, Stamp, u64)> = Vec::new();
        let (mut gone, mut behind) = (0, 0);
        for _ in 0..STEPS {
            now += step(random, minute);
            xmin += ids(random);
            let seen = if random.below(10) == 0 {
                now - random.below(now.min(5 * minute) + 1)
            } else {
                now
            };
            if random.below(3) > 0 {
                map.advance(seen, || Xid::new(xmin));
                let stamp = map.stamp();
                map.taken(|| seen, Xid::new(xmin));
                behind = behind.max(now - seen);
                snapshots.push((now, stamp, xmin));
                continue;
            }
            let horizon = xmin - random.below(xmin.min(2000));
            let limit = map.limit(seen, Xid::new(horizon)).get();
            assert!(limit >= horizon && limit <= xmin);
            if limit > horizon {
                gone = gone.max(limit);
            }
            for &(taken, stamp, xmin) in &snapshots {
                let refused = map.check(Xid::new(xmin), stamp).is_err();
                assert_eq!(refused, xmin < gone);
                assert!(
                    !refused || now - taken + behind > threshold,
                    "{} old",
                    now - taken
                );
            }
        }
    }

    #[test]
    fn baselines_keep_what_a_map_promises() {
        let mut random = Random::seeded();
        for _ in 0..HISTORIES {
            let (threshold, minute) = (random.below(100), 1 + random.below(20));
            history(
                &LockEverySnapshot::new(threshold, minute),
                threshold,
                minute,
                &mut random,
            );
            history(
                &LockEveryMinute::new(threshold, minute),
                threshold,
                minute,
                &mut random,
            );
        }
    }

    fn minutes(map: &[Mapped]) -> Vec<(u64, u64)> {
        map.iter()
            .map(|row| (row.bucket.get(), row.next_xmin.get()))
            .collect()
    }

    fn note(map: &impl AgeMap, minute: u64, xmin: u64) {
        map.taken(|| minute, Xid::new(xmin));
    }

    #[test]
    fn the_first_snapshot_of_a_minute_makes_its_row_the_later_ones_may_raise_it() {
        let (every_minute, every_snapshot) =
            (LockEveryMinute::new(10, 1), LockEverySnapshot::new(10, 1));
        for (minute, xmin) in [(0, 100), (1, 101), (1, 105), (2, 110)] {
            note(&every_minute, minute, xmin);
            note(&every_snapshot, minute, xmin);
        }
        assert_eq!(
            minutes(&every_minute.mapping()),
            [(0, 100), (1, 101), (2, 110)]
        );
        assert_eq!(
            minutes(&every_snapshot.mapping()),
            [(0, 100), (1, 105), (2, 110)]
        );
    }
}
