//! Ids reserved in the redo log, a block at a time, before any of them is handed out: after a crash none is given twice.
//!
//! The array stops at the end of what is reserved; who is refused there reserves the next block and asks again. So handing out
//! costs nothing more, but for one id in [`BLOCK`].

use procarray::Snapshots;
use txnkit_ids::Xid;
use txnkit_sync::lock::Mutex;

use crate::redo::{Redo, RedoError};

/// How many ids a record in the redo log reserves.
///
/// A crash skips at most so many; a log that is flushed for each block is not noticed even at a million ids a second.
const BLOCK: u64 = 1 << 18;

/// Where the reserved ids end.
pub(crate) struct Reserved(Mutex<Xid>);

impl Reserved {
    /// Nothing is reserved: the first id asked for reserves the first block.
    pub(crate) fn new(array: &impl Snapshots) -> Self {
        let next = array.next_xid();
        array.set_stop(next);
        Self(Mutex::new(next))
    }

    /// Reserves a block after `next`, the id that the array refused to hand out, unless another session has.
    ///
    /// Blocks on the redo log; sessions that need an id meanwhile wait for it too.
    pub(crate) fn extend(
        &self,
        array: &impl Snapshots,
        redo: &impl Redo,
        next: Xid,
    ) -> Result<(), RedoError> {
        // As many may slip past the array's stop.
        let slack = array.sessions() as u64;
        let mut end = self.0.lock();
        if next.get() + slack < end.get() {
            return Ok(());
        }
        let extended = Xid::new(next.get() + slack + BLOCK);
        redo.reserve_ids(extended)?;
        *end = extended;
        array.set_stop(Xid::new(extended.get() - slack));
        Ok(())
    }
}
