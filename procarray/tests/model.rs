//! Long random histories of several sessions, step by step against an interpreter that keeps everything in plain sets.
//!
//! One thread, so a failing history comes again with the printed `TXNKIT_SEED`.

extern crate alloc;

use alloc::collections::BTreeSet;
use core::convert::Infallible;
use std::collections::HashMap;

use procarray::{
    AssignError, FixedProcArray, Membership, ProcArray, SnapshotSession, SnapshotView, Snapshots,
    Xid, XidRun,
};

use txnkit_sync::Random;

const SESSIONS: usize = 5;
const HISTORIES: usize = 40;
const STEPS: usize = 600;

/// The first id that can be handed out from `number` on.
fn normal(number: u64) -> u64 {
    if Xid::new(number).is_special() {
        number - number % (1 << 32) + 3
    } else {
        number
    }
}

/// What a snapshot has to hold.
#[derive(Clone)]
struct Set {
    running: BTreeSet<u64>,
    /// Nothing from here on has ended.
    xmax: u64,
}

impl Set {
    fn xmin(&self) -> u64 {
        self.running
            .first()
            .map_or(self.xmax, |&oldest| oldest.min(self.xmax))
    }

    fn runs(&self, xid: u64) -> bool {
        xid >= self.xmax || self.running.contains(&xid)
    }
}

/// What a session has to know.
struct Known {
    /// The top-level id and then its children.
    family: Vec<u64>,
    taken: Set,
    registered: Option<u64>,
}

/// The interpreter: all ids ever handed out, and the truth about them.
struct Oracle {
    first: u64,
    next: u64,
    now: Set,
    parents: HashMap<u64, u64>,
    /// Children that ended before their parent: where a set overflowed they may pass for running as long as it does.
    undone: BTreeSet<u64>,
}

impl Oracle {
    fn new(first: u64) -> Self {
        let first = normal(first);
        Self {
            first,
            next: first,
            now: Set {
                running: BTreeSet::new(),
                xmax: first,
            },
            parents: HashMap::new(),
            undone: BTreeSet::new(),
        }
    }

    fn registered(&self) -> Known {
        let taken = Set {
            running: BTreeSet::new(),
            xmax: self.first,
        };
        Known {
            family: Vec::new(),
            taken,
            registered: None,
        }
    }

    fn hand_out(&mut self, family: &mut Vec<u64>) -> u64 {
        let xid = self.next;
        self.next = normal(xid + 1);
        self.now.running.insert(xid);
        if let Some(&top) = family.first() {
            self.parents.insert(xid, top);
        }
        family.push(xid);
        xid
    }

    fn end(&mut self, family: &mut Vec<u64>) {
        self.end_from(family, 0);
    }

    fn end_from(&mut self, family: &mut Vec<u64>, kept: usize) {
        for xid in family.drain(kept..) {
            if kept > 0 {
                self.undone.insert(xid);
            }
            self.now.running.remove(&xid);
            self.now.xmax = self.now.xmax.max(normal(xid + 1));
        }
    }

    fn horizon<'a>(&self, known: impl Iterator<Item = &'a Known>) -> u64 {
        known
            .filter_map(|known| known.registered)
            .fold(self.now.xmin(), u64::min)
    }

    fn parent(&self, xid: Xid) -> Option<Xid> {
        self.parents.get(&xid.get()).copied().map(Xid::new)
    }
}

/// A session beside what it has to know.
struct Pair<S> {
    session: S,
    known: Known,
}

impl<S: SnapshotSession> Pair<S> {
    fn assign(&mut self, oracle: &mut Oracle) {
        let expected = self
            .known
            .family
            .first()
            .copied()
            .unwrap_or_else(|| oracle.hand_out(&mut self.known.family));
        assert_eq!(self.session.assign(), Ok(Xid::new(expected)));
    }

    fn assign_child(&mut self, oracle: &mut Oracle) {
        self.assign(oracle);
        match self.session.assign_child() {
            Ok(child) => assert_eq!(child.get(), oracle.hand_out(&mut self.known.family)),
            Err(error) => assert!(
                matches!(error, AssignError::TooManyChildren { .. }),
                "{error}"
            ),
        }
    }

    fn snapshot(&mut self, oracle: &Oracle) {
        self.session.snapshot().unwrap();
        self.known.taken = oracle.now.clone();
        self.known.registered.get_or_insert(oracle.now.xmin());
        self.check_taken();
    }

    fn check_taken(&self) {
        let (taken, expected) = (self.session.taken(), &self.known.taken);
        assert_eq!(normal(taken.xmin().get()), expected.xmin());
        assert_eq!(normal(taken.xmax().get()), expected.xmax);
    }

    fn release(&mut self) {
        self.session.release();
        self.known.registered = None;
    }

    fn end(&mut self, oracle: &mut Oracle) {
        let family = &self.known.family;
        let top = family.first().copied().map(Xid::new);
        let mut recorded = Vec::new();
        let record = |top: Xid, children: &[XidRun]| {
            recorded.push(top.get());
            recorded.extend(children.iter().flat_map(|run| run.iter()).map(Xid::get));
            Ok::<_, Infallible>(())
        };
        assert_eq!(self.session.end(record), Ok(top));
        assert_eq!(&recorded, family);
        oracle.end(&mut self.known.family);
    }

    fn end_children(&mut self, oracle: &mut Oracle, random: &mut Random) {
        let family = &self.known.family;
        let from = 1 + random.below(1 + family.len() as u64) as usize;
        let Some(&first) = family.get(from) else {
            return;
        };
        let mut recorded = Vec::new();
        let record = |children: &[XidRun]| {
            recorded.extend(children.iter().flat_map(|run| run.iter()).map(Xid::get));
            Ok::<_, Infallible>(())
        };
        assert_eq!(self.session.end_children(Xid::new(first), record), Ok(()));
        assert_eq!(recorded, family[from..]);
        oracle.end_from(&mut self.known.family, from);
    }

    fn fail_to_end(&mut self) {
        let ended = self.session.end(|_, _| Err("not recorded"));
        assert_eq!(ended.is_ok(), self.known.family.is_empty());
    }

    /// Asks for `xid` in every way there is.
    fn check(&mut self, xid: u64, oracle: &Oracle) {
        let asked = Xid::new(xid);
        let as_of_taken = self
            .session
            .taken()
            .is_running_with(asked, |child| oracle.parent(child));
        let may_pass_for_running = oracle.undone.contains(&xid)
            && self.session.taken().membership(asked) == Membership::AskParent;
        // Before the first snapshot the ids from before the start do not count.
        if xid >= oracle.first && !may_pass_for_running {
            assert_eq!(
                as_of_taken,
                self.known.taken.runs(xid),
                "{xid} in the snapshot"
            );
        }
        let mut now = self.session.is_running(asked).unwrap();
        let may_pass_for_running = oracle.undone.contains(&xid) && now == Membership::AskParent;
        if now == Membership::AskParent {
            // For a top-level id, which has no parent, or asked again, this says that it has ended.
            let parent = oracle.parent(asked);
            now = parent.map_or(Membership::Completed, |top| {
                self.session.is_running(top).unwrap()
            });
        }
        assert!(
            (now == Membership::Running) == oracle.now.runs(xid) || may_pass_for_running,
            "{xid} now"
        );
        assert_eq!(self.session.owns(asked), self.known.family.contains(&xid));
        assert_eq!(
            self.session.xid().map(Xid::get),
            self.known.family.first().copied()
        );
    }
}

fn history<P: Snapshots>(array: &P, first: u64, random: &mut Random, capacity: usize) {
    let mut oracle = Oracle::new(first);
    let mut pairs: Vec<Pair<P::Session<'_>>> = Vec::new();
    for _ in 0..STEPS {
        if pairs.is_empty() || random.below(20) == 0 {
            match array.register() {
                Ok(session) => pairs.push(Pair {
                    session,
                    known: oracle.registered(),
                }),
                Err(error) => assert_eq!((error.sessions, pairs.len()), (capacity, capacity)),
            }
            assert!(pairs.len() <= capacity);
        }
        let at = random.below(pairs.len() as u64) as usize;
        let pair = &mut pairs[at];
        match random.below(16) {
            0..=2 => pair.assign(&mut oracle),
            3..=4 => pair.assign_child(&mut oracle),
            5 => (0..random.below(80)).for_each(|_| pair.assign_child(&mut oracle)),
            6..=9 => pair.snapshot(&oracle),
            10..=11 => pair.release(),
            12..=13 => pair.end(&mut oracle),
            14 if random.below(2) == 0 => pair.fail_to_end(),
            14 => pair.end_children(&mut oracle, random),
            _ if random.below(4) == 0 => {
                let mut pair = pairs.swap_remove(at);
                oracle.end(&mut pair.known.family);
            }
            _ => {}
        }
        assert_eq!(array.next_xid().get(), oracle.next);
        let horizon = oracle.horizon(pairs.iter().map(|pair| &pair.known));
        assert_eq!(normal(array.horizon().get()), horizon);
        for pair in &mut pairs {
            let span = oracle.next - oracle.first + 4;
            let anywhere = oracle.first - 2 + random.below(span);
            let lately = oracle.next + 2 - random.below(span.min(100));
            // What is said of special ids beyond xmax is left open: they neither run nor end.
            [anywhere, lately]
                .map(normal)
                .into_iter()
                .for_each(|xid| pair.check(xid, &oracle));
        }
    }
}

fn histories<P: Snapshots>(make: impl Fn(usize, Xid) -> P) {
    let mut random = Random::seeded();
    for at in 0..HISTORIES {
        let mut random = random.split();
        // From the very first id on, in the middle of nowhere, across the end of 32 bits.
        let first = [
            3,
            1_000_000,
            (1 << 32) - random.below(400),
            (7 << 32) + random.below(400),
        ][at % 4];
        let array = make(SESSIONS, Xid::new(first));
        history(&array, first, &mut random, SESSIONS);
    }
}

macro_rules! models {
    ($($(#[$meta:meta])* $name:ident, $make:expr;)*) => {
        $($(#[$meta])*
        #[test]
        fn $name() {
            histories($make);
        })*
    };
}

models! {
    front, ProcArray::new;
    front_with_tiny_window, ProcArray::<1>::with_window;
    front_of_const_capacity, |_, first| FixedProcArray::<SESSIONS, 8, 2>::new(first);
}

#[cfg(feature = "baselines")]
mod baselines {
    use procarray::baseline::{FullStructs, HotArray, LazyHorizon};
    use txnkit_sync::lock::{LockOf2011, LockOfToday};

    use super::histories;

    models! {
        full_structs_lock_of_2011, FullStructs::<LockOf2011>::new;
        full_structs_lock_of_today, FullStructs::<LockOfToday>::new;
        hot_array_lock_of_2011, HotArray::<LockOf2011>::new;
        hot_array_lock_of_today, HotArray::<LockOfToday>::new;
        lazy_horizon_lock_of_2011, LazyHorizon::<LockOf2011>::new;
        lazy_horizon_lock_of_today, LazyHorizon::<LockOfToday>::new;
    }
}
