#![doc = include_str!("../README.md")]
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod array;
#[cfg(feature = "baselines")]
pub mod baseline;
mod done;
mod ends;
pub mod error;
mod form;
mod horizon;
mod session;
mod slot;
mod snapshot;
pub mod traits;
#[cfg(feature = "alloc")]
mod waits;

pub use txnkit_ids::{Xid, XidRun};

#[cfg(feature = "alloc")]
pub use crate::array::ProcArray;
pub use crate::array::{Array, FixedProcArray, WINDOW_WORDS};
pub use crate::error::{AssignError, EndError, RegisterError, WouldBlock};
#[cfg(feature = "alloc")]
pub use crate::form::Growing;
pub use crate::form::{Buffer, FIXED_CHILD_RUNS, Fixed, Form};
pub use crate::session::Session;
pub use crate::snapshot::Snapshot;
pub use crate::traits::{Membership, SnapshotSession, SnapshotView, Snapshots};
#[cfg(feature = "alloc")]
pub use crate::waits::{Deadlock, Waiter, Waiting, Waits};
