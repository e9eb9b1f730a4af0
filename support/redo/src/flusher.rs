//! Making durable in the background what nobody waits for.

use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;
use std::io;
use std::thread::{self, JoinHandle};

use txnkit_ids::Lsn;
use txnkit_sync::atomic::{AtomicBool, Ordering};

use crate::error::RedoError;
use crate::log::RedoLog;
use crate::store::{LogStore, StoreError};

/// How the turns ended: up to where the log is durable.
type Turns = Result<Lsn, RedoError>;

/// A thread that makes durable what was appended, in turns: a transaction that commits without waiting is lost in a crash only if it committed after the
/// last turn that had ended, which lies `every` and one flush back at most.
///
/// Dropping it ends the thread after one more turn, and waits for that.
#[derive(Debug)]
pub struct Flusher {
    stop: Arc<AtomicBool>,
    /// `None` once it was joined.
    thread: Option<JoinHandle<Turns>>,
}

impl Flusher {
    /// Starts the thread. A turn in which nothing was appended does not touch the store.
    ///
    /// # Errors
    /// [`io::Error`] when the system has no thread to give.
    pub fn start<S: LogStore + Send + 'static>(
        log: Arc<RedoLog<S>>,
        every: Duration,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let turns = move || {
            loop {
                // Relaxed: appends and `flush_all` take one lock, and who sees the stop cannot have taken it before those who appended before the stop.
                let last = stopped.load(Ordering::Relaxed);
                let flushed = log.flush_all()?;
                if last {
                    return Ok(flushed);
                }
                thread::park_timeout(every);
            }
        };
        let thread = thread::Builder::new()
            .name(String::from("redo flusher"))
            .spawn(turns)?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Has the thread ended by itself, because the log has failed? [`stop`](Self::stop) says how.
    pub fn has_failed(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Ends the thread after one more turn, and returns up to where the log is durable.
    ///
    /// # Errors
    /// [`RedoError::Failed`] when the log has failed, in this turn or in an earlier one.
    pub fn stop(mut self) -> Result<Lsn, RedoError> {
        self.end()
            .unwrap_or_else(|| unreachable!("nothing but this and `drop` ends the thread"))
    }

    fn end(&mut self) -> Option<Turns> {
        let thread = self.thread.take()?;
        self.stop.store(true, Ordering::Relaxed);
        thread.thread().unpark();
        let store_panicked =
            |_| RedoError::Failed(StoreError::new("the log's store panicked in the flusher"));
        Some(thread.join().map_err(store_panicked).flatten())
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        // A failure is final: whoever uses the log next is told.
        drop(self.end());
    }
}
