//! The first snapshot of a minute takes the map's lock.

use alloc::vec::Vec;

use txnkit_ids::Xid;

use super::control::Control;
use crate::{AgeMap, Mapped, SnapshotTooOld, Stamp};

/// The map after commit 7e3da1c473: two spinlocks at every snapshot, the map's lock at the first one of a minute.
#[derive(Debug)]
pub struct LockEveryMinute {
    control: Option<Control>,
}

impl LockEveryMinute {
    /// A map that lets snapshots be refused when they are more than `threshold` old, kept in minutes of `minute` units of the caller's clock.
    ///
    /// 8 bytes for every minute of the threshold and ten more. A minute shorter than an 86 400th of the threshold is widened to that; 0 counts as 1.
    pub fn new(threshold: u64, minute: u64) -> Self {
        Self {
            control: Some(Control::new(threshold, minute)),
        }
    }

    /// No threshold: nothing is kept, nothing refused.
    pub const fn off() -> Self {
        Self { control: None }
    }

    /// The rows, the oldest first.
    pub fn mapping(&self) -> Vec<Mapped> {
        self.control
            .as_ref()
            .map_or_else(Vec::new, Control::mapping)
    }
}

impl AgeMap for LockEveryMinute {
    /// Wait-free: a load.
    fn stamp(&self) -> Stamp {
        self.control
            .as_ref()
            .map_or(Stamp::default(), Control::stamp)
    }

    /// Blocks on two spinlocks and, first in its minute, the map's lock.
    fn taken(&self, now: impl FnOnce() -> u64, xmin: Xid) {
        let Some(control) = &self.control else {
            return;
        };
        let (minute, first) = control.note(now(), xmin);
        if first {
            control.map(minute, xmin);
        }
    }

    /// Only clamps the clock, under its spinlock: the map lives on snapshots.
    fn advance(&self, now: u64, _next_xmin: impl FnOnce() -> Xid) {
        if let Some(control) = &self.control {
            control.clamp(now);
        }
    }

    /// Blocks on spinlocks and, first in its minute, the map's lock, shared.
    fn limit(&self, now: u64, horizon: Xid) -> Xid {
        self.control
            .as_ref()
            .map_or(horizon, |control| control.limit(now, horizon))
    }

    /// Blocks on a spinlock.
    fn check(&self, xmin: Xid, taken_at: Stamp) -> Result<(), SnapshotTooOld> {
        self.control
            .as_ref()
            .map_or(Ok(()), |control| control.check(xmin, taken_at))
    }
}
