//! Where a log's bytes live.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// A place for a log's bytes: one stream, appended to at its end.
///
/// Called by one thread at a time. What `write` has taken may be lost in a crash, in any part and in any order, until a `sync` that began
/// after it has returned.
pub trait LogStore: Send {
    /// The position of the first byte there is.
    fn start(&self) -> u64;

    /// The position after the last byte there is.
    fn end(&self) -> u64;

    /// Reads bytes from position `at` on and says how many: fewer than asked for only where they end.
    ///
    /// # Errors
    /// [`StoreError`]
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<usize, StoreError>;

    /// Appends `bytes` at [`end`](Self::end).
    ///
    /// # Errors
    /// [`StoreError`]; how many of them were taken is unknown, and the log does not use the store any more.
    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError>;

    /// Makes durable what was appended.
    ///
    /// # Errors
    /// [`StoreError`]; what is durable is unknown, and the log does not use the store any more.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// Takes away what stands from position `end` on, durably.
    ///
    /// # Errors
    /// [`StoreError`]
    fn cut(&mut self, end: u64) -> Result<(), StoreError>;

    /// What stands before position `start` is not needed any more; the store may keep some or all of it.
    ///
    /// # Errors
    /// [`StoreError`]; calling again tries again.
    fn remove_before(&mut self, start: u64) -> Result<(), StoreError>;
}

/// A store could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    message: Arc<str>,
}

impl StoreError {
    /// Says what was tried, on what, and what was found.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: Arc::from(message.into()),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for StoreError {}

/// Bytes in memory, gone with the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryStore {
    bytes: Vec<u8>,
}

impl MemoryStore {
    /// An empty one.
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// One that holds these bytes already.
    pub const fn from_bytes(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// What it holds.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl LogStore for MemoryStore {
    fn start(&self) -> u64 {
        0
    }

    fn end(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<usize, StoreError> {
        let from = self.bytes.get(at as usize..).unwrap_or_default();
        let len = from.len().min(into.len());
        into[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn cut(&mut self, end: u64) -> Result<(), StoreError> {
        self.bytes.truncate(end as usize);
        Ok(())
    }

    fn remove_before(&mut self, _start: u64) -> Result<(), StoreError> {
        Ok(())
    }
}
