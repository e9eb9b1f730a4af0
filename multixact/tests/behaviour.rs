//! The behaviours of `common`, of the front and, with the feature `baselines`, of the baselines.
#![cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]

extern crate alloc;

use common::SESSIONS;
use multixact::LockTable;
use slru::MemoryStore;

#[macro_use]
mod common;

suite!(front, |id, offset| LockTable::starting_at(
    MemoryStore::new(),
    MemoryStore::new(),
    [16, 16],
    SESSIONS,
    id,
    offset
));

#[cfg(feature = "baselines")]
mod baselines {
    use multixact::baseline::{CondvarWait, SleepRetry};
    use slru::MemoryStore;

    use super::common;
    use super::common::SESSIONS;

    suite!(sleep_retry, |id, offset| SleepRetry::starting_at(
        MemoryStore::new(),
        MemoryStore::new(),
        [16, 16],
        SESSIONS,
        id,
        offset
    ));
    suite!(condvar_wait, |id, offset| CondvarWait::starting_at(
        MemoryStore::new(),
        MemoryStore::new(),
        [16, 16],
        SESSIONS,
        id,
        offset
    ));
}
