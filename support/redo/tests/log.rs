//! Appending, flushing, reading back.

extern crate alloc;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Mutex;
use std::thread;

use txnkit_redo::{
    BUFFER_BYTES, Flusher, LogStore, Lsn, MAX_PAYLOAD, MemoryStore, Record, RedoError, RedoLog,
    StoreError,
};

/// A store that fails, panics or counts as told, over one in memory.
#[derive(Default)]
struct Faulty<'a> {
    inner: MemoryStore,
    plan: Option<&'a Plan>,
}

#[derive(Default)]
struct Plan {
    syncs: AtomicU64,
    appends: AtomicU64,
    failing_sync: AtomicU64,
    failing_append: AtomicU64,
    panicking_append: AtomicU64,
}

impl Plan {
    fn strikes(count: &AtomicU64, at: &AtomicU64) -> bool {
        count.fetch_add(1, Ordering::Relaxed) + 1 == at.load(Ordering::Relaxed)
    }
}

impl LogStore for Faulty<'_> {
    fn start(&self) -> u64 {
        self.inner.start()
    }
    fn end(&self) -> u64 {
        self.inner.end()
    }
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<usize, StoreError> {
        self.inner.read(at, into)
    }
    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        if let Some(plan) = self.plan {
            let nth = plan.appends.fetch_add(1, Ordering::Relaxed) + 1;
            assert_ne!(
                nth,
                plan.panicking_append.load(Ordering::Relaxed),
                "meant to"
            );
            if nth == plan.failing_append.load(Ordering::Relaxed) {
                return Err(StoreError::new("the disk is full"));
            }
        }
        self.inner.append(bytes)
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        match self.plan {
            Some(plan) if Plan::strikes(&plan.syncs, &plan.failing_sync) => {
                Err(StoreError::new("input/output error"))
            }
            _ => Ok(()),
        }
    }
    fn cut(&mut self, end: u64) -> Result<(), StoreError> {
        self.inner.cut(end)
    }
    fn remove_before(&mut self, start: u64) -> Result<(), StoreError> {
        self.inner.remove_before(start)
    }
}

fn faulty(plan: &Plan) -> RedoLog<Faulty<'_>> {
    let store = Faulty {
        inner: MemoryStore::new(),
        plan: Some(plan),
    };
    RedoLog::open(store).unwrap().0
}

fn payloads(records: &[Record]) -> Vec<Vec<u8>> {
    records
        .iter()
        .map(|record| record.payload.clone())
        .collect()
}

#[test]
fn records_come_back_in_order_with_their_positions() {
    let (log, recovered) = RedoLog::open(MemoryStore::new()).unwrap();
    assert_eq!((recovered.start, recovered.end), (Lsn::new(0), Lsn::new(0)));
    let mut ends = Vec::new();
    for len in 0..50_usize {
        let payload = vec![len as u8; len];
        let (first, second) = payload.split_at(len / 3);
        ends.push(log.append(len as u8, &[first, second]).unwrap());
    }
    assert_eq!(
        log.records(Lsn::new(0)).count(),
        0,
        "what is not durable is not given out"
    );
    assert_eq!(log.flush_all().unwrap(), ends[49]);
    let records: Vec<Record> = log.records(Lsn::new(0)).map(Result::unwrap).collect();
    for (len, record) in records.iter().enumerate() {
        assert_eq!((record.kind, record.end), (len as u8, ends[len]));
        assert_eq!(record.payload, vec![len as u8; len]);
        assert_eq!(
            record.start,
            if len == 0 { Lsn::new(0) } else { ends[len - 1] }
        );
        assert_eq!(record.start.get() % 8, 0);
    }
    assert_eq!(records.len(), 50);
    let from_middle: Vec<Record> = log.records(ends[20]).map(Result::unwrap).collect();
    assert_eq!(from_middle, records[21..]);
    assert_eq!(log.records(ends[49]).count(), 0);
}

#[test]
fn a_position_where_no_record_starts_is_refused_once() {
    let (log, _) = RedoLog::open(MemoryStore::new()).unwrap();
    log.append(1, &[b"one"]).unwrap();
    log.flush_all().unwrap();
    let asked = Lsn::new(8);
    let found: Vec<_> = log.records(asked).collect();
    assert_eq!(found, [Err(RedoError::NoRecord { asked })]);
}

#[test]
fn what_cannot_be_appended_or_flushed_is_refused() {
    let (log, _) = RedoLog::open(MemoryStore::new()).unwrap();
    let end = log.append(1, &[b"one"]).unwrap();
    let long = vec![0; MAX_PAYLOAD + 1];
    let too_long = RedoError::TooLong { len: long.len() };
    assert_eq!(log.append(1, &[&long]), Err(too_long));
    let asked = Lsn::new(end.get() + 1);
    assert_eq!(log.flush(asked), Err(RedoError::NotAppended { asked, end }));
    assert_eq!(log.flush(end), Ok(()));
    assert_eq!((log.flushed(), log.end()), (end, end));
}

#[test]
fn the_longest_record_and_a_full_buffer_are_taken() {
    let (log, _) = RedoLog::open(MemoryStore::new()).unwrap();
    let longest = vec![7; MAX_PAYLOAD];
    for _ in 0..3 {
        log.append(1, &[&longest]).unwrap();
    }
    assert!(log.end().get() > 2 * BUFFER_BYTES as u64);
    assert_eq!(log.flushed(), Lsn::new(0), "written out, but not durable");
    log.flush_all().unwrap();
    let records: Vec<Record> = log.records(Lsn::new(0)).map(Result::unwrap).collect();
    assert!(records.len() == 3 && records.iter().all(|record| record.payload == longest));
}

#[test]
fn one_sync_serves_many() {
    const THREADS: u64 = 8;
    const EACH: u64 = 200;
    let plan = Plan::default();
    let log = faulty(&plan);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                for i in 0..EACH {
                    let end = log.append(thread as u8, &[&i.to_le_bytes()]).unwrap();
                    log.flush(end).unwrap();
                    assert!(log.flushed() >= end);
                }
            });
        }
    });
    let syncs = plan.syncs.load(Ordering::Relaxed);
    assert!(syncs <= THREADS * EACH, "{syncs}");
    let records: Vec<Record> = log.records(Lsn::new(0)).map(Result::unwrap).collect();
    assert_eq!(records.len() as u64, THREADS * EACH);
    for thread in 0..THREADS {
        let own: Vec<Record> = records
            .iter()
            .filter(|r| u64::from(r.kind) == thread)
            .cloned()
            .collect();
        let expected: Vec<Vec<u8>> = (0..EACH).map(|i| i.to_le_bytes().to_vec()).collect();
        assert_eq!(payloads(&own), expected);
    }
}

/// While one is in the store, all others append and wait; the next sync serves them all.
#[test]
fn who_waits_behind_a_sync_is_served_by_the_next_one() {
    struct Slow<'a> {
        inner: MemoryStore,
        syncs: &'a AtomicU64,
        gate: &'a Mutex<()>,
    }
    impl LogStore for Slow<'_> {
        fn start(&self) -> u64 {
            0
        }
        fn end(&self) -> u64 {
            self.inner.end()
        }
        fn read(&mut self, at: u64, into: &mut [u8]) -> Result<usize, StoreError> {
            self.inner.read(at, into)
        }
        fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
            self.inner.append(bytes)
        }
        fn sync(&mut self) -> Result<(), StoreError> {
            self.syncs.fetch_add(1, Ordering::Relaxed);
            drop(self.gate.lock().unwrap());
            Ok(())
        }
        fn cut(&mut self, _: u64) -> Result<(), StoreError> {
            Ok(())
        }
        fn remove_before(&mut self, _: u64) -> Result<(), StoreError> {
            Ok(())
        }
    }
    const WAITERS: u64 = 20;
    let (syncs, gate) = (AtomicU64::new(0), Mutex::new(()));
    let store = Slow {
        inner: MemoryStore::new(),
        syncs: &syncs,
        gate: &gate,
    };
    let (log, _) = RedoLog::open(store).unwrap();
    let closed = gate.lock().unwrap();
    let size = log.append(0, &[b"first"]).unwrap().get();
    thread::scope(|scope| {
        scope.spawn(|| log.flush_all().unwrap());
        while syncs.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        for _ in 0..WAITERS {
            scope.spawn(|| {
                let end = log.append(1, &[b"other"]).unwrap();
                log.flush(end).unwrap();
            });
        }
        while log.end().get() < (WAITERS + 1) * size {
            thread::yield_now();
        }
        drop(closed);
    });
    assert_eq!(syncs.load(Ordering::Relaxed), 2);
    assert_eq!(log.flushed(), log.end());
}

#[test]
fn a_failed_sync_is_final() {
    let plan = Plan::default();
    plan.failing_sync.store(2, Ordering::Relaxed);
    let log = faulty(&plan);
    let first = log.append(1, &[b"one"]).unwrap();
    log.flush(first).unwrap();
    let second = log.append(1, &[b"two"]).unwrap();
    let failed = RedoError::Failed(StoreError::new("input/output error"));
    assert_eq!(log.flush(second), Err(failed.clone()));
    assert_eq!(
        log.flush(second),
        Err(failed.clone()),
        "a second try does not make it so"
    );
    assert_eq!(log.append(1, &[b"three"]), Err(failed));
    assert_eq!(plan.syncs.load(Ordering::Relaxed), 2);
    assert_eq!(log.flush(first), Ok(()), "what was durable still is");
    assert_eq!(log.records(Lsn::new(0)).count(), 1);
}

#[test]
fn a_failed_append_reaches_all_who_wait() {
    let plan = Plan::default();
    plan.failing_append.store(1, Ordering::Relaxed);
    let log = faulty(&plan);
    let end = log.append(1, &[b"one"]).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(matches!(log.flush(end), Err(RedoError::Failed(_)))));
        }
    });
    assert_eq!(log.flushed(), Lsn::new(0));
}

#[test]
fn a_store_that_panics_counts_as_failed() {
    let plan = Plan::default();
    plan.panicking_append.store(1, Ordering::Relaxed);
    let log = faulty(&plan);
    let end = log.append(1, &[b"one"]).unwrap();
    let flush = || std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| log.flush(end)));
    assert!(flush().is_err());
    assert!(matches!(flush().unwrap(), Err(RedoError::Failed(_))));
    assert!(log.append(1, &[b"two"]).is_err());
}

#[test]
fn a_log_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<RedoLog<MemoryStore>>();
}

/// A plan that lives as long as threads that outlive a test's scope need it.
fn shared_plan() -> &'static Plan {
    Box::leak(Box::default())
}

#[test]
fn what_nobody_flushes_becomes_durable_in_the_background() {
    let plan = shared_plan();
    let log = Arc::new(faulty(plan));
    let flusher = Flusher::start(Arc::clone(&log), Duration::from_micros(100)).unwrap();
    for round in 0..20_u64 {
        let end = log.append(1, &[&round.to_le_bytes()]).unwrap();
        while log.flushed() < end {
            thread::yield_now();
        }
        let syncs = plan.syncs.load(Ordering::Relaxed);
        assert_eq!(
            syncs,
            round + 1,
            "a turn with nothing to do leaves the store alone"
        );
    }
    assert!(!flusher.has_failed());
    assert_eq!(flusher.stop(), Ok(log.end()));
}

#[test]
fn the_last_turn_flushes_what_was_appended_before_it() {
    let log = Arc::new(faulty(shared_plan()));
    let rarely = Duration::from_secs(3600);
    let flusher = Flusher::start(Arc::clone(&log), rarely).unwrap();
    let end = log.append(1, &[b"one"]).unwrap();
    assert_eq!(flusher.stop(), Ok(end));
    let dropped = Flusher::start(Arc::clone(&log), rarely).unwrap();
    let end = log.append(1, &[b"two"]).unwrap();
    drop(dropped);
    assert_eq!(log.flushed(), end);
}

#[test]
fn a_flusher_whose_log_fails_ends_and_says_so() {
    let plan = shared_plan();
    plan.failing_sync.store(1, Ordering::Relaxed);
    let log = Arc::new(faulty(plan));
    let flusher = Flusher::start(Arc::clone(&log), Duration::from_micros(100)).unwrap();
    log.append(1, &[b"one"]).unwrap();
    while !flusher.has_failed() {
        thread::yield_now();
    }
    let failed = RedoError::Failed(StoreError::new("input/output error"));
    assert_eq!(flusher.stop(), Err(failed.clone()));
    assert_eq!(log.append(1, &[b"two"]), Err(failed));

    let plan = shared_plan();
    plan.panicking_append.store(1, Ordering::Relaxed);
    let log = Arc::new(faulty(plan));
    let flusher = Flusher::start(Arc::clone(&log), Duration::from_secs(3600)).unwrap();
    log.append(1, &[b"one"]).unwrap();
    assert!(matches!(flusher.stop(), Err(RedoError::Failed(_))));
}
