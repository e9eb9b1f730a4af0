//! The rows of `rows.rs` under criterion.

mod rows;

use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};

fn status(c: &mut Criterion) {
    for row in rows::ROWS {
        let mut run = (row.prepare)();
        c.bench_function(row.id, |b| {
            b.iter_custom(|steps| {
                let started = Instant::now();
                run(steps);
                started.elapsed()
            });
        });
    }
}

criterion_group!(benches, status);
criterion_main!(benches);
