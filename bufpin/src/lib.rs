#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(feature = "alloc", test))]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

#[cfg(feature = "baselines")]
pub mod baseline;
mod cleanup;
pub mod error;
mod evict;
mod form;
mod lock;
mod mapping;
mod page;
mod pool;
mod private;
mod session;
mod state;
mod stats;
mod store;
pub mod traits;
mod unpinned;

pub use crate::error::{CleanupError, FlushError, LockError, PinError, RegisterError, StoreError};
#[cfg(feature = "alloc")]
pub use crate::form::Heap;
pub use crate::form::{Fixed, Memory};
pub use crate::page::{Exclusive, PAGE_WORDS, Shared, Word};
#[cfg(feature = "alloc")]
pub use crate::pool::BufferPool;
pub use crate::pool::{BufferState, FixedBufferPool, MAX_SESSIONS, Pool};
pub use crate::private::Pin;
pub use crate::session::Session;
#[cfg(feature = "alloc")]
pub use crate::store::MemoryStore;
pub use crate::store::PageStore;
pub use crate::traits::{LockMode, NO_PAGE, PinSession, Pins, Stats};
pub use crate::unpinned::Unpinned;
