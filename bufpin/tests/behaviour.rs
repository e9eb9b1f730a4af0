//! The behaviours of `common`, of the front in its forms and, with the feature `baselines`, of every baseline.

#![cfg(feature = "std")]

extern crate alloc;

use bufpin::{BufferPool, FixedBufferPool};

#[macro_use]
mod common;

use common::{Store, WORDS};

suite!(front, BufferPool::<Store, WORDS>::with_words);

/// The behaviours that ask for 4 buffers and at most as many sessions: the pool of const capacity has no other sizes.
mod front_of_const_capacity {
    use super::*;

    fn make(store: Store, buffers: usize, _sessions: usize) -> FixedBufferPool<Store, 4, 4, WORDS> {
        assert_eq!(buffers, 4);
        FixedBufferPool::new_fixed(store)
    }

    suite! { @each make;
        pins::a_page_is_read_once_and_stays
        pins::every_number_but_the_reserved_one_is_a_page
        locks::several_pages_can_be_locked_at_a_time
        locks::a_forgotten_guard_is_given_back
        eviction::often_used_pages_stay_longer
        eviction::a_lock_of_the_callers_stops_a_flush
        failures::a_failed_flush_can_be_repeated
        failures::who_waited_for_a_failed_read_tries_itself
        threads::one_page_is_read_once_for_all
        threads::a_reader_of_one_page_does_not_hold_up_another
    }
}

#[cfg(feature = "baselines")]
mod baselines {
    use bufpin::baseline::{CasLoop, Dense, HeaderSpinlock, Sparse};
    use txnkit_sync::lock::{LockOf2011, LockOfToday};

    use super::common::{self, Store, WORDS};

    suite!(
        header_spinlock_sparse,
        HeaderSpinlock::<Store, LockOf2011, Sparse, WORDS>::new
    );
    suite!(
        header_spinlock_dense,
        HeaderSpinlock::<Store, LockOfToday, Dense, WORDS>::new
    );
    suite!(
        cas_loop_sparse,
        CasLoop::<Store, LockOfToday, Sparse, WORDS>::new
    );
    suite!(
        cas_loop_dense,
        CasLoop::<Store, LockOfToday, Dense, WORDS>::new
    );
}
