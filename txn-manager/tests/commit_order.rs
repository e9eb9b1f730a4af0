//! The order of a commit, and what is left when a step of it fails.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use multixact::LockTable;
use procarray::ProcArray;
use slru::{MemoryStore, Status, StatusError, StatusErrorKind, StatusLog, StatusStore};
use txn_manager::{
    AbortError, AssignError, CommitError, Core, Isolation, Lsn, Redo, RedoError, Session, SnapMap,
    Snapshots, StateError, WriteError, Xid, XidRun, XidState,
};

const FIRST: Xid = Xid::FIRST_NORMAL;

/// What happened, in order.
#[derive(Default)]
struct Events(Mutex<Vec<&'static str>>);

impl Events {
    fn add(&self, event: &'static str) {
        self.0.lock().unwrap().push(event);
    }

    fn take(&self) -> Vec<&'static str> {
        core::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Log<'a> {
    events: &'a Events,
    reserved: Mutex<Vec<Xid>>,
    fails: AtomicBool,
}

impl Redo for Log<'_> {
    fn commit(&self, _: Xid, _: &[XidRun]) -> Result<Lsn, RedoError> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(RedoError::new("the disk is full"));
        }
        self.events.add("redo");
        Ok(Lsn::new(0x1_0000_0042))
    }

    fn abort(&self, _: Xid, _: &[XidRun]) {
        self.events.add("redo-abort");
    }

    fn reserve_ids(&self, end: Xid) -> Result<(), RedoError> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(RedoError::new("the disk is full"));
        }
        self.reserved.lock().unwrap().push(end);
        Ok(())
    }

    fn change(&self, _: Xid, _: &[u8]) -> Result<Lsn, RedoError> {
        self.events.add("change");
        Ok(Lsn::new(7))
    }
}

struct Statuses<'a> {
    events: &'a Events,
    inner: StatusLog<MemoryStore>,
    fails: AtomicBool,
}

impl StatusStore for Statuses<'_> {
    fn get(&self, xid: Xid) -> Result<Status, StatusError> {
        self.inner.get(xid)
    }

    fn set(&self, xid: Xid, status: Status, lsn: Lsn) -> Result<(), StatusError> {
        self.inner.set(xid, status, lsn)
    }

    fn set_tree(
        &self,
        top: Xid,
        children: &[XidRun],
        status: Status,
        lsn: Lsn,
    ) -> Result<(), StatusError> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(StatusErrorKind::WouldBlock.into());
        }
        self.events.add(if lsn.is_valid() {
            "status-with-position"
        } else {
            "status"
        });
        self.inner.set_tree(top, children, status, lsn)
    }

    fn flush(&self) -> Result<(), StatusError> {
        self.inner.flush()
    }
}

type Tested<'a> = (
    ProcArray,
    Statuses<'a>,
    LockTable<MemoryStore>,
    SnapMap,
    Log<'a>,
);
type TestCore<'a> = Core<Tested<'a>>;
type TestSession<'a, 'b> = Session<'a, Tested<'b>>;

fn locks() -> LockTable<MemoryStore> {
    LockTable::new(MemoryStore::new(), MemoryStore::new(), 16, 16, 4)
}

fn core(events: &Events) -> TestCore<'_> {
    let log = Log {
        events,
        reserved: Mutex::default(),
        fails: AtomicBool::new(false),
    };
    let inner = StatusLog::new(MemoryStore::new(), 16, FIRST);
    Core::new(
        ProcArray::new(4, FIRST),
        Statuses {
            events,
            inner,
            fails: AtomicBool::new(false),
        },
        locks(),
        SnapMap::off(),
        log,
    )
}

fn writing(session: &mut TestSession<'_, '_>) -> Xid {
    session.begin(Isolation::ReadCommitted).unwrap();
    session.statement().unwrap();
    session.xid().unwrap()
}

#[test]
fn redo_comes_before_status() {
    let events = Events::default();
    let core = core(&events);
    let mut session = core.session().unwrap();
    writing(&mut session);
    session.change(b"row").unwrap();
    session.commit().unwrap();
    assert_eq!(events.take(), ["change", "redo", "status-with-position"]);

    writing(&mut session);
    session.abort().unwrap();
    assert_eq!(events.take(), ["redo-abort", "status"]);
}

#[test]
fn a_reader_leaves_no_trace() {
    let events = Events::default();
    let core = core(&events);
    let mut session = core.session().unwrap();
    for _ in 0..2 {
        session.begin(Isolation::RepeatableRead).unwrap();
        session.statement().unwrap();
        assert_eq!(session.commit().unwrap(), None);
        session.begin(Isolation::RepeatableRead).unwrap();
        assert_eq!(session.abort().unwrap(), None);
    }
    drop(session);
    assert!(events.take().is_empty());
}

#[test]
fn a_refused_commit_record_leaves_the_transaction_to_be_aborted() {
    let events = Events::default();
    let core = core(&events);
    let (mut session, mut other) = (core.session().unwrap(), core.session().unwrap());
    let xid = writing(&mut session);
    core.redo().fails.store(true, Ordering::Relaxed);
    let error = session.commit().unwrap_err();
    assert!(matches!(error, CommitError::Redo(_)));
    assert!(
        error.to_string().contains("the disk is full") && error.to_string().contains("abort"),
        "{error}"
    );
    assert_eq!(other.state_of(xid).unwrap(), XidState::Running);
    assert_eq!(session.abort().unwrap(), Some(xid));
    assert_eq!(other.state_of(xid).unwrap(), XidState::Aborted);
}

#[test]
fn without_a_status_a_commit_is_in_doubt_and_can_be_finished() {
    let events = Events::default();
    let core = core(&events);
    let (mut session, mut other) = (core.session().unwrap(), core.session().unwrap());
    let xid = writing(&mut session);
    core.status().fails.store(true, Ordering::Relaxed);
    assert!(matches!(session.commit(), Err(CommitError::InDoubt { xid: of, .. }) if of == xid));
    assert!(matches!(
        session.abort(),
        Err(AbortError::State(StateError::InDoubt { .. }))
    ));
    assert!(matches!(
        session.begin(Isolation::ReadCommitted),
        Err(StateError::InDoubt { .. })
    ));
    assert_eq!(other.state_of(xid).unwrap(), XidState::Running);
    core.status().fails.store(false, Ordering::Relaxed);
    assert_eq!(session.commit().unwrap(), Some(xid));
    assert_eq!(
        events.take(),
        ["redo", "status-with-position"],
        "one record only"
    );
    assert_eq!(other.state_of(xid).unwrap(), XidState::Committed);
}

#[test]
fn a_session_dropped_in_doubt_commits_if_it_can() {
    let events = Events::default();
    let core = core(&events);
    let (mut session, mut other) = (core.session().unwrap(), core.session().unwrap());
    let xid = writing(&mut session);
    core.status().fails.store(true, Ordering::Relaxed);
    assert!(session.commit().is_err());
    core.status().fails.store(false, Ordering::Relaxed);
    drop(session);
    assert_eq!(other.state_of(xid).unwrap(), XidState::Committed);
}

#[test]
fn a_session_dropped_without_a_status_is_aborted_and_wakes_its_waiters() {
    let events = Events::default();
    let core = core(&events);
    let (mut session, mut other) = (core.session().unwrap(), core.session().unwrap());
    let xid = writing(&mut session);
    core.status().fails.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| other.wait_for(xid, 20_000_000_000).unwrap());
        std::thread::yield_now();
        assert!(matches!(session.abort(), Err(AbortError::Status(_))));
        drop(session);
    });
    assert_eq!(other.state_of(xid).unwrap(), XidState::Aborted);
}

#[test]
fn a_redo_log_that_panics_leaves_the_transaction_running() {
    struct Panics;
    impl Redo for Panics {
        fn commit(&self, _: Xid, _: &[XidRun]) -> Result<Lsn, RedoError> {
            panic!("asked for by the test");
        }
        fn abort(&self, _: Xid, _: &[XidRun]) {}
        fn reserve_ids(&self, _: Xid) -> Result<(), RedoError> {
            Ok(())
        }
        fn change(&self, _: Xid, _: &[u8]) -> Result<Lsn, RedoError> {
            Ok(Lsn::INVALID)
        }
    }
    let core = Core::new(
        ProcArray::new(2, FIRST),
        StatusLog::new(MemoryStore::new(), 16, FIRST),
        locks(),
        SnapMap::off(),
        Panics,
    );
    let (mut session, mut other) = (core.session().unwrap(), core.session().unwrap());
    session.begin(Isolation::ReadCommitted).unwrap();
    let xid = session.xid().unwrap();
    let caught = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| session.commit()));
    assert!(caught.is_err());
    assert_eq!(other.state_of(xid).unwrap(), XidState::Running);
    session.abort().unwrap();
    assert_eq!(other.state_of(xid).unwrap(), XidState::Aborted);
}

/// No id is handed out before its block is in the log, blocks are made when they are needed, and a log that refuses hands out nothing.
#[test]
fn ids_are_reserved_before_they_are_handed_out() {
    let events = Events::default();
    let core = core(&events);
    core.redo().fails.store(true, Ordering::Relaxed);
    let mut session = core.session().unwrap();
    session.begin(Isolation::ReadCommitted).unwrap();
    assert!(session.xid().is_err());
    assert_eq!(core.array().next_xid(), FIRST);
    session.abort().unwrap();

    core.redo().fails.store(false, Ordering::Relaxed);
    let mut last = FIRST;
    while core.redo().reserved.lock().unwrap().len() < 2 {
        last = writing(&mut session);
        let reserved = core.redo().reserved.lock().unwrap();
        assert!(reserved.last().is_some_and(|&end| last < end));
        assert!(reserved.is_sorted());
        drop(reserved);
        session.abort().unwrap();
    }
    assert!(last.get() > 10_000, "a block is many ids");
}

/// A limit of the array's own is not mistaken for want of reserved ids.
#[test]
fn an_array_at_its_limit_says_so() {
    let events = Events::default();
    let core = core(&events);
    let mut session = core.session().unwrap();
    writing(&mut session);
    session.abort().unwrap();
    core.array().set_stop(core.array().next_xid());
    session.begin(Isolation::ReadCommitted).unwrap();
    let error = session.xid().unwrap_err();
    assert!(
        matches!(error, WriteError::Assign(AssignError::Stopped { .. })),
        "{error}"
    );
}
