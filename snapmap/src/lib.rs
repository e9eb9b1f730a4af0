#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "std")]
extern crate alloc;

#[cfg(feature = "baselines")]
pub mod baseline;
mod error;
mod map;
mod ring;
mod traits;

pub use txnkit_ids::Xid;

pub use crate::error::SnapshotTooOld;
pub use crate::map::{Mapping, PLACES, SnapMap};
pub use crate::traits::{AgeMap, Mapped, Stamp};
