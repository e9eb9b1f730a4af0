//! `cargo xtask test`: all that a contributor must pass, step by step.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// Runs all that a contributor must pass: format, lints, tests, docs, builds without std, models.
///
/// Stops at the first step that fails and prints the command that repeats it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the steps whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Name the steps and what they run, and stop
    #[arg(long)]
    list: bool,
}

/// The target that has neither std nor 64-bit atomics.
const BARE: &str = "thumbv7em-none-eabi";

/// Crates that work without std.
const BARE_CRATES: &[&str] = &[
    "txnkit-ids",
    "txnkit-sync",
    "txnkit-redo",
    "procarray",
    "slru",
    "bufpin",
    "snapmap",
    "multixact",
];

/// Every package.
const PACKAGES: &[&str] = &[
    "txnkit-ids",
    "txnkit-sync",
    "txnkit-redo",
    "txnkit-pgdata",
    "procarray",
    "slru",
    "bufpin",
    "snapmap",
    "multixact",
    "txn-manager",
    "bench-suite",
    "xtask",
];

/// One step: a command, and how its output is judged.
struct Step {
    name: String,
    program: &'static str,
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
    /// Does the step run tests, so that none at all is a failure?
    tests: bool,
}

impl Step {
    fn new(name: impl Into<String>, program: &'static str, args: &str) -> Self {
        let args = args.split_whitespace().map(String::from).collect();
        Self {
            name: name.into(),
            program,
            args,
            env: Vec::new(),
            tests: false,
        }
    }

    fn cargo(name: impl Into<String>, args: &str) -> Self {
        Self::new(name, "cargo", args)
    }

    fn tests(name: impl Into<String>, args: &str) -> Self {
        Self {
            tests: true,
            ..Self::cargo(name, args)
        }
    }

    fn env(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.env.push((key, value.into()));
        self
    }

    /// The line that repeats the step in a shell.
    fn shell(&self) -> String {
        let env = self
            .env
            .iter()
            .map(|(key, value)| format!("{key}='{value}' "));
        let words = core::iter::once(self.program.to_string()).chain(self.args.iter().cloned());
        env.collect::<String>() + &words.collect::<Vec<_>>().join(" ")
    }
}

/// All steps, quick ones first.
fn steps(root: &Path) -> Vec<Step> {
    let mut steps = vec![
        Step::cargo("format", "fmt --all --check"),
        Step::cargo("tidy", "xtask tidy"),
        Step::cargo(
            "lints",
            "clippy --workspace --all-targets --all-features -- -D warnings",
        ),
    ];
    steps.extend(
        PACKAGES.iter().map(|package| {
            Step::tests(format!("tests of {package}"), &format!("test -p {package}"))
        }),
    );
    steps.extend(
        ["procarray", "slru", "bufpin", "snapmap", "multixact"].map(|package| {
            Step::tests(
                format!("tests of {package}'s baselines"),
                &format!("test -p {package} --features baselines"),
            )
        }),
    );
    steps.push(Step::tests(
        "tests of txnkit-ids with serde",
        "test -p txnkit-ids --features serde",
    ));
    steps.push(
        Step::cargo("docs", "doc --workspace --no-deps --all-features")
            .env("RUSTDOCFLAGS", "-D warnings"),
    );
    steps.push(Step::cargo(
        "examples outside the workspace",
        "xtask scratch",
    ));
    steps.push(Step::cargo("benches compile", "bench --workspace --no-run"));
    steps.push(Step::new(
        "target without std",
        "rustup",
        &format!("target add {BARE}"),
    ));
    for package in BARE_CRATES {
        let build = format!("build -p {package} --target {BARE} --no-default-features");
        steps.push(Step::cargo(format!("{package} without std"), &build));
        steps.push(Step::cargo(
            format!("{package} with alloc"),
            &format!("{build} --features alloc"),
        ));
    }
    steps.extend(["loom", "shuttle"].iter().flat_map(|arm| models(root, arm)));
    let injected = ["txnkit-sync", "procarray", "bufpin", "snapmap", "multixact"];
    steps.extend(injected.map(|package| {
        let test =
            format!("test -p {package} --all-features --test inject --target-dir target/inject");
        Step::tests(format!("injection points of {package}"), &test)
            .env("RUSTFLAGS", "--cfg txnkit_inject")
    }));
    steps
}

/// The model tests of every crate that has some for this arm.
fn models(root: &Path, arm: &str) -> Vec<Step> {
    let crates = [
        ("txnkit-sync", "support/sync"),
        ("txnkit-redo", "support/redo"),
        ("procarray", "procarray"),
        ("slru", "slru"),
        ("bufpin", "bufpin"),
        ("snapmap", "snapmap"),
        ("multixact", "multixact"),
    ];
    crates
        .iter()
        .filter(|(_, dir)| {
            root.join(dir)
                .join("tests")
                .join(arm)
                .with_extension("rs")
                .exists()
        })
        .map(|(package, _)| {
            let test =
                format!("test --release -p {package} --test {arm} --target-dir target/{arm}");
            Step::tests(format!("{arm} models of {package}"), &test)
                .env("RUSTFLAGS", format!("--cfg txnkit_model=\"{arm}\""))
        })
        .collect()
}

pub(crate) fn run(args: Args) -> Result<()> {
    let root = crate::root();
    let all = steps(&root);
    let wanted: Vec<&Step> = all
        .iter()
        .filter(|step| {
            args.only
                .as_ref()
                .is_none_or(|text| step.name.contains(text.as_str()))
        })
        .collect();
    if wanted.is_empty() {
        let names: Vec<&str> = all.iter().map(|step| step.name.as_str()).collect();
        bail!(
            "no step is named like {:?}; there are: {}",
            args.only.unwrap_or_default(),
            names.join(", ")
        );
    }
    if args.list {
        for step in wanted {
            println!("{:36} {}", step.name, step.shell());
        }
        return Ok(());
    }
    let mut tests = 0;
    for step in &wanted {
        let started = Instant::now();
        print!("{:36} ", step.name);
        let passed = execute(step, &root)?;
        tests += passed;
        let count = if step.tests {
            format!("{passed} tests, ")
        } else {
            String::new()
        };
        println!("ok, {count}{:.1} s", started.elapsed().as_secs_f64());
    }
    println!("{} steps", wanted.len());
    println!("{tests} passed, 0 failed");
    Ok(())
}

/// Runs a step and returns how many tests passed in it.
fn execute(step: &Step, root: &Path) -> Result<u64> {
    let mut command = Command::new(step.program);
    command
        .args(&step.args)
        .current_dir(root)
        .stdin(Stdio::null());
    for (key, value) in &step.env {
        command.env(key, value);
    }
    let output = command.output().with_context(|| {
        format!(
            "step `{}`: cannot start `{}`; is it installed?",
            step.name, step.program
        )
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = passed(&text);
    if !output.status.success() {
        println!(
            "FAILED\n{text}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        bail!(
            "step `{}` failed ({}); repeat it with\n    {}",
            step.name,
            output.status,
            step.shell()
        );
    }
    if step.tests && passed == 0 {
        bail!(
            "step `{}` ran no test at all; look at\n    {}",
            step.name,
            step.shell()
        );
    }
    Ok(passed)
}

/// Adds up the `N passed` of cargo's result lines.
fn passed(output: &str) -> u64 {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("test result: "))
        .filter_map(|line| {
            line.split(". ")
                .nth(1)?
                .split(' ')
                .next()?
                .parse::<u64>()
                .ok()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_are_added_up() {
        let output = "running 2 tests\ntest result: ok. 2 passed; 0 failed; 0 ignored\nDoc-tests\ntest result: ok. 40 passed; 0 failed\n";
        assert_eq!(passed(output), 42);
        assert_eq!(passed("nothing ran"), 0);
    }

    #[test]
    fn every_step_has_a_name_of_its_own() {
        let steps = steps(&crate::root());
        let mut names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), steps.len());
    }

    #[test]
    fn every_package_of_the_workspace_is_tested() {
        let manifest = std::fs::read_to_string(crate::root().join("Cargo.toml")).unwrap();
        let members = manifest
            .split("members = [")
            .nth(1)
            .unwrap()
            .split(']')
            .next()
            .unwrap();
        let members = members
            .split(',')
            .filter(|member| !member.trim().is_empty());
        assert_eq!(members.count(), PACKAGES.len());
    }

    #[test]
    fn a_step_without_tests_and_a_missing_program_are_errors() {
        let root = crate::root();
        let nothing = Step {
            tests: true,
            ..Step::new("nothing", "true", "")
        };
        assert!(
            execute(&nothing, &root)
                .unwrap_err()
                .to_string()
                .contains("ran no test")
        );
        let missing = Step::new("missing", "no-such-program", "");
        assert!(
            execute(&missing, &root)
                .unwrap_err()
                .to_string()
                .contains("no-such-program")
        );
        let failing = Step::new("failing", "false", "");
        assert!(
            execute(&failing, &root)
                .unwrap_err()
                .to_string()
                .contains("repeat it with")
        );
    }
}
