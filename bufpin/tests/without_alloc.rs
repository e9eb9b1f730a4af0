//! The pool of const capacity, which is all there is without `alloc`: `cargo test -p bufpin --no-default-features --test without_alloc`.

use bufpin::{FixedBufferPool, PageStore, PinError, PinSession, Pins, StoreError};

/// Every page holds its own number; writes are thrown away.
struct Numbers;

impl PageStore<2> for Numbers {
    fn read(&self, page: u64, into: &mut [u64; 2]) -> Result<(), StoreError> {
        into.fill(page);
        Ok(())
    }
    fn write(&self, _page: u64, _from: &[u64; 2]) -> Result<(), StoreError> {
        Ok(())
    }
}

static POOL: FixedBufferPool<Numbers, 12, 2, 2> = FixedBufferPool::new_fixed(Numbers);

#[test]
fn a_session_pins_eight_buffers_and_more_with_alloc_only() {
    let mut session = POOL.register().unwrap();
    for page in 0..8 {
        let _ = session.pin(page).unwrap();
    }
    let ninth = session.pin(8).map(|pin| session.unpin(pin));
    let full = PinError::TooManyPins { page: 8, held: 8 };
    if cfg!(feature = "alloc") {
        assert_eq!(ninth, Ok(()));
    } else {
        assert_eq!(ninth, Err(full));
        assert_eq!(session.pin_shared(9).err().map(|_| ()), Some(()));
        // Not even to flush; but pages that are pinned can be pinned again.
        let again = session.pin(3).unwrap();
        assert_eq!(session.lock_shared(&again).unwrap().read(1), 3);
    }
    assert!(full.to_string().contains("holds 8 pins"));
    session.release_all();
    for page in 0..100 {
        assert_eq!(session.pin_shared(page).unwrap().read(0), page);
    }
}
