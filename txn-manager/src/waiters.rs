//! Sessions that wait for a transaction's end.
//!
//! No wake-up is lost: a waiter registers first and asks then whether the id runs; an ender lets the id leave the array first and
//! looks for waiters then. Both take the bucket's lock in between, so one of the two sees the other.

use alloc::sync::Arc;

use txnkit_ids::Xid;
use txnkit_sync::Padded;
use txnkit_sync::lock::Mutex;
use txnkit_sync::park::{DefaultPark, Park};

/// Ids dealt one after another fall into different buckets, so committers seldom meet on a bucket's lock.
const BUCKETS: usize = 64;

/// Who waits for which id, in buckets by id.
pub(crate) struct Waiters {
    buckets: Box<[Padded<Mutex<Vec<Waiter>>>]>,
}

struct Waiter {
    xid: Xid,
    parker: Arc<DefaultPark>,
}

impl Waiters {
    pub(crate) fn new() -> Self {
        Self {
            buckets: (0..BUCKETS)
                .map(|_| Padded::new(Mutex::new(Vec::new())))
                .collect(),
        }
    }

    fn bucket(&self, xid: Xid) -> &Mutex<Vec<Waiter>> {
        &self.buckets[xid.get() as usize % BUCKETS]
    }

    /// From now to the drop of what is returned, [`wake`](Self::wake) for `xid` unparks `parker`.
    pub(crate) fn register(&self, xid: Xid, parker: &Arc<DefaultPark>) -> Registered<'_> {
        self.bucket(xid).lock().push(Waiter {
            xid,
            parker: Arc::clone(parker),
        });
        Registered {
            waiters: self,
            xid,
            parker: Arc::clone(parker),
        }
    }

    /// Unparks everybody who waits for `xid`. Without waiters: one lock that is seldom contended.
    pub(crate) fn wake(&self, xid: Xid) {
        let mut bucket = self.bucket(xid).lock();
        if bucket.is_empty() {
            return;
        }
        for waiter in bucket.extract_if(.., |waiter| waiter.xid == xid) {
            waiter.parker.unpark();
        }
    }
}

/// A waiter's entry; dropping it removes the entry if nobody woke it.
pub(crate) struct Registered<'a> {
    waiters: &'a Waiters,
    xid: Xid,
    parker: Arc<DefaultPark>,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut bucket = self.waiters.bucket(self.xid).lock();
        bucket.retain(|waiter| !Arc::ptr_eq(&waiter.parker, &self.parker));
    }
}
