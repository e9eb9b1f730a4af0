//! What holds while others are at work.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::{Make, id};
use txnkit_sync::Random;

/// Ids end in order; row k was deleted by id k, so a snapshot needs the rows from its xmin on.
struct World<M> {
    map: M,
    clock: AtomicU64,
    running: AtomicU64,
    gone: Vec<AtomicBool>,
    stop: AtomicBool,
}

const IDS: u64 = 20_000;

impl<M: Make> World<M> {
    fn new() -> Self {
        Self {
            map: M::on(12, 2),
            clock: AtomicU64::new(0),
            running: AtomicU64::new(3),
            gone: (0..IDS + 3).map(|_| AtomicBool::new(false)).collect(),
            stop: AtomicBool::new(false),
        }
    }

    fn xmin(&self) -> u64 {
        self.running.load(Ordering::Acquire)
    }

    fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// One id after another ends, and time passes.
    fn end_ids(&self, random: &mut Random) {
        while self.running.load(Ordering::Relaxed) < IDS {
            self.running.fetch_add(1, Ordering::Release);
            if random.below(4) == 0 {
                let now = self.clock.fetch_add(random.below(3), Ordering::Relaxed);
                self.map.advance(now, || id(self.xmin()));
            }
            if random.below(64) == 0 {
                thread::yield_now();
            }
        }
        self.stop.store(true, Ordering::Relaxed);
    }

    /// An old snapshot holds the horizon back: the map alone says what may go.
    fn prune(&self) {
        let mut pruned = 3;
        while !self.stop.load(Ordering::Relaxed) {
            let limit = self.map.limit(self.now(), id(3)).get();
            for row in pruned..limit {
                self.gone[row as usize].store(true, Ordering::Relaxed);
            }
            pruned = pruned.max(limit);
            thread::yield_now();
        }
    }

    /// Reads through snapshots that get old; returns how many were used and how many refused.
    fn read(&self, random: &mut Random) -> (u64, u64) {
        let (mut used, mut refused) = (0, 0);
        while !self.stop.load(Ordering::Relaxed) {
            let stamp = self.map.stamp();
            let xmin = self.xmin();
            self.map.taken(|| self.now(), id(xmin));
            for _ in 0..random.below(200) {
                let row = (xmin + random.below(3)).min(IDS);
                let gone = self.gone[row as usize].load(Ordering::Relaxed);
                if self.map.check(id(xmin), stamp).is_err() {
                    refused += 1;
                    break;
                }
                assert!(!gone, "row {row} is gone for xmin {xmin}");
                used += 1;
                if random.below(16) == 0 {
                    thread::yield_now();
                }
            }
        }
        (used, refused)
    }
}

pub(crate) fn no_removed_row_is_used<M: Make>() {
    let mut random = Random::seeded();
    let mut refused = 0;
    // Until the case in question has come up; nearly always at once.
    for _ in 0..50 {
        let world = &World::<M>::new();
        let seeds = [random.split(), random.split(), random.split()];
        thread::scope(|scope| {
            let [mut ender, readers @ ..] = seeds;
            let readers = readers.map(|mut random| scope.spawn(move || world.read(&mut random)));
            scope.spawn(|| world.prune());
            scope.spawn(move || world.end_ids(&mut ender));
            for reader in readers {
                refused += reader.join().unwrap().1;
            }
        });
        if refused > 0 {
            return;
        }
    }
    panic!("no snapshot was ever refused, so nothing was tested");
}

pub(crate) fn what_is_refused_never_falls<M: Make>() {
    let world = &World::<M>::new();
    let mut random = Random::seeded();
    let mut ender = random.split();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| world.prune());
        }
        let watcher = scope.spawn(|| {
            let mut before = 0;
            while !world.stop.load(Ordering::Relaxed) {
                let stamp = world.map.stamp();
                world.map.taken(|| world.now(), id(world.xmin()));
                // An xmin before every id is refused as soon as any is.
                if let Err(error) = world.map.check(id(0), stamp) {
                    assert!(error.refused_before.get() >= before);
                    before = error.refused_before.get();
                }
            }
        });
        scope.spawn(move || world.end_ids(&mut ender));
        watcher.join().unwrap();
    });
}
