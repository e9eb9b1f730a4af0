//! A redo log with one insert position for everybody, written in the background: what commits meet on besides the transaction array.
//!
//! Commit is asynchronous: a record is in the buffer when its transaction commits and in the file some 20 ms later. When the buffer
//! is full, whoever comes writes it out before anything else is taken in.

use alloc::sync::Arc;
use core::time::Duration;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use txn_manager::{Lsn, Redo, RedoError, Xid, XidRun};
use txnkit_sync::lock::Mutex;

/// The writer's pace.
const WRITE_EVERY: Duration = Duration::from_millis(20);
/// Bytes that the buffer takes before somebody has to write it out.
const BUFFER: usize = 16 << 20;
/// The file is written from its beginning again after so many bytes, as if segments were recycled.
const FILE: u64 = 1 << 30;

const COMMIT: u8 = 1;
const ABORT: u8 = 2;
const CHANGE: u8 = 3;
const RESERVE: u8 = 4;

/// The log. Dropping it writes the rest and ends the background thread.
#[derive(Debug)]
pub struct SharedLog {
    shared: Arc<Shared>,
    /// Dropped to tell the writer to end.
    stop: Option<SyncSender<()>>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    insert: Mutex<Insert>,
    /// Taken before `insert` by whoever writes.
    file: Mutex<Output>,
}

#[derive(Debug)]
struct Insert {
    buffer: Vec<u8>,
    /// The position of the buffer's first byte.
    start: u64,
    /// Why the log takes no records any more.
    broken: Option<String>,
}

#[derive(Debug)]
struct Output {
    file: File,
    /// Written out; swapped with the insert buffer.
    spare: Vec<u8>,
}

impl SharedLog {
    /// Bytes of its buffers.
    pub const BYTES: usize = 2 * BUFFER;

    /// A log into a temporary file, and its writer.
    ///
    /// # Errors
    /// When the file cannot be created or no thread can be started.
    pub fn start() -> Result<Self> {
        let file = tempfile::tempfile()
            .context("the redo log's temporary file; set TMPDIR to a writable directory")?;
        let shared = Arc::new(Shared {
            insert: Mutex::new(Insert {
                buffer: touched(),
                start: 1,
                broken: None,
            }),
            file: Mutex::new(Output {
                file,
                spare: touched(),
            }),
        });
        let (stop, stopped) = sync_channel::<()>(0);
        let writer = std::thread::Builder::new()
            .name("redo-writer".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || {
                    while stopped.recv_timeout(WRITE_EVERY) == Err(RecvTimeoutError::Timeout) {
                        shared.write();
                    }
                    shared.write();
                }
            })?;
        Ok(Self {
            shared,
            stop: Some(stop),
            writer: Some(writer),
        })
    }

    /// How many bytes of records were taken in.
    pub fn bytes(&self) -> u64 {
        let insert = self.shared.insert.lock();
        insert.start + insert.buffer.len() as u64 - 1
    }
}

/// A buffer whose memory is there already.
fn touched() -> Vec<u8> {
    let mut buffer = vec![1; BUFFER];
    buffer.clear();
    buffer
}

impl Shared {
    /// Appends length, kind, id and payload; the position is that of the record's end.
    fn append(&self, kind: u8, xid: Xid, payload: &[u8]) -> Result<Lsn, RedoError> {
        let len = size_of::<u32>() + 1 + size_of::<u64>() + payload.len();
        if len > BUFFER {
            return Err(RedoError::new(format!(
                "a record of {len} bytes is longer than the log's buffer of {BUFFER}"
            )));
        }
        loop {
            let mut insert = self.insert.lock();
            if let Some(broken) = &insert.broken {
                return Err(RedoError::new(broken.clone()));
            }
            if insert.buffer.len() + len <= BUFFER {
                let buffer = &mut insert.buffer;
                buffer.extend_from_slice(&(len as u32).to_le_bytes());
                buffer.push(kind);
                buffer.extend_from_slice(&xid.get().to_le_bytes());
                buffer.extend_from_slice(payload);
                return Ok(Lsn::new(insert.start + insert.buffer.len() as u64));
            }
            drop(insert);
            self.write();
        }
    }

    /// Writes out what is in the buffer. A failure breaks the log for good: what came after it would be worth nothing.
    fn write(&self) {
        let mut output = self.file.lock();
        let start = {
            let mut insert = self.insert.lock();
            core::mem::swap(&mut insert.buffer, &mut output.spare);
            let start = insert.start;
            insert.start += output.spare.len() as u64;
            start
        };
        if let Err(error) = output.write_from(start) {
            self.insert.lock().broken =
                Some(format!("the redo log's file could not be written: {error}"));
        }
    }
}

impl Output {
    fn write_from(&mut self, start: u64) -> io::Result<()> {
        if self.spare.is_empty() {
            return Ok(());
        }
        self.file.seek(SeekFrom::Start(start % FILE))?;
        self.file.write_all(&self.spare)?;
        self.spare.clear();
        self.file.sync_data()
    }
}

impl Redo for SharedLog {
    fn commit(&self, xid: Xid, children: &[XidRun]) -> Result<Lsn, RedoError> {
        if children.is_empty() {
            return self.shared.append(COMMIT, xid, &[]);
        }
        let payload: Vec<u8> = children
            .iter()
            .flat_map(|run| [run.first().get(), u64::from(run.len())])
            .flat_map(u64::to_le_bytes)
            .collect();
        self.shared.append(COMMIT, xid, &payload)
    }

    fn abort(&self, xid: Xid, _: &[XidRun]) {
        // Without the record the id is aborted all the same.
        let _ = self.shared.append(ABORT, xid, &[]);
    }

    fn reserve_ids(&self, end: Xid) -> Result<(), RedoError> {
        self.shared.append(RESERVE, end, &[])?;
        self.shared.write();
        // A failed write has broken the log, which the next record would be told.
        match &self.shared.insert.lock().broken {
            Some(broken) => Err(RedoError::new(broken.clone())),
            None => Ok(()),
        }
    }

    fn change(&self, xid: Xid, image: &[u8]) -> Result<Lsn, RedoError> {
        self.shared.append(CHANGE, xid, image)
    }
}

impl Drop for SharedLog {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has nothing left to write.
            let _ = writer.join();
        }
    }
}
