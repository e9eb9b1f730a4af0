//! The protocols under every interleaving and memory order that loom finds within its bounds, and their weakened twins, each of which has to fail.
//!
//! `RUSTFLAGS='--cfg txnkit_model="loom"' cargo test --release -p procarray --test loom`
//!
//! Every actor runs in a thread of its own; the main thread sets up, joins and compares. The models run the crate's own code with
//! a window of one or two words and one optimistic read before the leader is asked.
#![cfg(txnkit_model = "loom")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use procarray::{FixedProcArray, Membership, SnapshotSession, SnapshotView, Snapshots, Xid};
use txnkit_sync::model::{Histogram, assert_breaks, check, check_preempting};

#[path = "loom/waits.rs"]
mod waits;

/// Sessions, old words, window words.
type Array<const W: usize> = FixedProcArray<4, 4, W>;

/// Something that is written without any synchronisation of its own: loom reports a race when two accesses are not ordered.
struct Plain(UnsafeCell<u64>);

// SAFETY: the point of the models: that the protocol orders the accesses, which loom checks.
unsafe impl Sync for Plain {}
// SAFETY: as above.
unsafe impl Send for Plain {}

impl Plain {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }
    fn write(&self, value: u64) {
        // SAFETY: loom checks that no other access is concurrent.
        self.0.with_mut(|cell| unsafe { *cell = value });
    }
    fn read(&self) -> u64 {
        // SAFETY: loom checks that no write is concurrent.
        self.0.with(|cell| unsafe { *cell })
    }
}

fn xid(id: u64) -> Xid {
    Xid::new(id)
}

/// An array that outlives the model's execution, so that sessions can be registered before the actors start: fewer steps to interleave.
fn leaked<const W: usize>(first: u64) -> &'static Array<W> {
    Box::leak(Box::new(Array::new(xid(first))))
}

/// Parent 63 and child 64 lie in two words; the status is written before they end. Sessions take so many snapshots each meanwhile.
fn tree_model(snapshots: &'static [usize], preemptions: usize, seen: &'static Histogram) {
    check_preempting(preemptions, move || {
        let array = leaked::<2>(63);
        let status = Arc::new(Plain::new());
        let mut ender = array.register().unwrap();
        assert_eq!(ender.assign_child().unwrap(), xid(64));
        let recorder = status.clone();
        let ender = thread::spawn(move || {
            let record = |_: Xid, _: &[_]| Ok::<_, ()>(recorder.write(1));
            assert_eq!(ender.end(record), Ok(Some(xid(63))));
            assert_eq!(ender.is_running(xid(64)), Ok(Membership::Completed));
            ender
        });
        let takers: Vec<_> = snapshots
            .iter()
            .map(|&count| {
                let mut session = array.register().unwrap();
                let status = status.clone();
                thread::spawn(move || {
                    let mut ended = 0;
                    for _ in 0..count {
                        let snapshot = session.snapshot().unwrap();
                        let tree = [63, 64].map(|id| snapshot.membership(xid(id)));
                        assert_eq!(tree[0], tree[1], "half a tree: {snapshot:?}");
                        assert!(snapshot.xmin() <= snapshot.xmax());
                        if tree[0] == Membership::Completed {
                            assert_eq!(status.read(), 1);
                            ended += 1;
                        } else {
                            assert_eq!(ended, 0, "a later snapshot is smaller");
                        }
                    }
                    (ended, session)
                })
            })
            .collect();
        let _ender = ender.join().unwrap();
        let ended = takers.into_iter().map(|taker| taker.join().unwrap());
        let (ended, _sessions): (Vec<i32>, Vec<_>) = ended.unzip();
        seen.count(format!("{ended:?}"));
    });
}

#[test]
fn a_tree_ends_at_one_instant_and_snapshots_only_grow() {
    static SEEN: Histogram = Histogram::new();
    tree_model(&[2], 2, &SEEN);
    SEEN.assert_seen(&["[0]", "[1]", "[2]"]);
}

#[test]
fn a_tree_ends_at_one_instant_for_two_takers() {
    static SEEN: Histogram = Histogram::new();
    tree_model(&[1, 1], 1, &SEEN);
    SEEN.assert_seen(&["[0, 0]", "[0, 1]", "[1, 0]", "[1, 1]"]);
}

#[test]
fn weakened_order_fails() {
    assert_breaks(
        "a_tree_ends_at_one_instant_and_snapshots_only_grow",
        &[
            "procarray.done.count-load",
            "procarray.done.count-even",
            "procarray.done.reader-fence",
            "procarray.done.writer-fence",
            "procarray.done.no-recheck",
            "procarray.done.odd-accepted",
        ],
    );
}

/// Id 3 has deleted a row. A reader for whom 3 still runs reads the row; who gets a horizon beyond 3 removes it.
fn horizon_model(removers: usize, separate_ender: bool, seen: &'static Histogram) {
    check(move || {
        let array = leaked::<1>(3);
        let row = Arc::new(Plain::new());
        let removed = Arc::new(loom::sync::Mutex::new(false));
        let mut reader = array.register().unwrap();
        let mut deleter = array.register().unwrap();
        assert_eq!(deleter.assign(), Ok(xid(3)));
        let delete = move || {
            assert_eq!(deleter.end(|_, _| Ok::<_, ()>(())), Ok(Some(xid(3))));
            deleter
        };
        let mut delete = Some(delete);
        let read = row.clone();
        let reader = thread::spawn(move || {
            let sees_row = reader.snapshot().unwrap().membership(xid(3)) == Membership::Running;
            if sees_row {
                assert_eq!(read.read(), 0);
            }
            reader.release();
            (sees_row, reader)
        });
        let ender = separate_ender.then(|| thread::spawn(delete.take().unwrap()));
        let removers: Vec<_> = (0..removers)
            .map(|_| {
                let (row, removed, delete) = (row.clone(), removed.clone(), delete.take());
                thread::spawn(move || {
                    let deleter = delete.map(|delete| delete());
                    let beyond = array.horizon() > xid(3);
                    let mut removed = removed.lock().unwrap();
                    if beyond && !*removed {
                        row.write(1);
                        *removed = true;
                    }
                    (beyond, deleter)
                })
            })
            .collect();
        let (sees_row, _reader) = reader.join().unwrap();
        let _ender = ender.map(|ender| ender.join().unwrap());
        let removers = removers.into_iter().map(|remover| remover.join().unwrap());
        let (beyond, _deleters): (Vec<bool>, Vec<_>) = removers.unzip();
        let beyond = beyond.into_iter().filter(|&beyond| beyond).count();
        seen.count(10 * beyond + usize::from(sees_row));
    });
}

#[test]
fn a_registered_xmin_is_not_overtaken() {
    static SEEN: Histogram = Histogram::new();
    horizon_model(1, false, &SEEN);
    // The reader sees the row or not, the remover may or may not remove it; both at once means the reader was quicker.
    SEEN.assert_seen(&["1", "10", "11"]);
}

#[test]
fn a_registered_xmin_is_not_overtaken_with_a_third_that_ends() {
    static SEEN: Histogram = Histogram::new();
    horizon_model(1, true, &SEEN);
    SEEN.assert_seen(&["0", "1", "10", "11"]);
}

#[test]
fn a_registered_xmin_is_not_overtaken_by_two_horizons_at_once() {
    static SEEN: Histogram = Histogram::new();
    horizon_model(2, false, &SEEN);
    SEEN.assert_seen(&["1", "11", "20", "21"]);
}

#[test]
fn weakened_horizon_fails() {
    assert_breaks(
        "a_registered_xmin_is_not_overtaken",
        &[
            "procarray.horizon.register-fence",
            "procarray.horizon.scan-fence",
            "procarray.horizon.unchecked",
            "procarray.horizon.not-announced",
            "procarray.horizon.release",
            "procarray.horizon.scan",
        ],
    );
    assert_breaks(
        "a_registered_xmin_is_not_overtaken_by_two_horizons_at_once",
        &["procarray.horizon.returned"],
    );
}

/// 62 was handed out and runs on, while a later id ends and the window of one word slides past it.
fn slide_model(snapshots: usize, seen: &'static Histogram) {
    check(move || {
        // 62 runs on; the end of 64 makes the window leave its word.
        let array = leaked::<1>(62);
        let mut elder = array.register().unwrap();
        assert_eq!(elder.assign(), Ok(xid(62)));
        let mut younger = array.register().unwrap();
        for id in [63, 64] {
            assert_eq!(younger.assign(), Ok(xid(id)));
            if id == 63 {
                younger.end(|_, _| Ok::<_, ()>(())).unwrap();
            }
        }
        let ender = thread::spawn(move || {
            assert_eq!(younger.end(|_, _| Ok::<_, ()>(())), Ok(Some(xid(64))));
            younger
        });
        let mut session = array.register().unwrap();
        let taker = thread::spawn(move || {
            let mut shape = String::new();
            for _ in 0..snapshots {
                let snapshot = session.snapshot().unwrap();
                assert_eq!(
                    snapshot.membership(xid(62)),
                    Membership::Running,
                    "lost: {snapshot:?}"
                );
                assert_eq!(snapshot.xmin(), xid(62));
                shape += &format!("{} ", snapshot.xmax().get());
            }
            if snapshots == 0 {
                assert_eq!(session.is_running(xid(62)), Ok(Membership::Running));
            }
            (shape, session)
        });
        let _younger = ender.join().unwrap();
        let (shape, mut session) = taker.join().unwrap();
        seen.count(shape.trim());
        drop(elder);
        assert_eq!(session.snapshot().unwrap().xmin(), xid(65));
        assert_eq!(session.is_running(xid(62)), Ok(Membership::Completed));
    });
}

#[test]
fn an_id_that_was_handed_out_is_never_lost() {
    static SEEN: Histogram = Histogram::new();
    slide_model(1, &SEEN);
    SEEN.assert_seen(&["64", "65"]);
}

#[test]
fn an_id_that_was_handed_out_is_never_lost_to_a_second_snapshot() {
    static SEEN: Histogram = Histogram::new();
    slide_model(2, &SEEN);
    SEEN.assert_seen(&["64 64", "64 65", "65 65"]);
}

#[test]
fn an_id_that_was_handed_out_is_running_when_asked_for() {
    static SEEN: Histogram = Histogram::new();
    slide_model(0, &SEEN);
}

#[test]
fn weakened_old_list_fails() {
    assert_breaks(
        "an_id_that_was_handed_out_is_never_lost",
        &[
            "procarray.done.old-forgotten",
            "procarray.done.no-recheck",
            "procarray.done.odd-accepted",
            "procarray.done.torn-old-kept",
        ],
    );
    assert_breaks(
        "an_id_that_was_handed_out_is_never_lost_to_a_second_snapshot",
        &["procarray.done.old-version-kept"],
    );
    assert_breaks(
        "an_id_that_was_handed_out_is_running_when_asked_for",
        &["procarray.done.no-recheck"],
    );
}

/// Sessions end at the same time, each with a status of its own; whoever leads serves the others. The last one's end is
/// followed by a look at everybody's status.
fn batch_model(enders: u64, preemptions: usize, seen: &'static Histogram) {
    check_preempting(preemptions, move || {
        let array = leaked::<1>(3);
        let status: Arc<Vec<Plain>> = Arc::new((0..enders).map(|_| Plain::new()).collect());
        let actors: Vec<_> = (3..3 + enders)
            .map(|id| {
                let mut session = array.register().unwrap();
                assert_eq!(session.assign(), Ok(xid(id)));
                let status = status.clone();
                thread::spawn(move || {
                    if enders == 2 {
                        // A copy of the state just before the own end is the one that could be reused by mistake.
                        session.snapshot().unwrap();
                    }
                    let record =
                        |id: Xid, _: &[_]| Ok::<_, ()>(status[id.get() as usize - 3].write(1));
                    assert_eq!(session.end(record), Ok(Some(xid(id))));
                    if id == 3 || enders == 2 {
                        let snapshot = session.snapshot().unwrap();
                        assert_eq!(
                            snapshot.membership(xid(id)),
                            Membership::Completed,
                            "does not see its own end"
                        );
                        for ended in 3..snapshot.xmin().get() {
                            assert_eq!(status[ended as usize - 3].read(), 1);
                        }
                    }
                    session
                })
            })
            .collect();
        let mut sessions: Vec<_> = actors
            .into_iter()
            .map(|actor| actor.join().unwrap())
            .collect();
        seen.count(array.completion_count());
        sessions[0].release();
        let snapshot = sessions[0].snapshot().unwrap();
        assert_eq!(
            (snapshot.xmin(), snapshot.xmax()),
            (xid(3 + enders), xid(3 + enders))
        );
    });
}

#[test]
fn two_ends_clear_each_and_wake_all() {
    static SEEN: Histogram = Histogram::new();
    batch_model(2, 3, &SEEN);
    // The second came while the first led, and was served by it or led after it.
    SEEN.assert_seen(&["2"]);
}

#[test]
fn a_batch_of_ends_clears_each_and_wakes_all() {
    static SEEN: Histogram = Histogram::new();
    batch_model(3, 2, &SEEN);
    // Each alone; two in one change.
    SEEN.assert_seen(&["3", "2"]);
}

#[test]
fn weakened_batch_fails() {
    assert_breaks(
        "two_ends_clear_each_and_wake_all",
        &[
            "procarray.ends.lead",
            "procarray.ends.push",
            "procarray.ends.free",
            "procarray.ends.tell",
            "procarray.ends.told",
            "procarray.ends.no-unpark",
        ],
    );
    assert_breaks(
        "a_batch_of_ends_clears_each_and_wakes_all",
        &["procarray.ends.take"],
    );
}

/// The old list is full when one more word comes, while a session is just being handed an id that belongs to a listed word:
/// the leader must not take that word for one without a top-level id.
#[test]
fn an_id_that_is_being_handed_out_keeps_its_word() {
    static SEEN: Histogram = Histogram::new();
    check_preempting(1, || {
        // One place for each session's id in the old list.
        let array: &FixedProcArray<3, 3, 1> = Box::leak(Box::new(FixedProcArray::new(xid(62))));
        // 62 and its children, up to 190: words 0 to 2, of which only the first holds a top-level id.
        let mut family = array.register().unwrap();
        while family.assign_child().unwrap() < xid(190) {}
        let mut late = array.register().unwrap();
        let late = thread::spawn(move || (late.assign().unwrap(), late));
        let mut ender = array.register().unwrap();
        let ender = thread::spawn(move || {
            // From word 2 to word 4: its end pushes words 0 to 2, then its own word 3, and 1 has to go.
            while ender.assign_child().unwrap() < xid(256) {}
            ender.end(|_, _| Ok::<_, ()>(())).unwrap();
            ender
        });
        let (late_xid, _late) = late.join().unwrap();
        let mut ender = ender.join().unwrap();
        let snapshot = ender.snapshot().unwrap();
        assert_eq!(
            snapshot.membership(late_xid),
            Membership::Running,
            "lost {late_xid}: {snapshot:?}"
        );
        assert_eq!(snapshot.membership(xid(62)), Membership::Running);
        // Word 3 is pushed, and 1 dropped, unless all of it has ended: the late id or, if that is 191, the ender's own runs in it.
        let dropped = snapshot.membership(xid(100));
        assert_eq!(dropped == Membership::AskParent, late_xid < xid(256));
        seen_late(&SEEN, late_xid);
    });
    SEEN.assert_seen(&["before", "amid", "after"]);
}

fn seen_late(seen: &Histogram, late: Xid) {
    seen.count(match late.get() {
        191 => "before",
        192..256 => "amid",
        _ => "after",
    });
}

#[test]
fn weakened_hand_out_fails() {
    assert_breaks(
        "an_id_that_is_being_handed_out_keeps_its_word",
        &["procarray.array.hand-out"],
    );
}
