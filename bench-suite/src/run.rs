//! Runs one cell: load, warm up, count, check.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, ensure};
use bufpin::Pins;
use hdrhistogram::Histogram;
use multixact::LockTable;
use slru::MemoryStore;
use txn_manager::{Core, Isolation, SnapMap, Snapshots, StatusStore, Xid};
use txnkit_sync::atomic::{AtomicBool, Ordering};

use crate::cell::{CellResult, CellSpec, HARNESS, LatencyNs, WorkloadKind};
use crate::faults::Faults;
use crate::heap::Heap;
use crate::host;
use crate::redo::SharedLog;
use crate::rng::Rng;
use crate::tpcb::{Bank, Outcome, Transfer};

/// The first id of every run.
pub const FIRST_XID: Xid = Xid::FIRST_NORMAL;

/// Status pages in memory: the status of 33 million ids, so that reading old rows misses no page.
pub const STATUS_PAGES: usize = 1024;

/// Pages of lock sets in memory, of each kind.
const LOCK_PAGES: usize = 16;

/// A latency beyond this counts as this.
const LONGEST_LATENCY_NS: u64 = 60_000_000_000;

/// How long a client may take to get to the start.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// The manager that cells run on.
pub type BenchCore<P, S> = Core<(P, S, LockTable<MemoryStore>, SnapMap, SharedLog)>;

/// The heap that cells run on.
pub type BenchHeap<P, S, B> = Heap<(P, S, LockTable<MemoryStore>, SnapMap, SharedLog), B>;

/// A manager over this array and this status store, with all that a cell needs around it.
///
/// # Errors
/// When the redo log cannot be started.
pub fn bench_core<P: Snapshots, S: StatusStore>(array: P, status: S) -> Result<BenchCore<P, S>> {
    let store = MemoryStore::new;
    let locks = LockTable::new(store(), store(), LOCK_PAGES, LOCK_PAGES, array.sessions());
    Ok(Core::new(
        array,
        status,
        locks,
        SnapMap::off(),
        SharedLog::start()?,
    ))
}

/// Sessions that a cell registers at the same time.
pub fn sessions(spec: &CellSpec) -> usize {
    spec.clients as usize
}

/// Buffers in a cell's pool.
pub fn buffers(spec: &CellSpec) -> u64 {
    match spec.buffers {
        0 => Bank::pages(spec.scale),
        asked => u64::from(asked),
    }
}

/// An upper bound of the memory that a cell needs, in bytes.
pub fn estimate_memory_bytes(spec: &CellSpec) -> u64 {
    // Stack and histogram of a client, and its struct in the largest baseline.
    const CLIENT: u64 = 512 << 10;
    const PROGRAM: u64 = 32 << 20;
    let data = match spec.workload {
        WorkloadKind::TpcbLike => Bank::bytes(spec.scale, buffers(spec)),
    };
    let status = STATUS_PAGES as u64 * 8192 * 2;
    data + status + SharedLog::BYTES as u64 + u64::from(spec.clients) * CLIENT + PROGRAM
}

/// Runs the cell on this array and this status store, whose first id must be [`FIRST_XID`], and this pool, of [`buffers`]. Array and pool must have room for [`sessions`].
///
/// # Errors
/// Says what went wrong: a client that failed or panicked, an invariant that the data violate after the run, a specification that cannot be run.
pub fn run_cell<P: Snapshots, S: StatusStore, B: Pins>(
    spec: &CellSpec,
    array: P,
    status: S,
    pool: B,
) -> Result<CellResult> {
    let started = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let heap = Heap::new(bench_core(array, status)?, pool);
    // The loading session is gone when the clients come.
    let bank = match spec.workload {
        WorkloadKind::TpcbLike => Bank::load(&heap.client()?.pins, spec.scale, spec.tables)?,
    };
    let measured = measure(spec, &|cell, number, report| {
        work(&heap, &bank, cell, number, report)
    })?;
    bank.check(&mut heap.client()?, measured.tally.all_committed)
        .context("after the run")?;

    Ok(result(spec, started, measured))
}

fn result(spec: &CellSpec, started: Duration, measured: Measured) -> CellResult {
    let Measured { tally, steal_ticks } = measured;
    CellResult {
        spec: spec.clone(),
        tps: tally.latency.len() as f64 / (spec.run_ms as f64 / 1000.0),
        transactions: tally.latency.len(),
        latency_ns: percentiles(&tally.latency),
        aborts: tally.aborts,
        lock_waits: tally.lock_waits,
        memory_bytes: host::peak_memory_bytes(),
        steal_ticks,
        runqueue_wait_ns: tally.runqueue_wait_ns,
        revision: host::revision(),
        profile: host::profile(),
        host: host::host(),
        started_unix_ms: started.as_millis() as u64,
        harness: HARNESS.into(),
    }
}

/// Can the cell be run at all? Asked before anything is built for it.
///
/// # Errors
/// Says what is asked and what could be.
pub fn validate(spec: &CellSpec) -> Result<()> {
    ensure!(spec.clients > 0, "clients is 0; ask for at least one");
    ensure!(
        spec.run_ms > 0,
        "run_ms is 0; ask for at least one millisecond"
    );
    let most = u32::MAX / crate::tpcb::ACCOUNTS;
    ensure!(
        (1..=most).contains(&spec.scale),
        "scale is {}; ask for one from 1 to {most}",
        spec.scale
    );
    // A client has two pages pinned at most.
    let fewest = 2 * spec.clients + 16;
    ensure!(
        spec.buffers == 0 || spec.buffers >= fewest,
        "buffers is {}; ask for at least {fewest} with {} clients, or for 0: as many as there are pages",
        spec.buffers,
        spec.clients
    );
    Ok(())
}

/// When clients are counted.
#[derive(Debug, Clone, Copy)]
struct Window {
    start: Instant,
    end: Instant,
}

struct Measured {
    tally: Tally,
    steal_ticks: u64,
}

/// What one client did, or all together.
struct Tally {
    /// Of transactions committed within the window.
    latency: Histogram<u64>,
    aborts: u64,
    lock_waits: u64,
    runqueue_wait_ns: u64,
    /// Warm-up and the transaction that the end of the window cut included.
    all_committed: u64,
}

impl Tally {
    fn new() -> Result<Self> {
        let latency = Histogram::new_with_bounds(1, LONGEST_LATENCY_NS, 3)?;
        Ok(Self {
            latency,
            aborts: 0,
            lock_waits: 0,
            runqueue_wait_ns: 0,
            all_committed: 0,
        })
    }

    fn count(&mut self, outcome: Outcome, took: Duration) {
        self.lock_waits += u64::from(outcome.waits);
        if outcome.committed {
            self.latency.saturating_record(took.as_nanos() as u64);
        } else {
            self.aborts += 1;
        }
    }

    fn merge(&mut self, other: &Self) -> Result<()> {
        self.latency.add(&other.latency)?;
        self.aborts += other.aborts;
        self.lock_waits += other.lock_waits;
        self.runqueue_wait_ns += other.runqueue_wait_ns;
        self.all_committed += other.all_committed;
        Ok(())
    }
}

/// What a client does from when it is ready to when its time is over. Behind a pointer, so that only this is built for every combination of
/// mechanisms: it is called once a client.
type Work<'a> = &'a (dyn Fn(&Run<'_>, usize, &Sender<Report>) -> Result<Tally> + Sync);

/// What all clients share.
struct Run<'a> {
    spec: &'a CellSpec,
    faults: Faults,
    /// Clients wait on it until whoever starts them has filled it in and lets go of it.
    gate: RwLock<Option<Window>>,
    /// A client has failed, the others end. Relaxed: nothing else is read by it.
    stop: AtomicBool,
}

/// What a client tells whoever started it.
enum Report {
    Ready,
    Failed,
}

fn measure(spec: &CellSpec, work: Work<'_>) -> Result<Measured> {
    let cell = Run {
        spec,
        faults: Faults::from_env(spec)?,
        gate: RwLock::new(None),
        stop: AtomicBool::new(false),
    };
    let (report, reports) = channel();
    thread::scope(|scope| {
        // Until the gate is let go, which happens on every way out, all clients stand behind it.
        let gate = cell.gate.write().unwrap_or_else(PoisonError::into_inner);
        let mut clients = Vec::new();
        for client in 0..spec.clients as usize {
            let (cell, report) = (&cell, report.clone());
            let run = move || guarded(cell, work, client, &report);
            clients.push(
                thread::Builder::new()
                    .name(format!("client-{client}"))
                    .spawn_scoped(scope, run)?,
            );
        }
        drop(report);
        let steal_ticks = conduct(&cell, gate, &reports);

        let mut tally = Tally::new()?;
        let mut failure = None;
        for client in clients {
            match client.join() {
                Ok(Ok(theirs)) => tally.merge(&theirs)?,
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(_) => {
                    failure = failure.or(Some(anyhow!("a client could not say why it failed")))
                }
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        Ok(Measured {
            tally,
            steal_ticks: steal_ticks?,
        })
    })
}

/// Starts the clients together, waits for the window to pass or a client to fail, and returns the ticks stolen within the window.
fn conduct(
    cell: &Run<'_>,
    mut gate: std::sync::RwLockWriteGuard<'_, Option<Window>>,
    reports: &Receiver<Report>,
) -> Result<u64> {
    for _ in 0..cell.spec.clients {
        match reports.recv_timeout(READY_TIMEOUT) {
            Ok(Report::Ready) => {}
            Ok(Report::Failed) | Err(_) => {
                cell.stop.store(true, Ordering::Relaxed);
                return Err(anyhow!("not every client got to the start"));
            }
        }
    }
    let start = Instant::now() + Duration::from_millis(cell.spec.warmup_ms);
    let window = Window {
        start,
        end: start + Duration::from_millis(cell.spec.run_ms),
    };
    *gate = Some(window);
    drop(gate);

    let before = pass(window.start, reports).map(|()| host::steal_ticks());
    let after = pass(window.end, reports).map(|()| host::steal_ticks());
    match (before, after) {
        (Some(before), Some(after)) => Ok(after.saturating_sub(before)),
        _ => {
            cell.stop.store(true, Ordering::Relaxed);
            Err(anyhow!("a client failed"))
        }
    }
}

/// Waits until then; `None` when a client fails first.
fn pass(until: Instant, reports: &Receiver<Report>) -> Option<()> {
    match reports.recv_timeout(until.saturating_duration_since(Instant::now())) {
        Err(RecvTimeoutError::Timeout) => Some(()),
        // Every client is through: at the window's end, or a moment before this thread notices it.
        Err(RecvTimeoutError::Disconnected) if Instant::now() >= until => Some(()),
        _ => None,
    }
}

/// A client whose failure or panic ends the run instead of leaving the others to wait.
fn guarded(
    cell: &Run<'_>,
    work: Work<'_>,
    client: usize,
    report: &Sender<Report>,
) -> Result<Tally> {
    let outcome = catch_unwind(AssertUnwindSafe(|| work(cell, client, report)))
        .unwrap_or_else(|panic| Err(anyhow!("panicked: {}", panic_message(&*panic))))
        .with_context(|| format!("client {client}"));
    if outcome.is_err() {
        cell.stop.store(true, Ordering::Relaxed);
        // Nobody listens any more when the run is over anyway.
        let _ = report.send(Report::Failed);
    }
    outcome
}

fn panic_message(panic: &(dyn core::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

fn work<P: Snapshots, S: StatusStore, B: Pins>(
    heap: &BenchHeap<P, S, B>,
    bank: &Bank,
    cell: &Run<'_>,
    number: usize,
    report: &Sender<Report>,
) -> Result<Tally> {
    let mut client = heap.client()?;
    let mut rng = Rng::new(cell.spec.seed, number as u64);
    let mut tally = Tally::new()?;
    report.send(Report::Ready).ok();
    let Some(window) = *cell.gate.read().unwrap_or_else(PoisonError::into_inner) else {
        return Ok(tally);
    };

    let mut waited_before = None;
    let mut now = Instant::now();
    while now < window.end && !cell.stop.load(Ordering::Relaxed) {
        if waited_before.is_none() && now >= window.start {
            waited_before = Some(host::thread_runqueue_wait_ns());
            now = Instant::now();
        }
        let begun = now;
        let transfer = Transfer::random(&mut rng, cell.spec.scale);
        let isolation = Isolation::ReadCommitted;
        let outcome = bank.transact(heap, &mut client, isolation, number, transfer)?;
        cell.faults.strike(number);
        now = Instant::now();
        tally.all_committed += u64::from(outcome.committed);
        if now >= window.start && now < window.end {
            tally.count(outcome, now - begun);
        }
    }
    if let Some(before) = waited_before {
        tally.runqueue_wait_ns = host::thread_runqueue_wait_ns().saturating_sub(before);
    }
    Ok(tally)
}

fn percentiles(latency: &Histogram<u64>) -> LatencyNs {
    let at = |quantile| latency.value_at_quantile(quantile);
    LatencyNs {
        p50: at(0.5),
        p90: at(0.9),
        p95: at(0.95),
        p99: at(0.99),
        p999: at(0.999),
        max: latency.max(),
    }
}
