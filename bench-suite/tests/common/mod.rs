//! Shared by the tests of this crate.

use bench_suite::cell::{CellSpec, Tables, WorkloadKind};

/// A cell that is over at once: a few clients on one branch.
pub(crate) fn spec(array: &str) -> CellSpec {
    CellSpec {
        study: "test".into(),
        variants: [("procarray".to_owned(), array.to_owned())].into(),
        workload: WorkloadKind::TpcbLike,
        tables: Tables::Unlogged,
        clients: 4,
        scale: 1,
        buffers: 0,
        run: 1,
        seed: 7,
        warmup_ms: 10,
        run_ms: 60,
    }
}
