//! Directories that PostgreSQL servers wrote, held against what the servers said.
//!
//! `TXNKIT_PGDATA=DIR cargo test -p slru --test servers -- --ignored` does the same with every set in `DIR` (see `txnkit-pgdata`).

mod common;

use std::path::Path;

use common::{store_error, x};
use serde_json::Value;
use slru::{
    CommitTimestamp, CommitTimestamps, FileStore, Layout, Parents, Status, StatusErrorKind,
    StatusLog, StatusStore, StoreError, Xid,
};
use txnkit_pgdata::{Damage, Set};

/// A set and what is opened of it.
struct Checked(Set);

impl Checked {
    fn control(&self, name: &str) -> Xid {
        x(self.0.truth.control(name))
    }

    fn statuses(&self, dir: &Path) -> StatusLog<FileStore> {
        let (oldest, next) = (self.control("oldest_xid"), self.control("next_xid8"));
        let pages = Layout::STATUS.pages(oldest, next);
        let store = FileStore::open(dir, Layout::STATUS, pages).unwrap();
        StatusLog::open(store, 16, oldest, next).unwrap()
    }

    fn timestamps(&self, dir: &Path) -> CommitTimestamps<FileStore> {
        let oldest = self.control("oldest_commit_ts_xid");
        let next = x(self.control("newest_commit_ts_xid").get() + 1);
        let pages = Layout::TIMESTAMPS.pages(oldest, next);
        let store = FileStore::open(dir, Layout::TIMESTAMPS, pages).unwrap();
        CommitTimestamps::open(store, 16, oldest, next).unwrap()
    }

    fn check(&self) -> usize {
        println!("{}", self.0.name);
        let never_ended = self.check_statuses();
        self.check_timestamps();
        self.check_parents();
        self.check_damage();
        never_ended
    }

    /// Returns of how many ids the server says aborted though nothing is recorded.
    fn check_statuses(&self) -> usize {
        let log = self.statuses(&self.0.path().join("pg_xact"));
        let (oldest, next) = (self.control("oldest_xid"), self.control("next_xid8"));
        let (first, statuses) = &self.0.truth.statuses;
        assert_eq!(first + statuses.len() as u64, next.get());
        let mut never_ended = 0;
        for (xid, letter) in (*first..).zip(statuses.chars()) {
            let wanted = match letter {
                'C' => Status::Committed,
                'A' if self.never_ended(xid, &log) => {
                    never_ended += 1;
                    Status::InProgress
                }
                'A' => Status::Aborted,
                'I' => Status::InProgress,
                // Older than the oldest id: the server does not look.
                'N' => {
                    assert!(x(xid) < oldest);
                    continue;
                }
                other => panic!("unknown letter {other}"),
            };
            assert_eq!(log.get(x(xid)), Ok(wanted), "{xid}");
        }
        assert_eq!(log.get(Xid::BOOTSTRAP), Ok(Status::Committed));
        assert_eq!(log.get(Xid::FROZEN), Ok(Status::Committed));
        never_ended
    }

    /// SQL says aborted of what ran when the server stopped at once, but nothing is recorded: not of a top-level id, and of children only if they were
    /// rolled back before.
    fn never_ended(&self, xid: u64, log: &StatusLog<FileStore>) -> bool {
        let open = &self.0.truth.open_at_crash;
        open.contains(&xid)
            || open.first().is_some_and(|&first| xid > first)
                && log.get(x(xid)) == Ok(Status::InProgress)
    }

    /// The server was asked for the ids that it was asked the status of. The range may begin before those; of its first ids nothing is known then.
    fn check_timestamps(&self) {
        let log = self.timestamps(&self.0.path().join("pg_commit_ts"));
        let (oldest, newest) = (log.oldest().get(), log.newest().get());
        for xid in oldest.saturating_sub(2000).max(3)..newest + 2000 {
            let found = log.get(x(xid)).unwrap();
            if xid >= self.0.truth.statuses.0 {
                let said = self.0.truth.timestamps.get(&xid);
                let said = said.map(|&(micros, origin)| CommitTimestamp { micros, origin });
                assert_eq!(found, said, "{xid}");
            }
            assert!(found.is_none() || (oldest..=newest).contains(&xid), "{xid}");
        }
        let inside = self.0.truth.timestamps.range(oldest..=newest).count();
        assert_eq!(inside, self.0.truth.timestamps.len());
    }

    /// The server told parents of some transactions only; of the others nothing but the order is known.
    fn check_parents(&self) {
        let dir = self.0.path().join("pg_subtrans");
        // The files begin before the oldest id that ran at the end.
        let oldest = self.0.truth.parents.keys().next();
        let oldest = oldest.map_or(self.control("oldest_active_xid"), |&xid| x(xid));
        let next = self.control("next_xid8");
        let pages = Layout::PARENTS.pages(oldest, next);
        let store = FileStore::open(dir, Layout::PARENTS, pages).unwrap();
        let parents = Parents::open(store, 16, oldest, next).unwrap();
        for child in oldest.get()..next.get() {
            let found = parents.parent(x(child)).unwrap();
            assert!(found.is_none_or(|parent| parent < x(child)), "{child}");
            if let Some(&wanted) = self.0.truth.parents.get(&child) {
                assert_eq!(found, Some(x(wanted)), "{child}");
                let mut top = wanted;
                while let Some(&parent) = self.0.truth.parents.get(&top) {
                    top = parent;
                }
                assert_eq!(parents.topmost(x(child), oldest), Ok(x(top)), "{child}");
            }
        }
    }

    /// Files cut or removed one at a time: what can be read is as before, the rest an error that names what SQL's error names.
    fn check_damage(&self) {
        for damage in &self.0.truth.damage {
            if ["pg_xact", "pg_commit_ts"].contains(&damage.kind()) {
                let copied = self.0.damaged(damage);
                for probe in &damage.probes {
                    self.check_probe(damage, copied.path(), probe);
                }
            }
        }
    }

    fn check_probe(&self, damage: &Damage, copied: &Path, probe: &Value) {
        let (dir, file) = (&copied.join(damage.kind()), &copied.join(&damage.file));
        let xid = x(probe["xid"].as_u64().unwrap());
        // A value as SQL has it: none, a word, microseconds.
        let (said, found) = if damage.kind() == "pg_xact" {
            let found = match self.statuses(dir).get(xid) {
                Ok(status) => Ok(Value::from(format!("{status:?}").to_lowercase())),
                Err(error) if matches!(error.kind(), StatusErrorKind::TooOld { .. }) => {
                    Ok(Value::Null)
                }
                Err(error) => Err(error),
            };
            // The oldest id's page holds older ids as well, which the server does not look at.
            let too_old = xid < self.control("oldest_xid");
            (
                &probe["pg_xact_status"],
                if too_old { Ok(Value::Null) } else { found },
            )
        } else {
            let found = self.timestamps(dir).get(xid);
            let found = found.map(|found| found.map_or(Value::Null, |at| at.micros.into()));
            (&probe["pg_xact_commit_timestamp"], found)
        };
        let error = match found {
            Ok(value) => {
                assert_eq!(said.get("value"), Some(&value), "{xid}: {said}");
                return;
            }
            Err(error) => error,
        };
        let said = &said["error"];
        let offset_in = |text: &str| {
            let rest = text.split("at offset ").nth(1)?;
            rest.split(|c: char| !c.is_ascii_digit())
                .next()?
                .parse::<u64>()
                .ok()
        };
        let detail = said["detail"]
            .as_str()
            .unwrap_or_else(|| panic!("{xid}: {error}, SQL: {said}"));
        match (store_error(&error), said["sqlstate"].as_str()) {
            (StoreError::Missing { file: named, .. }, Some("58P01")) => assert_eq!(named, file),
            (
                StoreError::Short {
                    file: named,
                    offset,
                    ..
                },
                Some("XX000"),
            ) => {
                assert_eq!(named, file);
                assert_eq!(Some(*offset), offset_in(detail), "{xid}");
            }
            (other, _) => panic!("{xid}: {other}, SQL: {said}"),
        }
        let message = said["message"].as_str().unwrap();
        assert!(
            error.to_string().starts_with(message),
            "{error}, SQL: {message}"
        );
    }
}

/// One test for every fixture.
macro_rules! fixtures {
    ($($name:ident: $dir:literal, $never_ended:literal never ended;)*) => {
        $(#[test]
        fn $name() {
            assert_eq!(Checked(Set::fixture($dir)).check(), $never_ended);
        })*

        #[test]
        fn every_fixture_has_a_test() {
            assert_eq!([$($dir),*], txnkit_pgdata::FIXTURES);
        }
    };
}

fixtures! {
    savepoints_prepared_transactions_and_odd_times: "basic-15", 0 never ended;
    an_immediate_stop: "crash-15", 218 never ended;
    cut_and_removed_files: "damaged-15", 0 never ended;
    only_aborts: "limits-members-15", 0 never ended;
    ids_near_the_end_of_an_epoch: "mxoffwrap-15", 0 never ended;
}

#[test]
#[ignore = "needs TXNKIT_PGDATA, a directory of sets"]
fn every_set_of_a_directory() {
    for set in Set::named_by_environment() {
        Checked(set).check();
    }
}
