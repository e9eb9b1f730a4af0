//! Hands the build's own settings to the program, which copies them into every result.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=TXNKIT_RUSTC={}", version.trim());
    for name in ["PROFILE", "OPT_LEVEL"] {
        println!(
            "cargo::rustc-env=TXNKIT_{name}={}",
            std::env::var(name).unwrap_or_default()
        );
    }
}
