//! Every implementation that a cell can name. A new one is one type and one line here.

use anyhow::{Context, Result, bail, ensure};
use procarray::ProcArray;
use procarray::baseline::{FullStructs, HotArray, LazyHorizon};
use txnkit_sync::lock::{LockOf2011, LockOfToday};

use crate::cell::{CellResult, CellSpec, FRONT};
use crate::run::{FIRST_XID, run_cell, sessions};
use crate::study::unknown;

/// One implementation of the transaction array.
#[derive(Debug, Clone, Copy)]
pub struct Array {
    /// What a cell calls it.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    run: fn(&CellSpec) -> Result<CellResult>,
}

/// Builds the array with a place for every client and runs the cell on it.
macro_rules! array {
    ($name:literal, $array:ty, $what:literal) => {
        Array {
            name: $name,
            what: $what,
            run: |spec| run_cell(spec, <$array>::new(sessions(spec), FIRST_XID)),
        }
    };
}

/// The transaction arrays.
pub const ARRAYS: &[Array] = &[
    array!(
        "ours",
        ProcArray,
        "the front: one bit per id, snapshots without a lock"
    ),
    array!(
        "full_structs",
        FullStructs<LockOf2011>,
        "one full struct per session, global xmin at every snapshot"
    ),
    array!(
        "full_structs:today",
        FullStructs<LockOfToday>,
        "the same with the lock of today"
    ),
    array!(
        "hot_array",
        HotArray<LockOf2011>,
        "the members that snapshots read in a dense array of their own"
    ),
    array!(
        "hot_array:today",
        HotArray<LockOfToday>,
        "the same with the lock of today"
    ),
    array!(
        "lazy_horizon",
        LazyHorizon<LockOf2011>,
        "as hot_array, without the global xmin at every snapshot"
    ),
    array!(
        "lazy_horizon:today",
        LazyHorizon<LockOfToday>,
        "the same with the lock of today"
    ),
];

/// Every mechanism that a cell can choose an implementation of, with the names of these.
pub fn mechanisms() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("procarray", ARRAYS.iter().map(|array| array.name).collect()),
        ("slru", vec![FRONT]),
    ]
}

/// Runs one cell.
///
/// # Errors
/// When it names something that does not exist, or the run fails; see [`run_cell`].
pub fn run(spec: &CellSpec) -> Result<CellResult> {
    let mechanisms = mechanisms();
    for (mechanism, name) in &spec.variants {
        let Some((_, names)) = mechanisms.iter().find(|(known, _)| *known == mechanism) else {
            let known: Vec<_> = mechanisms.iter().map(|(known, _)| *known).collect();
            bail!(unknown("mechanism", mechanism, &known));
        };
        ensure!(
            names.contains(&name.as_str()),
            unknown(&format!("implementation of {mechanism}"), name, names)
        );
    }
    let name = spec.variants.get("procarray").map_or(FRONT, String::as_str);
    let array = ARRAYS
        .iter()
        .find(|array| array.name == name)
        .context("the array vanished")?;
    (array.run)(spec)
}
