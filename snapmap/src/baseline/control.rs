//! The words of the map, each group under a spinlock of its own, and what both designs do with them.

use alloc::vec::Vec;

use txnkit_ids::Xid;
use txnkit_sync::atomic::{AtomicU64, Ordering};
use txnkit_sync::lock::{LockOfToday, Mutex, RwLock};

use super::minutes::MinuteRing;
use crate::{Mapped, SnapshotTooOld, Stamp};

/// The longest threshold that could be set, in minutes: 60 days.
const LONGEST: u64 = 86_400;

#[derive(Debug)]
pub(crate) struct Control {
    threshold: u64,
    minute: u64,
    clock: Mutex<u64>,
    /// What `clock` holds, for stamps.
    clamped: AtomicU64,
    latest: Mutex<Latest>,
    applied: Mutex<Applied>,
    map: RwLock<MinuteRing, LockOfToday>,
}

/// What snapshots leave.
#[derive(Debug)]
struct Latest {
    xmin: Xid,
    /// The newest minute that is in the map or about to be.
    minute: Option<u64>,
}

/// What a pruner last used.
#[derive(Debug)]
struct Applied {
    minute: Option<u64>,
    refused_before: Xid,
}

impl Control {
    pub(crate) fn new(threshold: u64, minute: u64) -> Self {
        let minute = minute.max(threshold.div_ceil(LONGEST)).max(1);
        Self {
            threshold,
            minute,
            clock: Mutex::new(0),
            clamped: AtomicU64::new(0),
            latest: Mutex::new(Latest {
                xmin: Xid::INVALID,
                minute: None,
            }),
            applied: Mutex::new(Applied {
                minute: None,
                refused_before: Xid::INVALID,
            }),
            map: RwLock::new(MinuteRing::new(threshold.div_ceil(minute))),
        }
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp::new(self.clamped.load(Ordering::Relaxed))
    }

    /// The time, never before one that was seen.
    pub(crate) fn clamp(&self, now: u64) -> u64 {
        let mut clock = self.clock.lock();
        *clock = clock.max(now);
        self.clamped.store(*clock, Ordering::Relaxed);
        *clock
    }

    /// A snapshot with this xmin was taken at `now`: clamps the clock and raises the newest xmin. The snapshot's minute, and whether it is
    /// the first in it.
    pub(crate) fn note(&self, now: u64, xmin: Xid) -> (u64, bool) {
        // Rounded up: a minute's row counts as made at its end.
        let minute = self.clamp(now).div_ceil(self.minute);
        let mut latest = self.latest.lock();
        latest.xmin = latest.xmin.max(xmin);
        let first = latest.minute.is_none_or(|newest| minute > newest);
        if first {
            latest.minute = Some(minute);
        }
        (minute, first)
    }

    /// Puts a snapshot into the map.
    pub(crate) fn map(&self, minute: u64, xmin: Xid) {
        self.map.write().note(minute, xmin);
    }

    pub(crate) fn limit(&self, now: u64, horizon: Xid) -> Xid {
        let now = self.clamp(now);
        let Some(minute) = now
            .checked_sub(self.threshold)
            .map(|instant| instant / self.minute)
        else {
            return horizon;
        };
        let limit = self.limit_at(minute);
        if limit <= horizon {
            return horizon;
        }
        let mut applied = self.applied.lock();
        applied.minute = applied.minute.max(Some(minute));
        applied.refused_before = applied.refused_before.max(limit);
        applied.refused_before
    }

    fn limit_at(&self, minute: u64) -> Xid {
        let before = {
            let applied = self.applied.lock();
            if applied.minute == Some(minute) {
                return applied.refused_before;
            }
            applied.refused_before
        };
        let mapped = self.map.read().xmin_of(minute);
        let latest = self.latest.lock().xmin;
        // What was allowed before stays so: the ring may have started over since.
        mapped.unwrap_or(Xid::INVALID).min(latest).max(before)
    }

    pub(crate) fn check(&self, xmin: Xid, taken_at: Stamp) -> Result<(), SnapshotTooOld> {
        // A pruner raises the word under this lock before it removes. Whose lock came first: if the reader's, its read lies before the removal.
        let refused_before = self.applied.lock().refused_before;
        if xmin < refused_before {
            return Err(SnapshotTooOld {
                xmin,
                taken_at,
                refused_before,
            });
        }
        Ok(())
    }

    pub(crate) fn mapping(&self) -> Vec<Mapped> {
        let rows = self.map.read();
        rows.iter()
            .map(|(minute, next_xmin)| Mapped {
                bucket: Stamp::new(minute.saturating_mul(self.minute)),
                next_xmin,
            })
            .collect()
    }
}
