//! What a session knows by itself: its ids in full, its snapshot.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;

use alloc::vec::Vec;

use txnkit_ids::{Xid, XidRun};
use txnkit_sync::atomic::Ordering;
use txnkit_sync::lock::RawRwLock;

use super::array::ListArray;
use super::layout::Layout;
use super::snapshot::ListSnapshot;
use crate::error::{AssignError, EndError, WouldBlock};
use crate::traits::{Membership, SnapshotSession, SnapshotView};

/// A session of a [`ListArray`].
pub struct ListSession<'a, Y: Layout, L: RawRwLock> {
    array: &'a ListArray<Y, L>,
    slot: u32,
    xid: Option<Xid>,
    /// All children, the youngest last; the array shows the first 64 only.
    children: Vec<XidRun>,
    snapshot: ListSnapshot,
    global_xmin: Option<Xid>,
    not_sync: PhantomData<Cell<()>>,
}

impl<'a, Y: Layout, L: RawRwLock> ListSession<'a, Y, L> {
    pub(super) fn new(array: &'a ListArray<Y, L>, slot: u32, snapshot: ListSnapshot) -> Self {
        Self {
            array,
            slot,
            xid: None,
            children: Vec::new(),
            snapshot,
            global_xmin: None,
            not_sync: PhantomData,
        }
    }

    /// The horizon as the last snapshot derived it; `None` before the first one, and in a design that leaves it out.
    ///
    /// Never younger than what [`horizon`](crate::Snapshots::horizon) returns from then on. Wait-free.
    pub fn global_xmin(&self) -> Option<Xid> {
        self.global_xmin
    }

    /// The youngest of the running transaction's ids.
    fn youngest(&self) -> Option<Xid> {
        self.children.last().map(|run| run.last()).or(self.xid)
    }
}

impl<Y: Layout, L: RawRwLock> SnapshotSession for ListSession<'_, Y, L> {
    type Snapshot = ListSnapshot;

    /// Blocks on the id lock, exclusively.
    fn assign(&mut self) -> Result<Xid, AssignError> {
        if let Some(xid) = self.xid {
            return Ok(xid);
        }
        let fields = self.array.fields(self.slot);
        let xid = self
            .array
            .hand_out(|half| fields.xid.store(half.get(), Ordering::Relaxed))?;
        self.xid = Some(xid);
        Ok(xid)
    }

    /// Blocks on the id lock, exclusively.
    fn assign_child(&mut self) -> Result<Xid, AssignError> {
        self.assign()?;
        let fields = self.array.fields(self.slot);
        let child = self.array.hand_out(|half| fields.show_child(half))?;
        let extended = self
            .children
            .last_mut()
            .is_some_and(|run| run.extend_with(child));
        if !extended {
            // The generator hands out no special id, the only one that makes no run.
            self.children.extend(XidRun::single(child));
        }
        Ok(child)
    }

    fn xid(&self) -> Option<Xid> {
        self.xid
    }

    fn owns(&self, xid: Xid) -> bool {
        let run = self.children.partition_point(|run| run.last() < xid);
        self.xid == Some(xid) || self.children.get(run).is_some_and(|run| run.contains(xid))
    }

    /// Blocks on the array lock, shared: one pass over the members.
    fn snapshot(&mut self) -> Result<&ListSnapshot, WouldBlock> {
        self.global_xmin = self.array.collect(self.slot, &mut self.snapshot);
        Ok(&self.snapshot)
    }

    fn taken(&self) -> &ListSnapshot {
        &self.snapshot
    }

    /// Wait-free.
    fn release(&mut self) {
        self.array.fields(self.slot).release();
    }

    /// Blocks on the array lock, shared, unless the id is the own one or older than the last snapshot's xmin.
    fn is_running(&mut self, xid: Xid) -> Result<Membership, WouldBlock> {
        Ok(if xid < self.snapshot.xmin() {
            Membership::Completed
        } else if self.owns(xid) {
            Membership::Running
        } else {
            self.array.running_now(xid)
        })
    }

    /// Blocks on the array lock, exclusively, after `record` has returned.
    fn end<E>(
        &mut self,
        record: impl FnOnce(Xid, &[XidRun]) -> Result<(), E>,
    ) -> Result<Option<Xid>, EndError<E>> {
        let (Some(xid), Some(youngest)) = (self.xid, self.youngest()) else {
            return Ok(None);
        };
        record(xid, &self.children).map_err(EndError::NotRecorded)?;
        self.array.end(self.slot, youngest);
        self.xid = None;
        self.children.clear();
        Ok(Some(xid))
    }

    /// Blocks on the array lock, exclusively, after `record` has returned.
    fn end_children<E>(
        &mut self,
        from: Xid,
        record: impl FnOnce(&[XidRun]) -> Result<(), E>,
    ) -> Result<(), EndError<E>> {
        let kept = self.children.partition_point(|run| run.last() < from);
        let ending: Vec<XidRun> = self.children[kept..]
            .iter()
            .filter_map(|run| run.from(from))
            .collect();
        let (Some(first), Some(last)) = (ending.first(), ending.last()) else {
            return Ok(());
        };
        record(&ending).map_err(EndError::NotRecorded)?;
        self.array
            .end_children(self.slot, first.first(), last.last());
        let partly = self.children[kept].before(from);
        self.children.truncate(kept);
        self.children.extend(partly);
        Ok(())
    }
}

impl<Y: Layout, L: RawRwLock> Drop for ListSession<'_, Y, L> {
    fn drop(&mut self) {
        self.array.leave(self.slot, self.youngest());
    }
}

impl<Y: Layout, L: RawRwLock> fmt::Debug for ListSession<'_, Y, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListSession")
            .field("slot", &self.slot)
            .field("xid", &self.xid)
            .field("children", &self.children)
            .field("snapshot", &self.snapshot)
            .finish_non_exhaustive()
    }
}
