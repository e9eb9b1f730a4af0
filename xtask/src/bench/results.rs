//! The results of a matrix in its folder: `plan.json`, and one JSON line a finished run in `runs.jsonl`.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use bench_suite::cell::CellResult;
use serde::{Deserialize, Serialize};

use super::plan::{Plan, Run};

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Finished {
    /// The variant's id in its study.
    pub(crate) variant: String,
    #[serde(flatten)]
    pub(crate) result: CellResult,
}

/// What a folder holds, measured against a plan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum State {
    Absent,
    Unfinished,
    Finished,
    Other,
}

/// The open folder of a matrix.
pub(crate) struct Store {
    path: PathBuf,
    file: File,
    pub(crate) finished: Vec<Finished>,
}

fn read_plan(dir: &Path) -> Result<Option<Plan>> {
    let path = dir.join("plan.json");
    if !path.exists() {
        return Ok(None);
    }
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let plan = serde_json::from_str(&text).with_context(|| {
        format!(
            "{} is not a plan of this version; choose another folder",
            path.display()
        )
    })?;
    Ok(Some(plan))
}

/// What `dir` holds.
pub(crate) fn state(dir: &Path, fresh: &Plan) -> Result<State> {
    if !dir.exists() {
        return Ok(State::Absent);
    }
    let Ok(Some(plan)) = read_plan(dir) else {
        return Ok(State::Other);
    };
    if !plan.is(fresh) {
        return Ok(State::Other);
    }
    let text = fs::read_to_string(dir.join("runs.jsonl")).unwrap_or_default();
    let (finished, _) = parse(&text)?;
    let done = plan
        .runs
        .iter()
        .all(|run| finished.iter().any(|f| is_of(f, run)));
    Ok(if done {
        State::Finished
    } else {
        State::Unfinished
    })
}

fn is_of(finished: &Finished, run: &Run) -> bool {
    finished.variant == run.variant && finished.result.spec == run.spec
}

/// The finished runs, and how many bytes of `text` they take: a torn last line is not one of them.
fn parse(text: &str) -> Result<(Vec<Finished>, usize)> {
    let mut whole = 0;
    let mut finished = Vec::new();
    for (at, line) in text.split_inclusive('\n').enumerate() {
        match serde_json::from_str(line) {
            Ok(run) if line.ends_with('\n') => finished.push(run),
            _ if whole + line.len() == text.len() => break,
            Ok(_) => break,
            Err(error) => bail!(
                "line {} of runs.jsonl is no result ({error}); remove it or choose another folder",
                at + 1
            ),
        }
        whole += line.len();
    }
    Ok((finished, whole))
}

impl Store {
    /// Opens `dir` for `fresh`, or for the unfinished plan of the same matrix that it holds; returns the plan that counts.
    ///
    /// `own_seed`: the seed was asked for, so a plan of another seed is another matrix.
    pub(crate) fn open(dir: &Path, fresh: Plan, own_seed: bool) -> Result<(Plan, Self)> {
        fs::create_dir_all(dir)
            .with_context(|| format!("cannot make the results folder {}", dir.display()))?;
        let plan = match read_plan(dir)? {
            None => fresh,
            Some(plan) => {
                let same = plan.is(&fresh) && (!own_seed || plan.seed == fresh.seed);
                ensure!(
                    same,
                    "{} holds another matrix (preset {}, revision {}, seed {}, {} runs) than the one asked for (preset {}, revision {}, \
                     {} runs); results are not mixed: choose another --out or remove the folder",
                    dir.display(),
                    plan.preset,
                    plan.revision,
                    plan.seed,
                    plan.runs.len(),
                    fresh.preset,
                    fresh.revision,
                    fresh.runs.len()
                );
                plan
            }
        };
        let path = dir.join("plan.json");
        let text = serde_json::to_string(&plan).context("the plan cannot be written as JSON")?;
        fs::write(&path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok((plan, Self::open_runs(dir)?))
    }

    fn open_runs(dir: &Path) -> Result<Self> {
        let path = dir.join("runs.jsonl");
        let context = || format!("cannot open {}", path.display());
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .with_context(context)?;
        let text = fs::read_to_string(&path).with_context(context)?;
        let (finished, whole) = parse(&text)?;
        if whole < text.len() {
            println!(
                "{}: the last line is torn and was cut; that run is done again",
                path.display()
            );
            file.set_len(whole as u64).with_context(context)?;
        }
        Ok(Self {
            path,
            file,
            finished,
        })
    }

    /// Is this run finished?
    pub(crate) fn has(&self, run: &Run) -> bool {
        self.finished.iter().any(|finished| is_of(finished, run))
    }

    /// Keeps a finished run, on disk before this returns.
    pub(crate) fn keep(&mut self, finished: Finished) -> Result<()> {
        let mut line =
            serde_json::to_string(&finished).context("the result cannot be written as JSON")?;
        line.push('\n');
        let context = || {
            let kept = self.finished.len();
            format!(
                "cannot write {}; the {kept} runs before are kept, start again to continue after them",
                self.path.display()
            )
        };
        self.file.write_all(line.as_bytes()).with_context(context)?;
        self.file.sync_data().with_context(context)?;
        self.finished.push(finished);
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::plan::tests::plan;
    use super::*;
    use bench_suite::cell::{Host, LatencyNs, Profile};

    pub(crate) fn finished(run: &Run, tps: f64) -> Finished {
        Finished {
            variant: run.variant.clone(),
            result: CellResult {
                spec: run.spec.clone(),
                tps,
                transactions: 1000,
                latency_ns: LatencyNs {
                    p50: 1000,
                    p90: 2000,
                    p95: 3000,
                    p99: 4000,
                    p999: 5000,
                    max: 60_000,
                },
                aborts: 0,
                lock_waits: 7,
                memory_bytes: 1 << 20,
                steal_ticks: 0,
                runqueue_wait_ns: 0,
                revision: "r".into(),
                profile: Profile {
                    lto: "thin".into(),
                    codegen_units: 1,
                    opt_level: "3".into(),
                    panic: "unwind".into(),
                    debug_assertions: false,
                    rustc: "rustc".into(),
                },
                host: Host {
                    cpus: 2,
                    model: "m".into(),
                    kernel: "k".into(),
                    memory_bytes: 1 << 30,
                },
                started_unix_ms: 0,
                harness: "1".into(),
            },
        }
    }

    #[test]
    fn a_folder_resumes_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (first, mut store) = Store::open(folder.path(), plan("smoke", 1), false).unwrap();
        assert_eq!(state(folder.path(), &first).unwrap(), State::Unfinished);
        store.keep(finished(&first.runs[0], 5.0)).unwrap();
        drop(store);
        let (second, mut store) = Store::open(folder.path(), plan("smoke", 2), false).unwrap();
        assert_eq!(first, second, "the seed of the first start counts");
        assert!(store.has(&first.runs[0]) && !store.has(&first.runs[1]));
        for run in &first.runs[1..] {
            store.keep(finished(run, 5.0)).unwrap();
        }
        assert_eq!(
            state(folder.path(), &plan("smoke", 3)).unwrap(),
            State::Finished
        );
    }

    #[test]
    fn a_torn_line_is_cut_and_a_broken_one_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (plan, mut store) = Store::open(folder.path(), plan("smoke", 1), false).unwrap();
        store.keep(finished(&plan.runs[0], 5.0)).unwrap();
        let runs = folder.path().join("runs.jsonl");
        let whole = fs::read_to_string(&runs).unwrap();
        fs::write(&runs, format!("{whole}{{\"variant\":\"our")).unwrap();
        let store = Store::open_runs(folder.path()).unwrap();
        assert_eq!(store.finished.len(), 1);
        assert_eq!(fs::read_to_string(&runs).unwrap(), whole);
        fs::write(&runs, format!("garbage\n{whole}")).unwrap();
        let error = format!("{:#}", Store::open_runs(folder.path()).err().unwrap());
        assert!(error.contains("line 1"), "{error}");
    }

    #[test]
    fn another_matrix_is_not_mixed_in() {
        let folder = tempfile::tempdir().unwrap();
        Store::open(folder.path(), plan("smoke", 1), false).unwrap();
        let error = Store::open(folder.path(), plan("quick", 1), false)
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("results are not mixed"), "{error}");
        assert_eq!(
            state(folder.path(), &plan("quick", 1)).unwrap(),
            State::Other
        );
        let error = Store::open(folder.path(), plan("smoke", 9), true)
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("seed 1"), "{error}");
    }
}
