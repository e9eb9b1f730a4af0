//! Running a test under the arm that was compiled in, and its weakened twins.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;
use std::{env, process, thread};

/// The environment variable that names what is broken, separated by commas.
pub const BREAK: &str = "TXNKIT_BREAK";

/// Exit code of a process in which a broken name was never met.
const NEVER_MET: i32 = 77;

fn broken() -> &'static BTreeSet<String> {
    static BROKEN: OnceLock<BTreeSet<String>> = OnceLock::new();
    BROKEN.get_or_init(|| {
        env::var(BREAK)
            .unwrap_or_default()
            .split(',')
            .filter(|name| !name.is_empty())
            .map(ToString::to_string)
            .collect()
    })
}

static MET: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Is the step `name` to be weakened or left out in this process?
pub fn is_broken(name: &'static str) -> bool {
    let is = !broken().is_empty() && broken().contains(name);
    if is {
        MET.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name);
    }
    is
}

/// Runs `f` in every interleaving the arm finds within its bounds; natively once.
///
/// Loom: at most 2 preemptions, unless `LOOM_MAX_PREEMPTIONS` says otherwise: bounded, so not exhaustive. A model that needs more
/// than 200 seconds (`LOOM_MAX_DURATION`) fails, since what it did not come to was not checked.
///
/// Shuttle: 1000 random schedules from a fixed seed, or from that in the environment variable `SHUTTLE_RANDOM_SEED`, all orderings taken as
/// sequentially consistent.
pub fn check(f: impl Fn() + Send + Sync + 'static) {
    check_preempting(2, f);
}

/// As [`check`], with at most `preemptions` preemptions an execution.
pub fn check_preempting(preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
    run(preemptions, f);
    let met = MET.lock().unwrap_or_else(PoisonError::into_inner);
    for name in broken() {
        if !met.contains(name.as_str()) {
            std::eprintln!(
                "{BREAK} names `{name}`, which this model never reaches: misspelt, or the wrong model"
            );
            process::exit(NEVER_MET);
        }
    }
}

#[cfg(txnkit_model = "loom")]
fn run(preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    let limit = *builder.max_duration.get_or_insert(Duration::from_secs(200));
    builder.max_branches = builder.max_branches.max(20_000);
    let start = Instant::now();
    builder.check(f);
    // Loom stops at the limit as if it were done.
    assert!(
        start.elapsed() < limit,
        "the model was cut off after {limit:?}: make it smaller, or set LOOM_MAX_DURATION (seconds)"
    );
}

#[cfg(txnkit_model = "shuttle")]
fn run(_preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
    const SCHEDULES: usize = 1000;
    let seed = env::var("SHUTTLE_RANDOM_SEED").map_or(1, |seed| {
        seed.parse()
            .expect("SHUTTLE_RANDOM_SEED is a number that a failed run has printed")
    });
    std::println!("SHUTTLE_RANDOM_SEED={seed}");
    let scheduler = shuttle::scheduler::RandomScheduler::new_from_seed(seed, SCHEDULES);
    shuttle::Runner::new(scheduler, shuttle::Config::new()).run(f);
}

#[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
fn run(_preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
    f();
}

/// Counts the outcomes of a model over all its executions, so that a blind one is noticed.
#[derive(Debug, Default)]
pub struct Histogram(Mutex<BTreeMap<String, u64>>);

impl Histogram {
    /// No outcome yet.
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Counts `outcome`.
    pub fn count(&self, outcome: impl ToString) {
        *self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(outcome.to_string())
            .or_default() += 1;
    }

    /// Prints what was counted and panics unless every one of `expected` occurred.
    ///
    /// In a weakened twin it asks for nothing: a twin has to fail by what is broken, not by what it never came to.
    ///
    /// # Panics
    /// When an expected outcome never occurred.
    pub fn assert_seen(&self, expected: &[&str]) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::println!("outcomes: {counts:?}");
        for outcome in expected.iter().filter(|_| broken().is_empty()) {
            assert!(
                counts.contains_key(*outcome),
                "`{outcome}` never occurred, so the model is blind to it: {counts:?}"
            );
        }
    }
}

/// Runs the test `name` of this binary once for each of `steps`, that step broken, and requires each run to fail.
///
/// Each runs in a process of its own, since a deadlock aborts it. A run that takes longer than a minute, or that never reaches the step, is
/// no failure of the model and therefore one of this assertion.
///
/// # Panics
/// When a twin does not fail.
pub fn assert_breaks(name: &str, steps: &[&str]) {
    let survivors: Vec<String> = steps
        .iter()
        .filter_map(|step| survives(name, step))
        .collect();
    assert!(
        survivors.is_empty(),
        "weakened twins that `{name}` does not catch:\n{}",
        survivors.join("\n")
    );
}

/// Why the twin did not fail as it should, if so.
fn survives(name: &str, step: &str) -> Option<String> {
    const LIMIT: Duration = Duration::from_secs(60);
    let mut child = process::Command::new(env::current_exe().expect("the test binary has a path"))
        .args([name, "--exact", "--test-threads=1"])
        .env(BREAK, step)
        .stdout(process::Stdio::null())
        .stderr(process::Stdio::null())
        .spawn()
        .expect("the test binary can be started again");
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the child can be waited for") {
            break status;
        }
        if started.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            return Some(std::format!("{step}: no answer within {LIMIT:?}"));
        }
        thread::sleep(Duration::from_millis(2));
    };
    match status.code() {
        Some(0) => Some(std::format!("{step}: passed (or no test has this name)")),
        Some(NEVER_MET) => Some(std::format!("{step}: never reached")),
        _ => None,
    }
}
