//! Sleep and look again, as PostgreSQL did from 9.5 to 16.

use core::time::Duration;
use std::thread;

use txnkit_ids::MultiXactId;

use crate::error::MultiXactError;
use crate::next::Next;

/// Between two looks.
const NAP: Duration = Duration::from_millis(1);

/// Readers sleep a millisecond at a time until the next set's creator has written its position. As long as it does not, for ever.
#[derive(Debug)]
pub struct Sleeping;

impl Next for Sleeping {
    const WRITES_NEXT: bool = false;

    fn new() -> Self {
        Self
    }

    fn wait(
        &self,
        _id: MultiXactId,
        mut ask: impl FnMut() -> Result<Option<u32>, MultiXactError>,
    ) -> Result<u32, MultiXactError> {
        loop {
            if let Some(end) = ask()? {
                return Ok(end);
            }
            thread::sleep(NAP);
        }
    }

    fn written(&self) {}
}
