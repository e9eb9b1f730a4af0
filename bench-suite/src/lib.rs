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
