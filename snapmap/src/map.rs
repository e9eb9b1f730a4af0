//! The map: which xmin a snapshot had at the least, by when it was taken.
//!
//! # Terms
//!
//! - A *bucket* is a stretch of the caller's clock, named by its end e, the first instant no longer in it.
//! - A *row* (e, x): in the bucket that ends at e, a snapshot would at some moment have got the xmin x.
//! - *due*: the end of the newest bucket that has a row. It is the stamp, and the instant at which the map has to move on.
//! - *usable*: the highest x of a row older than the threshold. *threshold*: the same as far as a pruner really went beyond its horizon.
//!
//! # Rules
//!
//! 1. Who finds that the clock has reached *due* first computes x, then takes the ring's lock if it is free, looks at *due* again, appends the row, and
//!    stores its end in *due* (Release). If the lock is taken or *due* has moved, another was faster, and nothing is done. Both looks are at one
//!    word: of two who come at once with the same bucket only the one who stores *due* gives the row its x.
//! 2. Who takes a snapshot loads *due* (Acquire) before it reads which transactions have ended. So a snapshot whose stamp is e or more sees
//!    what x was computed from, and its xmin is not below x. (That x is the *first* of its bucket matters: a later one could be beyond a
//!    snapshot stamped with e already.)
//! 3. A row may be used at `now` when e + threshold <= now. It was made before e, so a snapshot with an xmin below x was taken before e, and is more
//!    than the threshold old. Every rounding goes to this side: rows count as made at their bucket's end.
//! 4. *usable* is computed under the ring's lock, by whoever asks for a limit first after a row has become old enough, and only rises. It is stored with
//!    Release and loaded with Acquire: all transactions before a limit have ended, and who prunes reads what they have left.
//! 5. Who prunes by *usable* because that is beyond its horizon raises *threshold* to it first, then `fence(Release)`, then removes. Who reads a row does
//!    `fence(Acquire)` after it, then loads *threshold*. A reader that met a removal therefore finds the threshold that allowed it. This is passing a
//!    message, not the crossing of two flags (nobody looks for readers), so nothing stronger is needed.
//! 6. A snapshot is refused by its xmin alone: below *threshold* it may lack rows, from there on it lacks none, since it sees all ids before
//!    *threshold* as ended. Its stamp decides nothing; with rules 2 and 3 it says how old the snapshot is.
//! 7. The ring's lock is only tried, and never held while a caller's code runs, so nobody waits for anybody: a thread that stands still with it
//!    keeps the map where it is, and pruning falls back to the horizon. Only [`SnapMap::mapping`] waits for it.
//!
//! # Why the ring is long enough
//!
//! A row may be dropped when a newer one is old enough. Ends are multiples of the bucket's length w, so the newest of N rows that follow one
//! another ends at least (N - 1) w after the oldest, and is made at most w before its own end: the oldest is by then (N - 2) w old or more. So N - 2
//! buckets must not be shorter than the threshold, and w is widened until they are not.

use txnkit_ids::Xid;
use txnkit_sync::atomic::{AtomicU64, Ordering};
use txnkit_sync::lock::Mutex;
use txnkit_sync::{Padded, broken, fence_at, inject, ord};

use crate::ring::Ring;
use crate::{AgeMap, Mapped, SnapshotTooOld, Stamp};

/// The rows of a map unless told otherwise: a threshold is kept to within two parts in 126 of it, in 2 KiB.
pub const PLACES: usize = 128;

/// A map from time to xmin: see [`AgeMap`] for what to do with it. `N` is the number of rows it keeps, at least 3 (a smaller one does not compile).
///
/// Fits in a `static`:
///
/// ```
/// use snapmap::{AgeMap, SnapMap, Xid};
///
/// /// An hour of a clock in seconds, kept in steps of ten minutes.
/// static MAP: SnapMap<8> = SnapMap::with_places(3600, 600);
///
/// MAP.advance(0, || Xid::new(100));
/// assert_eq!(MAP.limit(4199, Xid::new(50)), Xid::new(50));
/// assert_eq!(MAP.limit(4200, Xid::new(50)), Xid::new(100));
/// ```
#[derive(Debug)]
pub struct SnapMap<const N: usize = PLACES> {
    /// None: off.
    setting: Option<Setting>,
    words: Padded<Words>,
    ring: Padded<Mutex<Ring<N>>>,
}

/// What was asked for, in units of the caller's clock.
#[derive(Debug, Clone, Copy)]
struct Setting {
    threshold: u64,
    /// Not 0.
    bucket: u64,
}

/// What everybody reads. Each word changes about once a bucket, so that they share a line.
#[derive(Debug)]
struct Words {
    due: AtomicU64,
    /// Before this instant no further row becomes old enough.
    next_look: AtomicU64,
    usable: AtomicU64,
    threshold: AtomicU64,
}

impl SnapMap {
    txnkit_sync::const_fn! {
        /// A map that lets snapshots be refused when they are more than `threshold` old, kept in buckets of `bucket`, both in units of the
        /// caller's clock.
        ///
        /// What may go because of the threshold goes `threshold` and at most two buckets after it could have gone without old snapshots,
        /// as long as the map is advanced once a bucket. A bucket shorter than a 126th of the threshold is widened to that; 0 counts as 1.
        pub fn new(threshold: u64, bucket: u64) -> Self {
            Self::with_places(threshold, bucket)
        }
    }

    txnkit_sync::const_fn! {
        /// No threshold: no snapshot is ever refused, the limit is the horizon, and nothing shared is touched.
        pub fn off() -> Self {
            Self::build(None)
        }
    }
}

impl<const N: usize> SnapMap<N> {
    txnkit_sync::const_fn! {
        /// As [`SnapMap::new`], with `N` rows: a bucket shorter than the threshold divided by `N` - 2 is widened to that.
        pub fn with_places(threshold: u64, bucket: u64) -> Self {
            const { assert!(N >= 3, "a map needs at least 3 places") };
            let least = threshold.div_ceil(N as u64 - 2);
            let bucket = if bucket < least { least } else { bucket };
            Self::build(Some(Setting { threshold, bucket: if bucket == 0 { 1 } else { bucket } }))
        }
    }

    txnkit_sync::const_fn! {
        fn build(setting: Option<Setting>) -> Self {
            Self {
                setting,
                words: Padded::new(Words {
                    due: AtomicU64::new(0),
                    next_look: AtomicU64::new(0),
                    usable: AtomicU64::new(0),
                    threshold: AtomicU64::new(0),
                }),
                ring: Padded::new(Mutex::new(Ring::EMPTY)),
            }
        }
    }

    /// How old a snapshot may get, in units of the caller's clock; none when the map is off.
    pub fn threshold(&self) -> Option<u64> {
        self.setting.map(|setting| setting.threshold)
    }

    /// How long a bucket is, in units of the caller's clock, after widening; none when the map is off.
    pub fn bucket(&self) -> Option<u64> {
        self.setting.map(|setting| setting.bucket)
    }

    /// Snapshots with an xmin before this id are refused. Only rises. Wait-free.
    pub fn refused_before(&self) -> Xid {
        Xid::new(self.words.threshold.load(Ordering::Relaxed))
    }

    /// The rows, the oldest first, as they stand when each is asked for; none when the map is off. Each step takes the ring's lock, held by
    /// others for a look at the rows at most.
    pub fn mapping(&self) -> Mapping<'_, N> {
        Mapping {
            map: self,
            last: Stamp::default(),
        }
    }

    /// Rule 1, the clock having reached *due*.
    #[cold]
    fn move_on(&self, end: Stamp, next_xmin: impl FnOnce() -> Xid) {
        let next_xmin = next_xmin();
        let Some(mut ring) = self.ring.try_lock() else {
            return;
        };
        let faster = end.get() <= self.words.due.load(Ordering::Relaxed);
        if faster && !broken!("snapmap.map.not-rechecked") {
            return;
        }
        ring.push(end, next_xmin);
        inject!("snapmap.map.moving");
        // Pairs with the Acquire load in `stamp`.
        self.words
            .due
            .store(end.get(), ord!("snapmap.map.due", Release));
    }

    /// Rule 4, `now` having reached the instant of the next look.
    #[cold]
    fn look(&self, now: u64, setting: Setting) {
        let Some(ring) = self.ring.try_lock() else {
            return;
        };
        let words = &*self.words;
        let row = now
            .checked_sub(setting.threshold)
            .and_then(|instant| ring.last_until(instant));
        if let Some(row) = row
            && row.next_xmin.get() > words.usable.load(Ordering::Relaxed)
        {
            // Pairs with the Acquire load in `limit`.
            words
                .usable
                .store(row.next_xmin.get(), ord!("snapmap.map.usable", Release));
        }
        let bucket = row.map_or(Stamp::default(), |row| row.bucket);
        let next_end = match ring.first_after(bucket) {
            Some(next) => next.bucket.get(),
            // A row still to come ends one bucket after the last one at the earliest.
            None => words
                .due
                .load(Ordering::Relaxed)
                .saturating_add(setting.bucket),
        };
        let next_look = next_end.saturating_add(setting.threshold);
        if next_look > words.next_look.load(Ordering::Relaxed) {
            words.next_look.store(next_look, Ordering::Relaxed);
        }
    }

    /// Rule 5, the pruner's part.
    #[inline]
    fn publish(&self, limit: u64) {
        let threshold = &self.words.threshold;
        if broken!("snapmap.map.threshold-stored") {
            threshold.store(limit, Ordering::Relaxed);
        } else if threshold.load(Ordering::Relaxed) < limit && !broken!("snapmap.map.not-published")
        {
            threshold.fetch_max(limit, Ordering::Relaxed);
        }
        // Pairs with the fence in `check`.
        fence_at!("snapmap.map.publish-fence", Release);
    }
}

impl Setting {
    /// The bucket that `now` lies in.
    fn bucket_of(self, now: u64) -> Stamp {
        let number = (now / self.bucket).saturating_add(1);
        Stamp::new(number.saturating_mul(self.bucket))
    }
}

impl<const N: usize> AgeMap for SnapMap<N> {
    /// Wait-free: a load.
    #[inline]
    fn stamp(&self) -> Stamp {
        if self.setting.is_none() {
            return Stamp::default();
        }
        // Pairs with the Release store in `move_on`.
        Stamp::new(self.words.due.load(ord!("snapmap.map.stamp", Acquire)))
    }

    /// Wait-free apart from `next_xmin`: a load, unless a bucket has begun. Of threads that come at once one moves the map on, the others
    /// return: the map may then stand at an earlier bucket than the caller's, until the next call.
    #[inline]
    fn advance(&self, now: u64, next_xmin: impl FnOnce() -> Xid) {
        let Some(setting) = self.setting else {
            return;
        };
        let due = self.words.due.load(Ordering::Relaxed);
        if now < due {
            return;
        }
        let end = setting.bucket_of(now);
        // Not so at the end of all time.
        if end.get() > due {
            self.move_on(end, next_xmin);
        }
    }

    /// Wait-free: two loads, a third where the map allows more than the horizon; about once a bucket a look at the rows.
    #[inline]
    fn limit(&self, now: u64, horizon: Xid) -> Xid {
        let Some(setting) = self.setting else {
            return horizon;
        };
        if now >= self.words.next_look.load(Ordering::Relaxed) {
            self.look(now, setting);
        }
        // Pairs with the Release store in `look`.
        let usable = self.words.usable.load(ord!("snapmap.map.limit", Acquire));
        if usable <= horizon.get() {
            return horizon;
        }
        self.publish(usable);
        Xid::new(usable)
    }

    /// Wait-free: an Acquire fence (no instruction on x86) and a load.
    #[inline]
    fn check(&self, xmin: Xid, taken_at: Stamp) -> Result<(), SnapshotTooOld> {
        if self.setting.is_none() {
            return Ok(());
        }
        // Pairs with the fence in `publish`.
        fence_at!("snapmap.map.check-fence", Acquire);
        let refused_before = self.refused_before();
        if xmin < refused_before {
            return Err(SnapshotTooOld {
                xmin,
                taken_at,
                refused_before,
            });
        }
        Ok(())
    }
}

/// The rows of a map, the oldest first.
#[derive(Debug)]
pub struct Mapping<'a, const N: usize = PLACES> {
    map: &'a SnapMap<N>,
    last: Stamp,
}

impl<const N: usize> Iterator for Mapping<'_, N> {
    type Item = Mapped;

    fn next(&mut self) -> Option<Mapped> {
        let row = self.map.ring.lock().first_after(self.last)?;
        self.last = row.bucket;
        Some(row)
    }
}
