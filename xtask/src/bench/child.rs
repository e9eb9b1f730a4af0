//! One run in a process of its own.

use core::time::Duration;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use bench_suite::cell::{CellResult, REVISION_ENV};

use super::plan::Run;

/// How a cell is run.
pub(crate) struct Runner {
    pub(crate) program: PathBuf,
    pub(crate) revision: String,
    /// What a run may take beyond its warm-up and its counted time.
    pub(crate) grace: Duration,
}

impl Runner {
    /// Runs `run` and returns its result.
    ///
    /// # Errors
    /// One message: what the process did instead of answering, and the last lines it wrote.
    pub(crate) fn run(&self, run: &Run) -> Result<CellResult> {
        let spec =
            serde_json::to_string(&run.spec).context("the cell cannot be written as JSON")?;
        let mut child = Command::new(&self.program)
            .args(["run", "--json", &spec])
            .env(REVISION_ENV, &self.revision)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let stdout = collect(child.stdout.take());
        let stderr = collect(child.stderr.take());
        let limit = Duration::from_millis(run.spec.warmup_ms + run.spec.run_ms) + self.grace;
        let status = wait(&mut child, limit)?;
        let said = || last_lines(&stderr.join().unwrap_or_default());
        let Some(status) = status else {
            bail!("was not over after {} ms and was killed", limit.as_millis());
        };
        if !status.success() {
            bail!("{}{}", describe(status), said());
        }
        let answer = stdout.join().unwrap_or_default();
        let result: CellResult = match serde_json::from_str(answer.trim()) {
            Ok(result) => result,
            Err(error) => bail!(
                "ended well but printed no result ({error}): {:.200}{}",
                answer.trim(),
                said()
            ),
        };
        ensure!(
            result.spec == run.spec,
            "answered for another cell than it was asked for: {:?}",
            result.spec
        );
        Ok(result)
    }
}

/// Reads all that comes, so that the process never waits for a reader.
fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is what there is to show.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for the end, at most `limit`; after that kills the process and answers `None`.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the process")? {
            return Ok(Some(status));
        }
        if started.elapsed() > limit {
            // It may have ended this moment; either way it is gone after the wait.
            let _ = child.kill();
            child.wait().context("cannot wait for the killed process")?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn describe(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("was ended by signal {signal}");
    }
    format!("failed with {status}")
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(5)..];
    if last.is_empty() {
        String::new()
    } else {
        format!("; it said:\n    {}", last.join("\n    "))
    }
}
