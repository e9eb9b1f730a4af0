//! Wait for a signal, as PostgreSQL 17 does.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use txnkit_ids::MultiXactId;
use txnkit_sync::lock::Mutex;
use txnkit_sync::park::{DefaultPark, Park};

use crate::error::MultiXactError;
use crate::next::Next;

/// Readers park until a creator has written its position; every creator wakes all of them. A creator that fails wakes nobody.
#[derive(Debug)]
pub struct Waiting {
    waiters: Mutex<Vec<Arc<DefaultPark>>>,
}

impl Next for Waiting {
    const WRITES_NEXT: bool = false;

    fn new() -> Self {
        Self {
            waiters: Mutex::new(Vec::new()),
        }
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
            // First in the list, then asked again: whoever writes meanwhile finds the waiter or is found.
            let place = Arc::new(txnkit_sync::new_park!(DefaultPark));
            self.waiters.lock().push(Arc::clone(&place));
            if let Some(end) = ask()? {
                return Ok(end);
            }
            place.park();
        }
    }

    fn written(&self) {
        for place in mem::take(&mut *self.waiters.lock()) {
            place.unpark();
        }
    }
}
