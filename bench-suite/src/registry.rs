//! Every implementation that a cell can name. A new one is one type and one line here.

use alloc::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use bufpin::BufferPool;
use bufpin::baseline::{CasLoop, Dense, HeaderSpinlock, Sparse};
use procarray::ProcArray;
use procarray::baseline::{FullStructs, HotArray, LazyHorizon};
use slru::baseline::{Banked, History, SingleLock};
use slru::{MemoryStore, StatusLog};
use txn_manager::{Snapshots, StatusStore};
use txnkit_sync::lock::{LockOf2011, LockOfToday};

use crate::cell::{CellResult, CellSpec, FRONT};
use crate::run::{FIRST_XID, STATUS_PAGES, buffers, run_cell, sessions, validate};
use crate::study::unknown;

/// One implementation of the transaction array.
#[derive(Debug, Clone, Copy)]
pub struct Array {
    /// What a cell calls it.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// Is it built with every status store and every pool, or with their fronts only? Every combination takes its second to build.
    pub crossed: bool,
    run: fn(&CellSpec) -> Result<CellResult>,
}

/// One implementation, by what a cell calls it.
#[derive(Debug, Clone, Copy)]
pub struct Named {
    /// What a cell calls it.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
}

/// Declares the pools, and runs a cell on whichever it names.
macro_rules! pools {
    ($($name:literal, $pool:ty, $what:literal;)*) => {
        /// The buffer pools.
        pub const POOLS: &[Named] = &[$(Named { name: $name, what: $what }),*];

        fn on_pool<P: Snapshots, S: StatusStore>(
            spec: &CellSpec,
            array: P,
            status: S,
        ) -> Result<CellResult> {
            let (buffers, sessions) = (buffers(spec) as usize, sessions(spec));
            match chosen(spec, "bufpin") {
                $($name => run_cell(
                    spec,
                    array,
                    status,
                    <$pool>::new(bufpin::MemoryStore::new(), buffers, sessions),
                ),)*
                name => bail!("there is no buffer pool {name}"),
            }
        }
    };
}

pools! {
    "ours", BufferPool<bufpin::MemoryStore>,
        "the front: a pin is one fetch_add, a look-up takes no lock";
    "header_spinlock", HeaderSpinlock<bufpin::MemoryStore, LockOfToday, Dense>,
        "a spinlock in each buffer's header, headers side by side";
    "header_spinlock:padded", HeaderSpinlock<bufpin::MemoryStore, LockOfToday, Sparse>,
        "the same, headers on lines of their own";
    "cas_loop", CasLoop<bufpin::MemoryStore, LockOfToday, Dense>,
        "the header as one word in a compare-and-swap loop, headers side by side";
    "cas_loop:padded", CasLoop<bufpin::MemoryStore, LockOfToday, Sparse>,
        "the same, headers on lines of their own";
}

/// Declares the status stores, and runs a cell on whichever it names. Those before the front, whose looks take a lock, are reached through a pointer, a
/// nanosecond or two more: one build serves them all.
macro_rules! stores {
    ($front:ty, $front_what:literal; $($name:literal, $store:ty, $what:literal;)*) => {
        /// The status stores.
        pub const STORES: &[Named] = &[
            Named { name: FRONT, what: $front_what },
            $(Named { name: $name, what: $what }),*
        ];

        fn on_store<P: Snapshots>(spec: &CellSpec, array: P) -> Result<CellResult> {
            let pages = MemoryStore::new();
            let store: Box<dyn StatusStore> = match chosen(spec, "slru") {
                FRONT => {
                    let store = <$front>::new(pages, STATUS_PAGES, FIRST_XID);
                    return on_pool(spec, array, store);
                }
                $($name => Box::new(<$store>::new(pages, STATUS_PAGES, FIRST_XID)),)*
                name => bail!("there is no status store {name}"),
            };
            on_pool(spec, array, store)
        }
    };
}

stores! {
    StatusLog<MemoryStore>, "the front: a look takes no lock";
    "single_lock", SingleLock<MemoryStore, LockOf2011>,
        "one control lock over all buffers, that of 2011";
    "banked", Banked<MemoryStore, LockOfToday>,
        "banks of 16 buffers, each with a lock of today";
    "history", History<MemoryStore, LockOf2011>,
        "one control lock of 2011, and a second set of buffers for pages that are no longer set";
}

/// Builds the array with a place for every client and runs the cell on it.
macro_rules! array {
    ($name:literal, $array:ty, $what:literal, crossed) => {
        Array {
            name: $name,
            what: $what,
            crossed: true,
            run: |spec| on_store(spec, <$array>::new(sessions(spec), FIRST_XID)),
        }
    };
    ($name:literal, $array:ty, $what:literal) => {
        Array {
            name: $name,
            what: $what,
            crossed: false,
            run: |spec| on_fronts(spec, <$array>::new(sessions(spec), FIRST_XID)),
        }
    };
}

/// Runs a cell on the fronts of all that is not the array.
fn on_fronts<P: Snapshots>(spec: &CellSpec, array: P) -> Result<CellResult> {
    let status = StatusLog::new(MemoryStore::new(), STATUS_PAGES, FIRST_XID);
    let pool = BufferPool::new(
        bufpin::MemoryStore::new(),
        buffers(spec) as usize,
        sessions(spec),
    );
    run_cell(spec, array, status, pool)
}

/// The transaction arrays.
pub const ARRAYS: &[Array] = &[
    array!(
        "ours",
        ProcArray,
        "the front: one bit per id, snapshots without a lock",
        crossed
    ),
    array!(
        "full_structs",
        FullStructs<LockOf2011>,
        "one full struct per session, global xmin at every snapshot",
        crossed
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

/// The implementation of `mechanism` that the cell names, or the front.
fn chosen<'a>(spec: &'a CellSpec, mechanism: &str) -> &'a str {
    spec.variants.get(mechanism).map_or(FRONT, String::as_str)
}

/// Every mechanism that a cell can choose an implementation of, with the names of these.
pub fn mechanisms() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("procarray", ARRAYS.iter().map(|array| array.name).collect()),
        ("slru", STORES.iter().map(|store| store.name).collect()),
        ("bufpin", POOLS.iter().map(|pool| pool.name).collect()),
    ]
}

/// Can a cell name these?
///
/// # Errors
/// Says what does not exist and what does, or what is not built together.
pub fn check(variants: &BTreeMap<String, String>) -> Result<()> {
    let mechanisms = mechanisms();
    for (mechanism, name) in variants {
        let Some((_, names)) = mechanisms.iter().find(|(known, _)| *known == mechanism) else {
            let known: Vec<_> = mechanisms.iter().map(|(known, _)| *known).collect();
            bail!(unknown("mechanism", mechanism, &known));
        };
        ensure!(
            names.contains(&name.as_str()),
            unknown(&format!("implementation of {mechanism}"), name, names)
        );
    }
    let array = variants.get("procarray").map_or(FRONT, String::as_str);
    let crossed = |array: &&Array| array.crossed;
    for (mechanism, name) in variants {
        let alone = mechanism == "procarray"
            || name == FRONT
            || ARRAYS.iter().filter(crossed).any(|with| with.name == array);
        ensure!(
            alone,
            "{mechanism}={name} is not built together with procarray={array}, but with {}",
            ARRAYS
                .iter()
                .filter(crossed)
                .map(|with| with.name)
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    Ok(())
}

/// Runs one cell.
///
/// # Errors
/// What [`check`] finds, or that the run fails; see [`run_cell`].
pub fn run(spec: &CellSpec) -> Result<CellResult> {
    check(&spec.variants)?;
    validate(spec)?;
    let name = chosen(spec, "procarray");
    let array = ARRAYS
        .iter()
        .find(|array| array.name == name)
        .context("the array vanished")?;
    (array.run)(spec)
}
