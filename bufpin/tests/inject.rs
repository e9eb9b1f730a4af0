//! What happens in places where a thread seldom stands, made to stand there.
//!
//! `RUSTFLAGS='--cfg txnkit_inject' cargo test -p bufpin --test inject`
#![cfg(all(txnkit_inject, feature = "std"))]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use bufpin::{BufferPool, MemoryStore, PinSession, Pins};
use txnkit_sync::inject::{Counter, Gate};

type Pool = BufferPool<MemoryStore<4>, 4>;

/// The places are the process's, so one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pool(buffers: usize) -> Pool {
    Pool::with_words(MemoryStore::default(), buffers, 3)
}

fn touch(session: &impl PinSession, page: u64) {
    session.unpin(session.pin(page).unwrap());
}

/// A page pinned between the choice of its buffer and its eviction stays, and the sweep goes on.
#[test]
fn a_victim_that_is_pinned_meanwhile_is_left_as_it_is() {
    let _alone = alone();
    let pool = pool(2);
    let (evictor, user) = (pool.register().unwrap(), pool.register().unwrap());
    touch(&evictor, 1);
    touch(&evictor, 2);
    let gate = Gate::at("bufpin.evict.claimed");
    thread::scope(|scope| {
        let evictor = scope.spawn(move || touch(&evictor, 3));
        gate.wait_until_reached();
        let claimed = (0..2).find(|&buffer| pool.buffer(buffer).unwrap().pins == 1);
        let page = pool.buffer(claimed.unwrap()).unwrap().page.unwrap();
        let pin = user.pin(page).unwrap();
        assert_eq!(user.take_stats().hits, 1);
        gate.open();
        evictor.join().unwrap();
        let state = pool.buffer(pin.buffer()).unwrap();
        assert_eq!((state.page, state.pins), (Some(page), 1));
        user.unpin(pin);
    });
    assert!(pool.is_consistent());
}

/// Readers of a page that is being written to the store do not wait; who would change it does.
#[test]
fn a_page_is_read_while_it_is_written_back() {
    let _alone = alone();
    let pool = pool(2);
    let (flusher, reader, writer) = (
        pool.register().unwrap(),
        pool.register().unwrap(),
        pool.register().unwrap(),
    );
    reader.pin_exclusive(1).unwrap().write(0, 1);
    let gate = Gate::at("bufpin.evict.writing");
    let writes = Counter::at("bufpin.evict.claimed");
    thread::scope(|scope| {
        let flusher = scope.spawn(move || flusher.flush_all().unwrap());
        gate.wait_until_reached();
        assert_eq!(reader.pin_shared(1).unwrap().read(0), 1);
        assert_eq!(reader.read_unpinned(1, |page| page.get(0)), Some(Some(1)));
        let pin = reader.pin(1).unwrap();
        assert!(reader.try_lock_exclusive(&pin).is_err());
        reader.unpin(pin);
        let writer = scope.spawn(move || writer.pin_exclusive(1).unwrap().write(0, 2));
        gate.open();
        assert_eq!(flusher.join().unwrap(), 1);
        writer.join().unwrap();
    });
    assert_eq!(writes.get(), 0, "nothing was evicted");
    assert!(
        pool.buffer(0).unwrap().dirty,
        "the later change is to be written"
    );
}
