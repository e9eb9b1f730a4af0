#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "baselines")]
pub mod baseline;
#[cfg(feature = "alloc")]
mod cache;
#[cfg(feature = "alloc")]
mod error;
#[cfg(feature = "std")]
mod files;
pub mod layout;
mod mode;
#[cfg(feature = "alloc")]
mod next;
#[cfg(all(feature = "alloc", not(txnkit_model = "loom")))]
#[expect(unreachable_pub, reason = "public for its model")]
mod oldest;
/// Public for its model only.
#[cfg(all(feature = "alloc", txnkit_model = "loom"))]
pub mod oldest;
#[cfg(feature = "alloc")]
mod sets;
#[cfg(feature = "alloc")]
mod traits;
#[cfg(feature = "alloc")]
mod xids;

#[cfg(feature = "alloc")]
#[cfg(feature = "std")]
pub use slru::FileStore;
#[cfg(feature = "alloc")]
pub use slru::{MemoryStore, PageStore, PoolError, StoreError};
pub use txnkit_ids::{MultiXactId, MultiXactOffset, Xid};

#[cfg(feature = "alloc")]
pub use error::{MultiXactError, RegisterError};
pub use mode::{Member, Mode};
#[cfg(feature = "alloc")]
pub use next::{Next, WrittenTogether};
#[cfg(feature = "alloc")]
pub use sets::{Kept, LockTable, Session, Sets};
#[cfg(feature = "alloc")]
pub use traits::{LockSession, LockSets, XidState};
