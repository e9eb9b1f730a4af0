//! `cargo xtask tidy`: checks of the tree itself.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Crates whose atomics and locks come from `txnkit-sync` only.
const MECHANISMS: &[&str] = &[
    "procarray/src",
    "slru/src",
    "bufpin/src",
    "snapmap/src",
    "multixact/src",
    "txn-manager/src",
    "support/ids/src",
    "support/redo/src",
];

/// What those crates must not name.
const FORBIDDEN: &[&str] = &[
    "core::sync::atomic",
    "std::sync::",
    "portable_atomic",
    "thread_local!",
    "static mut",
];

/// Every crate's folder.
const CRATES: &[&str] = &[
    "procarray",
    "slru",
    "bufpin",
    "snapmap",
    "multixact",
    "txn-manager",
    "bench-suite",
    "xtask",
    "support/ids",
    "support/sync",
    "support/redo",
    "support/pgdata",
];

/// How code names an ordering, a fence or a step that a model can weaken.
const STEPS: &[&str] = &["ord!(", "fence_at!(", "broken!("];

pub(crate) fn run() -> Result<()> {
    let root = crate::root();
    let mut faults = Vec::new();
    for dir in CRATES {
        for file in ["README.md", "CHANGELOG.md", "Cargo.toml"] {
            if !root.join(dir).join(file).exists() {
                faults.push(format!("{dir} has no {file}"));
            }
        }
    }
    for dir in MECHANISMS {
        faults.extend(without_twin(&root, dir.trim_end_matches("/src"))?);
    }
    let mut files = Vec::new();
    for dir in CRATES.iter().chain(&[".cargo", ".ci", ".github"]) {
        list(&root.join(dir), &mut files)?;
    }
    for name in ["README.md", "ARCHITECTURE.md", "Cargo.toml"] {
        files.push(root.join(name));
    }
    for file in &files {
        let text =
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = file
            .strip_prefix(&root)
            .unwrap_or(file)
            .display()
            .to_string();
        faults.extend(look(&name, &text));
    }
    if faults.is_empty() {
        println!("{} files are tidy", files.len());
        return Ok(());
    }
    bail!("{} faults:\n{}", faults.len(), faults.join("\n"))
}

/// Collects the text files below `dir`.
fn list(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        let kept = ["rs", "toml", "md", "yml", ""]
            .iter()
            .any(|ending| path.extension().unwrap_or_default() == *ending);
        if path.is_dir() && !path.ends_with("fixtures") && !path.ends_with("target") {
            list(&path, files)?;
        } else if path.is_file() && kept {
            files.push(path);
        }
    }
    Ok(())
}

/// The steps of a crate that no model weakens: nobody knows whether they are needed.
fn without_twin(root: &Path, dir: &str) -> Result<Vec<String>> {
    let text = |part: &str| -> Result<String> {
        let mut files = Vec::new();
        let part = root.join(dir).join(part);
        if part.is_dir() {
            list(&part, &mut files)?;
        }
        let read = |file: &PathBuf| {
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
        };
        files.iter().map(read).collect()
    };
    let (code, tests) = (text("src")?, text("tests")?);
    let twin = |step: &&str| tests.contains(&format!("\"{step}\""));
    Ok(steps(&code)
        .filter(|step| !twin(step))
        .map(|step| format!("{dir}: no test weakens `{step}`"))
        .collect())
}

/// The names of the steps in some code.
fn steps(code: &str) -> impl Iterator<Item = &str> {
    let after = STEPS.iter().flat_map(|step| code.split(step).skip(1));
    after.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
}

/// The faults of one file.
fn look(name: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mechanism = MECHANISMS.iter().any(|dir| name.starts_with(dir));
    for (at, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", at + 1);
        if line.ends_with([' ', '\t']) {
            faults.push(format!("{place}: trailing white space"));
        }
        for word in FORBIDDEN
            .iter()
            .filter(|word| mechanism && line.contains(**word))
        {
            faults.push(format!("{place}: names `{word}`; use txnkit-sync"));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        faults.push(format!("{name}: no newline at the end"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::{look, steps};

    #[test]
    fn faults_are_found() {
        assert_eq!(
            look("procarray/src/a.rs", "use core::sync::atomic::AtomicU8;\n").len(),
            1
        );
        assert_eq!(
            look("xtask/src/a.rs", "use core::sync::atomic::AtomicU8;\n").len(),
            0
        );
        assert_eq!(look("README.md", "a \nb").len(), 2);
        assert!(look("slru/src/a.rs", "fn a() {}\n").is_empty());
    }

    #[test]
    fn steps_are_found_however_they_are_broken_into_lines() {
        let code =
            "load(ord!(\"a.b\", Acquire)); fence_at!(\n    \"c.d\", SeqCst); if broken!(name) {}";
        let mut found: Vec<_> = steps(code).collect();
        found.sort_unstable();
        assert_eq!(found, ["a.b", "c.d"]);
    }
}
