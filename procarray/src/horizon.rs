//! The horizon: the oldest xmin that a snapshot in use, or one still to come, can have.
//!
//! # Rules
//!
//! Words: *X*: a session's registered xmin; *H*: the announced horizon.
//!
//! 1. A session that takes a snapshot stores its xmin m in X (Relaxed), `fence(SeqCst)`, and loads H. If H > m it takes a newer
//!    snapshot and does the same again; one exists, since H is only ever a value that `oldest` had. Only then does it use the snapshot.
//! 2. Who wants the horizon loads `oldest`, raises H to it by `fetch_max`, `fence(SeqCst)`, scans all X (Acquire), and takes the minimum
//!    of both.
//! 3. The fences of 1 and 2 are ordered one way or the other: either the session sees the H of 2, or the scan sees the X of 1. So no
//!    snapshot older than a returned horizon is ever used.
//! 4. A session that holds a snapshot leaves X as it is when it takes a newer one: the older X protects both.
//! 5. Releasing stores "none" in X (Release), which pairs with the Acquire of the scan: all that the session read, it read
//!    before anybody removes it.
//! 6. The minimum itself may go back: a session about to retry is seen with its old m. What is returned does not: it is the maximum of
//!    all minima so far. That is safe because of 3: once r was returned, no snapshot before r is used, ever.
//!
//! Two computations at once need no lock: each announces before it scans, and rule 3 holds for each by itself.

use txnkit_sync::Padded;
use txnkit_sync::atomic::{AtomicU64, Ordering};
use txnkit_sync::{broken, fence_at, ord};

use crate::slot::NO_XMIN;

/// H and the highest horizon returned.
#[derive(Debug)]
pub(crate) struct Horizon {
    announced: Padded<AtomicU64>,
    returned: AtomicU64,
}

impl Horizon {
    txnkit_sync::const_fn! {
        pub(crate) fn new() -> Self {
            Self { announced: Padded::new(AtomicU64::new(0)), returned: AtomicU64::new(0) }
        }
    }

    /// Rule 2; `xmins` gives every session's X anew.
    pub(crate) fn compute<'a, I>(&self, oldest: u64, xmins: impl FnOnce() -> I) -> u64
    where
        I: Iterator<Item = &'a AtomicU64>,
    {
        if !broken!("procarray.horizon.not-announced") {
            self.announced.fetch_max(oldest, Ordering::Relaxed);
        }
        // Pairs with the fence in `register`.
        fence_at!("procarray.horizon.scan-fence", SeqCst);
        // Acquire pairs with the Release store in `release`.
        let found = xmins()
            .map(|xmin| xmin.load(ord!("procarray.horizon.scan", Acquire)))
            .fold(oldest, u64::min);
        // Pairs with itself in another computation: who returns that one's result acquires what its scan acquired.
        self.returned
            .fetch_max(found, ord!("procarray.horizon.returned", AcqRel))
            .max(found)
    }

    /// Rule 1, one attempt: may the owner of `slot_xmin` use a snapshot with this xmin?
    #[inline]
    pub(crate) fn register(&self, slot_xmin: &AtomicU64, xmin: u64) -> bool {
        slot_xmin.store(xmin, Ordering::Relaxed);
        // Pairs with the fence in `compute`.
        fence_at!("procarray.horizon.register-fence", SeqCst);
        self.announced.load(Ordering::Relaxed) <= xmin || broken!("procarray.horizon.unchecked")
    }

    /// Rule 5.
    #[inline]
    pub(crate) fn release(slot_xmin: &AtomicU64) {
        // Pairs with the Acquire loads of the scan in `compute`.
        slot_xmin.store(NO_XMIN, ord!("procarray.horizon.release", Release));
    }
}
