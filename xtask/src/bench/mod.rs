//! `cargo xtask bench`: runs studies and writes reports.

mod child;
mod matrix;
mod plan;
mod report;
mod results;
mod stats;

use alloc::collections::BTreeMap;
use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use bench_suite::registry;
use bench_suite::study::{Presets, Study, unknown};

use plan::{Plan, Wish};

/// Runs studies, each cell of their matrices in a process of its own, and writes a report.
///
/// Every finished run is kept at once in DIR/runs.jsonl. Started again with the same arguments, an interrupted matrix
/// continues where it was; a finished one, or one of another revision, in the default folder is moved aside first.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which studies; all of them if none is named
    #[arg(value_name = "STUDY")]
    studies: Vec<String>,
    /// How much is run and how long: smoke, quick, standard or published
    #[arg(long, default_value = "quick")]
    preset: String,
    /// Client counts instead of the preset's
    #[arg(long, value_delimiter = ',', value_name = "N,N,…")]
    clients: Vec<u32>,
    /// Compare this combination with the study's base instead of the study's variants
    #[arg(long, value_delimiter = ',', value_name = "MECHANISM=VARIANT")]
    set: Vec<String>,
    /// Where results go [default: results/PRESET in the workspace]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed of the order and of every run's random choices; printed, and kept when a matrix resumes
    #[arg(long)]
    seed: Option<u64>,
    /// Name studies, variants and axes, and stop
    #[arg(long)]
    list: bool,
    /// The program that runs a cell, instead of building bench-suite
    #[arg(long, hide = true, value_name = "PROGRAM")]
    child: Option<PathBuf>,
    /// Time a run may take beyond its plan, in milliseconds
    #[arg(long, hide = true, default_value_t = 200_000)]
    grace_ms: u64,
    /// Folder of the study files
    #[arg(long, hide = true)]
    study_dir: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let studies = load(&args)?;
    if args.list {
        print!("{}", list(&studies));
        return Ok(());
    }
    let wish = wish(&args)?;
    let fresh = Plan::new(
        &studies,
        &wish,
        args.seed.unwrap_or_else(clock_seed),
        revision(),
    )?;
    let dir = args
        .out
        .clone()
        .unwrap_or_else(|| crate::root().join("results").join(&args.preset));
    if args.out.is_none() {
        move_aside(&dir, &fresh)?;
    }
    let (plan, mut store) = results::Store::open(&dir, fresh, args.seed.is_some())?;
    let child = match &args.child {
        Some(child) => child.clone(),
        None => build()?,
    };
    let runner = child::Runner {
        program: child,
        revision: plan.revision.clone(),
        grace: Duration::from_millis(args.grace_ms),
    };
    let faults = matrix::run(&plan, &mut store, &runner)?;
    let report = report::render(&studies, &plan, &store, &faults);
    let path = dir.join("report.md");
    fs::write(&path, &report.text)
        .with_context(|| format!("cannot write the report {}", path.display()))?;
    println!("\n{}\nreport: {}", report.headline, path.display());
    ensure!(
        faults.is_empty(),
        "{} runs are missing:\n{}",
        faults.len(),
        faults.join("\n")
    );
    Ok(())
}

/// The studies asked for.
fn load(args: &Args) -> Result<Vec<Study>> {
    let dir = args
        .study_dir
        .clone()
        .unwrap_or_else(|| crate::root().join("bench-suite/studies"));
    let entries = fs::read_dir(&dir)
        .with_context(|| format!("cannot list the studies in {}", dir.display()))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    let names: Vec<String> = paths
        .iter()
        .map(|path| {
            path.file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into()
        })
        .collect();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    for asked in &args.studies {
        ensure!(names.contains(asked), "{}", unknown("study", asked, &known));
    }
    let wanted = |name: &String| args.studies.is_empty() || args.studies.contains(name);
    let chosen = paths.iter().zip(&names).filter(|(_, name)| wanted(name));
    let studies = chosen
        .map(|(path, _)| Study::load(path))
        .collect::<Result<Vec<_>>>()?;
    ensure!(
        !studies.is_empty(),
        "there is no study in {}",
        dir.display()
    );
    Ok(studies)
}

/// What the arguments ask of each study's matrix.
fn wish(args: &Args) -> Result<Wish> {
    ensure!(
        Presets::NAMES.contains(&args.preset.as_str()),
        "{}",
        unknown("preset", &args.preset, &Presets::NAMES)
    );
    ensure!(
        !args.clients.contains(&0),
        "--clients 0: a cell needs at least one client"
    );
    let mut set = BTreeMap::new();
    for pair in &args.set {
        let Some((mechanism, variant)) = pair.split_once('=') else {
            bail!("--set {pair}: write MECHANISM=VARIANT, for instance --set procarray=hot_array");
        };
        set.insert(mechanism.to_string(), variant.to_string());
    }
    registry::check(&set).context("--set")?;
    Ok(Wish {
        preset: args.preset.clone(),
        clients: args.clients.clone(),
        set,
    })
}

fn list(studies: &[Study]) -> String {
    let mut text = String::new();
    for study in studies {
        text += &format!("study {}: {}\n", study.about.id, study.about.question);
        for variant in &study.variants {
            let set: Vec<String> = variant
                .set
                .iter()
                .map(|(mechanism, name)| format!("{mechanism}={name}"))
                .collect();
            text += &format!(
                "  variant {:24} {:32} {}\n",
                variant.id,
                set.join(","),
                variant.what
            );
        }
        text += &format!(
            "  axis    tables   {:?}\n  axis    clients  {:?}\n",
            study.axes.tables, study.axes.clients
        );
        for name in Presets::NAMES {
            let Some(preset) = study.presets.get(name) else {
                continue;
            };
            text += &format!(
                "  preset  {name:10} scale {}, {} runs of {} ms after {} ms, clients {:?}\n",
                preset.scale,
                preset.runs,
                preset.run_ms,
                preset.warmup_ms,
                preset.clients.as_ref().unwrap_or(&study.axes.clients)
            );
        }
    }
    for (mechanism, variants) in registry::mechanisms() {
        text += &format!("mechanism {mechanism}: {}\n", variants.join(", "));
    }
    text
}

/// Builds the program that runs a cell, as every result says it was built.
fn build() -> Result<PathBuf> {
    println!("building bench-suite with the release profile");
    let output = Command::new("cargo")
        .args([
            "build",
            "--release",
            "--package",
            "bench-suite",
            "--message-format",
            "json-render-diagnostics",
        ])
        .current_dir(crate::root())
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "bench-suite does not build; see above"
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    messages
        .filter_map(|message| Some(PathBuf::from(message.get("executable")?.as_str()?)))
        .next_back()
        .context("cargo built bench-suite but named no executable")
}

/// The source revision, with a mark of what is changed beside it, so that results of different sources are never mixed.
fn revision() -> String {
    let git = |args: &[&str]| -> Option<Vec<u8>> {
        let output = Command::new("git")
            .args(args)
            .current_dir(crate::root())
            .output()
            .ok()?;
        output.status.success().then_some(output.stdout)
    };
    let Some(head) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".into();
    };
    let head = String::from_utf8_lossy(&head).trim().to_string();
    match git(&["diff", "HEAD"]) {
        Some(diff) if !diff.is_empty() => {
            use core::hash::{Hash, Hasher};
            use std::hash::DefaultHasher;
            let mut hasher = DefaultHasher::new();
            diff.hash(&mut hasher);
            format!("{head}+{:08x}", hasher.finish() as u32)
        }
        _ => head,
    }
}

fn clock_seed() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |since| since.as_nanos() as u64 >> 10)
}

/// Renames a default folder whose matrix is finished or another one than `fresh`.
fn move_aside(dir: &Path, fresh: &Plan) -> Result<()> {
    let why = match results::state(dir, fresh)? {
        results::State::Absent | results::State::Unfinished => return Ok(()),
        results::State::Finished => "its matrix is finished",
        results::State::Other => "it holds another matrix or revision",
    };
    let mut at = 1;
    let aside = loop {
        let aside = dir.with_file_name(format!(
            "{}-{at}",
            dir.file_name().unwrap_or_default().to_string_lossy()
        ));
        if !aside.exists() {
            break aside;
        }
        at += 1;
    };
    fs::rename(dir, &aside).with_context(|| format!("cannot move {} aside", dir.display()))?;
    println!("{} moved to {}: {why}", dir.display(), aside.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            args: Args,
        }
        <Cli as clap::Parser>::parse_from(core::iter::once("bench").chain(line.split_whitespace()))
            .args
    }

    fn error(line: &str) -> String {
        let args = args(line);
        let error = load(&args)
            .and_then(|_| wish(&args))
            .err()
            .expect("it must be refused");
        format!("{error:#}")
    }

    #[test]
    fn bad_arguments_say_what_is_allowed() {
        assert!(error("pgproc-hott").contains("pgproc-hot"));
        assert!(error("--preset quik").contains("did you mean `quick`"));
        assert!(error("--set procaray=ours").contains("did you mean `procarray`"));
        assert!(error("--set procarray=hot_aray").contains("did you mean `hot_array`"));
        assert!(error("--set procarray").contains("MECHANISM=VARIANT"));
        assert!(error("--clients 1,0").contains("at least one client"));
    }

    #[test]
    fn the_list_names_studies_variants_and_axes() {
        let text = list(&load(&args("")).unwrap());
        for name in [
            "pgproc-hot",
            "pgxact+recentglobalxmin",
            "clients",
            "quick",
            "mechanism procarray",
            "hot_array",
        ] {
            assert!(text.contains(name), "{name} is not in\n{text}");
        }
    }
}
