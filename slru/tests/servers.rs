//! Directories that PostgreSQL servers wrote, held against what the servers said: five of them in `fixtures`, packed by `fixtures/pack.py`.
//!
//! `TXNKIT_PGDATA=DIR cargo test -p slru --test servers -- --ignored` does the same with every set in `DIR`: directories with a whole `truth.json`, or `.tar.zst`
//! archives of them, for which `tar` and `zstd` have to be there.

extern crate alloc;

mod common;

use alloc::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{store_error, x};
use serde_json::Value;
use slru::{
    CommitTimestamp, CommitTimestamps, FileStore, Layout, Parents, Status, StatusErrorKind,
    StatusLog, StatusStore, StoreError, Xid,
};

const KINDS: [&str; 3] = ["pg_xact", "pg_subtrans", "pg_commit_ts"];

/// What a server said.
struct Truth {
    control: Value,
    /// The id of the first letter, and a letter an id.
    statuses: (u64, String),
    timestamps: BTreeMap<u64, CommitTimestamp>,
    parents: BTreeMap<u64, u64>,
    /// Top-level ids that ran when the server stopped at once.
    open_at_crash: BTreeSet<u64>,
    damage: Vec<Value>,
}

/// A set: a private copy of the files, and the truth.
struct Set {
    name: String,
    dir: tempfile::TempDir,
    truth: Truth,
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

impl Truth {
    /// From the whole `truth.json`, or from what `pack.py` leaves of it.
    fn new(json: &Value, packed: bool) -> Self {
        let (workload, entries) = if packed {
            (json, &json["commit_ts"])
        } else {
            (&json["workload"], &json["commit_ts"]["entries"])
        };
        let mut last = [0_i64; 3];
        let timestamps = list(entries).iter().map(|entry| {
            for (at, last) in last.iter_mut().enumerate() {
                let value = entry[at].as_i64().unwrap();
                *last = if packed { *last + value } else { value };
            }
            let origin = last[2].try_into().unwrap();
            let micros = last[1];
            (last[0] as u64, CommitTimestamp { micros, origin })
        });
        let timestamps = timestamps.collect();
        let parents = workload["subtrans_parent"].as_object();
        let parents = parents.into_iter().flatten();
        let open = list(&workload["open_at_crash"]).iter();
        let open = open.map(|open| number(&open["xid"]));
        Self {
            control: json["control"].clone(),
            statuses: (
                number(&json["xact_status"]["first_xid8"]),
                json["xact_status"]["statuses"].as_str().unwrap().to_owned(),
            ),
            timestamps,
            parents: parents
                .map(|(child, parent)| (child.parse().unwrap(), number(parent)))
                .collect(),
            open_at_crash: open.collect(),
            damage: list(&json["damage"])
                .iter()
                .filter(|damage| kind_of(damage).is_some())
                .cloned()
                .collect(),
        }
    }

    fn control(&self, name: &str) -> Xid {
        x(number(&self.control[name]))
    }
}

/// Which of the three directories a damage is in.
fn kind_of(damage: &Value) -> Option<&'static str> {
    let kind = damage["file"].as_str().unwrap().split('/').next();
    KINDS.into_iter().find(|&ours| Some(ours) == kind)
}

fn unpack(packed: &Path) -> Vec<u8> {
    let bytes = fs::read(packed).unwrap();
    miniz_oxide::inflate::decompress_to_vec_zlib(&bytes).unwrap()
}

/// A fixture, unpacked.
fn fixture(name: &str) -> Set {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        fs::create_dir(dir.path().join(kind)).unwrap();
        for file in fs::read_dir(from.join(kind)).unwrap() {
            let file = file.unwrap().path();
            let to = dir.path().join(kind).join(file.file_stem().unwrap());
            fs::write(to, unpack(&file)).unwrap();
        }
    }
    let json = serde_json::from_slice(&unpack(&from.join("truth.json.z"))).unwrap();
    Set {
        name: name.to_owned(),
        dir,
        truth: Truth::new(&json, true),
    }
}

/// A copy of a whole set in a directory.
fn whole(from: &Path) -> Set {
    let dir = tempfile::tempdir().unwrap();
    for kind in KINDS {
        copy(&from.join(kind), &dir.path().join(kind));
    }
    let json = serde_json::from_slice(&fs::read(from.join("truth.json")).unwrap()).unwrap();
    Set {
        name: from.display().to_string(),
        dir,
        truth: Truth::new(&json, false),
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

impl Set {
    fn statuses(&self, dir: &Path) -> StatusLog<FileStore> {
        let (oldest, next) = (
            self.truth.control("oldest_xid"),
            self.truth.control("next_xid8"),
        );
        let pages = Layout::STATUS.pages(oldest, next);
        let store = FileStore::open(dir, Layout::STATUS, pages).unwrap();
        StatusLog::open(store, 16, oldest, next).unwrap()
    }

    fn timestamps(&self, dir: &Path) -> CommitTimestamps<FileStore> {
        let oldest = self.truth.control("oldest_commit_ts_xid");
        let next = x(self.truth.control("newest_commit_ts_xid").get() + 1);
        let pages = Layout::TIMESTAMPS.pages(oldest, next);
        let store = FileStore::open(dir, Layout::TIMESTAMPS, pages).unwrap();
        CommitTimestamps::open(store, 16, oldest, next).unwrap()
    }

    fn check(&self) -> usize {
        println!("{}", self.name);
        let never_ended = self.check_statuses();
        self.check_timestamps();
        self.check_parents();
        self.check_damage();
        never_ended
    }

    /// Returns of how many ids the server says aborted though nothing is recorded.
    fn check_statuses(&self) -> usize {
        let log = self.statuses(&self.dir.path().join("pg_xact"));
        let (oldest, next) = (
            self.truth.control("oldest_xid"),
            self.truth.control("next_xid8"),
        );
        let (first, statuses) = &self.truth.statuses;
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
        let open = &self.truth.open_at_crash;
        open.contains(&xid)
            || open.first().is_some_and(|&first| xid > first)
                && log.get(x(xid)) == Ok(Status::InProgress)
    }

    /// The server was asked for the ids that it was asked the status of. The range may begin before those; of its first ids nothing is known then.
    fn check_timestamps(&self) {
        let log = self.timestamps(&self.dir.path().join("pg_commit_ts"));
        let (oldest, newest) = (log.oldest().get(), log.newest().get());
        for xid in oldest.saturating_sub(2000).max(3)..newest + 2000 {
            let found = log.get(x(xid)).unwrap();
            if xid >= self.truth.statuses.0 {
                assert_eq!(found, self.truth.timestamps.get(&xid).copied(), "{xid}");
            }
            assert!(found.is_none() || (oldest..=newest).contains(&xid), "{xid}");
        }
        let inside = self.truth.timestamps.range(oldest..=newest).count();
        assert_eq!(inside, self.truth.timestamps.len());
    }

    /// The server told parents of some transactions only; of the others nothing but the order is known.
    fn check_parents(&self) {
        let dir = self.dir.path().join("pg_subtrans");
        // The files begin before the oldest id that ran at the end.
        let oldest = self.truth.parents.keys().next();
        let oldest = oldest.map_or(self.truth.control("oldest_active_xid"), |&xid| x(xid));
        let next = self.truth.control("next_xid8");
        let pages = Layout::PARENTS.pages(oldest, next);
        let store = FileStore::open(dir, Layout::PARENTS, pages).unwrap();
        let parents = Parents::open(store, 16, oldest, next).unwrap();
        for child in oldest.get()..next.get() {
            let found = parents.parent(x(child)).unwrap();
            assert!(found.is_none_or(|parent| parent < x(child)), "{child}");
            if let Some(&wanted) = self.truth.parents.get(&child) {
                assert_eq!(found, Some(x(wanted)), "{child}");
                let mut top = wanted;
                while let Some(&parent) = self.truth.parents.get(&top) {
                    top = parent;
                }
                assert_eq!(parents.topmost(x(child), oldest), Ok(x(top)), "{child}");
            }
        }
    }

    /// Files cut or removed one at a time: what can be read is as before, the rest an error that names what SQL's error names.
    fn check_damage(&self) {
        for damage in &self.truth.damage {
            let kind = kind_of(damage).unwrap();
            let copied = tempfile::tempdir().unwrap();
            let dir = copied.path().join(kind);
            copy(&self.dir.path().join(kind), &dir);
            let file = copied.path().join(damage["file"].as_str().unwrap());
            match damage["cut_to"].as_u64() {
                Some(length) => {
                    let file = fs::OpenOptions::new().write(true).open(&file).unwrap();
                    file.set_len(length).unwrap();
                }
                None => fs::remove_file(&file).unwrap(),
            }
            let probes = list(&damage["probes"]);
            assert!(!probes.is_empty());
            for probe in probes {
                self.check_probe(kind, &dir, &file, probe);
            }
        }
    }

    fn check_probe(&self, kind: &str, dir: &Path, file: &Path, probe: &Value) {
        let xid = x(number(&probe["xid"]));
        // A value as SQL has it: none, a word, microseconds.
        let (said, found) = if kind == "pg_xact" {
            let found = match self.statuses(dir).get(xid) {
                Ok(status) => Ok(Value::from(format!("{status:?}").to_lowercase())),
                Err(error) if matches!(error.kind(), StatusErrorKind::TooOld { .. }) => {
                    Ok(Value::Null)
                }
                Err(error) => Err(error),
            };
            // The oldest id's page holds older ids as well, which the server does not look at.
            let too_old = xid < self.truth.control("oldest_xid");
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

/// One test for every set in `fixtures`.
macro_rules! fixtures {
    ($($name:ident: $dir:literal, $never_ended:literal never ended;)*) => {
        $(#[test]
        fn $name() {
            assert_eq!(fixture($dir).check(), $never_ended);
        })*

        #[test]
        fn every_fixture_has_a_test() {
            let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
            let there = fs::read_dir(fixtures).unwrap().map(|e| e.unwrap().path());
            let there: BTreeSet<_> = there
                .filter(|path| path.is_dir())
                .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
                .collect();
            assert_eq!(there, BTreeSet::from([$($dir.to_owned()),*]));
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

/// The fixtures are not empty shells: this many answers each were compared.
#[test]
fn the_fixtures_hold_what_they_should() {
    let counts = |name| {
        let truth = fixture(name).truth;
        let (statuses, timestamps) = (truth.statuses.1.len(), truth.timestamps.len());
        (
            statuses,
            timestamps,
            truth.parents.len(),
            truth.damage.len(),
        )
    };
    assert_eq!(counts("basic-15"), (7439, 5364, 702, 0));
    assert_eq!(counts("crash-15"), (4098, 2486, 0, 0));
    assert_eq!(counts("damaged-15"), (36_099, 30_959, 0, 9));
    assert_eq!(counts("limits-members-15"), (2240, 0, 0, 0));
    assert_eq!(counts("mxoffwrap-15"), (1115, 970, 0, 0));
}

#[test]
#[ignore = "needs TXNKIT_PGDATA, a directory of sets"]
fn every_set_of_a_directory() {
    let dir = std::env::var("TXNKIT_PGDATA").expect("TXNKIT_PGDATA names a directory of sets");
    let mut checked = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let unpacked = tempfile::tempdir().unwrap();
        let set = match set_in(&path, unpacked.path()) {
            Some(set) => set,
            None => {
                println!("{}: no set", path.display());
                continue;
            }
        };
        whole(&set).check();
        checked += 1;
    }
    assert!(checked > 0, "no set there");
}

/// The set that is this directory, or in this archive.
fn set_in(path: &Path, unpacked: &Path) -> Option<PathBuf> {
    if path.join("truth.json").is_file() {
        return Some(path.to_owned());
    }
    let name = path.file_name()?.to_str()?.strip_suffix(".tar.zst")?;
    let status = Command::new("tar")
        .args(["--zstd", "-xf"])
        .arg(path)
        .arg("-C")
        .arg(unpacked)
        .status()
        .expect("tar can be run");
    assert!(
        status.success(),
        "tar --zstd could not unpack {}",
        path.display()
    );
    Some(unpacked.join(name))
}
