//! What appending costs: one function a row, each running `calls` calls and returning the time they took.

use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use txnkit_redo::{LogStore, RedoLog, StoreError};

/// One row: what is measured, and how.
pub(crate) struct Row {
    /// `operation/variation/threads`.
    pub(crate) name: &'static str,
    /// Runs so many calls and returns the time they took.
    pub(crate) run: fn(calls: u64) -> Duration,
}

/// Every row of this crate.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "redo/append/16/1",
        run: |calls| append(calls, 16),
    },
    Row {
        name: "redo/append/128/1",
        run: |calls| append(calls, 128),
    },
];

/// Takes everything and keeps nothing.
struct Nowhere(u64);

impl LogStore for Nowhere {
    fn start(&self) -> u64 {
        0
    }
    fn end(&self) -> u64 {
        self.0
    }
    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<usize, StoreError> {
        Ok(0)
    }
    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.0 += bytes.len() as u64;
        Ok(())
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    fn cut(&mut self, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
    fn remove_before(&mut self, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A record with a payload of so many bytes into the buffer, which is written to nowhere when it is full.
fn append(calls: u64, bytes: usize) -> Duration {
    let (log, _) = RedoLog::open(Nowhere(0)).expect("nothing can be wrong with nothing");
    let payload = vec![7; bytes];
    let start = Instant::now();
    for _ in 0..calls {
        let end = log.append(1, &[black_box(&payload)]);
        black_box(end.expect("nowhere takes everything"));
    }
    start.elapsed()
}
