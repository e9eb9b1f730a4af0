//! What holds while others are at work. Every thread's random stream comes from the printed seed; how threads interleave does not.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::collections::HashSet;
use std::sync::{Barrier, Mutex};
use std::thread;

use procarray::{Membership, SnapshotSession, SnapshotView, Snapshots, Xid};

use super::{FIRST, Parents, end, id, runs};
use txnkit_sync::Random;

const WRITERS: usize = 3;
const READERS: usize = 2;

/// Mostly nothing, sometimes lets others run.
fn pause(random: &mut Random) {
    match random.below(8) {
        0 => thread::yield_now(),
        1 => (0..random.below(200)).for_each(|_| spin_loop()),
        _ => {}
    }
}

/// How many threads are still at work; each is counted off when it ends, in a panic too, so that nobody waits for one that is gone.
struct AtWork(AtomicUsize);

struct CountOff<'a>(&'a AtWork);

impl AtWork {
    fn any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

impl Drop for CountOff<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

/// Runs transactions with a few children, now and then with many, in sessions that come and go.
fn write_families<P: Snapshots>(array: &P, random: &mut Random, parents: &Mutex<Parents>) {
    let mut session = array.register().unwrap();
    for round in 0..150 {
        let top = session.assign().unwrap();
        let children = if round % 25 == 7 { 70 } else { random.below(3) };
        for _ in 0..children {
            // Refused where a session can remember only so many.
            let Ok(child) = session.assign_child() else {
                break;
            };
            parents.lock().unwrap().insert(child, top);
        }
        pause(random);
        if random.below(10) > 0 {
            assert_eq!(end(&mut session), Some(top));
        } else {
            drop(session);
            session = array.register().unwrap();
        }
    }
}

/// Of two snapshots one holds all that the other does; a transaction's ids are in it together or not at all; what never ends is in all.
pub(crate) fn snapshots_are_ordered_and_families_whole<P: Snapshots>(
    make: impl Fn(usize, Xid) -> P,
) {
    let mut random = Random::seeded();
    let array = make(WRITERS + READERS + 1, id(FIRST));
    let mut lasting = array.register().unwrap();
    let lasting_ids = [lasting.assign().unwrap(), lasting.assign_child().unwrap()];
    let parents = Mutex::new(Parents::from([(lasting_ids[1], lasting_ids[0])]));
    let (start, writing) = (
        Barrier::new(WRITERS + READERS),
        AtWork(AtomicUsize::new(WRITERS)),
    );
    let snapshots: Vec<_> = thread::scope(|scope| {
        for _ in 0..WRITERS {
            let mut random = random.split();
            let (array, start, writing, parents) = (&array, &start, &writing, &parents);
            scope.spawn(move || {
                let _count_off = CountOff(writing);
                start.wait();
                write_families(array, &mut random, parents);
            });
        }
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let mut random = random.split();
                let (array, start, writing) = (&array, &start, &writing);
                scope.spawn(move || {
                    start.wait();
                    let mut session = array.register().unwrap();
                    let mut taken = vec![session.snapshot().unwrap().clone()];
                    while taken.len() < 200 && writing.any() {
                        taken.push(session.snapshot().unwrap().clone());
                        pause(&mut random);
                        if random.below(2) == 0 {
                            session.release();
                        }
                    }
                    taken
                })
            })
            .collect();
        readers
            .into_iter()
            .flat_map(|reader| reader.join().unwrap())
            .collect()
    });

    let parents = parents.into_inner().unwrap();
    let ids: Vec<_> = (FIRST..array.next_xid().get()).map(id).collect();
    let mut sets: Vec<(usize, Vec<bool>)> = Vec::new();
    for snapshot in &snapshots {
        assert!(lasting_ids.iter().all(|&xid| runs(snapshot, xid, &parents)));
        for (&child, &top) in &parents {
            assert_eq!(
                runs(snapshot, child, &parents),
                runs(snapshot, top, &parents),
                "{child} of {top}"
            );
        }
        let running: Vec<_> = ids
            .iter()
            .map(|&xid| runs(snapshot, xid, &parents))
            .collect();
        sets.push((running.iter().filter(|&&running| running).count(), running));
    }
    sets.sort_by_key(|&(size, _)| size);
    for pair in sets.windows(2) {
        let (smaller, larger) = (&pair[0].1, &pair[1].1);
        let outside = (0..ids.len())
            .find(|&at| smaller[at] && !larger[at])
            .map(|at| ids[at]);
        assert_eq!(outside, None, "runs in the smaller set only");
    }
}

/// What a writer says of itself: an id that runs until this says otherwise, and one whose end has returned.
#[derive(Default)]
struct Progress {
    running: AtomicU64,
    ended: AtomicU64,
}

impl Progress {
    fn write(&self, session: &mut impl SnapshotSession, random: &mut Random) {
        let xid = session.assign().unwrap();
        self.running.store(xid.get(), Ordering::Release);
        pause(random);
        self.running.store(0, Ordering::Release);
        end(session);
        self.ended.store(xid.get(), Ordering::Release);
    }

    /// Asks `look` for the memberships of both ids; it must give what held all the while.
    fn check(&self, mut look: impl FnMut(Xid) -> Membership) {
        let (ended, running) = (&self.ended, &self.running);
        let ended = ended.load(Ordering::Acquire);
        let before = running.load(Ordering::Acquire);
        let answers = [before, ended].map(|number| look(id(number)));
        assert_eq!(answers[1], Membership::Completed, "{ended} has ended");
        if before != 0 && before == running.load(Ordering::Acquire) {
            assert_eq!(answers[0], Membership::Running, "{before} runs");
        }
    }
}

pub(crate) fn ended_ids_have_ended_and_running_ones_run<P: Snapshots>(
    make: impl Fn(usize, Xid) -> P,
) {
    let mut random = Random::seeded();
    let array = make(WRITERS + READERS, id(FIRST));
    let (start, writing) = (
        Barrier::new(WRITERS + READERS),
        AtWork(AtomicUsize::new(WRITERS)),
    );
    let progress: [Progress; WRITERS] = Default::default();
    let (array, start, writing, progress) = (&array, &start, &writing, &progress);
    thread::scope(|scope| {
        for progress in progress {
            let mut random = random.split();
            scope.spawn(move || {
                let _count_off = CountOff(writing);
                start.wait();
                let mut session = array.register().unwrap();
                (0..2000).for_each(|_| progress.write(&mut session, &mut random));
            });
        }
        for _ in 0..READERS {
            let mut random = random.split();
            scope.spawn(move || {
                start.wait();
                let mut session = array.register().unwrap();
                while writing.any() {
                    for progress in progress {
                        let mut fresh = true;
                        progress.check(|xid| {
                            if core::mem::take(&mut fresh) {
                                session.snapshot().unwrap();
                            }
                            session.taken().membership(xid)
                        });
                        progress.check(|xid| session.is_running(xid).unwrap());
                        pause(&mut random);
                    }
                    session.release();
                }
            });
        }
    });
}

/// One thread takes ids and keeps them; the other takes ids and ends them, and whatever else lies below its snapshot's xmax must run,
/// even if its owner has not come back with it yet.
pub(crate) fn no_id_is_missed_while_it_is_handed_out<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    const KEPT: usize = 40;
    let mut random = Random::seeded();
    for _ in 0..40 {
        let array = make(KEPT + 1, id(FIRST));
        let (start, keeping) = (Barrier::new(2), AtWork(AtomicUsize::new(1)));
        let (array, start, keeping, random) = (&array, &start, &keeping, &mut random.split());
        thread::scope(|scope| {
            let mut keeper = random.split();
            let kept = scope.spawn(move || {
                let _count_off = CountOff(keeping);
                start.wait();
                let mut keep = || {
                    let mut session = array.register().unwrap();
                    session.assign().unwrap();
                    pause(&mut keeper);
                    session
                };
                (0..KEPT).map(|_| keep()).collect::<Vec<_>>()
            });
            start.wait();
            let mut session = array.register().unwrap();
            let mut ended = HashSet::new();
            while keeping.any() {
                session.assign().unwrap();
                pause(random);
                ended.extend(end(&mut session));
                let snapshot = session.snapshot().unwrap();
                for xid in (FIRST..snapshot.xmax().get()).map(id) {
                    assert_eq!(
                        runs(snapshot, xid, &Parents::new()),
                        !ended.contains(&xid),
                        "{xid}"
                    );
                }
            }
            kept.join().unwrap();
        });
    }
}

/// What a horizon says is out of use stays so: a snapshot that begins at the same time either holds the horizon back or begins later.
pub(crate) fn the_horizon_never_passes_a_snapshot_in_use<P: Snapshots>(
    make: impl Fn(usize, Xid) -> P,
) {
    let mut random = Random::seeded();
    let array = make(WRITERS + READERS, id(FIRST));
    let (start, writing) = (
        Barrier::new(WRITERS + READERS + 1),
        AtWork(AtomicUsize::new(WRITERS)),
    );
    let removed_before = AtomicU64::new(0);
    let (array, start, writing, removed_before) = (&array, &start, &writing, &removed_before);
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            let mut random = random.split();
            scope.spawn(move || {
                let _count_off = CountOff(writing);
                start.wait();
                let mut session = array.register().unwrap();
                for _ in 0..2000 {
                    session.assign().unwrap();
                    pause(&mut random);
                    end(&mut session);
                }
            });
        }
        for _ in 0..READERS {
            let mut random = random.split();
            scope.spawn(move || {
                start.wait();
                let mut session = array.register().unwrap();
                while writing.any() {
                    let xmin = session.snapshot().unwrap().xmin();
                    for _ in 0..random.below(4) {
                        assert!(
                            removed_before.load(Ordering::Acquire) <= xmin.get(),
                            "removed what {xmin} sees"
                        );
                        pause(&mut random);
                        assert!(array.horizon() <= xmin, "passes {xmin}");
                        assert!(
                            session.snapshot().unwrap().xmin() >= xmin,
                            "snapshots go on"
                        );
                    }
                    session.release();
                }
            });
        }
        start.wait();
        while writing.any() {
            let before = removed_before.load(Ordering::Acquire);
            let horizon = array.horizon().get();
            assert!(horizon >= before, "{horizon} after {before}");
            removed_before.fetch_max(horizon, Ordering::AcqRel);
            pause(&mut random);
        }
    });
    assert_eq!(array.horizon(), array.next_xid());
}
