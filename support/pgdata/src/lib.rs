#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
// What is wrong with a fixture or with a directory of sets shows as a panic in the test that uses it.

extern crate alloc;

use alloc::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The directories of a set.
pub const KINDS: [&str; 5] = [
    "pg_xact",
    "pg_subtrans",
    "pg_commit_ts",
    "pg_multixact/offsets",
    "pg_multixact/members",
];

/// The modes of a lock set's members, by their numbers in the files.
pub const MODES: [&str; 6] = ["keysh", "sh", "fornokeyupd", "forupd", "nokeyupd", "upd"];

/// The fixtures' names.
pub const FIXTURES: [&str; 5] = [
    "basic-15",
    "crash-15",
    "damaged-15",
    "limits-members-15",
    "mxoffwrap-15",
];

/// The members of a lock set, in stored order: the id's low half, and the mode's number.
pub type Members = Vec<(u32, u8)>;

/// What a server said.
#[derive(Debug)]
pub struct Truth {
    control: Value,
    /// The id of the first letter, and a letter an id: C committed, A aborted, I in progress, N not looked at.
    pub statuses: (u64, String),
    /// By id: microseconds since 2000, origin. Every other id has none.
    pub timestamps: BTreeMap<u64, (i64, u16)>,
    /// Direct parents of some children.
    pub parents: BTreeMap<u64, u64>,
    /// Top-level ids that ran when the server stopped at once.
    pub open_at_crash: BTreeSet<u64>,
    /// Every lock set that is kept; `None` where the server failed.
    pub sets: BTreeMap<u64, Option<Members>>,
    /// Files that were cut or removed, and what the server said then.
    pub damage: Vec<Damage>,
}

/// A file that was cut or removed, one at a time.
#[derive(Debug, Clone)]
pub struct Damage {
    /// The file, below the set's directory.
    pub file: PathBuf,
    /// How many bytes were left; none when it was removed.
    pub cut_to: Option<u64>,
    /// What was asked, and what the server said.
    pub probes: Vec<Value>,
}

/// A set: a private copy of the files, and the truth.
#[derive(Debug)]
pub struct Set {
    /// What to call it in a message.
    pub name: String,
    /// What the server said.
    pub truth: Truth,
    dir: tempfile::TempDir,
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

impl Truth {
    /// From the whole `truth.json`, or from what `pack.py` leaves of it.
    fn new(json: &Value, packed: bool) -> Self {
        let (workload, timestamps, sets) = if packed {
            (json, &json["commit_ts"], &json["multixacts"])
        } else {
            (
                &json["workload"],
                &json["commit_ts"]["entries"],
                &json["multixacts"]["members"],
            )
        };
        let parents = workload["subtrans_parent"].as_object();
        let parent =
            |(child, parent): (&String, &Value)| (child.parse().expect("an id"), number(parent));
        let open = list(&workload["open_at_crash"]).iter();
        Self {
            control: json["control"].clone(),
            statuses: (
                number(&json["xact_status"]["first_xid8"]),
                json["xact_status"]["statuses"]
                    .as_str()
                    .expect("letters")
                    .to_owned(),
            ),
            timestamps: timestamps_of(timestamps, packed),
            parents: parents.into_iter().flatten().map(parent).collect(),
            open_at_crash: open.map(|open| number(&open["xid"])).collect(),
            sets: list(sets)
                .iter()
                .map(|set| (number(&set[0]), members_of(&set[1])))
                .collect(),
            damage: list(&json["damage"])
                .iter()
                .filter(|damage| !list(&damage["probes"]).is_empty())
                .map(Damage::new)
                .collect(),
        }
    }

    /// A value of the control file.
    ///
    /// # Panics
    /// When it has none of this name.
    pub fn control(&self, name: &str) -> u64 {
        self.control[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no {name} in the control file"))
    }
}

fn timestamps_of(entries: &Value, packed: bool) -> BTreeMap<u64, (i64, u16)> {
    let mut last = [0_i64; 3];
    let entries = list(entries).iter().map(|entry| {
        for (at, last) in last.iter_mut().enumerate() {
            let value = entry[at].as_i64().expect("a number");
            *last = if packed { *last + value } else { value };
        }
        (last[0] as u64, (last[1], last[2] as u16))
    });
    entries.collect()
}

fn members_of(members: &Value) -> Option<Members> {
    let member = |member: &Value| {
        let mode = member[1].as_str().expect("a mode");
        let mode = MODES.iter().position(|&known| known == mode);
        (number(&member[0]) as u32, mode.expect("a known mode") as u8)
    };
    Some(members.as_array()?.iter().map(member).collect())
}

impl Damage {
    fn new(json: &Value) -> Self {
        Self {
            file: json["file"].as_str().expect("a file").into(),
            cut_to: json["cut_to"].as_u64(),
            probes: list(&json["probes"]).to_vec(),
        }
    }

    /// Which of [`KINDS`] it is in.
    ///
    /// # Panics
    /// When it is in none.
    pub fn kind(&self) -> &'static str {
        let kind = KINDS.into_iter().find(|kind| self.file.starts_with(kind));
        kind.unwrap_or_else(|| panic!("{}", self.file.display()))
    }
}

fn unpack(packed: &Path) -> Vec<u8> {
    let bytes = fs::read(packed).expect("a fixture's file");
    miniz_oxide::inflate::decompress_to_vec_zlib(&bytes).expect("a zlib stream")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a place for a copy");
    for file in fs::read_dir(from).expect("a directory of a set") {
        let file = file.expect("a file of a set");
        fs::copy(file.path(), to.join(file.file_name())).expect("a copy");
    }
}

impl Set {
    /// A fixture, unpacked.
    ///
    /// # Panics
    /// When there is none of this name.
    pub fn fixture(name: &str) -> Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures")
            .join(name);
        let dir = tempfile::tempdir().expect("a temporary directory");
        for kind in KINDS {
            let to = dir.path().join(kind);
            fs::create_dir_all(&to).expect("a directory in it");
            for file in fs::read_dir(from.join(kind)).expect("a directory of the fixture") {
                let file = file.expect("a file of the fixture").path();
                let name = file.file_stem().expect("a name");
                fs::write(to.join(name), unpack(&file)).expect("an unpacked file");
            }
        }
        let json = serde_json::from_slice(&unpack(&from.join("truth.json.z")));
        Self {
            name: name.to_owned(),
            truth: Truth::new(&json.expect("JSON"), true),
            dir,
        }
    }

    /// The sets in the directory that `TXNKIT_PGDATA` names.
    ///
    /// # Panics
    /// When it names none with a set in it.
    pub fn named_by_environment() -> Vec<Self> {
        let dir = std::env::var("TXNKIT_PGDATA").expect("TXNKIT_PGDATA names a directory of sets");
        let mut sets = Vec::new();
        for entry in fs::read_dir(&dir).expect("a directory of sets") {
            let path = entry.expect("an entry of the directory").path();
            let unpacked = tempfile::tempdir().expect("a temporary directory");
            match set_in(&path, unpacked.path()) {
                Some(set) => sets.push(Self::whole(&set)),
                None => println!("{}: no set", path.display()),
            }
        }
        assert!(!sets.is_empty(), "no set in {dir}");
        sets
    }

    /// A copy of a whole set in a directory.
    fn whole(from: &Path) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for kind in KINDS {
            copy(&from.join(kind), &dir.path().join(kind));
        }
        let json = fs::read(from.join("truth.json")).expect("a truth.json");
        let json = serde_json::from_slice(&json).expect("JSON");
        Self {
            name: from.display().to_string(),
            truth: Truth::new(&json, false),
            dir,
        }
    }

    /// Where the files are, to be read and written.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Another copy of the files, with one of them damaged.
    ///
    /// # Panics
    /// When the file is not there.
    pub fn damaged(&self, damage: &Damage) -> tempfile::TempDir {
        let copied = tempfile::tempdir().expect("a temporary directory");
        for kind in KINDS {
            copy(&self.path().join(kind), &copied.path().join(kind));
        }
        let file = copied.path().join(&damage.file);
        match damage.cut_to {
            Some(length) => {
                let file = fs::OpenOptions::new().write(true).open(&file);
                file.and_then(|file| file.set_len(length))
                    .expect("a shorter file");
            }
            None => fs::remove_file(&file).expect("one file less"),
        }
        copied
    }
}

/// The set that is this directory, or in this archive.
fn set_in(path: &Path, unpacked: &Path) -> Option<PathBuf> {
    if path.join("truth.json").is_file() {
        return Some(path.to_owned());
    }
    let name = path.file_name()?.to_str()?.strip_suffix(".tar.zst")?;
    let mut tar = Command::new("tar");
    tar.args(["--zstd", "-xf"])
        .arg(path)
        .arg("-C")
        .arg(unpacked);
    let status = tar.status().expect("tar can be run");
    assert!(
        status.success(),
        "tar --zstd could not unpack {}",
        path.display()
    );
    Some(unpacked.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixtures_are_all_there_is() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let there = fs::read_dir(fixtures)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let there: BTreeSet<_> = there
            .filter(|path| path.is_dir())
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(there, FIXTURES.map(str::to_owned).into());
    }

    /// They are not empty shells: so many answers there are.
    #[test]
    fn the_fixtures_hold_what_they_should() {
        let counts = FIXTURES.map(|name| {
            let truth = Set::fixture(name).truth;
            [
                truth.statuses.1.len(),
                truth.timestamps.len(),
                truth.parents.len(),
                truth.sets.len(),
                truth.damage.len(),
            ]
        });
        let expected = [
            [7439, 5364, 702, 4053, 0],
            [4098, 2486, 0, 634, 0],
            [36_099, 30_959, 0, 1706, 12],
            [2240, 0, 0, 1442, 0],
            [1115, 970, 0, 983, 0],
        ];
        assert_eq!(counts, expected);
    }
}
