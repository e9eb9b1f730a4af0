//! What every pool does, the front and the baselines alike: each function is one behaviour, tested of whatever
//! `make(store, buffers, sessions)` makes. `suite!` turns them into tests.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bufpin::{PageStore, PinSession, StoreError};

pub(crate) mod eviction;
pub(crate) mod failures;
pub(crate) mod locks;
pub(crate) mod pins;
pub(crate) mod threads;

/// Words of a page in most tests.
pub(crate) const WORDS: usize = 4;

/// A store that counts, fails and waits when told to.
#[derive(Default)]
pub(crate) struct TestStore {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pages: BTreeMap<u64, [u64; WORDS]>,
    reads: Vec<u64>,
    writes: Vec<u64>,
    fail_reads: bool,
    fail_writes: bool,
    panic: bool,
    /// Reads wait while this is set.
    closed: bool,
    /// Pages being read or written now.
    busy: Vec<u64>,
}

pub(crate) type Store = Arc<TestStore>;

pub(crate) const READ_FAILED: StoreError = StoreError::new("the test lets reads fail", 1);
pub(crate) const WRITE_FAILED: StoreError = StoreError::new("the test lets writes fail", 2);

impl TestStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pages read so far.
    pub(crate) fn reads(&self) -> Vec<u64> {
        self.state().reads.clone()
    }

    /// The pages written so far.
    pub(crate) fn writes(&self) -> Vec<u64> {
        self.state().writes.clone()
    }

    /// A page as the store has it.
    pub(crate) fn page(&self, page: u64) -> [u64; WORDS] {
        self.state().pages.get(&page).copied().unwrap_or_default()
    }

    pub(crate) fn fail_reads(&self, fail: bool) {
        self.state().fail_reads = fail;
    }

    pub(crate) fn fail_writes(&self, fail: bool) {
        self.state().fail_writes = fail;
    }

    /// From now on every call panics, or none.
    pub(crate) fn panic(&self, panic: bool) {
        self.state().panic = panic;
    }

    /// Makes reads wait, or go on.
    pub(crate) fn close(&self, closed: bool) {
        self.state().closed = closed;
        self.changed.notify_all();
    }

    /// Blocks until somebody reads `page`.
    pub(crate) fn wait_until_read(&self, page: u64) {
        let state = self.state();
        drop(
            self.changed
                .wait_while(state, |state| !state.reads.contains(&page))
                .unwrap(),
        );
    }

    fn begin(&self, page: u64) -> MutexGuard<'_, State> {
        let mut state = self.state();
        assert!(!state.panic, "the test lets the store panic");
        assert!(
            !state.busy.contains(&page),
            "page {page} is read or written twice at a time"
        );
        state.busy.push(page);
        state
    }

    fn end(&self, page: u64) {
        self.state().busy.retain(|&busy| busy != page);
    }
}

impl PageStore<WORDS> for TestStore {
    fn read(&self, page: u64, into: &mut [u64; WORDS]) -> Result<(), StoreError> {
        let mut state = self.begin(page);
        state.reads.push(page);
        self.changed.notify_all();
        state = self
            .changed
            .wait_while(state, |state| state.closed)
            .unwrap();
        let failed = state.fail_reads;
        *into = state.pages.get(&page).copied().unwrap_or_default();
        drop(state);
        self.end(page);
        if failed { Err(READ_FAILED) } else { Ok(()) }
    }

    fn write(&self, page: u64, from: &[u64; WORDS]) -> Result<(), StoreError> {
        let mut state = self.begin(page);
        let failed = state.fail_writes;
        if !failed {
            state.writes.push(page);
            state.pages.insert(page, *from);
        }
        drop(state);
        self.end(page);
        if failed { Err(WRITE_FAILED) } else { Ok(()) }
    }
}

/// Writes a word of a page.
pub(crate) fn write(session: &impl PinSession, page: u64, word: usize, value: u64) {
    session.pin_exclusive(page).unwrap().write(word, value);
}

/// Reads a word of a page.
pub(crate) fn read(session: &impl PinSession, page: u64, word: usize) -> u64 {
    session.pin_shared(page).unwrap().read(word)
}

/// Uses a page once.
pub(crate) fn touch(session: &impl PinSession, page: u64) {
    session.unpin(session.pin(page).unwrap());
}

/// One module of tests for one way to make a pool.
macro_rules! suite {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;
            suite! { @each $make;
                pins::a_page_is_read_once_and_stays
                pins::pages_that_were_never_written_are_zeros
                pins::pins_of_one_page_are_counted
                pins::every_number_but_the_reserved_one_is_a_page
                pins::a_forgotten_pin_is_counted_and_given_back
                pins::a_foreign_pin_is_refused
                pins::many_pages_can_be_pinned_at_a_time
                pins::a_dropped_session_gives_everything_back
                pins::slots_run_out_and_come_back
                pins::a_session_moves_between_threads
                locks::what_is_written_is_read
                locks::readers_share_and_a_writer_is_alone
                locks::a_second_lock_of_one_session_is_refused
                locks::several_pages_can_be_locked_at_a_time
                locks::a_forgotten_guard_is_given_back
                locks::a_joined_guard_gives_back_its_own_pin_only
                locks::a_word_that_the_page_has_not_is_none
                eviction::a_set_that_fits_is_read_once
                eviction::pinned_pages_stay
                eviction::all_pinned_is_an_error_and_passes
                eviction::often_used_pages_stay_longer
                eviction::changes_come_back
                eviction::clean_pages_are_not_written
                eviction::flush_writes_every_dirty_page_once
                eviction::a_lock_of_the_callers_stops_a_flush
                eviction::what_was_done_is_counted
                failures::a_failed_read_leaves_nothing
                failures::a_failed_write_loses_nothing
                failures::a_failed_flush_can_be_repeated
                failures::a_store_that_panics_leaves_no_lock
                failures::who_waited_for_a_failed_read_tries_itself
                threads::one_page_is_read_once_for_all
                threads::a_reader_of_one_page_does_not_hold_up_another
                threads::no_write_is_lost_while_pages_come_and_go
                threads::a_page_is_seen_whole
                threads::two_who_want_the_last_buffer_both_end
            }
        }
    };
    (@each $make:expr; $($module:ident::$behaviour:ident)*) => {
        $(#[test]
        fn $behaviour() {
            common::$module::$behaviour($make);
        })*
    };
}
