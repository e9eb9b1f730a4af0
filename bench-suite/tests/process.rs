//! The program as others start it.

mod common;

use std::process::{Command, Output};

use bench_suite::cell::CellResult;
use bench_suite::estimate_memory_bytes;
use bench_suite::faults::{CRASH_ENV, SLOW_ENV};
use common::spec;

fn bench_suite(json: &str, environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench-suite"))
        .args(["run", "--json", json])
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

fn result(output: &Output) -> CellResult {
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(stdout.lines().count(), 1, "one line: {stdout}");
    serde_json::from_str(&stdout).unwrap()
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "no result");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_cell_gives_one_line_of_json() {
    let spec = spec("ours");
    let output = bench_suite(
        &serde_json::to_string(&spec).unwrap(),
        &[("TXNKIT_REVISION", "abc123")],
    );
    let result = result(&output);
    assert_eq!(result.spec, spec);
    assert_eq!(result.revision, "abc123");
    assert!(result.transactions > 0);
    assert!(result.memory_bytes > 0 && result.memory_bytes <= estimate_memory_bytes(&spec));
    assert!(result.host.cpus > 0 && result.profile.rustc.starts_with("rustc"));
    assert_eq!(result.profile.debug_assertions, cfg!(debug_assertions));
}

#[test]
fn a_client_that_panics_ends_the_run() {
    let output = bench_suite(
        &serde_json::to_string(&spec("ours")).unwrap(),
        &[(CRASH_ENV, "1")],
    );
    let message = refused(&output);
    assert!(
        message.contains("bench-suite: client 0: panicked: crash asked for"),
        "{message}"
    );
}

#[test]
fn a_variant_can_be_slowed_down() {
    let json = serde_json::to_string(&spec("ours")).unwrap();
    let slow = result(&bench_suite(&json, &[(SLOW_ENV, "ours=2000000")]));
    let most = u64::from(slow.spec.clients) * (slow.spec.run_ms / 2 + 1);
    assert!(
        slow.transactions <= most,
        "{} transactions, {most} fit",
        slow.transactions
    );
    let other = result(&bench_suite(&json, &[(SLOW_ENV, "another=2000000")]));
    assert!(other.transactions > 0);
    assert!(refused(&bench_suite(&json, &[(SLOW_ENV, "fast")])).contains(SLOW_ENV));
}

#[test]
fn what_cannot_be_run_is_refused() {
    let json = |change: fn(&mut bench_suite::cell::CellSpec)| {
        let mut spec = spec("ours");
        change(&mut spec);
        refused(&bench_suite(&serde_json::to_string(&spec).unwrap(), &[]))
    };
    assert!(json(|spec| spec.clients = 0).contains("clients is 0"));
    assert!(json(|spec| spec.scale = 0).contains("scale is 0"));
    assert!(json(|spec| spec.scale = 100_000).contains("scale is 100000"));
    assert!(json(|spec| spec.run_ms = 0).contains("run_ms is 0"));
    let message = json(|spec| drop(spec.variants.insert("procarray".into(), "our".into())));
    assert!(
        message.contains("`our`") && message.contains("ours"),
        "{message}"
    );
    let message = json(|spec| drop(spec.variants.insert("procaray".into(), "ours".into())));
    assert!(
        message.contains("`procaray`") && message.contains("slru"),
        "{message}"
    );
    assert!(refused(&bench_suite("{}", &[])).contains("missing field"));
}
