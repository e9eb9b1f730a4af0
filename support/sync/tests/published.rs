//! What `Published` promises, with real threads.
#![cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]

extern crate alloc;

use alloc::sync::Arc;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::panic::catch_unwind;
use std::sync::Barrier;
use std::thread;

use static_assertions::{assert_impl_all, assert_not_impl_any};
use txnkit_sync::published::{Exhausted, Published, Reader};

assert_impl_all!(Published<u8>: Send, Sync);
assert_not_impl_any!(Published<core::cell::Cell<u8>>: Sync);
assert_not_impl_any!(Published<alloc::rc::Rc<u8>>: Send, Sync);
assert_not_impl_any!(Reader<'static, u8>: Send, Sync);

#[test]
fn a_reader_sees_the_last_value() {
    let published = Published::new(1, 1);
    let reader = published.reader();
    assert_eq!(reader.read(|value| *value), 1);
    for value in 2..1_000 {
        published.replace(value).expect("nobody holds a place");
        assert_eq!(reader.read(|value| *value), value);
    }
}

#[test]
fn a_stalled_reader_exhausts_the_spares_and_no_more() {
    let published = Published::new(0, 2);
    let (reader, other) = (published.reader(), published.reader());
    reader.read(|seen| {
        assert_eq!(published.replace(1), Ok(()));
        assert_eq!(published.replace(2), Ok(()));
        for value in 3..1_000 {
            assert_eq!(published.replace(value), Err(Exhausted(value)));
        }
        assert_eq!(*seen, 0, "what is being read stays");
        assert_eq!(other.read(|value| *value), 2);
    });
    assert_eq!(published.replace(3), Ok(()));
    assert_eq!(reader.read(|value| *value), 3);
}

#[test]
fn without_spares_nothing_can_be_replaced() {
    let published = Published::new(1, 0);
    let refused = published.replace(2).expect_err("there is no place");
    assert_eq!(refused.0, 2);
    assert!(refused.to_string().contains("more spares"));
    assert_eq!(published.reader().read(|value| *value), 1);
}

/// Counts how many of it exist.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Relaxed);
        Self(Arc::clone(alive))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn values_are_bounded_and_dropped_once() {
    let alive = Arc::new(AtomicUsize::new(0));
    let published = Published::new(Counted::new(&alive), 3);
    for _ in 0..100 {
        published
            .replace(Counted::new(&alive))
            .expect("nobody holds a place");
        assert!(alive.load(Relaxed) <= 4);
    }
    drop(published);
    assert_eq!(alive.load(Relaxed), 0);
}

#[test]
fn a_reader_that_panics_lets_go() {
    let published = Published::new(0, 1);
    let reader = published.reader();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        reader.read(|_| panic!("while reading"))
    }));
    assert!(unwound.is_err());
    for value in 1..10 {
        published.replace(value).expect("nobody holds a place");
    }
}

#[test]
fn threads_see_whole_values_in_order() {
    const LAST: u64 = 5_000;
    let published = Published::new([0_u64; 4], 8);
    let (done, start) = (AtomicBool::new(false), Barrier::new(3));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let reader = published.reader();
                let mut before = 0;
                start.wait();
                while !done.load(Relaxed) {
                    let now = reader.read(|value| {
                        assert!(
                            value.iter().all(|part| *part == value[0]),
                            "torn: {value:?}"
                        );
                        value[0]
                    });
                    assert!(before <= now, "{now} after {before}");
                    before = now;
                }
            });
        }
        start.wait();
        for value in 1..=LAST {
            while published.replace([value; 4]).is_err() {
                thread::yield_now();
            }
        }
        done.store(true, Relaxed);
    });
    assert_eq!(published.reader().read(|value| *value), [LAST; 4]);
}
