//! One cell of a study's matrix: what is asked of one run ([`CellSpec`]) and what the run answers ([`CellResult`]).
//!
//! Both travel as JSON. A result carries its specification and everything that a later reader needs to judge it:
//! revision, build profile, host, and what the machine did to the run meanwhile.

use alloc::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of the measuring method. It changes when results of before and after must not be compared.
pub const HARNESS: &str = "2";

/// The environment variable in which whoever starts a run hands down the source revision that a result then names.
pub const REVISION_ENV: &str = "TXNKIT_REVISION";

/// The implementation that a mechanism has when a variant does not name one: the crate's front.
pub const FRONT: &str = "ours";

/// What one run is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellSpec {
    /// Id of the study that asks.
    pub study: String,
    /// Mechanism to implementation, `procarray` to `hot_array` say. A mechanism that is not named runs its [`FRONT`].
    pub variants: BTreeMap<String, String>,
    /// What the clients do.
    pub workload: WorkloadKind,
    /// Whether row changes are written to the redo log.
    pub tables: Tables,
    /// Clients, each a thread with a session of its own that asks without pause (closed loop).
    pub clients: u32,
    /// Size of the data: branches, each with 100 000 accounts and 10 tellers.
    pub scale: u32,
    /// Buffers in the pool, of 8192 bytes each; 0: as many as there are pages, so that none is ever evicted.
    #[serde(default)]
    pub buffers: u32,
    /// Which repetition of the cell this is, from 1.
    pub run: u32,
    /// What every random choice of the run is drawn from.
    pub seed: u64,
    /// How long clients work before anything is counted, in milliseconds.
    pub warmup_ms: u64,
    /// How long clients work and are counted, in milliseconds.
    pub run_ms: u64,
}

/// What the clients of a run do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// Update an account, its teller and its branch, read the account back, add a line of history: pgbench's default.
    TpcbLike,
}

/// Whether row changes are written to the redo log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tables {
    /// No: the tables would be empty after a crash.
    Unlogged,
    /// Yes, every change.
    Permanent,
}

/// What one run measured. Durations carry their unit in the name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// What was asked.
    #[serde(flatten)]
    pub spec: CellSpec,
    /// Committed transactions per second of the counted time.
    pub tps: f64,
    /// Committed transactions within the counted time.
    pub transactions: u64,
    /// How long committed transactions took.
    pub latency_ns: LatencyNs,
    /// Transactions that ended by an abort within the counted time.
    pub aborts: u64,
    /// Times that a client had to wait for another's transaction to end.
    pub lock_waits: u64,
    /// The process's largest resident size, in bytes.
    pub memory_bytes: u64,
    /// What a hypervisor took from this machine during the run, in clock ticks, summed over processors (`/proc/stat`).
    pub steal_ticks: u64,
    /// How long the run's threads were runnable but had no processor, in nanoseconds, summed over threads.
    pub runqueue_wait_ns: u64,
    /// Source revision, see [`REVISION_ENV`].
    pub revision: String,
    /// How the program was built.
    pub profile: Profile,
    /// Where it ran.
    pub host: Host,
    /// When the run began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// [`HARNESS`] of the program that ran.
    pub harness: String,
}

/// Percentiles of the time from a transaction's begin to the end of its commit, in nanoseconds.
///
/// The loop is closed: a client asks for the next transaction only when the last has ended, so a stall delays
/// requests instead of queueing them, and these figures understate what an open system would see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyNs {
    /// Half took no longer.
    pub p50: u64,
    /// 90 % took no longer.
    pub p90: u64,
    /// 95 % took no longer.
    pub p95: u64,
    /// 99 % took no longer.
    pub p99: u64,
    /// 99.9 % took no longer.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

/// The build settings that move figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// `thin`, `fat`, `off`.
    pub lto: String,
    /// Codegen units per crate.
    pub codegen_units: u32,
    /// `0` to `3`, `s`, `z`.
    pub opt_level: String,
    /// `unwind` or `abort`.
    pub panic: String,
    /// Whether debug assertions were compiled in.
    pub debug_assertions: bool,
    /// The compiler, as `rustc --version` names it.
    pub rustc: String,
}

/// The machine that a run had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Processors that the process may use.
    pub cpus: u32,
    /// The processor's name (`/proc/cpuinfo`).
    pub model: String,
    /// Kernel release.
    pub kernel: String,
    /// Main memory, in bytes.
    pub memory_bytes: u64,
}
