#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

mod error;
mod limits;
mod lsn;
mod multixact;
mod run;
mod xid;

pub use error::{IdError, LimitReached, ParseLsnError, RunError};
pub use limits::{IdLimits, LimitDistances, Room};
pub use lsn::Lsn;
pub use multixact::{MultiXactId, MultiXactId32, MultiXactOffset, MultiXactOffset32};
pub use run::{XidRun, XidRunIter};
pub use xid::{Xid, Xid32};

/// `reference` moved by the signed 32-bit distance from its low half to `low`: the id nearest to `reference` that has this low half.
const fn widen(low: u32, reference: u64) -> Result<u64, IdError> {
    let distance = low.wrapping_sub(reference as u32) as i32;
    match reference.checked_add_signed(distance as i64) {
        Some(wide) => Ok(wide),
        None if distance < 0 => Err(IdError::BeforeFirst { low, reference }),
        None => Err(IdError::Exhausted { reference }),
    }
}
