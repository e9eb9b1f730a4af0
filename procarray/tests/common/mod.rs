//! What every transaction array does, the front and the baselines alike: each function is one behaviour, tested of whatever
//! `make(sessions, first)` makes. `suite!` turns them into tests.

use core::convert::Infallible;
use std::collections::HashMap;

use procarray::{Membership, SnapshotSession, SnapshotView, Snapshots, Xid};

pub(crate) mod ends;
pub(crate) mod horizons;
pub(crate) mod ids;
pub(crate) mod sessions;
pub(crate) mod snapshots;
pub(crate) mod threads;

/// The first id of most tests.
pub(crate) const FIRST: u64 = 1000;

/// The top-level parents of children.
pub(crate) type Parents = HashMap<Xid, Xid>;

/// The id with this number.
pub(crate) fn id(number: u64) -> Xid {
    Xid::new(number)
}

/// Ends the session's transaction; what is recorded is of no interest.
pub(crate) fn end(session: &mut impl SnapshotSession) -> Option<Xid> {
    session.end(|_, _| Ok::<_, Infallible>(())).unwrap()
}

/// Hands out an id and ends it at once, so that every id handed out before lies below the xmax of later snapshots.
pub(crate) fn pass(array: &impl Snapshots) -> Xid {
    let mut session = array.register().unwrap();
    session.assign().unwrap();
    end(&mut session).unwrap()
}

/// Does `xid` run in `snapshot`?
pub(crate) fn runs(snapshot: &impl SnapshotView, xid: Xid, parents: &Parents) -> bool {
    snapshot.is_running_with(xid, |child| parents.get(&child).copied())
}

/// Does `xid` run now?
pub(crate) fn runs_now(session: &mut impl SnapshotSession, xid: Xid, parents: &Parents) -> bool {
    match (session.is_running(xid).unwrap(), parents.get(&xid)) {
        (Membership::AskParent, Some(&top)) => {
            session.is_running(top).unwrap() == Membership::Running
        }
        (answer, _) => answer == Membership::Running,
    }
}

/// Does the top-level `xid` run in a snapshot taken by `session` now? Releases it.
pub(crate) fn seen_running(session: &mut impl SnapshotSession, xid: Xid) -> bool {
    let running = runs(session.snapshot().unwrap(), xid, &Parents::new());
    session.release();
    running
}

/// Assigns the top and `count` children.
pub(crate) fn assign_family(
    session: &mut impl SnapshotSession,
    count: usize,
    parents: &mut Parents,
) -> Vec<Xid> {
    let top = session.assign().unwrap();
    let mut family = vec![top];
    for _ in 0..count {
        let child = session.assign_child().unwrap();
        parents.insert(child, top);
        family.push(child);
    }
    family
}

/// One module of tests for one way to make an array.
macro_rules! suite {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;
            suite! { @each $make;
                snapshots::in_an_idle_array_nothing_runs
                snapshots::before_the_first_snapshot_every_id_runs
                snapshots::an_id_runs_for_everybody_until_its_end
                snapshots::a_taken_snapshot_does_not_change
                snapshots::xmin_and_xmax_bound_the_set
                snapshots::own_ids_are_in_the_set
                snapshots::running_now_is_not_as_of_the_snapshot
                snapshots::children_run_as_long_as_their_parent
                snapshots::answers_do_not_depend_on_the_number_of_children
                snapshots::answers_do_not_depend_on_whose_turn_it_is
                snapshots::old_running_ids_are_remembered
                ids::a_transaction_has_one_id
                ids::a_child_is_younger_than_its_parent
                ids::owned_are_the_running_transactions_ids_only
                ids::next_is_the_first_not_handed_out
                ids::at_the_stop_no_id_is_handed_out
                ids::few_ids_slip_past_the_stop
                ids::special_ids_are_not_handed_out
                ids::special_ids_have_ended
                ids::a_set_can_span_two_epochs
                ids::equal_low_halves_are_different_ids
                ends::record_gets_the_whole_family
                ends::record_runs_while_the_id_still_does
                ends::without_an_id_nothing_is_recorded
                ends::what_could_not_be_recorded_still_runs
                ends::a_panic_while_recording_leaves_the_id_running
                ends::an_end_keeps_the_snapshot
                ends::the_youngest_children_can_end_alone
                ends::children_that_could_not_be_recorded_still_run
                horizons::an_idle_array_holds_nothing_back
                horizons::a_running_id_holds_it
                horizons::a_child_does_not_hold_it_longer_than_its_parent
                horizons::a_snapshot_holds_it_until_released
                horizons::a_newer_snapshot_keeps_the_older_registered
                horizons::the_oldest_of_several_snapshots_holds_it
                horizons::release_without_a_snapshot_changes_nothing
                sessions::slots_run_out_and_come_back
                sessions::a_reused_slot_is_clean
                sessions::a_dropped_session_ends_its_ids
                sessions::a_dropped_session_releases_its_snapshot
                sessions::a_session_moves_between_threads
                threads::snapshots_are_ordered_and_families_whole
                threads::ended_ids_have_ended_and_running_ones_run
                threads::no_id_is_missed_while_it_is_handed_out
                threads::the_horizon_never_passes_a_snapshot_in_use
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
