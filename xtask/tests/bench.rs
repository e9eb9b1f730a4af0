//! `cargo xtask bench` with a stand-in for the program that runs a cell, which answers at once, crashes, hangs or talks nonsense.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Answers with the cell it was asked for and made-up figures.
const ANSWER: &str = r#"spec=$(printf '%s' "$3" | sed 's/^{//; s/}$//')
echo "{$spec,\"tps\":100.0,\"transactions\":100,\"latency_ns\":{\"p50\":1,\"p90\":1,\"p95\":1,\"p99\":1,\"p999\":1,\"max\":1},\"aborts\":0,\"lock_waits\":0,\"memory_bytes\":1,\"steal_ticks\":0,\"runqueue_wait_ns\":0,\"revision\":\"r\",\"profile\":{\"lto\":\"thin\",\"codegen_units\":1,\"opt_level\":\"3\",\"panic\":\"unwind\",\"debug_assertions\":false,\"rustc\":\"r\"},\"host\":{\"cpus\":2,\"model\":\"m\",\"kernel\":\"k\",\"memory_bytes\":1},\"started_unix_ms\":0,\"harness\":\"1\"}"
"#;

struct Bench {
    folder: TempDir,
    child: PathBuf,
}

impl Bench {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let child = folder.path().join("child.sh");
        let bench = Self { folder, child };
        bench.child_is(script);
        bench
    }

    fn child_is(&self, script: &str) {
        fs::write(&self.child, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&self.child, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn run_with(&self, more: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["bench", "--preset", "smoke", "--grace-ms", "0", "--out"])
            .arg(self.out())
            .arg("--child")
            .arg(&self.child)
            .args(more)
            .output()
            .unwrap()
    }

    fn run(&self) -> Output {
        self.run_with(&[])
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.out().join("runs.jsonl")).unwrap_or_default();
        text.lines().map(String::from).collect()
    }
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn cells(lines: &[String]) -> Vec<String> {
    let key = |line: &String| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        format!(
            "{} {} {} {}",
            value["variant"], value["tables"], value["clients"], value["run"]
        )
    };
    let mut cells: Vec<String> = lines.iter().map(key).collect();
    cells.sort();
    cells
}

/// How many runs the smoke preset has: four variants, two table kinds, two client counts.
const RUNS: usize = 16;

#[test]
fn a_whole_matrix_gives_a_report() {
    let bench = Bench::new(ANSWER);
    let output = bench.run();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(bench.lines().len(), RUNS);
    let report = fs::read_to_string(bench.out().join("report.md")).unwrap();
    assert!(
        report.contains("| ours (ours) | 100 |") && text(&output).contains("report: "),
        "{report}"
    );
}

#[test]
fn an_interrupted_matrix_continues_to_the_same_cells() {
    let whole = Bench::new(ANSWER);
    assert!(whole.run().status.success());
    // The stand-in kills whoever started it when it is asked for the sixth time.
    let bench = Bench::new("");
    let count = bench.folder.path().join("count");
    let count = count.display();
    bench.child_is(&format!(
        "echo x >> {count}\nif [ $(wc -l < {count}) = 6 ]; then kill -9 $PPID; fi\n{ANSWER}"
    ));
    let killed = bench.run();
    assert!(!killed.status.success());
    assert_eq!(bench.lines().len(), 5, "what was finished is kept");
    let resumed = bench.run();
    assert!(resumed.status.success(), "{}", text(&resumed));
    assert!(
        text(&resumed).contains("5 of them finished before"),
        "{}",
        text(&resumed)
    );
    assert_eq!(cells(&bench.lines()), cells(&whole.lines()));
}

/// Every run of the lazy variant does `fault`, the others answer.
fn one_variant_fails(fault: &str) -> (Output, Bench) {
    let bench = Bench::new(&format!(
        "case \"$3\" in *lazy_horizon*) {fault};; esac\n{ANSWER}"
    ));
    let output = bench.run();
    assert!(!output.status.success(), "the exit status tells");
    assert_eq!(
        bench.lines().len(),
        RUNS - 4,
        "the other cells are measured"
    );
    let report = fs::read_to_string(bench.out().join("report.md")).unwrap();
    assert!(
        report.contains("## Without a result") && report.contains("no result"),
        "{report}"
    );
    (output, bench)
}

#[test]
fn a_variant_that_crashes_costs_its_own_cells() {
    let (output, bench) =
        one_variant_fails("echo first >&2; echo 'client 3 panicked' >&2; exit 101");
    let said = text(&output);
    assert!(
        said.contains("pgxact+recentglobalxmin") && said.contains("client 3 panicked"),
        "{said}"
    );
    // Mended, the same command measures what is missing.
    bench.child_is(ANSWER);
    assert!(bench.run().status.success());
    assert_eq!(bench.lines().len(), RUNS);
}

#[test]
fn a_signal_is_named() {
    let (output, _) = one_variant_fails("kill -11 $$");
    assert!(text(&output).contains("signal 11"), "{}", text(&output));
}

#[test]
fn garbage_is_shown() {
    let (output, _) = one_variant_fails("echo nonsense; exit 0");
    assert!(
        text(&output).contains("printed no result") && text(&output).contains("nonsense"),
        "{}",
        text(&output)
    );
}

#[test]
fn a_run_that_hangs_is_killed() {
    let bench = Bench::new(&format!(
        "case \"$3\" in *lazy_horizon*) exec sleep 100;; esac\n{ANSWER}"
    ));
    let output = bench.run_with(&["--clients", "1"]);
    assert!(!output.status.success());
    assert!(text(&output).contains("was killed"), "{}", text(&output));
    assert_eq!(bench.lines().len(), RUNS / 2 - 2);
}

#[test]
fn an_unwritable_folder_is_one_clear_message() {
    let bench = Bench::new(ANSWER);
    fs::write(bench.out(), "a file where the folder should be").unwrap();
    let output = bench.run();
    assert!(!output.status.success());
    assert!(
        text(&output).contains("cannot make the results folder"),
        "{}",
        text(&output)
    );
    assert_eq!(text(&output).matches("error:").count(), 1);
}

#[test]
fn a_full_disk_stops_the_matrix_and_keeps_what_is_finished() {
    let bench = Bench::new(ANSWER);
    // No file may grow beyond 14 blocks of 512 bytes: enough for the plan, not for all results.
    let output = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 14; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_xtask"),
        ])
        .args(["bench", "--preset", "smoke", "--out"])
        .arg(bench.out())
        .arg("--child")
        .arg(&bench.child)
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = text(&output);
    assert!(
        said.contains("cannot write") && said.contains("start again to continue"),
        "{said}"
    );
    let resumed = bench.run();
    assert!(resumed.status.success(), "{}", text(&resumed));
    assert!(
        text(&resumed).contains("the last line is torn")
            && !text(&resumed).contains(" 0 of them finished")
    );
    assert_eq!(bench.lines().len(), RUNS);
}

#[test]
fn a_study_with_a_typo_is_one_clear_message() {
    let bench = Bench::new(ANSWER);
    let studies = bench.folder.path().join("studies");
    fs::create_dir(&studies).unwrap();
    let study =
        include_str!("../../bench-suite/studies/pgproc-hot.toml").replacen("run_ms", "run_sm", 1);
    fs::write(studies.join("pgproc-hot.toml"), study).unwrap();
    let output = bench.run_with(&["--study-dir", studies.to_str().unwrap()]);
    assert!(!output.status.success());
    let said = text(&output);
    assert!(
        said.contains("pgproc-hot.toml")
            && said.contains("run_sm")
            && said.contains("did you mean `run_ms`"),
        "{said}"
    );
}

#[test]
fn results_of_another_matrix_are_not_mixed_in() {
    let bench = Bench::new(ANSWER);
    assert!(bench.run().status.success());
    let output = bench.run_with(&["--clients", "1"]);
    assert!(!output.status.success());
    assert!(
        text(&output).contains("results are not mixed"),
        "{}",
        text(&output)
    );
}
