//! One behavioural suite over every combination of the mechanisms' implementations.

extern crate alloc;

mod common;

use common::naive::Naive;
use common::{FIRST, SESSIONS, core, locks};
use multixact::baseline::{CondvarWait, SleepRetry};
use procarray::ProcArray;
use procarray::baseline::{FullStructs, HotArray, LazyHorizon};
use slru::MemoryStore;
use snapmap::baseline::{LockEveryMinute, LockEverySnapshot};
use txn_manager::{Core, Mechanisms, NoRedo, SnapMap};
use txnkit_sync::lock::{LockOf2011, LockOfToday};

/// Hands the suite's tests to another macro, after its own arguments.
macro_rules! behaviours {
    ($then:ident!($($args:tt)*)) => {
        $then! { $($args)*;
            nothing_uncommitted_is_read
            read_committed_sees_each_statement_anew
            repeatable_read_keeps_its_first_snapshot
            an_abort_never_happened
            a_dropped_session_aborts
            ids_have_states
            calls_out_of_order_are_refused
            the_horizon_waits_for_snapshots
            a_waiter_is_woken_by_commit_abort_and_drop
            waiting_ends_in_time_or_says_why_not
            no_update_is_lost
            a_snapshot_is_of_one_instant
            a_session_moves_between_threads
            a_rollback_undoes_what_came_after_its_savepoint
            savepoints_nest_deep
            a_savepoint_is_good_until_it_is_gone
            a_rollback_wakes_who_waits_for_it
            of_two_in_a_deadlock_the_younger_gives_way
            sessions_are_limited_and_come_back
            row_locks_exclude_as_their_modes_do
            many_share_a_row_and_the_last_one_frees_it
            two_that_upgrade_a_shared_lock_deadlock_once
            what_a_savepoint_locked_is_free_after_its_rollback
        }
    };
}

/// A test each.
macro_rules! tests {
    ($name:ident, $core:expr; $($test:ident)*) => {
        mod $name {
            use super::*;
            $(#[test] fn $test() { common::$test(&$core) })*
        }
    };
}

/// One after another, each on a manager of its own.
macro_rules! run {
    ($make:ident; $($test:ident)*) => {
        $(common::$test(&$make());)*
    };
}

/// The whole suite.
fn pass<M: Mechanisms>(make: impl Fn() -> Core<M>) {
    behaviours!(run!(make));
}

behaviours!(tests!(
    naive,
    core(Naive::new(SESSIONS, FIRST), locks(), SnapMap::off())
));
behaviours!(tests!(front, core(front(), locks(), SnapMap::off())));

/// A front array with this table of lock sets.
macro_rules! sets {
    ($sets:ident) => {
        $sets::new(MemoryStore::new(), MemoryStore::new(), 16, 16, SESSIONS)
    };
}

fn front() -> ProcArray {
    ProcArray::new(SESSIONS, FIRST)
}

/// Ten minutes, in which no test gets: the maps are on and refuse nothing.
const THRESHOLD_NS: u64 = 600_000_000_000;
const BUCKET_NS: u64 = 60_000_000_000;

#[test]
fn a_snapshot_gets_too_old() {
    const BUCKET_NS: u64 = 1_000_000;
    common::a_snapshot_gets_too_old(&core(front(), locks(), SnapMap::new(BUCKET_NS, BUCKET_NS)));
    let map = LockEverySnapshot::new(BUCKET_NS, BUCKET_NS);
    common::a_snapshot_gets_too_old(&core(front(), locks(), map));
    let map = LockEveryMinute::new(BUCKET_NS, BUCKET_NS);
    common::a_snapshot_gets_too_old(&core(front(), locks(), map));
}

/// Every array with every status store, every table of lock sets and every map of ages passes the suite.
macro_rules! product {
    ($($test:ident: $array:ty),* $(,)?) => {
        $(#[test]
        fn $test() {
            product!(@locks $array, [locks(), sets!(SleepRetry), sets!(CondvarWait)]);
        })*
    };
    (@locks $array:ty, [$($locks:expr),*]) => {
        $(product!(@ages $array, $locks, [
            SnapMap::off(),
            SnapMap::new(THRESHOLD_NS, BUCKET_NS),
            LockEverySnapshot::new(THRESHOLD_NS, BUCKET_NS),
            LockEveryMinute::new(THRESHOLD_NS, BUCKET_NS)
        ]);)*
    };
    (@ages $array:ty, $locks:expr, [$($ages:expr),*]) => {
        $(for (at, store) in STORES.iter().enumerate() {
            println!("{store}, {}, {}", stringify!($locks), stringify!($ages));
            pass(|| {
                let status = common::statuses().into_iter().nth(at).unwrap();
                Core::new(<$array>::new(SESSIONS, FIRST), status, $locks, $ages, NoRedo)
            });
        })*
    };
}

/// The names of `common::statuses`.
const STORES: [&str; 4] = ["front", "single_lock", "banked", "history"];

product! {
    front_with_all: ProcArray,
    full_structs_with_all: FullStructs<LockOf2011>,
    full_structs_today_with_all: FullStructs<LockOfToday>,
    hot_array_with_all: HotArray<LockOf2011>,
    hot_array_today_with_all: HotArray<LockOfToday>,
    lazy_horizon_with_all: LazyHorizon<LockOf2011>,
    lazy_horizon_today_with_all: LazyHorizon<LockOfToday>,
}
