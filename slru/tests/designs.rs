//! Stores that fail, panic and stand still, under the front and, with the feature `baselines`, under the designs before it.
#![cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]

extern crate alloc;

mod common;

use alloc::boxed::Box;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::mpsc;
use std::sync::{Condvar, Mutex};
use std::thread;

use common::{FAULT, FaultyStore, store_error, x};
use slru::{
    Found, Lsn, MemoryStore, PageBuf, PageStore, Status, StatusErrorKind, StatusLog, StatusStore,
    StoreError, Xid,
};

const NO_LOG: Lsn = Lsn::INVALID;
const PAGE: u64 = 32_768;

/// Ids on as many pages, of which 16 fit.
const PAGES: u64 = 40;

type Design<'a> = Box<dyn StatusStore + 'a>;

/// Every design over a store of its own, with room for 16 pages.
fn on_every_design<S: PageStore + Default>(test: impl Fn(&S, Design<'_>)) {
    fn on<S: PageStore + Default>(test: &impl Fn(&S, Design<'_>), make: impl Fn(&S) -> Design<'_>) {
        let store = S::default();
        test(&store, make(&store));
    }
    on(&test, |store| {
        Box::new(StatusLog::new(store, 16, Xid::FIRST_NORMAL))
    });
    #[cfg(feature = "baselines")]
    {
        use slru::baseline::{Banked, History, SingleLock};
        use txnkit_sync::lock::{LockOf2011, LockOfToday};

        let first = Xid::FIRST_NORMAL;
        on(&test, |store| {
            Box::new(SingleLock::<_, LockOf2011>::new(store, 16, first))
        });
        on(&test, |store| {
            Box::new(SingleLock::<_, LockOfToday>::new(store, 16, first))
        });
        on(&test, |store| {
            Box::new(Banked::<_, LockOfToday>::new(store, 16, first))
        });
        on(&test, |store| {
            Box::new(History::<_, LockOf2011>::new(store, 16, first))
        });
    }
}

fn fill(log: &dyn StatusStore) {
    for page in 0..PAGES {
        log.set(x(page * PAGE + 9), Status::Committed, NO_LOG)
            .unwrap();
    }
}

fn all_are_there(log: &dyn StatusStore) {
    for page in 0..PAGES {
        assert_eq!(log.get(x(page * PAGE + 9)), Ok(Status::Committed), "{page}");
    }
}

#[test]
fn a_store_that_panics_leaves_no_lock_held_and_no_page_lost() {
    on_every_design(|store: &FaultyStore, log| {
        fill(&*log);
        let panics = |f: &dyn Fn()| catch_unwind(AssertUnwindSafe(f)).is_err();
        store.panic_read.store(true, Ordering::SeqCst);
        let missing = (0..PAGES).filter(|page| panics(&|| drop(log.get(x(page * PAGE + 9)))));
        let missing = missing.count();
        assert!(missing > 0);
        store.panic_read.store(false, Ordering::SeqCst);
        all_are_there(&*log);

        log.set(x(39 * PAGE + 11), Status::Aborted, NO_LOG).unwrap();
        store.panic_write.store(true, Ordering::SeqCst);
        assert!(panics(&|| drop(log.flush())));
        assert!(panics(&|| fill_again(&*log)));
        store.panic_write.store(false, Ordering::SeqCst);
        log.flush().unwrap();
        drop(log);
        let log = StatusLog::open(store, 16, Xid::FIRST_NORMAL, x(PAGES * PAGE)).unwrap();
        all_are_there(&log);
        assert_eq!(log.get(x(39 * PAGE + 11)), Ok(Status::Aborted));
    });
}

/// Makes every page dirty, so that some have to be written.
fn fill_again(log: &dyn StatusStore) {
    for page in 0..PAGES {
        log.set(x(page * PAGE + 10), Status::Committed, NO_LOG)
            .unwrap();
    }
}

#[test]
fn a_failed_sync_is_for_good() {
    on_every_design(|store: &FaultyStore, log| {
        fill(&*log);
        store.fail_sync.store(true, Ordering::SeqCst);
        assert_eq!(store_error(&log.flush().unwrap_err()), &FAULT);
        store.fail_sync.store(false, Ordering::SeqCst);
        let writes = store.writes.load(Ordering::SeqCst);
        // Dirty or not: what was written before may be lost, so no later sync can vouch for it.
        for _ in 0..2 {
            assert_eq!(
                log.flush().unwrap_err().kind(),
                &StatusErrorKind::SyncFailed
            );
        }
        for page in 0..PAGES {
            match log.set(x(page * PAGE + 10), Status::Committed, NO_LOG) {
                Ok(()) => {}
                Err(error) => assert_eq!(error.kind(), &StatusErrorKind::SyncFailed),
            }
        }
        assert_eq!(
            store.writes.load(Ordering::SeqCst),
            writes,
            "nothing is written any more"
        );
    });
}

/// Memory that keeps the log position that each page was written with, and fails when told to.
#[derive(Default)]
struct WithLog {
    store: FaultyStore,
    newest: Mutex<Option<Lsn>>,
}

impl PageStore for WithLog {
    fn read(&self, page: u64, into: &mut PageBuf) -> Result<Found, StoreError> {
        self.store.read(page, into)
    }

    fn write(&self, page: u64, from: &PageBuf, log: Lsn) -> Result<(), StoreError> {
        self.store.write(page, from, log)?;
        let mut newest = self.newest.lock().unwrap();
        *newest = (*newest).max(Some(log));
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.store.sync()
    }

    fn truncate(&self, first: u64) -> Result<(), StoreError> {
        self.store.truncate(first)
    }
}

#[test]
fn a_page_is_written_with_its_log_position_however_often_that_failed() {
    on_every_design(|store: &WithLog, log| {
        log.set(x(9), Status::Committed, Lsn::new(7)).unwrap();
        for _ in 0..3 {
            store.store.fail_write.store(true, Ordering::SeqCst);
            assert_eq!(store_error(&log.flush().unwrap_err()), &FAULT);
        }
        store.store.fail_write.store(false, Ordering::SeqCst);
        log.set(x(10), Status::Committed, Lsn::new(5)).unwrap();
        log.flush().unwrap();
        assert_eq!(*store.newest.lock().unwrap(), Some(Lsn::new(7)));
    });
}

/// Memory whose I/O on one page stands still until it is let go.
#[derive(Default)]
struct Standing {
    pages: MemoryStore,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Default, PartialEq, Eq, Debug)]
enum Gate {
    #[default]
    Open,
    Closed {
        page: u64,
        write: bool,
    },
    Reached,
}

impl Standing {
    fn close(&self, page: u64, write: bool) {
        *self.gate.lock().unwrap() = Gate::Closed { page, write };
    }

    fn wait_until_reached(&self) {
        let gate = self.gate.lock().unwrap();
        let not_yet = |gate: &mut Gate| *gate != Gate::Reached;
        drop(self.changed.wait_while(gate, not_yet).unwrap());
    }

    fn open(&self) {
        *self.gate.lock().unwrap() = Gate::Open;
        self.changed.notify_all();
    }

    fn pass(&self, page: u64, write: bool) {
        let mut gate = self.gate.lock().unwrap();
        if *gate == (Gate::Closed { page, write }) {
            *gate = Gate::Reached;
            self.changed.notify_all();
            let closed = |gate: &mut Gate| *gate != Gate::Open;
            drop(self.changed.wait_while(gate, closed).unwrap());
        }
    }
}

impl PageStore for Standing {
    fn read(&self, page: u64, into: &mut PageBuf) -> Result<Found, StoreError> {
        self.pass(page, false);
        self.pages.read(page, into)
    }

    fn write(&self, page: u64, from: &PageBuf, log: Lsn) -> Result<(), StoreError> {
        self.pass(page, true);
        self.pages.write(page, from, log)
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn truncate(&self, first: u64) -> Result<(), StoreError> {
        self.pages.truncate(first)
    }
}

/// While I/O of one page stands still, others of the same bank are read, set, missed and thrown out. A lock that were held meanwhile would make this wait for
/// ever, so it happens in a thread that is given ten seconds.
fn others_go_on(
    store: &Standing,
    log: &dyn StatusStore,
    page: u64,
    write: bool,
    io: impl FnOnce() + Send,
) {
    store.close(page, write);
    thread::scope(|scope| {
        let stands = scope.spawn(io);
        store.wait_until_reached();
        let (done, is_done) = mpsc::channel();
        scope.spawn(move || {
            for other in (0..PAGES).filter(|&other| other != page) {
                log.set(x(other * PAGE + 12), Status::Committed, NO_LOG)
                    .unwrap();
                assert_eq!(log.get(x(other * PAGE + 9)), Ok(Status::Committed));
            }
            done.send(()).unwrap();
        });
        let in_time = is_done.recv_timeout(Duration::from_secs(10));
        store.open();
        stands.join().unwrap();
        assert!(in_time.is_ok(), "others wait for the I/O of page {page}");
    });
    all_are_there(log);
}

#[test]
fn no_lock_is_held_during_io() {
    on_every_design(|store: &Standing, log| {
        let log = &*log;
        fill(log);
        // Page 0 was thrown out long ago; the latest page is never.
        others_go_on(store, log, 0, false, || {
            log.get(x(9)).unwrap();
        });
        log.set(x((PAGES - 1) * PAGE + 11), Status::Committed, NO_LOG)
            .unwrap();
        others_go_on(store, log, PAGES - 1, true, || log.flush().unwrap());
    });
}
