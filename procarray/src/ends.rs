//! Ending transactions: one leader at a time, who serves everybody that came meanwhile.
//!
//! # Rules
//!
//! 1. One word decides: `FREE`, or `LOCKED` with the chain of waiting slots (index + 1 of the newest, each links the next).
//!    Who swaps `FREE` for `LOCKED` leads; who finds it locked pushes its slot and waits. So a session in the chain
//!    is always seen by a leader: the lock cannot become free while the chain is not empty.
//! 2. Before pushing, a session stores its request and unlocks its private memory; the push is a Release, taking the chain an
//!    Acquire. Until it is told `DONE` the leader may lock that memory, and the session touches nothing of its own.
//! 3. A leader serves a chain in one go: all ends in one change of the done map, then all copies and probes, which find the map at
//!    rest. Parent and children are in one request, hence in one change.
//! 4. After serving its own request a leader tries to free the word; if a chain has come it takes and serves it, at most
//!    [`ROUNDS`] times, then hands the lead to the first waiter of the next chain (`LEAD`). So no leader works for others without bound.
//! 5. Waiters are told after the word is freed or handed on, link read before the state is stored: from then on the
//!    slot may be pushed again.
//! 6. A waiter looks at its state a bounded number of times, then swaps `WAITING` for `PARKED` and parks; only who finds `PARKED` when
//!    storing the new state unparks. A leader that loses its processor costs nobody more than that.
//! 7. No caller's code runs under the lead: statuses are recorded before (see `SnapshotSession::end`).
//!
//! Where parking is impossible nobody waits: the lock is tried a bounded number of times and [`WouldBlock`] comes back.

use arrayvec::ArrayVec;
use txnkit_ids::Xid;
use txnkit_sync::atomic::Ordering;
use txnkit_sync::lock::{MutexGuard, SpinLock};
use txnkit_sync::park::Park;
use txnkit_sync::{MODEL, broken, hint, inject, ord};

use crate::array::Array;
use crate::done::Change;
use crate::error::WouldBlock;
use crate::form::Form;
use crate::slot::{ASSIGNING, NO_XID, Private};

/// Nobody leads, nobody waits.
const FREE: u32 = 0;
/// Somebody leads; the rest of the word is twice the chain's head.
const LOCKED: u32 = 1;

/// A slot's request is in a chain, its owner looks at the state.
const WAITING: u32 = 1;
/// A slot's request is in a chain, its owner is parked.
const PARKED: u32 = 2;
/// The request was served.
const DONE: u32 = 3;
/// The owner is the leader now; the chain that starts with its slot is its to serve.
const LEAD: u32 = 4;

/// How many chains a leader serves beside its own request.
const ROUNDS: usize = 8;

/// How often a waiter looks before it parks: about the time a leader needs, not a time slice.
const LOOKS: u32 = if MODEL { 0 } else { 100 };

/// What a session asks of a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Request {
    /// Take the top-level id and the children out of the running set, or the children from `end_from` on.
    End,
    /// Copy the running set into the session's snapshot.
    Copy,
    /// Say whether the id in `probe` runs.
    Probe,
}

const END: u32 = Request::End as u32;
const COPY: u32 = Request::Copy as u32;

/// A session's hold of its private memory.
pub(crate) type Hold<'a, F> = MutexGuard<'a, Private<F>, SpinLock>;

impl<F: Form> Array<F> {
    /// Has `request` of slot `me` carried out, by this session as leader or by the one that leads now.
    ///
    /// Blocks on the leader, parked after a bounded number of looks.
    pub(crate) fn serve(
        &self,
        me: u32,
        hold: &mut Hold<'_, F>,
        request: Request,
    ) -> Result<(), WouldBlock> {
        if self.try_lead() {
            self.serve_own(hold, request);
            self.finish(None);
            return Ok(());
        }
        if !F::Park::CAN_BLOCK {
            return self.serve_without_waiting(hold, request);
        }
        self.slot(me)
            .request
            .store(request as u32, Ordering::Relaxed);
        MutexGuard::unlocked(hold, || self.push_and_wait(me));
        Ok(())
    }

    fn try_lead(&self) -> bool {
        // Acquire pairs with the Release that freed the word in `finish`.
        self.ends.load(Ordering::Relaxed) == FREE
            && self
                .ends
                .compare_exchange(
                    FREE,
                    LOCKED,
                    ord!("procarray.ends.lead", Acquire),
                    Ordering::Relaxed,
                )
                .is_ok()
    }

    #[cold]
    fn serve_without_waiting(
        &self,
        hold: &mut Hold<'_, F>,
        request: Request,
    ) -> Result<(), WouldBlock> {
        for _ in 0..LOOKS {
            hint::spin_loop();
            if self.try_lead() {
                self.serve_own(hold, request);
                self.finish(None);
                return Ok(());
            }
        }
        Err(WouldBlock)
    }

    /// The leader's own request, whose memory it holds already.
    fn serve_own(&self, private: &mut Private<F>, request: Request) {
        match request {
            Request::End => self.done.change(&|word| self.holds_top(word), |change| {
                end_all(change, private)
            }),
            Request::Copy => self.copy_for(private),
            Request::Probe => private.answer = self.done.probe(private.probe),
        }
    }

    fn copy_for(&self, private: &mut Private<F>) {
        let old_version = self.done.copy_into(&mut private.snapshot);
        private.snapshot.validate(self.done.count(), old_version);
    }

    /// Puts the request into the chain, or leads if the word has become free; returns when it was served.
    #[cold]
    fn push_and_wait(&self, me: u32) {
        let slot = self.slot(me);
        slot.state.store(WAITING, Ordering::Relaxed);
        let mut word = self.ends.load(Ordering::Relaxed);
        loop {
            let pushed = if word == FREE {
                LOCKED
            } else {
                slot.next.store(word >> 1, Ordering::Relaxed);
                ((me + 1) << 1) | LOCKED
            };
            // Release pairs with the Acquire swap in `take_chain`: request, link and private memory are readable there.
            // Acquire, when the word was free, with the Release that freed it.
            match self.ends.compare_exchange_weak(
                word,
                pushed,
                ord!("procarray.ends.push", AcqRel),
                Ordering::Relaxed,
            ) {
                Ok(FREE) => {
                    slot.next.store(0, Ordering::Relaxed);
                    return self.lead(me);
                }
                Ok(_) => break,
                Err(found) => word = found,
            }
        }
        if self.wait(me) == LEAD {
            self.lead(me);
        }
    }

    /// Waits until the state is [`DONE`] or [`LEAD`] and returns it.
    fn wait(&self, me: u32) -> u32 {
        let slot = self.slot(me);
        // Acquire pairs with the Release swap in `tell`: what the leader did, and with LEAD all that leaders did before, is visible.
        for _ in 0..LOOKS {
            inject!("procarray.ends.look");
            let state = slot.state.load(Ordering::Acquire);
            if state != WAITING {
                return state;
            }
            hint::spin_loop();
        }
        if let Err(state) = slot.state.compare_exchange(
            WAITING,
            PARKED,
            Ordering::Relaxed,
            ord!("procarray.ends.told", Acquire),
        ) {
            return state;
        }
        inject!("procarray.ends.parked");
        loop {
            slot.park.park();
            let state = slot.state.load(ord!("procarray.ends.told", Acquire));
            if state != PARKED {
                return state;
            }
        }
    }

    /// Serves the chain that starts with `me`, then whatever came meanwhile.
    fn lead(&self, me: u32) {
        self.serve_chain(me + 1);
        self.finish(Some(me));
    }

    /// Ends the lead: serves chains for some rounds, frees or hands on the word, then tells those served.
    ///
    /// `own` is the slot that leads, if its request was in a chain: `lead` served the chain that starts with it.
    fn finish(&self, own: Option<u32>) {
        let mut served: ArrayVec<u32, { ROUNDS + 1 }> = ArrayVec::new();
        if let Some(me) = own {
            served.push(self.slot(me).next.load(Ordering::Relaxed));
        }
        let mut rounds = 0;
        let mut next_leader = 0;
        while !self.try_free() {
            let chain = self.take_chain();
            if rounds == ROUNDS {
                next_leader = chain;
                break;
            }
            rounds += 1;
            self.serve_chain(chain);
            served.push(chain);
        }
        if next_leader != 0 {
            self.tell(next_leader - 1, LEAD);
        }
        for chain in served {
            self.tell_chain(chain);
        }
    }

    fn try_free(&self) -> bool {
        // Release pairs with the Acquire in `try_lead` and in `push_and_wait`: the next leader reads what this one wrote.
        self.ends
            .compare_exchange(
                LOCKED,
                FREE,
                ord!("procarray.ends.free", Release),
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Takes all waiting slots; the word stays locked. There is a chain, since only the leader takes it.
    fn take_chain(&self) -> u32 {
        // Pairs with the Release push of every slot in the chain (each push is a read-modify-write, so all are in one release sequence).
        self.ends.swap(LOCKED, ord!("procarray.ends.take", Acquire)) >> 1
    }

    /// Carries out the requests of a chain: all ends in one change, then the others.
    fn serve_chain(&self, chain: u32) {
        let ends = self
            .chain(chain)
            .filter(|&at| self.slot(at).request.load(Ordering::Relaxed) == END);
        if ends.clone().next().is_some() {
            self.done.change(&|word| self.holds_top(word), |change| {
                for at in ends {
                    end_all(change, &self.slot(at).private.lock());
                }
            });
        }
        for at in self.chain(chain) {
            match self.slot(at).request.load(Ordering::Relaxed) {
                END => {}
                COPY => self.copy_for(&mut self.slot(at).private.lock()),
                _ => {
                    let mut private = self.slot(at).private.lock();
                    private.answer = self.done.probe(private.probe);
                }
            }
        }
    }

    fn chain(&self, head: u32) -> impl Iterator<Item = u32> + Clone {
        let mut next = head;
        core::iter::from_fn(move || {
            let at = next.checked_sub(1)?;
            next = self.slot(at).next.load(Ordering::Relaxed);
            Some(at)
        })
    }

    fn tell_chain(&self, chain: u32) {
        // The iterator reads a slot's link before the slot is told.
        for at in self.chain(chain) {
            self.tell(at, DONE);
        }
    }

    fn tell(&self, at: u32, state: u32) {
        let slot = self.slot(at);
        // Pairs with the Acquire loads in `wait`.
        let before = slot.state.swap(state, ord!("procarray.ends.tell", Release));
        if before == PARKED && !broken!("procarray.ends.no-unpark") {
            slot.park.unpark();
        }
    }

    /// Does a session hold a top-level id in `word`? Waits for sessions that are being handed one.
    #[cold]
    fn holds_top(&self, word: u64) -> bool {
        self.registered_slots().iter().any(|slot| {
            loop {
                match slot.top.load(Ordering::Relaxed) {
                    ASSIGNING => hint::spin_loop(),
                    top => return top != NO_XID && crate::done::word_of(top) == word,
                }
            }
        })
    }
}

/// Takes a transaction's ids out of the running set, or its youngest children.
fn end_all<F: Form>(change: &mut Change<'_, F>, private: &Private<F>) {
    // The oldest first: words that leave the window then hold few running ids or none.
    let children = private.children.as_ref().iter();
    for run in children.filter_map(|run| run.from(Xid::new(private.end_from))) {
        change.end_run(run.first().get(), u64::from(run.len()));
    }
    if private.end_from == NO_XID {
        change.end(private.top);
    }
}
