//! The log: appending, and making durable for all who wait.
//!
//! # Rules
//!
//! 1. Under the insert lock a record gets its position and its bytes go into the buffer: positions are in the order of the buffer. The lock is held for
//!    that copy only; the payload's checksum is made before.
//! 2. Who holds the output lock *leads*: it takes the whole buffer, leaving an empty one, appends it to the store and syncs. So the store's bytes are
//!    in the order of positions, and appending goes on meanwhile.
//! 3. `flushed` is raised by the leader only, after the sync (Release), and never falls.
//! 4. Who wants a position durable and cannot lead puts itself into the list of waiters, *then* tries again to lead, and parks if it cannot.
//!    A leader frees the output lock first and *then* empties the list and wakes all in it. Both take the list's lock between, so the
//!    waiter finds the output lock free, or the leader finds the waiter. Whoever wakes and is not served tries to lead in turn.
//! 5. A failed append or sync is remembered under the insert lock before anybody is woken. From then on nothing is taken and nothing is written:
//!    what the operating system still holds in its cache after a failed sync is not known to reach the disk, ever.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::mem;

use txnkit_ids::Lsn;
use txnkit_sync::atomic::{AtomicU64, Ordering};
use txnkit_sync::lock::{Mutex, MutexGuard};
use txnkit_sync::park::{DefaultPark, Park};
use txnkit_sync::{Padded, broken, ord};

use crate::error::RedoError;
use crate::record::{self, MAX_PAYLOAD, Record};
use crate::recovery::{self, Records, Recovered};
use crate::store::{LogStore, StoreError};

#[cfg(feature = "std")]
type Lock = txnkit_sync::lock::ParkMutex;
#[cfg(not(feature = "std"))]
type Lock = txnkit_sync::lock::SpinLock;

/// Bytes that the buffer takes before whoever appends has to write it out.
pub const BUFFER_BYTES: usize = 16 << 20;

/// A redo log over a store.
///
/// Shared by reference. Appending blocks on others that append, for a copy's time; when the buffer is full, on the store.
pub struct RedoLog<S> {
    insert: Padded<Mutex<Insert, Lock>>,
    flushed: Padded<AtomicU64>,
    output: Mutex<Output<S>, Lock>,
    waiters: Mutex<Vec<Arc<DefaultPark>>, Lock>,
}

struct Insert {
    /// The position of the buffer's first byte.
    start: u64,
    buffer: Vec<u8>,
    failed: Option<StoreError>,
}

struct Output<S> {
    store: S,
    /// The buffer that is not being filled.
    spare: Vec<u8>,
    /// Is the store being written? Found by the next one only if it has panicked.
    busy: bool,
}

impl<S: LogStore> RedoLog<S> {
    /// Opens the log that `store` holds, an empty one too. A torn tail is cut; what was durable is never cut.
    ///
    /// # Errors
    /// [`RedoError::Damaged`] when what was durable cannot be read, [`RedoError::Unreadable`] when the store fails.
    pub fn open(mut store: S) -> Result<(Self, Recovered), RedoError> {
        let recovered = recovery::recover(&mut store)?;
        let end = recovered.end.get();
        let log = Self {
            insert: Padded::new(Mutex::new(Insert {
                start: end,
                buffer: Vec::new(),
                failed: None,
            })),
            flushed: Padded::new(AtomicU64::new(end)),
            output: Mutex::new(Output {
                store,
                spare: Vec::new(),
                busy: false,
            }),
            waiters: Mutex::new(Vec::new()),
        };
        Ok((log, recovered))
    }

    /// Appends a record whose payload is `parts` one after the other, and returns the position of its end: [`flush`](Self::flush) to it makes it
    /// durable.
    ///
    /// # Errors
    /// The record is not in the log and will never be: [`RedoError::TooLong`]; [`RedoError::Failed`] from the first failure of the store on;
    /// [`RedoError::WouldBlock`] only without `std`.
    pub fn append(&self, kind: u8, parts: &[&[u8]]) -> Result<Lsn, RedoError> {
        let len = parts.iter().map(|part| part.len()).sum();
        if len > MAX_PAYLOAD {
            return Err(RedoError::TooLong { len });
        }
        let digest = record::payload_digest(parts);
        loop {
            let mut insert = self.insert.lock();
            insert.check()?;
            if insert.has_room(record::size(len)) {
                // Relaxed: any position that was durable at some time before is right.
                let durable = self.flushed.load(Ordering::Relaxed);
                let position = insert.end();
                let buffer = &mut insert.buffer;
                record::encode(buffer, position, durable, kind, parts, digest);
                return Ok(Lsn::new(insert.end()));
            }
            drop(insert);
            self.write_out(record::size(len))?;
        }
    }

    /// Makes everything up to `to` durable. Of those who ask at the same time one does it for all; the others are parked.
    ///
    /// # Errors
    /// [`RedoError::Failed`] when the store has failed and `to` is not known to be durable; [`RedoError::NotAppended`];
    /// [`RedoError::WouldBlock`] only without `std`.
    pub fn flush(&self, to: Lsn) -> Result<(), RedoError> {
        if self.flushed() >= to {
            return Ok(());
        }
        let end = Lsn::new(self.insert.lock().end());
        if to > end {
            return Err(RedoError::NotAppended { asked: to, end });
        }
        loop {
            if self.flushed() >= to {
                return Ok(());
            }
            if let Some(lead) = self.try_lead() {
                return lead.serve(to);
            }
            if !DefaultPark::CAN_BLOCK {
                return Err(RedoError::WouldBlock);
            }
            if let Some(lead) = self.lead_or_wait(to) {
                return lead.serve(to);
            }
        }
    }

    /// Makes everything durable that was appended before this call. As [`flush`](Self::flush).
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn flush_all(&self) -> Result<Lsn, RedoError> {
        let end = Lsn::new(self.insert.lock().end());
        self.flush(end)?;
        Ok(end)
    }

    /// Up to where the log is known to be durable; only rises. Wait-free.
    pub fn flushed(&self) -> Lsn {
        // Acquire pairs with the Release in `drain`: the sync has returned.
        Lsn::new(self.flushed.load(ord!("redo.log.flushed-load", Acquire)))
    }

    /// Where the next record will start. Blocks on who appends.
    pub fn end(&self) -> Lsn {
        Lsn::new(self.insert.lock().end())
    }

    /// The durable records from `from` on: a position that [`append`](Self::append) returned, or that of the first record ([`Recovered::start`]).
    pub fn records(&self, from: Lsn) -> Records<'_, S> {
        Records {
            log: self,
            next: from,
        }
    }

    /// Records that end before `start` are not needed any more. Blocks on who flushes.
    ///
    /// # Errors
    /// [`RedoError::Unreadable`]; calling again tries again.
    pub fn remove_before(&self, start: Lsn) -> Result<(), RedoError> {
        let start = start.min(self.flushed());
        let mut lead = self.lead();
        lead.output
            .store
            .remove_before(start.get())
            .map_err(RedoError::Unreadable)
    }

    /// The durable record that starts at `at`.
    pub(crate) fn read(&self, at: Lsn) -> Result<Record, RedoError> {
        let store = &mut self.lead().output.store;
        recovery::record_at(store, at.get())?.ok_or(RedoError::NoRecord { asked: at })
    }

    /// Writes the buffer out, without making it durable, unless it has room for `size` bytes by now. Blocks on who flushes.
    #[cold]
    fn write_out(&self, size: usize) -> Result<(), RedoError> {
        let mut lead = self.lead();
        if self.insert.lock().has_room(size) {
            return Ok(());
        }
        lead.drain(false)
    }

    fn lead(&self) -> Lead<'_, S> {
        Lead {
            log: self,
            output: self.output.lock(),
            _waker: Waker(&self.waiters),
        }
    }

    fn try_lead(&self) -> Option<Lead<'_, S>> {
        Some(Lead {
            log: self,
            output: self.output.try_lock()?,
            _waker: Waker(&self.waiters),
        })
    }

    /// Takes the lead if it is free by now, or parks until a leader is through (rule 4).
    fn lead_or_wait(&self, to: Lsn) -> Option<Lead<'_, S>> {
        let place = Arc::new(txnkit_sync::new_park!(DefaultPark));
        if !broken!("redo.log.not-listed") {
            self.waiters.lock().push(Arc::clone(&place));
        }
        let lead = self.try_lead();
        if lead.is_none() && self.flushed() < to {
            place.park();
        }
        lead
    }
}

/// The right to touch the store. Dropped field by field: the output lock is free before the waiters are woken (rule 4).
struct Lead<'a, S> {
    log: &'a RedoLog<S>,
    output: MutexGuard<'a, Output<S>, Lock>,
    _waker: Waker<'a>,
}

/// Wakes all who wait when it is dropped.
struct Waker<'a>(&'a Mutex<Vec<Arc<DefaultPark>>, Lock>);

impl Drop for Waker<'_> {
    fn drop(&mut self) {
        if broken!("redo.log.not-woken") {
            return;
        }
        for place in mem::take(&mut *self.0.lock()) {
            place.unpark();
        }
    }
}

impl<S: LogStore> Lead<'_, S> {
    /// Makes everything up to `to`, and whatever else is in the buffer, durable.
    fn serve(mut self, to: Lsn) -> Result<(), RedoError> {
        // The leader before may have served this one too.
        if self.log.flushed() >= to {
            return Ok(());
        }
        self.drain(true)
    }

    /// Buffer to store, and durable if `sync`.
    fn drain(&mut self, sync: bool) -> Result<(), RedoError> {
        let log = self.log;
        let output = &mut *self.output;
        let end = {
            let mut insert = log.insert.lock();
            insert.check()?;
            let end = insert.end();
            mem::swap(&mut insert.buffer, &mut output.spare);
            insert.start = end;
            end
        };
        output.busy = true;
        let written = output.write(sync);
        output.busy = false;
        if let Err(error) = written {
            log.insert.lock().failed = Some(error.clone());
            return Err(RedoError::Failed(error));
        }
        if sync {
            // Pairs with the Acquire in `flushed`.
            log.flushed.store(end, ord!("redo.log.flushed", Release));
        }
        Ok(())
    }
}

impl<S> Drop for Lead<'_, S> {
    fn drop(&mut self) {
        if self.output.busy {
            let error = StoreError::new("the store panicked while the log was written");
            self.log.insert.lock().failed = Some(error);
        }
    }
}

impl Insert {
    /// Is there room for a record of so many bytes? A buffer that is empty takes one of any size.
    fn has_room(&self, size: usize) -> bool {
        self.buffer.is_empty() || self.buffer.len() + size <= BUFFER_BYTES
    }

    fn end(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    fn check(&self) -> Result<(), RedoError> {
        match &self.failed {
            Some(error) => Err(RedoError::Failed(error.clone())),
            None => Ok(()),
        }
    }
}

impl<S: LogStore> Output<S> {
    fn write(&mut self, sync: bool) -> Result<(), StoreError> {
        if !self.spare.is_empty() {
            self.store.append(&self.spare)?;
            self.spare.clear();
        }
        if sync { self.store.sync() } else { Ok(()) }
    }
}

impl<S> fmt::Debug for RedoLog<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedoLog")
            .field("flushed", &self.flushed.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}
