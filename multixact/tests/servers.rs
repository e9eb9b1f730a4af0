//! Lock sets in directories that PostgreSQL servers wrote, held against what the servers said.
//!
//! `TXNKIT_PGDATA=DIR cargo test -p multixact --test servers -- --ignored` does the same with every set in `DIR` (see `txnkit-pgdata`).
#![cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]

use std::path::Path;

use multixact::{
    FileStore, Kept, LockSession, LockSets, LockTable, Member, Mode, MultiXactError, MultiXactId,
    MultiXactOffset, PoolError, StoreError, Xid,
};
use serde_json::Value;
use txnkit_pgdata::{Damage, Members, Set, Truth};

/// What a control file says. It knows the low half of the next position only.
fn kept(truth: &Truth) -> Kept {
    let id = |name| MultiXactId::new(truth.control(name));
    Kept {
        ids: id("oldest_multi_xid")..id("next_multixact_id"),
        next_offset: MultiXactOffset::new(1 << 32 | truth.control("next_multi_offset")),
        xids: Xid::new(truth.control("oldest_xid"))..Xid::new(truth.control("next_xid8")),
    }
}

fn open(dir: &Path, truth: &Truth) -> LockTable<FileStore> {
    LockTable::open_dir(dir.join("pg_multixact"), [16, 16], 2, kept(truth)).unwrap()
}

/// As the server stores them; sets are sorted, and so are the server's.
fn members(set: &[Member]) -> Members {
    let member = |member: &Member| (member.xid.low32().get(), member.mode as u8);
    set.iter().map(member).collect()
}

fn check(set: &Set) {
    println!("{}", set.name);
    check_sets(set);
    check_going_on(set);
    for damage in &set.truth.damage {
        if damage.kind() == "pg_multixact/members" {
            check_damage(set, damage);
        }
    }
}

fn check_sets(set: &Set) {
    let (truth, table) = (&set.truth, open(set.path(), &set.truth));
    for (&number, said) in &truth.sets {
        let found = table.members(MultiXactId::new(number));
        match (said, found) {
            (Some(said), Ok(found)) => {
                let (mut said, found) = (said.clone(), members(&found));
                // Equal members twice are one here.
                said.dedup();
                assert_eq!(found, said, "{number}");
            }
            // The server takes it for longer than memory.
            (None, Err(MultiXactError::Corrupt { .. })) => {}
            (said, found) => panic!("{number}: {found:?}, SQL: {said:?}"),
        }
    }
    let (first, next) = (truth.control("oldest_multi_xid"), table.next_id().get());
    let invalid = table.members(MultiXactId::new(0));
    assert!(matches!(invalid, Err(MultiXactError::Invalid { .. })));
    let before = table.members(MultiXactId::new(first - 1));
    assert!(before.is_err());
    for future in [next, next + 100] {
        let error = table.members(MultiXactId::new(future));
        assert!(matches!(error, Err(MultiXactError::NotCreated { .. })));
    }
}

/// New sets go where the server would have put them, and all is there when the files are opened again.
fn check_going_on(set: &Set) {
    let truth = &set.truth;
    let mut kept = kept(truth);
    let new: Vec<Member> = [0, 1, 2]
        .map(|at| Member {
            xid: Xid::new(kept.xids.end.get() + at),
            mode: Mode::ForShare,
        })
        .into();
    let made = {
        let table = open(set.path(), truth);
        let mut session = table.register().unwrap();
        let made = match session.create(&new) {
            Ok(made) => made,
            // The server refused as well.
            Err(MultiXactError::MembersExhausted { left, .. }) => {
                assert_eq!((set.name.contains("limits"), left), (true, 1));
                return;
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(made, kept.ids.end);
        assert_eq!(table.members(made).unwrap(), new);
        table.flush().unwrap();
        made
    };
    kept.ids.end = made.next().unwrap();
    kept.next_offset = kept.next_offset.checked_add(3).unwrap();
    kept.xids.end = Xid::new(kept.xids.end.get() + 3);
    let dir = set.path().join("pg_multixact");
    let table = LockTable::open_dir(dir, [16, 16], 2, kept).unwrap();
    assert_eq!(table.members(made).unwrap(), new);
    for (&number, said) in &truth.sets {
        let found = table.members(MultiXactId::new(number)).ok();
        assert_eq!(found.map(|found| members(&found)), said.clone(), "{number}");
    }
}

/// What can be read is as before, the rest an error that names what SQL's error names.
fn check_damage(set: &Set, damage: &Damage) {
    let copied = set.damaged(damage);
    let file = copied.path().join(&damage.file);
    let table = open(copied.path(), &set.truth);
    for probe in &damage.probes {
        let id = MultiXactId::new(probe["mxid"].as_u64().unwrap());
        let said = &probe["members"];
        match table.members(id) {
            Ok(found) => {
                assert!(said.get("error").is_none(), "{id}: {found:?}, SQL: {said}");
                assert_eq!(Some(&Some(members(&found))), set.truth.sets.get(&id.get()));
            }
            Err(MultiXactError::Pool(PoolError::Store(error))) => {
                check_error(&error, &said["error"], &file);
            }
            Err(error) => panic!("{id}: {error}, SQL: {said}"),
        }
    }
}

fn check_error(error: &StoreError, said: &Value, file: &Path) {
    let named = match (error, said["sqlstate"].as_str()) {
        (StoreError::Missing { file, .. }, Some("58P01")) => file,
        (StoreError::Short { file, offset, .. }, Some("XX000")) => {
            let detail = said["detail"].as_str().unwrap();
            assert!(detail.contains(&format!("at offset {offset}:")), "{detail}");
            file
        }
        _ => panic!("{error}, SQL: {said}"),
    };
    assert_eq!(named, file);
}

/// One test for every fixture.
macro_rules! fixtures {
    ($($name:ident: $dir:literal;)*) => {
        $(#[test]
        fn $name() {
            check(&Set::fixture($dir));
        })*

        #[test]
        fn every_fixture_has_a_test() {
            assert_eq!([$($dir),*], txnkit_pgdata::FIXTURES);
        }
    };
}

fixtures! {
    sets_of_two_to_thirty_in_all_modes: "basic-15";
    an_immediate_stop: "crash-15";
    cut_and_removed_files: "damaged-15";
    member_space_used_up: "limits-members-15";
    positions_that_ran_over_32_bits: "mxoffwrap-15";
}

#[test]
#[ignore = "needs TXNKIT_PGDATA, a directory of sets"]
fn every_set_of_a_directory() {
    Set::named_by_environment().iter().for_each(check);
}
