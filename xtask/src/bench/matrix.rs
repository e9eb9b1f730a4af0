//! Running a matrix: one process after the other, with a line about how far it is.

use core::time::Duration;
use std::fs;
use std::io::IsTerminal;
use std::time::Instant;

use anyhow::Result;
use bench_suite::estimate_memory_bytes;
use indicatif::{ProgressBar, ProgressStyle};

use super::child::Runner;
use super::plan::{Plan, Run};
use super::results::{Finished, Store};

/// What a run takes beyond warm-up and counted time, until the first one has told.
const OVERHEAD: Duration = Duration::from_millis(1200);

/// Runs what is not finished yet and returns a message for each run that gave no result.
///
/// # Errors
/// When a result cannot be kept: the runs before are.
pub(crate) fn run(plan: &Plan, store: &mut Store, runner: &Runner) -> Result<Vec<String>> {
    let left: Vec<&Run> = plan.runs.iter().filter(|run| !store.has(run)).collect();
    println!(
        "preset {}, revision {}, seed {}: {} runs, {} of them finished before",
        plan.preset,
        plan.revision,
        plan.seed,
        plan.runs.len(),
        plan.runs.len() - left.len()
    );
    let mut faults = Vec::new();
    let mut progress = Progress::new(&left);
    for run in left {
        let bytes = estimate_memory_bytes(&run.spec);
        progress.starts(run, bytes);
        let outcome = refused(bytes, available_bytes())
            .map_or_else(|| runner.run(run), |why| Err(anyhow::anyhow!(why)));
        match outcome {
            Ok(result) => {
                progress.says(&format!("{:>10.0} tps  {}", result.tps, run.name()));
                store.keep(Finished {
                    variant: run.variant.clone(),
                    result,
                })?;
            }
            Err(error) => {
                let fault = format!("{}: {error:#}", run.name());
                progress.says(&format!("no result: {fault}"));
                faults.push(fault);
            }
        }
        progress.ended(run);
    }
    progress.bar.finish_and_clear();
    Ok(faults)
}

/// Why a cell that needs `bytes` cannot run, if so.
fn refused(bytes: u64, available: Option<u64>) -> Option<String> {
    let available = available.filter(|&available| bytes > available)?;
    Some(format!(
        "refused: it needs about {} MB of memory and {} MB are available; take a smaller scale or end other programs",
        bytes >> 20,
        available >> 20
    ))
}

/// What the system can give without swapping; unknown elsewhere than on Linux.
fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(
        line.trim()
            .trim_end_matches("kB")
            .trim()
            .parse::<u64>()
            .ok()?
            << 10,
    )
}

/// A bar on a terminal, lines elsewhere.
struct Progress {
    bar: ProgressBar,
    terminal: bool,
    planned: Duration,
    done: Duration,
    started: Instant,
}

impl Progress {
    fn new(runs: &[&Run]) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = if terminal {
            ProgressBar::new(runs.len() as u64)
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}") {
            bar.set_style(style);
        }
        Self {
            bar,
            terminal,
            planned: runs.iter().map(|run| planned(run)).sum(),
            done: Duration::ZERO,
            started: Instant::now(),
        }
    }

    /// The plan for what is left, stretched by how much longer than planned the runs took so far.
    fn left(&self) -> Duration {
        let left = self.planned.saturating_sub(self.done);
        if self.done.is_zero() {
            return left;
        }
        left.mul_f64(self.started.elapsed().as_secs_f64() / self.done.as_secs_f64())
    }

    fn starts(&self, run: &Run, bytes: u64) {
        let left = self.left().as_secs();
        let message = format!(
            "{} ({} MB), {}:{:02} left",
            run.name(),
            bytes >> 20,
            left / 60,
            left % 60
        );
        if self.terminal {
            self.bar.set_message(message);
            self.bar.tick();
        } else {
            println!("{message}");
        }
    }

    fn says(&self, text: &str) {
        if self.terminal {
            self.bar.println(text)
        } else {
            println!("{text}")
        }
    }

    fn ended(&mut self, run: &Run) {
        self.done += planned(run);
        self.bar.inc(1);
    }
}

fn planned(run: &Run) -> Duration {
    Duration::from_millis(run.spec.warmup_ms + run.spec.run_ms) + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::refused;

    #[test]
    fn what_does_not_fit_is_refused() {
        let why = refused(5 << 30, Some(1 << 30)).unwrap();
        assert!(why.contains("5120 MB") && why.contains("1024 MB"), "{why}");
        assert_eq!(refused(1 << 30, Some(5 << 30)), None);
        assert_eq!(refused(1 << 30, None), None);
    }
}
