//! The report: measured beside published, and what it cannot say.

use bench_suite::cell::{CellResult, Tables};
use bench_suite::study::{Study, Variant};

use super::plan::Plan;
use super::results::Store;
use super::stats::{RUNS_FOR_A_VERDICT, Spread};

const _: () = assert!(RUNS_FOR_A_VERDICT == 5, "LIMITS says five");

/// A report as Markdown, and the part of it that is printed.
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) headline: String,
}

/// The results of one variant at one coordinate.
struct Cell<'a> {
    id: &'a str,
    label: &'a str,
    results: Vec<&'a CellResult>,
    tps: Option<Spread>,
}

/// Where a study was measured: table kind and clients, with every variant's cell.
struct Coordinate<'a> {
    tables: Tables,
    clients: u32,
    cells: Vec<Cell<'a>>,
}

pub(crate) fn render(studies: &[Study], plan: &Plan, store: &Store, faults: &[String]) -> Report {
    let mut report = Report {
        text: String::new(),
        headline: String::new(),
    };
    report.text += &format!("# Results of preset {}\n\n", plan.preset);
    report.text += &conditions(plan, store);
    for study in studies {
        let coordinates = coordinates(study, plan, store);
        report.text += &format!("\n## {}\n\n{}\n\n", study.about.id, study.about.question);
        report.text += &format!(
            "From “{}”, {}; machine: {}.\n",
            study.about.thread, study.about.date, study.about.machine
        );
        for coordinate in &coordinates {
            let table = throughput(study, coordinate);
            report.text += &table;
            report.headline += &table;
            report.text += &details(coordinate);
        }
        report.text += &format!("\nWhat the thread found: {}\n", study.finding.text);
    }
    if !faults.is_empty() {
        report.text += &format!("\n## Without a result\n\n- {}\n", faults.join("\n- "));
    }
    report.text += LIMITS;
    report
}

const LIMITS: &str = "\n## What this cannot say\n\n\
- Figures of one machine do not travel to another, and where clients outnumber processors they show the scheduler and who is \
pre-empted while holding a lock, not how a design scales.\n\
- The published figures come from a whole server with a network protocol, a planner and a disk; only ratios between variants can be held \
against them, and only where the machine is comparable.\n\
- The loop is closed: a client asks again only after its transaction has ended, so latencies understate what an open system would see.\n\
- A verdict needs five runs of each side, and is given only if every run of one side is beyond every run of the other; of two \
equal things that happens less than once in a hundred comparisons.\n";

/// Where and how the runs were made.
fn conditions(plan: &Plan, store: &Store) -> String {
    let mut text = format!(
        "Revision {}, seed {}, {} of {} runs finished.",
        plan.revision,
        plan.seed,
        store.finished.len(),
        plan.runs.len()
    );
    if let Some(first) = store.finished.first() {
        let CellResult { host, profile, .. } = &first.result;
        text += &format!(
            " Host: {} processors ({}), {} MB, kernel {}. Build: {}, opt-level {}, lto {}, {} codegen units, panic {}{}.",
            host.cpus,
            host.model,
            host.memory_bytes >> 20,
            host.kernel,
            profile.rustc,
            profile.opt_level,
            profile.lto,
            profile.codegen_units,
            profile.panic,
            if profile.debug_assertions {
                ", debug assertions on"
            } else {
                ""
            }
        );
    }
    text + " One process a run; order random and every second round reversed.\n"
}

fn coordinates<'a>(study: &'a Study, plan: &'a Plan, store: &'a Store) -> Vec<Coordinate<'a>> {
    let own = || {
        plan.runs
            .iter()
            .filter(|run| run.spec.study == study.about.id)
    };
    let mut places: Vec<(Tables, u32)> = own()
        .map(|run| (run.spec.tables, run.spec.clients))
        .collect();
    places.sort();
    places.dedup();
    let mut ids: Vec<&str> = study
        .variants
        .iter()
        .map(|variant| variant.id.as_str())
        .collect();
    ids.extend(
        own()
            .map(|run| run.variant.as_str())
            .filter(|id| study.variant(id).is_none()),
    );
    ids.retain(|id| own().any(|run| run.variant == *id));
    let mut seen = Vec::new();
    ids.retain(|id| {
        !seen.contains(id) && {
            seen.push(*id);
            true
        }
    });
    let cell = |id: &'a str, (tables, clients)| {
        let of = |finished: &&super::results::Finished| {
            let spec = &finished.result.spec;
            finished.variant == id
                && spec.study == study.about.id
                && (spec.tables, spec.clients) == (tables, clients)
        };
        let results: Vec<&CellResult> = store
            .finished
            .iter()
            .filter(of)
            .map(|finished| &finished.result)
            .collect();
        let tps = Spread::of(results.iter().map(|result| result.tps).collect());
        let label = study
            .variant(id)
            .map_or("", |variant: &Variant| variant.label.as_str());
        Cell {
            id,
            label,
            results,
            tps,
        }
    };
    let coordinate = |place: (Tables, u32)| Coordinate {
        tables: place.0,
        clients: place.1,
        cells: ids.iter().map(|id| cell(id, place)).collect(),
    };
    places.into_iter().map(coordinate).collect()
}

/// Transactions per second beside the published figures.
fn throughput(study: &Study, coordinate: &Coordinate<'_>) -> String {
    let Coordinate {
        tables,
        clients,
        cells,
    } = coordinate;
    let base = cells
        .iter()
        .find(|cell| cell.id == study.about.base)
        .and_then(|cell| cell.tps);
    let published_base = study.published(&study.about.base, *tables, *clients);
    let cpus = cells
        .iter()
        .flat_map(|cell| &cell.results)
        .map(|result| result.host.cpus)
        .next();
    let note = match cpus {
        Some(cpus) if *clients > cpus => {
            format!("published on {} cores: not comparable", study.about.cores)
        }
        _ => format!("published on {} cores", study.about.cores),
    };
    let mut text = format!(
        "\n### {tables:?} tables, {clients} client{}\n\n",
        if *clients == 1 { "" } else { "s" }
    );
    text += &format!(
        "| variant | tps median | low | high | runs | × {0} | published × {0} ({note}) | published tps median (low to high) | verdict against {0} |\n",
        study.about.base
    );
    text += "|---|--:|--:|--:|--:|--:|--:|--:|---|\n";
    for cell in cells {
        let name = if cell.label.is_empty() {
            cell.id.to_string()
        } else {
            format!("{} ({})", cell.id, cell.label)
        };
        let measured = match cell.tps {
            Some(tps) => format!(
                "{:.0} | {:.0} | {:.0} | {}",
                tps.median, tps.low, tps.high, tps.runs
            ),
            None => "no result | | | 0".into(),
        };
        let ratio = cell.tps.zip(base).map_or("–".into(), |(tps, base)| {
            format!("{:.2}", tps.median / base.median)
        });
        let published = study.published(cell.id, *tables, *clients);
        let published_ratio = published
            .zip(published_base)
            .map_or("–".into(), |(row, base)| {
                format!("{:.2}", row.median / base.median)
            });
        let figures = published.map_or("–".into(), |row| {
            format!("{:.0} ({:.0} to {:.0})", row.median, row.low, row.high)
        });
        let verdict = match (cell.tps, base) {
            _ if cell.id == study.about.base => "base",
            (Some(tps), Some(base)) => tps.verdict(&base),
            _ => "not enough runs",
        };
        text += &format!(
            "| {name} | {measured} | {ratio} | {published_ratio} | {figures} | {verdict} |\n"
        );
    }
    text
}

/// Latencies and what happened beside, as medians over the runs.
fn details(coordinate: &Coordinate<'_>) -> String {
    let mut text = String::from(
        "\n| variant | latency p50 µs | p90 | p95 | p99 | p99.9 | longest | aborts | lock waits | memory MB | steal ticks | waited for a processor ms |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for cell in &coordinate.cells {
        let median = |of: fn(&CellResult) -> f64, digits: usize| {
            let figures = cell.results.iter().map(|result| of(result)).collect();
            Spread::of(figures).map_or("–".into(), |spread| format!("{:.digits$}", spread.median))
        };
        let columns = [
            median(|r| r.latency_ns.p50 as f64 / 1e3, 1),
            median(|r| r.latency_ns.p90 as f64 / 1e3, 1),
            median(|r| r.latency_ns.p95 as f64 / 1e3, 1),
            median(|r| r.latency_ns.p99 as f64 / 1e3, 1),
            median(|r| r.latency_ns.p999 as f64 / 1e3, 1),
            median(|r| r.latency_ns.max as f64 / 1e3, 0),
            median(|r| r.aborts as f64, 0),
            median(|r| r.lock_waits as f64, 0),
            median(|r| r.memory_bytes as f64 / f64::from(1 << 20), 0),
            median(|r| r.steal_ticks as f64, 0),
            median(|r| r.runqueue_wait_ns as f64 / 1e6, 0),
        ];
        text += &format!("| {} | {} |\n", cell.id, columns.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::{plan, study};
    use super::super::results::{Store, tests::finished};
    use super::*;

    #[test]
    fn measured_and_published_stand_side_by_side() {
        let folder = tempfile::tempdir().unwrap();
        let (plan, mut store) = Store::open(folder.path(), plan("quick", 1), false).unwrap();
        for run in &plan.runs {
            let tps = match run.variant.as_str() {
                "master" => 1000.0,
                "ours" => 3000.0,
                _ => 1500.0,
            };
            store.keep(finished(run, tps)).unwrap();
        }
        let report = render(&[study()], &plan, &store, &["a cell: refused".into()]);
        for expected in [
            "| ours (ours) | 3000 | 3000 | 3000 | 1 | 3.00 | – | – | not enough runs |",
            "| pgxact (hot array) | 1500 | 1500 | 1500 | 1 | 1.50 | 1.66 | 18060 (17945 to 19282) | not enough runs |",
            "published on 32 cores: not comparable",
            "### Permanent tables, 80 clients",
            "closed",
            "- a cell: refused",
        ] {
            assert!(
                report.text.contains(expected),
                "{expected} is not in\n{}",
                report.text
            );
        }
        let one = report
            .text
            .split("### Unlogged tables, 1 client\n")
            .nth(1)
            .unwrap();
        assert!(
            !one.split("###").next().unwrap().contains("not comparable"),
            "one client does not outnumber two processors"
        );
        assert!(report.headline.contains("3.00") && !report.headline.contains("latency"));
    }
}
