#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "baselines")]
pub mod baseline;
mod error;
#[cfg(feature = "std")]
mod file;
mod frames;
mod layout;
mod log;
#[cfg(feature = "alloc")]
mod memory;
mod page;
mod pages;
mod parents;
mod pool;
mod stats;
mod status;
mod store;
mod timestamps;

pub use txnkit_ids::{Lsn, Xid, XidRun};

#[cfg(not(any(
    txnkit_model = "loom",
    txnkit_model = "shuttle",
    txnkit_model = "coherence"
)))]
pub use frames::FixedFrames;
#[cfg(feature = "alloc")]
pub use frames::HeapFrames;

pub use error::{StatusError, StatusErrorKind};
#[cfg(feature = "std")]
pub use file::FileStore;
pub use frames::Frames;
pub use layout::Layout;
pub use log::PagedStatusLog;
#[cfg(feature = "alloc")]
pub use log::StatusLog;
#[cfg(feature = "alloc")]
pub use memory::MemoryStore;
pub use page::{PAGE_BYTES, PAGE_WORDS, PageBuf};
pub use pages::{HeldPage, Pages};
pub use parents::PagedParents;
#[cfg(feature = "alloc")]
pub use parents::Parents;
pub use pool::{Held, Pool, PoolError};
pub use stats::{Reader, SlruStats};
pub use status::{Status, StatusStore};
pub use store::{Found, LogFirst, NoStore, PageStore, StoreError};
#[cfg(feature = "alloc")]
pub use timestamps::CommitTimestamps;
pub use timestamps::{CommitTimestamp, PagedCommitTimestamps};
#[cfg(not(any(
    txnkit_model = "loom",
    txnkit_model = "shuttle",
    txnkit_model = "coherence"
)))]
pub use {log::FixedStatusLog, parents::FixedParents, timestamps::FixedCommitTimestamps};
