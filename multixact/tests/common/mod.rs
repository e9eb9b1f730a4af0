//! What every table of lock sets does, the front and the baselines alike. `suite!` turns it into tests.

use alloc::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use multixact::{
    LockSession, LockSets, Member, Mode, MultiXactError, MultiXactId, MultiXactOffset, Xid,
    XidState,
};

use txnkit_sync::Random;

pub(crate) const SESSIONS: usize = 8;

pub(crate) fn member(xid: u64, mode: Mode) -> Member {
    Member {
        xid: Xid::new(xid),
        mode,
    }
}

fn id(number: u64) -> MultiXactId {
    MultiXactId::new(number)
}

fn all_run(_: Xid) -> XidState {
    XidState::Running
}

/// Makes tables that begin with this number and position.
pub(crate) trait Make<L>: Fn(MultiXactId, MultiXactOffset) -> L {}
impl<L, F: Fn(MultiXactId, MultiXactOffset) -> L> Make<L> for F {}

pub(crate) fn first<L>(make: impl Make<L>) -> L {
    make(MultiXactId::FIRST, MultiXactOffset::FIRST)
}

pub(crate) fn sets_come_back_sorted<L: LockSets>(make: impl Make<L>) {
    let table = first(make);
    let mut session = table.register().unwrap();
    // Of every length from 1 on, so that groups and pages are crossed at every place.
    for len in 1..70_u64 {
        let members: Vec<Member> = (0..len)
            .rev()
            .map(|i| member(100 + i * 3 % len.max(2), Mode::ALL[i as usize % 4]))
            .collect();
        let made = session.create(&members).unwrap();
        let mut sorted = members;
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(table.members(made).unwrap(), sorted);
    }
}

pub(crate) fn equal_sets_get_one_number<L: LockSets>(make: impl Make<L>) {
    let table = first(make);
    let (mut one, mut other) = (table.register().unwrap(), table.register().unwrap());
    other.begin_use();
    let set = [member(10, Mode::ForShare), member(11, Mode::ForKeyShare)];
    let made = one.create(&set).unwrap();
    let mut turned = set;
    turned.reverse();
    assert_eq!(other.create(&turned), Ok(made));
    let again = [set[0], set[0], set[1]];
    assert_eq!(other.create(&again), Ok(made), "a member counts once");
    assert_eq!(table.next_id(), id(2));
    table.truncate(id(2)).unwrap();
    assert_eq!(other.create(&set), Ok(id(2)), "not one that was truncated");
}

/// One that was made before the session began to use sets may be truncated at any time.
pub(crate) fn an_equal_set_that_nothing_keeps_is_not_given_again<L: LockSets>(make: impl Make<L>) {
    let table = first(make);
    let (mut one, mut other) = (table.register().unwrap(), table.register().unwrap());
    let set = [member(10, Mode::ForShare), member(11, Mode::ForShare)];
    assert_eq!(one.create(&set), Ok(id(1)));
    one.end();
    other.begin_use();
    let oldest = table.oldest_in_use();
    let made = other.create(&set).unwrap();
    assert!(made >= oldest);
    table.truncate(oldest).unwrap();
    assert_eq!(table.members(made).unwrap(), set);
    // Nor by expanding.
    other.end();
    other.begin_use();
    let single = other.create(&set[..1]).unwrap();
    assert_eq!(
        other.expand(single, set[1], all_run).unwrap().get(),
        made.get() + 2
    );
}

pub(crate) fn what_makes_no_set_is_refused<L: LockSets>(make: impl Make<L>) {
    let table = first(make);
    let mut session = table.register().unwrap();
    assert_eq!(session.create(&[]), Err(MultiXactError::Empty));
    let two = [member(10, Mode::Update), member(11, Mode::NoKeyUpdate)];
    assert_eq!(session.create(&two), Err(MultiXactError::TwoUpdaters));
    let special = [member(2, Mode::ForShare), member(11, Mode::ForShare)];
    let xid = Xid::new(2);
    assert_eq!(
        session.create(&special),
        Err(MultiXactError::BadMember { xid })
    );
    let far = [10, 10 + (1 << 31)].map(|xid| member(xid, Mode::ForShare));
    let error = session.create(&far);
    assert!(
        matches!(error, Err(MultiXactError::MemberTooFar { xid, .. }) if xid == far[1].xid),
        "{error:?}"
    );
    assert_eq!(
        (table.next_id(), table.members_in_use()),
        (id(1), 0),
        "nothing was made"
    );
}

/// 32 bits are stored of each id: one that is too far from those of other sets is refused, and they read as before.
pub(crate) fn a_far_member_is_refused_and_changes_nothing<L: LockSets>(make: impl Make<L>) {
    const FAR: u64 = 1 << 31;
    let table = first(make);
    let mut session = table.register().unwrap();
    let base = (5 << 32) + 77;
    let old = [
        member(base, Mode::ForShare),
        member(base + 1, Mode::ForShare),
    ];
    let old_set = session.create(&old).unwrap();
    for far in [
        base + FAR,
        base + 1 - FAR,
        base + (1 << 32),
        base * 1000,
        77,
        u64::MAX,
    ] {
        let error = session.create(&[member(far, Mode::ForShare)]);
        assert_eq!(
            error,
            Err(MultiXactError::MemberTooFar {
                xid: Xid::new(far),
                oldest: old[0].xid,
                newest: old[1].xid
            })
        );
        let error = session.expand(old_set, member(far, Mode::ForShare), all_run);
        assert!(error.is_err());
        assert_eq!(table.members(old_set).unwrap(), old);
    }
    assert_eq!(table.next_id(), id(2), "nothing was made");
    // The last ones that fit, on both sides.
    let newer = [member(base + FAR - 1, Mode::ForKeyShare)];
    let newer_set = session.create(&newer).unwrap();
    assert_eq!(table.members(old_set).unwrap(), old);
    assert_eq!(table.members(newer_set).unwrap(), newer);
    assert!(session.create(&[member(base - 1, Mode::ForShare)]).is_err());
    // The old set is truncated: ids may go on.
    assert!(
        session
            .create(&[member(base + FAR, Mode::ForShare)])
            .is_err()
    );
    table.truncate(newer_set).unwrap();
    let newest = [member(base + 2 * FAR - 2, Mode::ForShare)];
    let newest_set = session.create(&newest).unwrap();
    assert_eq!(table.members(newer_set).unwrap(), newer);
    assert_eq!(table.members(newest_set).unwrap(), newest);
}

/// Beginnings that a control file or a caller can name, whatever they are.
pub(crate) fn a_table_can_begin_anywhere<L: LockSets>(make: impl Make<L>) {
    let edges =
        |edge: u64| (0..4).flat_map(move |i| [edge.saturating_add(i), edge.saturating_sub(i)]);
    for number in edges(0).chain(edges(1 << 32)).chain(edges(u64::MAX)) {
        for offset in edges(0).chain(edges(1 << 32)).chain(edges(u64::MAX)) {
            let table = make(id(number), MultiXactOffset::new(offset));
            let mut session = table.register().unwrap();
            let mut made = Vec::new();
            for xid in 10..14 {
                let members = [xid, xid + 1].map(|xid| member(xid, Mode::ForShare));
                match session.create(&members) {
                    Ok(set) => {
                        assert!(
                            !set.is_special() && set >= id(number),
                            "{number} {offset}: {set}"
                        );
                        made.push((set, members));
                    }
                    Err(
                        MultiXactError::MembersExhausted { .. }
                        | MultiXactError::IdsExhausted { .. },
                    ) => {}
                    Err(error) => panic!("{number} {offset}: {error}"),
                }
            }
            let near_the_end = number > u64::MAX - 9 || offset > u64::MAX - 19;
            assert!(
                near_the_end || made.len() == 4,
                "{number} {offset}: {}",
                made.len()
            );
            for (set, members) in made {
                assert_eq!(table.members(set).unwrap(), members, "{number} {offset}");
            }
            let _: Result<_, _> = table.truncate(table.next_id());
            assert!(table.members(id(u64::MAX)).is_err());
            assert_eq!(session.create(&[]), Err(MultiXactError::Empty));
        }
    }
}

pub(crate) fn numbers_that_are_no_sets_are_refused<L: LockSets>(make: impl Make<L>) {
    let table = first(make);
    let mut session = table.register().unwrap();
    for xid in 10..15 {
        session.create(&[member(xid, Mode::ForShare)]).unwrap();
    }
    assert_eq!(
        table.members(id(0)),
        Err(MultiXactError::Invalid { id: id(0) })
    );
    let not_created = MultiXactError::NotCreated {
        id: id(6),
        next: id(6),
    };
    assert_eq!(table.members(id(6)), Err(not_created));
    table.truncate(id(3)).unwrap();
    let too_old = MultiXactError::TooOld {
        id: id(2),
        oldest: id(3),
    };
    assert_eq!(table.members(id(2)), Err(too_old));
    assert_eq!(table.members(id(3)).unwrap(), [member(12, Mode::ForShare)]);
    assert_eq!(table.members_in_use(), 3);
    table.truncate(id(2)).unwrap();
    assert!(table.members(id(2)).is_err(), "it does not go back");
    assert!(table.truncate(id(7)).is_err());
    table.truncate(id(6)).unwrap();
    assert_eq!(table.members_in_use(), 0);
}

pub(crate) fn expanding_keeps_what_matters<L: LockSets>(make: impl Make<L>) {
    let table = first(make);
    let mut session = table.register().unwrap();
    let set = [
        member(10, Mode::ForShare),
        member(11, Mode::ForKeyShare),
        member(12, Mode::NoKeyUpdate),
        member(13, Mode::ForKeyShare),
    ];
    let made = session.create(&set).unwrap();
    assert_eq!(
        session.expand(made, set[1], all_run),
        Ok(made),
        "it is in it"
    );
    let state = |xid: Xid| match xid.get() {
        10 | 12 => XidState::Committed,
        11 => XidState::Aborted,
        _ => XidState::Running,
    };
    let new = member(14, Mode::ForKeyShare);
    let expanded = session.expand(made, new, state).unwrap();
    assert_eq!(table.members(expanded).unwrap(), [set[2], set[3], new]);
    assert_eq!(table.members(made).unwrap(), set, "a set never changes");
    let ended = |_: Xid| XidState::Aborted;
    let alone = session
        .expand(expanded, member(15, Mode::ForUpdate), ended)
        .unwrap();
    assert_eq!(table.members(alone).unwrap(), [member(15, Mode::ForUpdate)]);
    // Another mode of the same transaction is another member.
    let both = session
        .expand(alone, member(15, Mode::ForShare), all_run)
        .unwrap();
    assert_eq!(table.members(both).unwrap().len(), 2);
    let second = session.expand(expanded, member(16, Mode::Update), all_run);
    assert_eq!(second, Err(MultiXactError::TwoUpdaters));
}

pub(crate) fn a_set_runs_as_long_as_a_member<L: LockSets>(make: impl Make<L>) {
    let table = first(make);
    let mut session = table.register().unwrap();
    let set = [10, 11, 12].map(|xid| member(xid, Mode::ForShare));
    let made = session.create(&set).unwrap();
    for running in [Some(10), Some(12), None] {
        let state = |xid: Xid| match running {
            Some(running) if running == xid.get() => XidState::Running,
            _ => XidState::Committed,
        };
        assert_eq!(table.is_running(made, state), Ok(running.is_some()));
    }
}

/// Numbers and positions pass the end of 32 bits; low halves of 0 are skipped, inside a set and between two.
pub(crate) fn numbers_and_positions_pass_32_bits<L: LockSets>(make: impl Make<L>) {
    for start in (1 << 32) - 12..(1 << 32) + 2 {
        let table = make(id((1 << 32) - 3), MultiXactOffset::new(start));
        let mut session = table.register().unwrap();
        let mut made = BTreeMap::new();
        for len in [3, 1, 5, 2, 4, 1, 1, 2, 3] {
            let members: Vec<Member> = (0..len)
                .map(|i| member((1 << 32) - 5 + made.len() as u64 * 10 + i, Mode::ForShare))
                .filter(|member| !member.xid.is_special())
                .collect();
            let number = session.create(&members).unwrap();
            assert!(!number.is_special());
            made.insert(number, members);
        }
        for (number, members) in &made {
            assert_eq!(&table.members(*number).unwrap(), members, "from {start}");
        }
        let middle = *made.keys().nth(4).unwrap();
        table.truncate(middle).unwrap();
        for (number, members) in &made {
            assert_eq!(
                table.members(*number).ok().as_ref(),
                Some(members).filter(|_| *number >= middle)
            );
        }
    }
}

pub(crate) fn member_space_ends<L: LockSets>(make: impl Make<L>) {
    let table = first(make);
    let mut session = table.register().unwrap();
    let wide: Vec<Member> = (0..100_000)
        .map(|i| member(10 + i, Mode::ForShare))
        .collect();
    session.create(&wide).unwrap();
    session.create(&wide[..50_000]).unwrap();
    assert_eq!(table.members_in_use(), 150_000);
    table.truncate(id(2)).unwrap();
    assert_eq!(table.members_in_use(), 50_000);
    assert_eq!(table.members(id(2)).unwrap(), wide[..50_000]);
}

pub(crate) fn what_is_in_use_is_not_passed<L: LockSets>(make: impl Make<L>) {
    let table = first(make);
    let (mut old, mut young) = (table.register().unwrap(), table.register().unwrap());
    assert_eq!(table.oldest_in_use(), id(1));
    old.create(&[member(10, Mode::ForShare)]).unwrap();
    young.begin_use();
    young.create(&[member(11, Mode::ForShare)]).unwrap();
    assert_eq!(table.oldest_in_use(), id(1));
    old.end();
    assert_eq!(table.oldest_in_use(), id(2));
    old.begin_use();
    drop(young);
    assert_eq!(table.oldest_in_use(), id(3));
    drop(old);
    assert_eq!(table.oldest_in_use(), id(3));
}

pub(crate) fn places_run_out_and_come_back<L: LockSets>(make: impl Make<L>) {
    let table = first(make);
    let mut sessions: Vec<_> = (0..SESSIONS).map(|_| table.register().unwrap()).collect();
    let error = table.register().err().unwrap();
    assert_eq!(error.sessions, SESSIONS);
    sessions.pop();
    assert!(table.register().is_ok());
}

/// Random sets, expansions and truncations against a map.
pub(crate) fn long_histories_agree_with_a_map<L: LockSets>(make: impl Make<L>) {
    let mut random = Random::seeded();
    for _ in 0..8 {
        let start = [1, 1600, (1 << 32) - 3000, (1 << 32) - 1][random.below(4) as usize];
        let table = make(
            id([1, 2040, (1 << 32) - 9][random.below(3) as usize]),
            MultiXactOffset::new(start),
        );
        let mut session = table.register().unwrap();
        let mut sets: BTreeMap<MultiXactId, Vec<Member>> = BTreeMap::new();
        let mut xid = 1000;
        for _ in 0..1500 {
            xid += random.below(3);
            let new = member(xid, Mode::ALL[random.below(4) as usize]);
            match random.below(10) {
                0..=3 => {
                    let most = 1 + random.below(30);
                    let len = 1 + random.below(most);
                    let members: Vec<Member> = (0..len)
                        .map(|_| {
                            member(xid - random.below(40), Mode::ALL[random.below(4) as usize])
                        })
                        .collect();
                    let number = session.create(&members).unwrap();
                    let mut sorted = members;
                    sorted.sort_unstable();
                    sorted.dedup();
                    assert!(
                        sets.insert(number, sorted.clone())
                            .is_none_or(|before| before == sorted)
                    );
                }
                4..=7 if !sets.is_empty() => {
                    let at = sets.len() - 1 - random.below(sets.len().min(20) as u64) as usize;
                    let (number, before) =
                        sets.iter().nth(at).map(|(n, m)| (*n, m.clone())).unwrap();
                    let runs = |of: Xid| of.get().is_multiple_of(3);
                    let state = |of: Xid| {
                        if runs(of) {
                            XidState::Running
                        } else {
                            XidState::Aborted
                        }
                    };
                    let expanded = session.expand(number, new, state).unwrap();
                    let mut expected = before.clone();
                    if !before.contains(&new) {
                        expected.retain(|member| runs(member.xid));
                        expected.push(new);
                        expected.sort_unstable();
                    }
                    assert!(
                        sets.insert(expanded, expected.clone())
                            .is_none_or(|b| b == expected)
                    );
                }
                8 if random.below(20) == 0 && sets.len() > 50 => {
                    let at = random.below(sets.len() as u64 - 20) as usize;
                    let oldest = *sets.keys().nth(at).unwrap();
                    table.truncate(oldest).unwrap();
                    sets = sets.split_off(&oldest);
                }
                _ => {
                    for (number, members) in sets.iter().rev().take(5) {
                        assert_eq!(&table.members(*number).unwrap(), members);
                    }
                }
            }
        }
        for (number, members) in &sets {
            assert_eq!(&table.members(*number).unwrap(), members);
        }
    }
}

/// Threads make and read sets of each other, through pools that are too small for them.
pub(crate) fn threads_read_whole_sets<L: LockSets>(make: impl Make<L>) {
    const THREADS: u64 = 4;
    const EACH: u64 = 1500;
    let table = first(make);
    let made = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (table, made) = (&table, &made);
            scope.spawn(move || {
                let mut session = table.register().unwrap();
                for round in 0..EACH {
                    let len = 1 + (round + thread) % 9;
                    let xid = 100 + (round * THREADS + thread) * 10;
                    let members: Vec<Member> =
                        (0..len).map(|i| member(xid + i, Mode::ForShare)).collect();
                    let number = session.create(&members).unwrap();
                    let other = {
                        let mut made = made.lock().unwrap();
                        made.push((number, members));
                        let at = (round * 7919) as usize % made.len();
                        made[at].clone()
                    };
                    assert_eq!(table.members(other.0).unwrap(), other.1);
                    session.end();
                }
            });
        }
    });
    let made = made.into_inner().unwrap();
    assert_eq!(table.next_id().get(), 1 + THREADS * EACH);
    for (number, members) in made {
        assert_eq!(table.members(number).unwrap(), members);
    }
}

/// One module of tests for one design.
macro_rules! suite {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;
            suite! { @each $make;
                sets_come_back_sorted
                equal_sets_get_one_number
                an_equal_set_that_nothing_keeps_is_not_given_again
                a_far_member_is_refused_and_changes_nothing
                a_table_can_begin_anywhere
                what_makes_no_set_is_refused
                numbers_that_are_no_sets_are_refused
                expanding_keeps_what_matters
                a_set_runs_as_long_as_a_member
                numbers_and_positions_pass_32_bits
                member_space_ends
                what_is_in_use_is_not_passed
                places_run_out_and_come_back
                long_histories_agree_with_a_map
                threads_read_whole_sets
            }
        }
    };
    (@each $make:expr; $($behaviour:ident)*) => {
        $(#[test]
        fn $behaviour() {
            common::$behaviour($make);
        })*
    };
}
