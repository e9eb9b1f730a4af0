//! One behavioural suite over every transaction array.

extern crate alloc;

mod common;

use common::naive::Naive;
use common::{FIRST, SESSIONS, core};
use procarray::ProcArray;
use procarray::baseline::{FullStructs, HotArray, LazyHorizon};
use txnkit_sync::lock::{LockOf2011, LockOfToday};

macro_rules! suite {
    ($name:ident, $array:expr, [$($test:ident),* $(,)?]) => {
        mod $name {
            use super::*;
            $(#[test] fn $test() { common::$test(&core($array)) })*
        }
    };
    ($name:ident, $array:expr) => {
        suite!($name, $array, [
            nothing_uncommitted_is_read,
            read_committed_sees_each_statement_anew,
            repeatable_read_keeps_its_first_snapshot,
            an_abort_never_happened,
            a_dropped_session_aborts,
            ids_have_states,
            calls_out_of_order_are_refused,
            the_horizon_waits_for_snapshots,
            a_waiter_is_woken_by_commit_abort_and_drop,
            waiting_ends_in_time_or_says_why_not,
            no_update_is_lost,
            a_snapshot_is_of_one_instant,
            a_session_moves_between_threads,
            a_rollback_undoes_what_came_after_its_savepoint,
            savepoints_nest_deep,
            a_savepoint_is_good_until_it_is_gone,
            a_rollback_wakes_who_waits_for_it,
            of_two_in_a_deadlock_the_younger_gives_way,
            sessions_are_limited_and_come_back,
        ]);
    };
}

suite!(naive, Naive::new(SESSIONS, FIRST));
suite!(front, ProcArray::new(SESSIONS, FIRST));
suite!(
    full_structs,
    FullStructs::<LockOf2011>::new(SESSIONS, FIRST)
);
suite!(
    full_structs_today,
    FullStructs::<LockOfToday>::new(SESSIONS, FIRST)
);
suite!(hot_array, HotArray::<LockOf2011>::new(SESSIONS, FIRST));
suite!(
    hot_array_today,
    HotArray::<LockOfToday>::new(SESSIONS, FIRST)
);
suite!(
    lazy_horizon,
    LazyHorizon::<LockOf2011>::new(SESSIONS, FIRST)
);
suite!(
    lazy_horizon_today,
    LazyHorizon::<LockOfToday>::new(SESSIONS, FIRST)
);
