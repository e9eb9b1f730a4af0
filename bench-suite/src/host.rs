//! What the program knows of its build, its machine and what happens to it there.
//!
//! What the machine does not tell is "unknown" or 0: a result without it is still a result.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cell::{Host, Profile, REVISION_ENV};

/// The workspace's manifest, whose `[profile.release]` is what results are measured with.
const MANIFEST: &str = include_str!("../../Cargo.toml");

/// How this program was built.
pub fn profile() -> Profile {
    let name = if env!("TXNKIT_PROFILE") == "release" {
        "release"
    } else {
        "dev"
    };
    let manifest: toml::Table = MANIFEST.parse().unwrap_or_default();
    let setting = |key: &str| manifest.get("profile")?.get(name)?.get(key);
    let lto = match setting("lto") {
        Some(toml::Value::String(lto)) => lto.clone(),
        Some(toml::Value::Boolean(true)) => "fat".into(),
        // Cargo's default: within each crate only.
        _ => "local".into(),
    };
    let default_units = if name == "release" { 16 } else { 256 };
    Profile {
        lto,
        codegen_units: setting("codegen-units")
            .and_then(toml::Value::as_integer)
            .and_then(|units| u32::try_from(units).ok())
            .unwrap_or(default_units),
        opt_level: env!("TXNKIT_OPT_LEVEL").into(),
        panic: if cfg!(panic = "abort") {
            "abort"
        } else {
            "unwind"
        }
        .into(),
        debug_assertions: cfg!(debug_assertions),
        rustc: env!("TXNKIT_RUSTC").into(),
    }
}

/// Where it runs.
pub fn host() -> Host {
    Host {
        cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
        model: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into()),
        kernel: Some(read("/proc/sys/kernel/osrelease").trim().to_owned())
            .filter(|kernel| !kernel.is_empty())
            .unwrap_or_else(|| "unknown".into()),
        memory_bytes: kilobytes("/proc/meminfo", "MemTotal"),
    }
}

/// The source revision: what the caller hands down, else what git says of the sources it was built from.
pub fn revision() -> String {
    if let Some(revision) = std::env::var(REVISION_ENV)
        .ok()
        .filter(|revision| !revision.is_empty())
    {
        return revision;
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    Command::new("git")
        .arg("-C")
        .arg(sources)
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map_or_else(|| "unknown".into(), |revision| revision.trim().to_owned())
}

/// The process's largest resident size so far, in bytes.
pub fn peak_memory_bytes() -> u64 {
    kilobytes("/proc/self/status", "VmHWM")
}

/// What a hypervisor took from this machine since it started, in clock ticks.
pub fn steal_ticks() -> u64 {
    // cpu user nice system idle iowait irq softirq steal ...
    read("/proc/stat")
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))
        .and_then(|fields| fields.split_whitespace().nth(7)?.parse().ok())
        .unwrap_or(0)
}

/// How long the calling thread was runnable without a processor since it started, in nanoseconds.
pub fn thread_runqueue_wait_ns() -> u64 {
    read("/proc/thread-self/schedstat")
        .split_whitespace()
        .nth(1)
        .and_then(|ns| ns.parse().ok())
        .unwrap_or(0)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value after `key:`.
fn field(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

fn kilobytes(path: &str, key: &str) -> u64 {
    field(&read(path), key)
        .and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kilobytes| kilobytes * 1024)
}
