//! The group flush under every interleaving that loom finds within its bounds, and its weakened twins.
//!
//! `RUSTFLAGS='--cfg txnkit_model="loom"' cargo test --release -p txnkit-redo --test loom`
#![cfg(txnkit_model = "loom")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use txnkit_redo::{LogStore, Lsn, RedoLog, StoreError};
use txnkit_sync::model::{Histogram, assert_breaks, check};

/// How much a sync has made durable, written without any order of its own: loom reports a race if a reader is not ordered after the sync.
struct Disk(UnsafeCell<u64>);

// SAFETY: the point of the model: that the protocol orders the accesses, which loom checks.
unsafe impl Sync for Disk {}
// SAFETY: as above.
unsafe impl Send for Disk {}

/// Knows lengths only.
struct Store {
    disk: Arc<Disk>,
    end: u64,
    syncs: u64,
}

impl LogStore for Store {
    fn start(&self) -> u64 {
        0
    }
    fn end(&self) -> u64 {
        self.end
    }
    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<usize, StoreError> {
        Ok(0)
    }
    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.end += bytes.len() as u64;
        Ok(())
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        self.syncs += 1;
        // SAFETY: loom checks that no other access is concurrent.
        self.disk
            .0
            .with_mut(|durable| unsafe { *durable = self.end });
        Ok(())
    }
    fn cut(&mut self, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
    fn remove_before(&mut self, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Sessions commit: what `flush` says is durable is. Another one only looks.
#[test]
fn a_flush_makes_durable_and_wakes_all() {
    static SEEN: Histogram = Histogram::new();
    check(|| {
        let disk = Arc::new(Disk(UnsafeCell::new(0)));
        let store = Store {
            disk: disk.clone(),
            end: 0,
            syncs: 0,
        };
        let log = Arc::new(RedoLog::open(store).unwrap().0);
        let committers: Vec<_> = (0..2)
            .map(|kind| {
                let log = log.clone();
                thread::spawn(move || {
                    let end = log.append(kind, &[]).unwrap();
                    log.flush(end).unwrap();
                    assert!(log.flushed() >= end);
                })
            })
            .collect();
        let looker = {
            let (log, disk) = (log.clone(), disk.clone());
            thread::spawn(move || {
                let flushed = log.flushed();
                if flushed == Lsn::new(48) {
                    // Nothing more will be written, so this may be read.
                    // SAFETY: loom checks that no write is concurrent.
                    let durable = disk.0.with(|durable| unsafe { *durable });
                    assert_eq!(durable, 48);
                }
                flushed.get() / 24
            })
        };
        for committer in committers {
            committer.join().unwrap();
        }
        let seen = looker.join().unwrap();
        assert_eq!(log.flushed(), Lsn::new(48));
        SEEN.count(seen);
    });
    SEEN.assert_seen(&["0", "1", "2"]);
}

#[test]
fn weakened_flush_fails() {
    assert_breaks(
        "a_flush_makes_durable_and_wakes_all",
        &[
            "redo.log.flushed",
            "redo.log.flushed-load",
            "redo.log.not-listed",
            "redo.log.not-woken",
        ],
    );
}
