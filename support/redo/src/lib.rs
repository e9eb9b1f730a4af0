#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "alloc")]
mod error;
#[cfg(feature = "std")]
mod file;
#[cfg(feature = "std")]
mod flusher;
#[cfg(feature = "alloc")]
mod log;
#[cfg(feature = "alloc")]
mod record;
#[cfg(feature = "alloc")]
mod recovery;
#[cfg(feature = "alloc")]
mod store;

pub use txnkit_ids::Lsn;

#[cfg(feature = "alloc")]
pub use error::RedoError;
#[cfg(feature = "std")]
pub use file::FileStore;
#[cfg(feature = "std")]
pub use flusher::Flusher;
#[cfg(feature = "alloc")]
pub use log::{BUFFER_BYTES, RedoLog};
#[cfg(feature = "alloc")]
pub use record::{MAX_PAYLOAD, Record};
#[cfg(feature = "alloc")]
pub use recovery::{Records, Recovered};
#[cfg(feature = "alloc")]
pub use store::{LogStore, MemoryStore, StoreError};
