#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod cell;
pub mod faults;
pub mod heap;
pub mod host;
pub mod redo;
pub mod registry;
pub mod rng;
pub mod run;
pub mod study;
pub mod tpcb;

pub use run::estimate_memory_bytes;

/// The workspace's README, so that its example is run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[derive(Debug)]
pub struct WorkspaceReadme;
