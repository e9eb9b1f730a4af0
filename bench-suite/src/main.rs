//! Runs one cell and prints one line: its result.

use core::time::Duration;
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, Result};
use bench_suite::cell::CellSpec;
use bench_suite::registry;
use clap::{Parser, Subcommand};

/// Beyond warm-up and run: loading, the last transactions, the check.
const GRACE: Duration = Duration::from_secs(180);

#[derive(Parser)]
#[command(about = "Runs one cell of a study and prints one result")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs one cell and prints its result as a line of JSON.
    Run {
        /// The cell, as JSON.
        #[arg(long)]
        json: String,
    },
    /// Lists the implementations that a cell can choose among.
    Variants,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run { json } => run(&json),
        Command::Variants => {
            for (mechanism, names) in registry::mechanisms() {
                println!("{mechanism}: {}", names.join(", "));
            }
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-suite: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(json: &str) -> Result<()> {
    let spec: CellSpec = serde_json::from_str(json)
        .context("the cell is not what bench_suite::cell::CellSpec describes")?;
    watch(Duration::from_millis(spec.warmup_ms.saturating_add(spec.run_ms)) + GRACE);
    let result = registry::run(&spec)?;
    println!("{}", serde_json::to_string(&result)?);
    Ok(())
}

/// Ends the process when a run hangs: a client in an endless loop can be ended in no other way.
fn watch(limit: Duration) {
    thread::spawn(move || {
        thread::sleep(limit);
        eprintln!(
            "bench-suite: the run was not over after {} s and is given up; a client hangs",
            limit.as_secs()
        );
        std::process::exit(1);
    });
}
