//! A connection's handle.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;

use txnkit_ids::{Xid, XidRun};
use txnkit_sync::atomic::Ordering;
use txnkit_sync::{MODEL, hint};

use crate::array::Array;
use crate::ends::{Hold, Request};
use crate::error::{AssignError, EndError, WouldBlock};
use crate::form::{Buffer, FIXED_CHILD_RUNS, Form};
use crate::horizon::Horizon;
use crate::slot::{ASSIGNING, NO_XID, Slot};
use crate::snapshot::Snapshot;
use crate::traits::{Membership, SnapshotSession};

/// How often a read of the done map is tried before the leader is asked to do it.
const ATTEMPTS: u32 = if MODEL { 1 } else { 16 };

/// A registered session: see [`SnapshotSession`] for what it can do.
pub struct Session<'a, F: Form> {
    array: &'a Array<F>,
    slot: &'a Slot<F>,
    at: u32,
    /// Is a snapshot's xmin registered?
    held: bool,
    /// Was the status recorded although the ids still run (no parking: `end` has to be called again)?
    recorded: bool,
    hold: Hold<'a, F>,
    not_sync: PhantomData<Cell<()>>,
}

impl<'a, F: Form> Session<'a, F> {
    /// The session of slot `at`, which the caller has marked in use.
    pub(crate) fn new(array: &'a Array<F>, at: u32) -> Self {
        let slot = array.slot(at);
        let mut hold = slot.private.lock();
        hold.snapshot.clear();
        Self {
            array,
            slot,
            at,
            held: false,
            recorded: false,
            hold,
            not_sync: PhantomData,
        }
    }

    /// Makes the session's copy current: alone if possible, else through the leader.
    #[inline(never)]
    fn refresh(&mut self) -> Result<(), WouldBlock> {
        let done = &self.array.done;
        let copy = &mut self.hold.snapshot;
        if let Some((count, old_version)) = done.validated(ATTEMPTS, || done.copy_into(copy)) {
            copy.validate(count, old_version);
            return Ok(());
        }
        copy.clear();
        self.array.serve(self.at, &mut self.hold, Request::Copy)
    }

    /// Registers the copy's xmin, taking newer copies until no horizon has overtaken it.
    #[inline]
    fn register_xmin(&mut self) -> Result<(), WouldBlock> {
        while !self
            .array
            .horizon
            .register(&self.slot.xmin, self.hold.snapshot.xmin)
        {
            if let Err(error) = self.refresh() {
                Horizon::release(&self.slot.xmin);
                return Err(error);
            }
        }
        self.held = true;
        Ok(())
    }

    /// Forgets the children from `from` on; the first `kept` runs are older.
    fn keep_children(&mut self, kept: usize, from: Xid) {
        let children = &mut self.hold.children;
        let partly = children.as_ref()[kept].before(from);
        children.truncate(kept);
        if let Some(older) = partly {
            children.push(older);
        }
    }

    /// Forgets the transaction whose ids have left the running set.
    fn forget(&mut self) {
        self.slot.top.store(NO_XID, Ordering::Relaxed);
        self.hold.top = NO_XID;
        self.hold.children.clear();
        self.recorded = false;
    }
}

impl<F: Form> SnapshotSession for Session<'_, F> {
    type Snapshot = Snapshot<F>;

    /// Lock-free: one `fetch_add`.
    #[inline]
    fn assign(&mut self) -> Result<Xid, AssignError> {
        if self.hold.top == NO_XID {
            self.slot.top.store(ASSIGNING, Ordering::Relaxed);
            let handed_out = self.array.hand_out();
            self.hold.top = *handed_out.as_ref().unwrap_or(&NO_XID);
            self.slot.top.store(self.hold.top, Ordering::Relaxed);
            handed_out?;
        }
        Ok(Xid::new(self.hold.top))
    }

    /// Lock-free: one `fetch_add`, two with the top-level id's.
    fn assign_child(&mut self) -> Result<Xid, AssignError> {
        self.assign()?;
        let children = &mut self.hold.children;
        // Asked first: an id that was handed out has to be remembered.
        if children.is_full() {
            return Err(AssignError::TooManyChildren {
                runs: FIXED_CHILD_RUNS,
            });
        }
        let xid = Xid::new(self.array.hand_out()?);
        let extended = children
            .as_mut()
            .last_mut()
            .is_some_and(|last| last.extend_with(xid));
        if !extended && let Ok(run) = XidRun::single(xid) {
            children.push(run);
        }
        Ok(xid)
    }

    fn xid(&self) -> Option<Xid> {
        (self.hold.top != NO_XID).then(|| Xid::new(self.hold.top))
    }

    fn owns(&self, xid: Xid) -> bool {
        let children = self.hold.children.as_ref();
        let run = children.partition_point(|run| run.last() < xid);
        xid.get() == self.hold.top && self.hold.top != NO_XID
            || children.get(run).is_some_and(|run| run.contains(xid))
    }

    /// Wait-free when nothing has ended since the session's last copy (a load; with the first of a transaction also a store, a fence
    /// and a load). Else copies, a bounded number of times, then blocks on the leader.
    #[inline]
    fn snapshot(&mut self) -> Result<&Snapshot<F>, WouldBlock> {
        if self.array.done.stable_count() != self.hold.snapshot.count {
            self.refresh()?;
        }
        if !self.held {
            self.register_xmin()?;
        }
        Ok(&self.hold.snapshot)
    }

    fn taken(&self) -> &Snapshot<F> {
        &self.hold.snapshot
    }

    /// Wait-free: one store.
    #[inline]
    fn release(&mut self) {
        if self.held {
            Horizon::release(&self.slot.xmin);
            self.held = false;
        }
    }

    /// Reads the shared map, a bounded number of times, then blocks on the leader.
    fn is_running(&mut self, xid: Xid) -> Result<Membership, WouldBlock> {
        let done = &self.array.done;
        if xid.get() < done.oldest() {
            return Ok(Membership::Completed);
        }
        if let Some((_, answer)) = done.validated(ATTEMPTS, || done.probe(xid.get())) {
            return Ok(answer);
        }
        self.hold.probe = xid.get();
        self.array.serve(self.at, &mut self.hold, Request::Probe)?;
        Ok(self.hold.answer)
    }

    /// Blocks on the leader, if another session leads.
    fn end<E>(
        &mut self,
        record: impl FnOnce(Xid, &[XidRun]) -> Result<(), E>,
    ) -> Result<Option<Xid>, EndError<E>> {
        let Some(xid) = self.xid() else {
            return Ok(None);
        };
        if !self.recorded {
            record(xid, self.hold.children.as_ref()).map_err(EndError::NotRecorded)?;
            self.recorded = true;
        }
        self.array
            .serve(self.at, &mut self.hold, Request::End)
            .map_err(|WouldBlock| EndError::WouldBlock)?;
        self.forget();
        Ok(Some(xid))
    }

    /// Blocks on the leader, if another session leads.
    fn end_children<E>(
        &mut self,
        from: Xid,
        record: impl FnOnce(&[XidRun]) -> Result<(), E>,
    ) -> Result<(), EndError<E>> {
        let children = self.hold.children.as_ref();
        let kept = children.partition_point(|run| run.last() < from);
        // A copy, so that whatever `record` does the session still knows all of its children.
        let mut ending = F::NO_CHILDREN;
        for run in children[kept..].iter().filter_map(|run| run.from(from)) {
            ending.push(run);
        }
        if ending.as_ref().is_empty() {
            return Ok(());
        }
        record(ending.as_ref()).map_err(EndError::NotRecorded)?;
        self.hold.end_from = from.get().max(1);
        let served = self.array.serve(self.at, &mut self.hold, Request::End);
        self.hold.end_from = NO_XID;
        served.map_err(|WouldBlock| EndError::WouldBlock)?;
        self.keep_children(kept, from);
        Ok(())
    }
}

/// Ends a running transaction without a status, releases the snapshot, frees the slot. Where parking is impossible it spins
/// while another session leads: end the transaction first where that must not be.
impl<F: Form> Drop for Session<'_, F> {
    fn drop(&mut self) {
        if self.hold.top != NO_XID {
            while self
                .array
                .serve(self.at, &mut self.hold, Request::End)
                .is_err()
            {
                hint::spin_loop();
            }
            self.forget();
        }
        Horizon::release(&self.slot.xmin);
        // Pairs with the Acquire in `register`. The private memory is unlocked right after; a new owner locks it.
        self.slot.in_use.store(false, Ordering::Release);
    }
}

impl<F: Form> fmt::Debug for Session<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("slot", &self.at)
            .field("xid", &self.xid())
            .field("registered", &self.held)
            .field("snapshot", &self.hold.snapshot)
            .finish()
    }
}
