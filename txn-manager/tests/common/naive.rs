//! The transaction array in its plainest form, one mutex around ordered sets: what every other one must agree with.

use alloc::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use procarray::{
    AssignError, EndError, Membership, RegisterError, SnapshotSession, SnapshotView, Snapshots,
    WouldBlock, Xid, XidRun,
};

pub(crate) struct Naive {
    sessions: usize,
    state: Mutex<State>,
}

struct State {
    next: u64,
    stop: u64,
    running: BTreeSet<u64>,
    /// Registered xmin by session number.
    xmins: BTreeMap<usize, Option<u64>>,
}

impl Naive {
    pub(crate) fn new(sessions: usize, first: Xid) -> Self {
        let state = State {
            next: first.get(),
            stop: u64::MAX,
            running: BTreeSet::new(),
            xmins: BTreeMap::new(),
        };
        Self {
            sessions,
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State {
    fn set(&self) -> Set {
        Set {
            running: self.running.clone(),
            xmax: self.next,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Set {
    running: BTreeSet<u64>,
    xmax: u64,
}

impl SnapshotView for Set {
    fn xmin(&self) -> Xid {
        Xid::new(self.running.first().copied().unwrap_or(self.xmax))
    }

    fn xmax(&self) -> Xid {
        Xid::new(self.xmax)
    }

    fn membership(&self, xid: Xid) -> Membership {
        let running = xid.get() >= self.xmax || self.running.contains(&xid.get());
        if running {
            Membership::Running
        } else {
            Membership::Completed
        }
    }
}

pub(crate) struct NaiveSession<'a> {
    array: &'a Naive,
    number: usize,
    taken: Set,
    top: Option<Xid>,
    children: Vec<XidRun>,
}

impl Snapshots for Naive {
    type Session<'a> = NaiveSession<'a>;

    fn register(&self) -> Result<NaiveSession<'_>, RegisterError> {
        let mut state = self.lock();
        let number = (0..self.sessions).find(|number| !state.xmins.contains_key(number));
        let number = number.ok_or(RegisterError {
            sessions: self.sessions,
        })?;
        state.xmins.insert(number, None);
        Ok(NaiveSession {
            array: self,
            number,
            taken: state.set(),
            top: None,
            children: Vec::new(),
        })
    }

    fn horizon(&self) -> Xid {
        let state = self.lock();
        let registered = state
            .xmins
            .values()
            .flatten()
            .min()
            .copied()
            .unwrap_or(u64::MAX);
        state.set().xmin().min(Xid::new(registered))
    }

    fn next_xid(&self) -> Xid {
        Xid::new(self.lock().next)
    }

    fn sessions(&self) -> usize {
        self.sessions
    }

    fn set_stop(&self, stop: Xid) {
        self.lock().stop = stop.get();
    }
}

impl NaiveSession<'_> {
    fn deal(&self) -> Result<Xid, AssignError> {
        let mut state = self.array.lock();
        let (xid, stop) = (state.next, state.stop);
        if xid >= stop {
            let (next, stop) = (Xid::new(xid), Xid::new(stop));
            return Err(AssignError::Stopped { next, stop });
        }
        state.next += 1;
        state.running.insert(xid);
        Ok(Xid::new(xid))
    }
}

impl SnapshotSession for NaiveSession<'_> {
    type Snapshot = Set;

    fn assign(&mut self) -> Result<Xid, AssignError> {
        let xid = self.top.map_or_else(|| self.deal(), Ok)?;
        self.top = Some(xid);
        Ok(xid)
    }

    fn assign_child(&mut self) -> Result<Xid, AssignError> {
        self.assign()?;
        let xid = self.deal()?;
        self.children.extend(XidRun::single(xid));
        Ok(xid)
    }

    fn xid(&self) -> Option<Xid> {
        self.top
    }

    fn owns(&self, xid: Xid) -> bool {
        self.top == Some(xid) || self.children.iter().any(|run| run.contains(xid))
    }

    fn snapshot(&mut self) -> Result<&Set, WouldBlock> {
        let mut state = self.array.lock();
        self.taken = state.set();
        let xmin = self.taken.xmin().get();
        state
            .xmins
            .entry(self.number)
            .or_default()
            .get_or_insert(xmin);
        Ok(&self.taken)
    }

    fn taken(&self) -> &Set {
        &self.taken
    }

    fn release(&mut self) {
        self.array.lock().xmins.insert(self.number, None);
    }

    fn is_running(&mut self, xid: Xid) -> Result<Membership, WouldBlock> {
        Ok(self.array.lock().set().membership(xid))
    }

    fn end<E>(
        &mut self,
        record: impl FnOnce(Xid, &[XidRun]) -> Result<(), E>,
    ) -> Result<Option<Xid>, EndError<E>> {
        let Some(top) = self.top else {
            return Ok(None);
        };
        record(top, &self.children).map_err(EndError::NotRecorded)?;
        let mut state = self.array.lock();
        state.running.remove(&top.get());
        for child in self.children.drain(..).flatten() {
            state.running.remove(&child.get());
        }
        self.top = None;
        Ok(Some(top))
    }

    fn end_children<E>(
        &mut self,
        from: Xid,
        record: impl FnOnce(&[XidRun]) -> Result<(), E>,
    ) -> Result<(), EndError<E>> {
        // Every run holds one id here.
        let kept = self.children.partition_point(|run| run.last() < from);
        if kept == self.children.len() {
            return Ok(());
        }
        record(&self.children[kept..]).map_err(EndError::NotRecorded)?;
        let mut state = self.array.lock();
        for child in self.children.drain(kept..).flatten() {
            state.running.remove(&child.get());
        }
        Ok(())
    }
}

impl Drop for NaiveSession<'_> {
    fn drop(&mut self) {
        let _ = self.end(|_, _| Ok::<_, core::convert::Infallible>(()));
        self.array.lock().xmins.remove(&self.number);
    }
}
