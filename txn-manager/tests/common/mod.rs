//! What every manager must do, whatever array it stands on. Each function is one test.

pub(crate) mod naive;

use std::sync::Mutex;
use std::thread;

use multixact::LockTable;
use slru::baseline::{Banked, History, SingleLock};
use slru::{MemoryStore, StatusLog};
use txn_manager::{
    AbortError, AgeMap, Core, Isolation, LockSets, Mechanisms, Member, Mode, NoRedo, ReadError,
    RegisterError, RowLock, RowMark, Session, SessionError, Snapshots, StateError, StatusStore,
    WaitError, Xid, XidState,
};
use txnkit_sync::lock::{LockOf2011, LockOfToday};

pub(crate) const FIRST: Xid = Xid::FIRST_NORMAL;
pub(crate) const SESSIONS: usize = 8;
const SECOND_NS: u64 = 1_000_000_000;
const NOBODY: Xid = Xid::INVALID;

pub(crate) fn locks() -> LockTable<MemoryStore> {
    LockTable::new(MemoryStore::new(), MemoryStore::new(), 16, 16, SESSIONS)
}

/// Any status store, so that one build serves them all.
pub(crate) type AnyStatus = Box<dyn StatusStore>;

/// The front of the status stores.
pub(crate) fn status() -> AnyStatus {
    Box::new(StatusLog::new(MemoryStore::new(), 16, FIRST))
}

/// Every status store.
pub(crate) fn statuses() -> [AnyStatus; 4] {
    let store = MemoryStore::new;
    [
        status(),
        Box::new(SingleLock::<_, LockOf2011>::new(store(), 16, FIRST)),
        Box::new(Banked::<_, LockOfToday>::new(store(), 16, FIRST)),
        Box::new(History::<_, LockOf2011>::new(store(), 16, FIRST)),
    ]
}

/// A manager over this array, this table of lock sets and this map of ages, the rest the fronts'.
pub(crate) fn core<P: Snapshots, L: LockSets, A: AgeMap + Send>(
    array: P,
    locks: L,
    ages: A,
) -> Core<(P, AnyStatus, L, A, NoRedo)> {
    Core::new(array, status(), locks, ages, NoRedo)
}

/// A row as a list of versions, newest last, changed by the rules for row locks that the crate's page gives.
#[derive(Default)]
pub(crate) struct Row {
    versions: Mutex<Vec<Version>>,
}

#[derive(Clone, Copy)]
struct Version {
    xmin: Xid,
    xmax: Xid,
    value: i64,
}

impl Row {
    pub(crate) fn new(value: i64) -> Self {
        Self {
            versions: Mutex::new(vec![Version {
                xmin: Xid::FROZEN,
                xmax: NOBODY,
                value,
            }]),
        }
    }

    /// What the statement sees; it must be exactly one version.
    pub(crate) fn read<M: Mechanisms>(&self, session: &Session<'_, M>) -> i64 {
        let versions = self.versions.lock().unwrap();
        let seen: Vec<i64> = versions
            .iter()
            .filter(|v| session.visible(v.xmin, v.xmax).unwrap())
            .map(|v| v.value)
            .collect();
        assert_eq!(seen.len(), 1, "one version of a row is seen, not {seen:?}");
        seen[0]
    }

    /// `false`: repeatable read, and somebody else was faster.
    pub(crate) fn add<M: Mechanisms>(&self, session: &mut Session<'_, M>, delta: i64) -> bool {
        let me = session.xid().unwrap();
        loop {
            let mut versions = self.versions.lock().unwrap();
            let newest = *versions.last().unwrap();
            match session.state_of(newest.xmin).unwrap() {
                XidState::Running => {
                    drop(versions);
                    session.wait_for(newest.xmin, 20 * SECOND_NS).unwrap();
                }
                XidState::Aborted => {
                    versions.pop();
                    versions.last_mut().unwrap().xmax = NOBODY;
                }
                XidState::Own | XidState::Committed => {
                    if session.isolation() == Some(Isolation::RepeatableRead)
                        && !session.visible(newest.xmin, NOBODY).unwrap()
                    {
                        return false;
                    }
                    versions.last_mut().unwrap().xmax = me;
                    versions.push(Version {
                        xmin: me,
                        xmax: NOBODY,
                        value: newest.value + delta,
                    });
                    return true;
                }
            }
        }
    }
}

fn begin<M: Mechanisms>(session: &mut Session<'_, M>, isolation: Isolation) {
    session.begin(isolation).unwrap();
    session.statement().unwrap();
}

pub(crate) fn nothing_uncommitted_is_read<M: Mechanisms>(core: &Core<M>) {
    let row = Row::new(1);
    let (mut writer, mut reader) = (core.session().unwrap(), core.session().unwrap());
    begin(&mut writer, Isolation::ReadCommitted);
    assert!(row.add(&mut writer, 10));
    assert_eq!(row.read(&writer), 11, "a session sees its own change");
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        begin(&mut reader, isolation);
        assert_eq!(row.read(&reader), 1);
        reader.commit().unwrap();
    }
    writer.commit().unwrap();
}

pub(crate) fn read_committed_sees_each_statement_anew<M: Mechanisms>(core: &Core<M>) {
    let row = Row::new(1);
    let (mut writer, mut reader) = (core.session().unwrap(), core.session().unwrap());
    begin(&mut reader, Isolation::ReadCommitted);
    begin(&mut writer, Isolation::ReadCommitted);
    row.add(&mut writer, 10);
    writer.commit().unwrap();
    assert_eq!(row.read(&reader), 1, "within a statement nothing changes");
    reader.end_statement();
    reader.statement().unwrap();
    assert_eq!(row.read(&reader), 11);
    reader.commit().unwrap();
}

pub(crate) fn repeatable_read_keeps_its_first_snapshot<M: Mechanisms>(core: &Core<M>) {
    let row = Row::new(1);
    let (mut writer, mut reader) = (core.session().unwrap(), core.session().unwrap());
    begin(&mut reader, Isolation::RepeatableRead);
    for _ in 0..3 {
        begin(&mut writer, Isolation::ReadCommitted);
        row.add(&mut writer, 10);
        writer.commit().unwrap();
        reader.end_statement();
        reader.statement().unwrap();
        assert_eq!(row.read(&reader), 1);
    }
    assert!(
        !row.add(&mut reader, 1),
        "a change on top of one that is not seen would lose it"
    );
    reader.abort().unwrap();
    begin(&mut reader, Isolation::RepeatableRead);
    assert_eq!(
        row.read(&reader),
        31,
        "the next transaction has a snapshot of its own"
    );
    reader.commit().unwrap();
}

pub(crate) fn an_abort_never_happened<M: Mechanisms>(core: &Core<M>) {
    let row = Row::new(1);
    let (mut writer, mut reader) = (core.session().unwrap(), core.session().unwrap());
    begin(&mut writer, Isolation::ReadCommitted);
    row.add(&mut writer, 10);
    let xid = writer.xid().unwrap();
    assert_eq!(writer.abort().unwrap(), Some(xid));
    begin(&mut reader, Isolation::ReadCommitted);
    assert_eq!(row.read(&reader), 1);
    assert_eq!(reader.state_of(xid).unwrap(), XidState::Aborted);
    assert!(row.add(&mut reader, 100));
    assert_eq!(row.read(&reader), 101);
    reader.commit().unwrap();
}

pub(crate) fn a_dropped_session_aborts<M: Mechanisms>(core: &Core<M>) {
    let row = Row::new(1);
    let mut reader = core.session().unwrap();
    let mut gone = core.session().unwrap();
    begin(&mut gone, Isolation::ReadCommitted);
    row.add(&mut gone, 10);
    let xid = gone.xid().unwrap();
    drop(gone);
    begin(&mut reader, Isolation::ReadCommitted);
    assert_eq!(reader.state_of(xid).unwrap(), XidState::Aborted);
    assert_eq!(row.read(&reader), 1);
}

pub(crate) fn ids_have_states<M: Mechanisms>(core: &Core<M>) {
    let (mut one, mut other) = (core.session().unwrap(), core.session().unwrap());
    begin(&mut one, Isolation::ReadCommitted);
    let xid = one.xid().unwrap();
    assert_eq!(one.xid().unwrap(), xid, "a transaction has one id");
    assert_eq!(one.state_of(xid).unwrap(), XidState::Own);
    assert_eq!(other.state_of(xid).unwrap(), XidState::Running);
    one.commit().unwrap();
    assert_eq!(one.state_of(xid).unwrap(), XidState::Committed);
    assert_eq!(other.state_of(xid).unwrap(), XidState::Committed);
    assert_eq!(other.state_of(Xid::FROZEN).unwrap(), XidState::Committed);
    assert_eq!(other.state_of(Xid::BOOTSTRAP).unwrap(), XidState::Committed);
    assert_eq!(other.state_of(Xid::INVALID).unwrap(), XidState::Aborted);
}

pub(crate) fn calls_out_of_order_are_refused<M: Mechanisms>(core: &Core<M>) {
    let mut session = core.session().unwrap();
    assert!(session.commit().is_err() && session.abort().is_err() && session.xid().is_err());
    assert!(session.statement().is_err() && session.visible(Xid::FROZEN, NOBODY).is_err());
    session.begin(Isolation::ReadCommitted).unwrap();
    assert!(
        session.visible(Xid::FROZEN, NOBODY).is_err(),
        "no statement yet"
    );
    assert_eq!(
        session.begin(Isolation::ReadCommitted),
        Err(StateError::AlreadyBegun { xid: None })
    );
    session.statement().unwrap();
    assert!(session.visible(Xid::FROZEN, NOBODY).unwrap());
    session.end_statement();
    assert!(
        session.visible(Xid::FROZEN, NOBODY).is_err(),
        "the statement is over"
    );
    assert_eq!(session.commit().unwrap(), None, "nothing was written");
    assert_eq!(core.array().next_xid(), FIRST, "reading takes no id");
}

pub(crate) fn the_horizon_waits_for_snapshots<M: Mechanisms>(core: &Core<M>) {
    let mut writer = core.session().unwrap();
    let mut write = || {
        begin(&mut writer, Isolation::ReadCommitted);
        let xid = writer.xid().unwrap();
        writer.commit().unwrap();
        xid
    };
    write();
    let mut reader = core.session().unwrap();
    begin(&mut reader, Isolation::ReadCommitted);
    let first_unseen = write();
    assert!(
        core.horizon() <= first_unseen,
        "a statement's snapshot holds the horizon back"
    );
    reader.end_statement();
    let old = write();
    assert!(
        horizon_after_reading(core) > old,
        "between statements nothing does"
    );
    reader.commit().unwrap();

    begin(&mut reader, Isolation::RepeatableRead);
    let first_unseen = write();
    reader.end_statement();
    assert!(
        horizon_after_reading(core) <= first_unseen,
        "under repeatable read the snapshot is kept"
    );
    reader.commit().unwrap();
    assert!(horizon_after_reading(core) > first_unseen);
}

/// Arrays that compute the horizon while taking snapshots have to take one.
fn horizon_after_reading<M: Mechanisms>(core: &Core<M>) -> Xid {
    let mut reader = core.session().unwrap();
    begin(&mut reader, Isolation::ReadCommitted);
    reader.commit().unwrap();
    core.horizon()
}

pub(crate) fn a_waiter_is_woken_by_commit_abort_and_drop<M: Mechanisms>(core: &Core<M>) {
    for round in 0..30 {
        let mut holder = core.session().unwrap();
        begin(&mut holder, Isolation::ReadCommitted);
        let xid = holder.xid().unwrap();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    core.session()
                        .unwrap()
                        .wait_for(xid, 20 * SECOND_NS)
                        .unwrap()
                });
            }
            if round % 2 == 0 {
                thread::yield_now();
            }
            match round % 3 {
                0 => drop(holder.commit().unwrap()),
                1 => drop(holder.abort().unwrap()),
                _ => drop(holder),
            }
        });
    }
}

pub(crate) fn waiting_ends_in_time_or_says_why_not<M: Mechanisms>(core: &Core<M>) {
    let (mut holder, mut waiter) = (core.session().unwrap(), core.session().unwrap());
    begin(&mut holder, Isolation::ReadCommitted);
    let xid = holder.xid().unwrap();
    let own = holder.wait_for(xid, SECOND_NS);
    assert!(matches!(own, Err(WaitError::Own { xid: of }) if of == xid));
    for timeout_ns in [0, 1_000_000] {
        let error = waiter.wait_for(xid, timeout_ns).unwrap_err();
        assert!(
            matches!(error, WaitError::Timeout { xid: of, waited_ns } if of == xid && waited_ns >= timeout_ns)
        );
    }
    let next = core.array().next_xid();
    let early = waiter.wait_for(next, SECOND_NS);
    assert!(
        matches!(early, Err(WaitError::NotHandedOut { xid, next: at }) if (xid, at) == (next, next))
    );
    holder.commit().unwrap();
    waiter.wait_for(xid, 0).unwrap();
    waiter.wait_for(Xid::FROZEN, 0).unwrap();
}

pub(crate) fn no_update_is_lost<M: Mechanisms>(core: &Core<M>) {
    const THREADS: i64 = 4;
    const ADDS: i64 = 100;
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let row = Row::new(0);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let row = &row;
                scope.spawn(move || {
                    let mut session = core.session().unwrap();
                    let mut done = 0;
                    while done < ADDS {
                        begin(&mut session, isolation);
                        let added = row.add(&mut session, 1);
                        // Some aborts of the caller's own between.
                        if added && (done + thread) % 7 != 0 {
                            session.commit().unwrap();
                            done += 1;
                        } else {
                            session.abort().unwrap();
                            if added {
                                begin(&mut session, Isolation::ReadCommitted);
                                assert!(row.add(&mut session, 1));
                                session.commit().unwrap();
                                done += 1;
                            }
                        }
                    }
                });
            }
        });
        let mut session = core.session().unwrap();
        begin(&mut session, Isolation::ReadCommitted);
        assert_eq!(row.read(&session), THREADS * ADDS, "{isolation:?}");
    }
}

/// Money moves from row to row; whoever looks, at whatever moment, sees all of it.
pub(crate) fn a_snapshot_is_of_one_instant<M: Mechanisms>(core: &Core<M>) {
    const ROWS: usize = 4;
    let rows: Vec<Row> = (0..ROWS).map(|_| Row::new(100)).collect();
    thread::scope(|scope| {
        for thread in 0..2 {
            let rows = &rows;
            scope.spawn(move || {
                let mut session = core.session().unwrap();
                for i in 0..100 {
                    let (a, b) = ((i + thread) % ROWS, (i * 3 + 1) % ROWS);
                    begin(&mut session, Isolation::ReadCommitted);
                    // In order of rows, so that nobody waits in a circle.
                    for row in [a.min(b), a.max(b)] {
                        assert!(rows[row].add(
                            &mut session,
                            if row == a { 1 } else { -1 } * i64::from(a != b)
                        ));
                    }
                    if i % 5 == 0 {
                        session.abort().unwrap()
                    } else {
                        session.commit().unwrap()
                    };
                }
            });
        }
        let rows = &rows;
        scope.spawn(move || {
            let mut session = core.session().unwrap();
            for i in 0..200 {
                let isolation = if i % 2 == 0 {
                    Isolation::ReadCommitted
                } else {
                    Isolation::RepeatableRead
                };
                begin(&mut session, isolation);
                let sum: i64 = rows.iter().map(|row| row.read(&session)).sum();
                assert_eq!(sum, 100 * ROWS as i64, "{isolation:?}");
                session.commit().unwrap();
            }
        });
    });
}

pub(crate) fn a_session_moves_between_threads<M: Mechanisms>(core: &Core<M>) {
    let row = Row::new(1);
    let mut session = core.session().unwrap();
    begin(&mut session, Isolation::RepeatableRead);
    row.add(&mut session, 10);
    thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(row.read(&session), 11);
            session.commit().unwrap();
        });
    });
    let mut reader = core.session().unwrap();
    begin(&mut reader, Isolation::ReadCommitted);
    assert_eq!(row.read(&reader), 11);
}

/// What was written since a savepoint is gone after a rollback to it, for everybody and at once; what was written before stays.
pub(crate) fn a_rollback_undoes_what_came_after_its_savepoint<M: Mechanisms>(core: &Core<M>) {
    let rows = [Row::new(1), Row::new(1), Row::new(1)];
    let read = |session: &Session<'_, M>| rows.each_ref().map(|row| row.read(session));
    let (mut writer, mut reader) = (core.session().unwrap(), core.session().unwrap());
    begin(&mut writer, Isolation::ReadCommitted);
    rows[0].add(&mut writer, 10);
    let top = writer.xid().unwrap();
    let outer = writer.savepoint().unwrap();
    rows[1].add(&mut writer, 10);
    let outer_xid = writer.xid().unwrap();
    let inner = writer.savepoint().unwrap();
    rows[2].add(&mut writer, 10);
    let inner_xid = writer.xid().unwrap();
    assert!(top < outer_xid && outer_xid < inner_xid);
    assert_eq!(read(&writer), [11, 11, 11]);

    writer.rollback_to(inner).unwrap();
    assert_eq!(read(&writer), [11, 11, 1]);
    assert_eq!(reader.state_of(inner_xid).unwrap(), XidState::Aborted);
    assert_eq!(reader.state_of(outer_xid).unwrap(), XidState::Running);
    assert!(rows[2].add(&mut writer, 20), "the savepoint is still set");
    assert!(writer.xid().unwrap() > inner_xid);
    writer.release(inner).unwrap();
    assert_eq!(writer.xid().unwrap(), outer_xid);
    assert_eq!(read(&writer), [11, 11, 21]);

    writer.rollback_to(outer).unwrap();
    assert_eq!(read(&writer), [11, 1, 1], "what was released within it too");
    assert_eq!(reader.state_of(outer_xid).unwrap(), XidState::Aborted);
    rows[1].add(&mut writer, 30);
    writer.commit().unwrap();
    begin(&mut reader, Isolation::ReadCommitted);
    assert_eq!(read(&reader), [11, 31, 1]);
}

pub(crate) fn savepoints_nest_deep<M: Mechanisms>(core: &Core<M>) {
    const DEPTH: usize = 1000;
    let row = Row::new(0);
    let (mut writer, mut reader) = (core.session().unwrap(), core.session().unwrap());
    begin(&mut writer, Isolation::RepeatableRead);
    let savepoints: Vec<_> = (0..DEPTH).map(|_| writer.savepoint().unwrap()).collect();
    let deepest = writer.xid().unwrap();
    assert_eq!(
        deepest.get(),
        FIRST.get() + DEPTH as u64,
        "ids come from the outside in"
    );
    row.add(&mut writer, 1);
    assert_eq!(row.read(&writer), 1);
    writer.rollback_to(savepoints[DEPTH / 2]).unwrap();
    assert_eq!(row.read(&writer), 0);
    assert_eq!(reader.state_of(deepest).unwrap(), XidState::Aborted);
    let half = Xid::new(FIRST.get() + DEPTH as u64 / 2);
    assert_eq!(reader.state_of(half).unwrap(), XidState::Running);
    row.add(&mut writer, 2);
    writer.commit().unwrap();
    assert_eq!(reader.state_of(half).unwrap(), XidState::Committed);
    begin(&mut reader, Isolation::ReadCommitted);
    assert_eq!(row.read(&reader), 2);
}

pub(crate) fn a_savepoint_is_good_until_it_is_gone<M: Mechanisms>(core: &Core<M>) {
    let mut session = core.session().unwrap();
    assert_eq!(session.savepoint(), Err(StateError::NotBegun));
    session.begin(Isolation::ReadCommitted).unwrap();
    let outer = session.savepoint().unwrap();
    let inner = session.savepoint().unwrap();
    session.rollback_to(outer).unwrap();
    let gone = |result| matches!(result, Err(AbortError::State(StateError::NoSavepoint)));
    assert!(gone(session.rollback_to(inner)), "rolled back past");
    let again = session.savepoint().unwrap();
    assert!(
        gone(session.rollback_to(inner)),
        "another of the same depth"
    );
    session.release(outer).unwrap();
    assert!(
        gone(session.rollback_to(again)),
        "released with the one around it"
    );
    assert_eq!(session.release(outer), Err(StateError::NoSavepoint));
    let last = session.savepoint().unwrap();
    session.commit().unwrap();
    session.begin(Isolation::ReadCommitted).unwrap();
    assert!(gone(session.rollback_to(last)), "of another transaction");
    assert_eq!(
        core.array().next_xid(),
        FIRST,
        "without a write there is no id"
    );
}

/// Whoever waits for what a savepoint has written goes on when it is rolled back, not only at the transaction's end.
pub(crate) fn a_rollback_wakes_who_waits_for_it<M: Mechanisms>(core: &Core<M>) {
    let row = Row::new(1);
    let mut writer = core.session().unwrap();
    begin(&mut writer, Isolation::ReadCommitted);
    let savepoint = writer.savepoint().unwrap();
    row.add(&mut writer, 10);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut other = core.session().unwrap();
            begin(&mut other, Isolation::ReadCommitted);
            assert!(row.add(&mut other, 100));
            other.commit().unwrap();
        });
        thread::yield_now();
        writer.rollback_to(savepoint).unwrap();
        other.join().unwrap();
    });
    writer.end_statement();
    writer.statement().unwrap();
    assert_eq!(row.read(&writer), 101);
}

/// Two transactions change two rows in opposite order: the younger one is told to give way, the other one goes through.
pub(crate) fn of_two_in_a_deadlock_the_younger_gives_way<M: Mechanisms>(core: &Core<M>) {
    for round in 0..20 {
        let (mut elder, mut younger) = (core.session().unwrap(), core.session().unwrap());
        begin(&mut elder, Isolation::ReadCommitted);
        begin(&mut younger, Isolation::ReadCommitted);
        let ids = [elder.xid().unwrap(), younger.xid().unwrap()];
        // One of them waits for what the other wrote in a savepoint.
        younger.savepoint().unwrap();
        let in_savepoint = younger.xid().unwrap();
        thread::scope(|scope| {
            let elder = scope.spawn(|| {
                let awaited = if round % 2 == 0 { ids[1] } else { in_savepoint };
                elder.wait_for(awaited, 20 * SECOND_NS).unwrap();
                elder.commit().unwrap();
            });
            let error = younger.wait_for(ids[0], 20 * SECOND_NS).unwrap_err();
            let WaitError::Deadlock(deadlock) = error else {
                panic!("{error}");
            };
            assert_eq!(deadlock.cycle, [(ids[1], ids[0]), (ids[0], ids[1])]);
            assert!(!elder.is_finished());
            younger.abort().unwrap();
        });
    }
}

pub(crate) fn sessions_are_limited_and_come_back<M: Mechanisms>(core: &Core<M>) {
    let all: Vec<_> = (0..SESSIONS).map(|_| core.session().unwrap()).collect();
    let sessions = SESSIONS;
    let error = core.session().err();
    assert_eq!(error, Some(SessionError::Array(RegisterError { sessions })));
    drop(all);
    core.session().unwrap();
}

/// A row that is only ever locked.
#[derive(Default)]
struct Locked(Mutex<RowMark>);

impl Locked {
    fn ask<M: Mechanisms>(&self, session: &mut Session<'_, M>, mode: Mode) -> RowLock {
        let mut mark = self.0.lock().unwrap();
        let decided = session.lock_row(*mark, mode).unwrap();
        if let RowLock::Granted(new) = decided {
            *mark = new;
        }
        decided
    }

    /// Waits for whoever is in the way.
    fn lock<M: Mechanisms>(
        &self,
        session: &mut Session<'_, M>,
        mode: Mode,
    ) -> Result<(), WaitError> {
        loop {
            match self.ask(session, mode) {
                RowLock::Granted(_) => return Ok(()),
                RowLock::Busy(xid) => session.wait_for(xid, 20 * SECOND_NS)?,
                RowLock::Replaced(xid) => panic!("{xid} has replaced a row that nobody changes"),
            }
        }
    }
}

/// Two transactions and every pair of modes: the second gets its lock, or is told whom to wait for.
pub(crate) fn row_locks_exclude_as_their_modes_do<M: Mechanisms>(core: &Core<M>) {
    let (mut one, mut other) = (core.session().unwrap(), core.session().unwrap());
    for held in Mode::ALL {
        for asked in Mode::ALL {
            let row = Locked::default();
            begin(&mut one, Isolation::ReadCommitted);
            begin(&mut other, Isolation::ReadCommitted);
            let holder = one.xid().unwrap();
            other.xid().unwrap();
            assert!(matches!(
                row.ask(&mut one, held),
                RowLock::Granted(RowMark::One(_))
            ));
            let answer = row.ask(&mut other, asked);
            if held.conflicts(asked) {
                assert_eq!(answer, RowLock::Busy(holder), "{held:?} and {asked:?}");
            } else {
                assert!(matches!(answer, RowLock::Granted(RowMark::Many(_))));
                assert_eq!(other.lockers(*row.0.lock().unwrap()).unwrap().len(), 2);
            }
            one.commit().unwrap();
            // A lock ends with its transaction; a change stays.
            let answer = row.ask(&mut other, asked);
            if held.is_update() {
                assert_eq!(answer, RowLock::Replaced(holder), "{held:?} and {asked:?}");
            } else {
                assert!(
                    matches!(answer, RowLock::Granted(_)),
                    "{held:?} and {asked:?}"
                );
            }
            other.abort().unwrap();
        }
    }
}

pub(crate) fn many_share_a_row_and_the_last_one_frees_it<M: Mechanisms>(core: &Core<M>) {
    let row = Locked::default();
    let mut sharers: Vec<_> = (0..4).map(|_| core.session().unwrap()).collect();
    let mut ids = Vec::new();
    for sharer in &mut sharers {
        begin(sharer, Isolation::ReadCommitted);
        ids.push(sharer.xid().unwrap());
        row.lock(sharer, Mode::ForShare).unwrap();
        row.lock(sharer, Mode::ForKeyShare).unwrap();
    }
    let lockers = sharers[0].lockers(*row.0.lock().unwrap()).unwrap();
    let expected: Vec<Member> = ids
        .iter()
        .map(|&xid| Member {
            xid,
            mode: Mode::ForShare,
        })
        .collect();
    assert_eq!(lockers, expected, "a weaker lock changes nothing");

    let mut writer = core.session().unwrap();
    begin(&mut writer, Isolation::ReadCommitted);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            row.lock(&mut writer, Mode::ForUpdate).unwrap();
            let mark = *row.0.lock().unwrap();
            let me = writer.xid().unwrap();
            assert_eq!(
                mark,
                RowMark::One(Member {
                    xid: me,
                    mode: Mode::ForUpdate
                })
            );
            writer.commit().unwrap();
        });
        for (at, sharer) in sharers.iter_mut().enumerate() {
            assert!(!writer.is_finished());
            if at % 2 == 0 {
                sharer.commit().unwrap()
            } else {
                sharer.abort().unwrap()
            };
        }
        writer.join().unwrap();
    });
}

/// Both share a row and want more: one of them gives way, the other gets it.
pub(crate) fn two_that_upgrade_a_shared_lock_deadlock_once<M: Mechanisms>(core: &Core<M>) {
    for _ in 0..20 {
        let row = Locked::default();
        let mut sessions = [core.session().unwrap(), core.session().unwrap()];
        for session in &mut sessions {
            begin(session, Isolation::ReadCommitted);
            session.xid().unwrap();
            row.lock(session, Mode::ForShare).unwrap();
        }
        let got: Vec<bool> = thread::scope(|scope| {
            let threads: Vec<_> = sessions
                .iter_mut()
                .map(|session| {
                    let row = &row;
                    scope.spawn(move || match row.lock(session, Mode::ForUpdate) {
                        Ok(()) => session.commit().is_ok(),
                        Err(WaitError::Deadlock(_)) => session.abort().is_err(),
                        Err(other) => panic!("{other}"),
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(got, [true, false], "the younger one gives way");
    }
}

pub(crate) fn what_a_savepoint_locked_is_free_after_its_rollback<M: Mechanisms>(core: &Core<M>) {
    let row = Locked::default();
    let (mut holder, mut other) = (core.session().unwrap(), core.session().unwrap());
    begin(&mut holder, Isolation::ReadCommitted);
    begin(&mut other, Isolation::ReadCommitted);
    row.lock(&mut holder, Mode::ForKeyShare).unwrap();
    let top = holder.xid().unwrap();
    let savepoint = holder.savepoint().unwrap();
    row.lock(&mut holder, Mode::ForUpdate).unwrap();
    let inner = holder.xid().unwrap();
    assert_eq!(row.ask(&mut other, Mode::ForShare), RowLock::Busy(inner));
    holder.rollback_to(savepoint).unwrap();
    assert!(matches!(
        row.ask(&mut other, Mode::ForShare),
        RowLock::Granted(RowMark::Many(_))
    ));
    assert!(matches!(row.ask(&mut other, Mode::ForUpdate), RowLock::Busy(xid) if xid == top));
}

/// For maps of ages that are on, with a threshold of nothing: a snapshot that is held too long is refused as soon as a pruner went beyond it, and never before.
pub(crate) fn a_snapshot_gets_too_old<M: Mechanisms>(core: &Core<M>) {
    let row = Row::new(1);
    let (mut old, mut writer) = (core.session().unwrap(), core.session().unwrap());
    begin(&mut old, Isolation::RepeatableRead);
    assert_eq!(row.read(&old), 1);
    let held = core.horizon();
    let mut limit = held;
    while limit <= held {
        begin(&mut writer, Isolation::ReadCommitted);
        row.add(&mut writer, 1);
        writer.commit().unwrap();
        begin(&mut writer, Isolation::ReadCommitted);
        writer.advance_ages().unwrap();
        writer.commit().unwrap();
        if core.prune_limit() == held {
            assert_eq!(row.read(&old), 1, "nobody went beyond it");
        }
        limit = core.prune_limit();
    }
    assert_eq!(
        core.horizon(),
        held,
        "the snapshot still holds the horizon back"
    );
    let error = old.visible(Xid::FROZEN, NOBODY).unwrap_err();
    assert!(matches!(error, ReadError::TooOld(_)), "{error}");
    assert!(old.check_age().is_err());
    old.abort().unwrap();
    begin(&mut old, Isolation::RepeatableRead);
    assert!(row.read(&old) > 1, "a new one is good");
}
