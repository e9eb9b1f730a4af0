//! Handing out ids under a lock of their own.

use txnkit_ids::{Xid, Xid32};
use txnkit_sync::lock::{RawRwLock, RwLock};

use crate::error::AssignError;

/// How far beyond the horizon ids may go: less than 2^31, by the distance that PostgreSQL keeps.
const REACH: u64 = (1 << 31) - 3_000_000;

/// The id generator.
pub(super) struct Ids<L: RawRwLock> {
    counter: RwLock<Counter, L>,
    reach: u64,
}

struct Counter {
    next: Xid,
    /// No id from here on, until the horizon has been looked at again.
    stop: Xid,
    /// No id from here on, until the caller says so.
    callers_stop: Xid,
}

impl<L: RawRwLock> Ids<L> {
    /// Ids from `first` on, which is not special.
    pub(super) fn new(first: Xid) -> Self {
        Self::with_reach(first, REACH)
    }

    fn with_reach(first: Xid, reach: u64) -> Self {
        let stop = stop_for(first, reach);
        Self {
            counter: RwLock::new(Counter {
                next: first,
                stop,
                callers_stop: Xid::MAX,
            }),
            reach,
        }
    }

    /// The first id not handed out.
    pub(super) fn next(&self) -> Xid {
        self.counter.read().next
    }

    pub(super) fn set_stop(&self, stop: Xid) {
        self.counter.write().callers_stop = stop;
    }

    /// Hands out an id. `show` makes it visible before a later one can be handed out; `horizon` is asked at the limit, with
    /// no lock held.
    pub(super) fn hand_out(
        &self,
        show: impl FnOnce(Xid32),
        horizon: impl FnOnce() -> Xid,
    ) -> Result<Xid, AssignError> {
        let mut counter = self.counter.write();
        if counter.next >= counter.stop {
            // The array lock, which `horizon` takes, comes before this one.
            drop(counter);
            let stop = stop_for(horizon(), self.reach);
            counter = self.counter.write();
            counter.stop = counter.stop.max(stop);
        }
        let (xid, stop) = (counter.next, counter.stop.min(counter.callers_stop));
        match xid.next() {
            Some(next) if xid < stop => {
                show(xid.low32());
                counter.next = next;
                Ok(xid)
            }
            _ => Err(AssignError::Stopped { next: xid, stop }),
        }
    }
}

fn stop_for(horizon: Xid, reach: u64) -> Xid {
    Xid::new(horizon.get().saturating_add(reach))
}

#[cfg(test)]
mod tests {
    use txnkit_sync::lock::LockOfToday;

    use super::*;

    fn hand_out(ids: &Ids<LockOfToday>, horizon: u64) -> Result<u64, AssignError> {
        ids.hand_out(|_| {}, || Xid::new(horizon)).map(Xid::get)
    }

    #[test]
    fn ids_stop_at_the_reach_and_go_on_when_the_horizon_has_moved() {
        let ids = Ids::with_reach(Xid::new(100), 3);
        assert_eq!(
            [100, 101, 102].map(Ok),
            [0, 0, 0].map(|horizon| hand_out(&ids, horizon))
        );
        let stopped = AssignError::Stopped {
            next: Xid::new(103),
            stop: Xid::new(103),
        };
        assert_eq!(hand_out(&ids, 100), Err(stopped));
        assert_eq!(ids.next(), Xid::new(103), "a refusal hands nothing out");
        assert_eq!(hand_out(&ids, 101), Ok(103));
        assert_eq!(
            hand_out(&ids, 100),
            Err(AssignError::Stopped {
                next: Xid::new(104),
                stop: Xid::new(104)
            })
        );
    }

    #[test]
    fn an_id_is_shown_before_the_lock_is_free() {
        let ids = Ids::<LockOfToday>::new(Xid::new(100));
        let shown = ids.hand_out(
            |_| assert!(ids.counter.try_read().is_none()),
            || Xid::new(100),
        );
        assert_eq!(shown, Ok(Xid::new(100)));
    }

    #[test]
    fn the_last_id_of_all_is_refused() {
        let ids = Ids::<LockOfToday>::new(Xid::MAX);
        let stopped = AssignError::Stopped {
            next: Xid::MAX,
            stop: Xid::MAX,
        };
        assert_eq!(hand_out(&ids, u64::MAX), Err(stopped));
    }
}
