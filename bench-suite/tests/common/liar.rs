//! A transaction array that is wrong in one way.

use procarray::{
    AssignError, EndError, Membership, RegisterError, SnapshotSession, Snapshots, WouldBlock, Xid,
    XidRun,
};

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Lie {
    /// Every tenth transaction leaves without its status being set.
    ForgetsStatus,
    /// Asked whether an id runs now, it says no.
    NobodyRuns,
}

pub(crate) struct Liar<P> {
    honest: P,
    lie: Lie,
}

impl<P> Liar<P> {
    pub(crate) fn new(honest: P, lie: Lie) -> Self {
        Self { honest, lie }
    }
}

pub(crate) struct LiarSession<S> {
    honest: S,
    lie: Lie,
}

impl<P: Snapshots> Snapshots for Liar<P> {
    type Session<'a>
        = LiarSession<P::Session<'a>>
    where
        P: 'a;

    fn register(&self) -> Result<Self::Session<'_>, RegisterError> {
        Ok(LiarSession {
            honest: self.honest.register()?,
            lie: self.lie,
        })
    }

    fn horizon(&self) -> Xid {
        self.honest.horizon()
    }

    fn next_xid(&self) -> Xid {
        self.honest.next_xid()
    }

    fn sessions(&self) -> usize {
        self.honest.sessions()
    }

    fn set_stop(&self, stop: Xid) {
        self.honest.set_stop(stop);
    }
}

impl<S: SnapshotSession> SnapshotSession for LiarSession<S> {
    type Snapshot = S::Snapshot;

    fn assign(&mut self) -> Result<Xid, AssignError> {
        self.honest.assign()
    }

    fn assign_child(&mut self) -> Result<Xid, AssignError> {
        self.honest.assign_child()
    }

    fn xid(&self) -> Option<Xid> {
        self.honest.xid()
    }

    fn owns(&self, xid: Xid) -> bool {
        self.honest.owns(xid)
    }

    fn snapshot(&mut self) -> Result<&S::Snapshot, WouldBlock> {
        self.honest.snapshot()
    }

    fn taken(&self) -> &S::Snapshot {
        self.honest.taken()
    }

    fn release(&mut self) {
        self.honest.release();
    }

    fn is_running(&mut self, xid: Xid) -> Result<Membership, WouldBlock> {
        match self.lie {
            Lie::NobodyRuns => Ok(Membership::Completed),
            Lie::ForgetsStatus => self.honest.is_running(xid),
        }
    }

    fn end<E>(
        &mut self,
        record: impl FnOnce(Xid, &[XidRun]) -> Result<(), E>,
    ) -> Result<Option<Xid>, EndError<E>> {
        let forgets =
            self.lie == Lie::ForgetsStatus && self.xid().is_some_and(|xid| xid.get() % 10 == 0);
        self.honest.end(|top, children| {
            if forgets {
                Ok(())
            } else {
                record(top, children)
            }
        })
    }

    fn end_children<E>(
        &mut self,
        from: Xid,
        record: impl FnOnce(&[XidRun]) -> Result<(), E>,
    ) -> Result<(), EndError<E>> {
        self.honest.end_children(from, record)
    }
}
