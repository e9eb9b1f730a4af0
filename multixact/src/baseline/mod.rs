//! The designs before the front's: a creator writes only its own set's position, so whoever reads a set may have to wait for the creator of the next one.

mod condvar_wait;
mod sleep_retry;

use crate::sets::Sets;

/// PostgreSQL until 16: sleeps a millisecond and looks again.
pub type SleepRetry<S> = Sets<S, sleep_retry::Sleeping>;

/// PostgreSQL 17: waits on a condition that every creator signals.
pub type CondvarWait<S> = Sets<S, condvar_wait::Waiting>;

pub use condvar_wait::Waiting;
pub use sleep_retry::Sleeping;
