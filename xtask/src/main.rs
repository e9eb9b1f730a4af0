//! `cargo xtask`: benchmarks and their reports, and every check a contributor must pass.
//!
//! This file parses and dispatches; each command has a file of its own.

extern crate alloc;

mod bench;
mod scratch;
mod test;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Benchmarks and their reports, and every check a contributor must pass.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(bench::Args),
    Test(test::Args),
    /// Builds each library's first example in a crate outside the workspace
    Scratch,
    /// Checks of the tree itself: wording, white space, what each crate has to carry.
    Tidy,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Bench(args) => bench::run(args),
        Command::Test(args) => test::run(args),
        Command::Scratch => scratch::run(),
        Command::Tidy => tidy::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's folder.
fn root() -> PathBuf {
    let xtask = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().map(PathBuf::from).unwrap_or(xtask)
}
