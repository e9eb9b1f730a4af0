//! What each operation costs: one function a row, each running `calls` calls and returning the time they took.

use core::hint::{black_box, spin_loop};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use procarray::{ProcArray, SnapshotSession, SnapshotView, Snapshots, Xid};

/// One row: what is measured, and how.
pub(crate) struct Row {
    /// `operation/variation/threads`.
    pub(crate) name: &'static str,
    /// Runs so many calls and returns the time they took.
    pub(crate) run: fn(calls: u64) -> Duration,
}

/// Every row of this crate.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "snapshot/held/1",
        run: held,
    },
    Row {
        name: "snapshot/fresh/1",
        run: fresh,
    },
    Row {
        name: "snapshot/changed/10",
        run: |calls| changed(calls, 10),
    },
    Row {
        name: "snapshot/changed/100",
        run: |calls| changed(calls, 100),
    },
    Row {
        name: "snapshot/changed/1000",
        run: |calls| changed(calls, 1000),
    },
    Row {
        name: "snapshot/racing/2",
        run: racing,
    },
    Row {
        name: "snapshot/contains/10",
        run: |calls| contains(calls, 10),
    },
    Row {
        name: "snapshot/contains/1000",
        run: |calls| contains(calls, 1000),
    },
    Row {
        name: "assign_end/1",
        run: assign_end,
    },
    Row {
        name: "horizon/1000",
        run: horizon,
    },
];

type Session<'a> = <ProcArray as Snapshots>::Session<'a>;

fn array(sessions: usize) -> ProcArray {
    ProcArray::new(sessions, Xid::FIRST_NORMAL)
}

fn session(array: &ProcArray) -> Session<'_> {
    array
        .register()
        .expect("the array was built with a slot for it")
}

/// `count` sessions with a running id each.
fn running(array: &ProcArray, count: usize) -> Vec<Session<'_>> {
    (0..count)
        .map(|_| {
            let mut session = session(array);
            session.assign().expect("no limit is set");
            session
        })
        .collect()
}

fn end(session: &mut Session<'_>) {
    session
        .end(|_, _| Ok::<_, ()>(()))
        .expect("the record cannot fail and threads can wait");
}

fn time(calls: u64, mut call: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    start.elapsed()
}

/// A snapshot while an older one of the session is registered and nothing has ended.
fn held(calls: u64) -> Duration {
    let array = array(1);
    let mut session = session(&array);
    session.snapshot().expect("threads can wait");
    time(calls, || {
        black_box(session.snapshot().expect("threads can wait").xmin());
        black_box(&session);
    })
}

/// The first snapshot of a transaction when nothing has ended since the session's last one, and its release.
fn fresh(calls: u64) -> Duration {
    let array = array(1);
    let mut session = session(&array);
    time(calls, || {
        black_box(session.snapshot().expect("threads can wait").xmin());
        session.release();
        black_box(&session);
    })
}

/// A snapshot after somebody ended, `others` ids running. The end and its assignment are measured and subtracted.
fn changed(calls: u64, others: usize) -> Duration {
    let array = array(others + 2);
    let _others = running(&array, others);
    let (mut writer, mut reader) = (session(&array), session(&array));
    let mut round = |read: bool| {
        // Nobody older runs but the others: their ids stay in the window for the window's length.
        writer.assign().expect("no limit is set");
        end(&mut writer);
        if read {
            black_box(reader.snapshot().expect("threads can wait").xmin());
            reader.release();
        }
    };
    let with = time(calls, || round(true));
    let without = time(calls, || round(false));
    with.saturating_sub(without)
}

/// A transaction's snapshot, 1000 ids running, while another thread's session assigns and ends without pause.
fn racing(calls: u64) -> Duration {
    let array = array(1002);
    let _others = running(&array, 1000);
    let (mut writer, mut reader) = (session(&array), session(&array));
    let (started, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                writer.assign().expect("no limit is set");
                end(&mut writer);
                started.store(true, Ordering::Relaxed);
            }
        });
        while !started.load(Ordering::Relaxed) {
            spin_loop();
        }
        let took = time(calls, || {
            black_box(reader.snapshot().expect("threads can wait").xmin());
            reader.release();
        });
        stop.store(true, Ordering::Relaxed);
        took
    })
}

/// A membership test of a running or ended id near the running ones.
fn contains(calls: u64, others: usize) -> Duration {
    let array = array(others + 1);
    let _others = running(&array, others);
    let mut session = session(&array);
    session.snapshot().expect("threads can wait");
    let mut at = 0;
    let span = others as u64 * 2;
    time(calls, || {
        at = if at == span { 0 } else { at + 1 };
        black_box(session.taken().membership(Xid::new(black_box(3 + at))));
    })
}

/// An id handed out and ended.
fn assign_end(calls: u64) -> Duration {
    let array = array(1);
    let mut session = session(&array);
    time(calls, || {
        session.assign().expect("no limit is set");
        end(&mut session);
    })
}

/// The horizon over 1000 registered sessions.
fn horizon(calls: u64) -> Duration {
    let array = array(1000);
    let _others = running(&array, 1000);
    time(calls, || {
        black_box(array.horizon());
    })
}
