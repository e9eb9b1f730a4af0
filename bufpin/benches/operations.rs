//! The rows through criterion: `cargo bench -p bufpin`.

mod rows;

use criterion::{Criterion, criterion_group, criterion_main};

fn operations(criterion: &mut Criterion) {
    for row in rows::ROWS {
        criterion.bench_function(row.name, |bencher| bencher.iter_custom(row.run));
    }
}

criterion_group!(benches, operations);
criterion_main!(benches);
