//! Which runs make up a matrix, and in which order they go.

use alloc::collections::BTreeMap;

use anyhow::{Result, ensure};
use bench_suite::cell::{CellSpec, Tables};
use bench_suite::rng::Rng;
use bench_suite::study::{Preset, Study, Variant};
use serde::{Deserialize, Serialize};

/// What the command line asks of every study's matrix.
pub(crate) struct Wish {
    pub(crate) preset: String,
    /// Empty: the preset's.
    pub(crate) clients: Vec<u32>,
    /// Empty: the study's variants.
    pub(crate) set: BTreeMap<String, String>,
}

/// A matrix: all runs in their order. Kept beside the results, so that it can be resumed and is never mixed with another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) preset: String,
    pub(crate) revision: String,
    pub(crate) seed: u64,
    pub(crate) runs: Vec<Run>,
}

/// One run of one cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// The variant's id in its study.
    pub(crate) variant: String,
    pub(crate) spec: CellSpec,
}

impl Run {
    /// What people call it.
    pub(crate) fn name(&self) -> String {
        let CellSpec {
            study,
            tables,
            clients,
            run,
            ..
        } = &self.spec;
        format!(
            "{study} {} {tables:?} {clients} clients, run {run}",
            self.variant
        )
    }

    /// Is `other` the same run, whatever its seed?
    pub(crate) fn is(&self, other: &Self) -> bool {
        let seedless = |run: &Self| CellSpec {
            seed: 0,
            ..run.spec.clone()
        };
        self.variant == other.variant && seedless(self) == seedless(other)
    }
}

impl Plan {
    /// The runs that `wish` asks for: in each round every cell once, in random order; every second round is the reverse of the
    /// one before, so that what drifts hits all alike.
    pub(crate) fn new(studies: &[Study], wish: &Wish, seed: u64, revision: String) -> Result<Self> {
        let mut runs = Vec::new();
        for (stream, study) in studies.iter().enumerate() {
            runs.extend(study_runs(study, wish, &mut Rng::new(seed, stream as u64))?);
        }
        Ok(Self {
            preset: wish.preset.clone(),
            revision,
            seed,
            runs,
        })
    }

    /// Does `other` consist of the same runs of the same sources?
    pub(crate) fn is(&self, other: &Self) -> bool {
        let all_in = |some: &Self, others: &Self| {
            some.runs
                .iter()
                .all(|run| others.runs.iter().any(|o| o.is(run)))
        };
        self.preset == other.preset
            && self.revision == other.revision
            && all_in(self, other)
            && all_in(other, self)
    }
}

fn study_runs(study: &Study, wish: &Wish, rng: &mut Rng) -> Result<Vec<Run>> {
    let Some(preset) = study.presets.get(&wish.preset) else {
        return Ok(Vec::new());
    };
    let cells = cells(study, preset, wish)?;
    let mut runs = Vec::new();
    let mut order: Vec<usize> = (0..cells.len()).collect();
    for round in 1..=preset.runs {
        if round % 2 == 1 {
            shuffle(&mut order, rng);
        } else {
            order.reverse();
        }
        for &at in &order {
            let mut run = cells[at].clone();
            run.spec.run = round;
            run.spec.seed = u64::from(rng.below(u32::MAX)) << 32 | u64::from(rng.below(u32::MAX));
            runs.push(run);
        }
    }
    Ok(runs)
}

/// Every cell of the matrix once.
fn cells(study: &Study, preset: &Preset, wish: &Wish) -> Result<Vec<Run>> {
    let tables: &[Tables] = preset.tables.as_ref().unwrap_or(&study.axes.tables);
    let clients = match wish.clients.as_slice() {
        [] => preset.clients.as_ref().unwrap_or(&study.axes.clients),
        asked => asked,
    };
    let variants = variants(study, wish);
    let most = clients.iter().max().copied().unwrap_or(0);
    ensure!(
        most <= preset.scale,
        "study {}: preset {} has scale {}, which is less than {most} clients; they would queue for the branches' rows",
        study.about.id,
        wish.preset,
        preset.scale
    );
    let mut cells = Vec::new();
    for (&tables, &clients) in tables
        .iter()
        .flat_map(|tables| clients.iter().map(move |clients| (tables, clients)))
    {
        cells.extend(variants.iter().map(|variant| Run {
            variant: variant.id.clone(),
            spec: CellSpec {
                study: study.about.id.clone(),
                variants: variant.set.clone(),
                workload: study.workload.kind,
                tables,
                clients,
                scale: preset.scale,
                buffers: study.workload.buffers,
                run: 0,
                seed: 0,
                warmup_ms: preset.warmup_ms,
                run_ms: preset.run_ms,
            },
        }));
    }
    Ok(cells)
}

/// The study's variants, or its base beside the combination asked for.
fn variants(study: &Study, wish: &Wish) -> Vec<Variant> {
    if wish.set.is_empty() {
        return study.variants.clone();
    }
    let asked = study
        .variants
        .iter()
        .find(|variant| variant.set == wish.set)
        .cloned()
        .unwrap_or_else(|| {
            let id = wish
                .set
                .iter()
                .map(|(mechanism, name)| format!("{mechanism}={name}"))
                .collect::<Vec<_>>()
                .join(",");
            Variant {
                label: id.clone(),
                what: "asked for on the command line".into(),
                set: wish.set.clone(),
                id,
            }
        });
    let base = study
        .variant(&study.about.base)
        .filter(|base| base.id != asked.id)
        .cloned();
    base.into_iter().chain([asked]).collect()
}

fn shuffle(order: &mut [usize], rng: &mut Rng) {
    for last in (1..order.len()).rev() {
        order.swap(last, rng.below(last as u32 + 1) as usize);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn study() -> Study {
        Study::parse(include_str!("../../../bench-suite/studies/pgproc-hot.toml")).unwrap()
    }

    pub(crate) fn wish(preset: &str) -> Wish {
        Wish {
            preset: preset.into(),
            clients: Vec::new(),
            set: BTreeMap::new(),
        }
    }

    pub(crate) fn plan(preset: &str, seed: u64) -> Plan {
        Plan::new(&[study()], &wish(preset), seed, "r".into()).unwrap()
    }

    #[test]
    fn quick_has_every_published_coordinate_and_ours() {
        let plan = plan("quick", 1);
        for row in &study().published {
            let covered = |run: &&Run| {
                (run.variant.as_str(), run.spec.tables, run.spec.clients)
                    == (&row.variant, row.tables, row.clients)
            };
            assert!(plan.runs.iter().any(|run| covered(&run)), "{row:?}");
        }
        assert_eq!(
            plan.runs.iter().filter(|run| run.variant == "ours").count(),
            8 * plan.runs.len() / 32
        );
    }

    #[test]
    fn rounds_are_complete_and_every_second_one_reversed() {
        let plan = plan("standard", 1);
        let cells = plan.runs.len() / 5;
        let cell = |run: &Run| (run.variant.clone(), run.spec.tables, run.spec.clients);
        let rounds: Vec<Vec<_>> = plan
            .runs
            .chunks(cells)
            .map(|round| round.iter().map(cell).collect())
            .collect();
        for round in &rounds {
            let mut sorted = round.clone();
            sorted.sort();
            sorted.dedup();
            assert_eq!(sorted.len(), cells, "every cell once");
        }
        assert!(rounds[0].iter().eq(rounds[1].iter().rev()));
        assert!(rounds[2].iter().eq(rounds[3].iter().rev()));
        assert_ne!(rounds[0], rounds[2]);
    }

    #[test]
    fn a_seed_gives_one_order() {
        assert_eq!(plan("quick", 5), plan("quick", 5));
        assert_ne!(plan("quick", 5).runs, plan("quick", 6).runs);
        assert!(plan("quick", 5).is(&plan("quick", 6)), "the same matrix");
        assert!(!plan("quick", 5).is(&plan("standard", 5)));
    }

    #[test]
    fn a_combination_is_compared_with_the_base() {
        let mut wish = wish("smoke");
        wish.set
            .insert("procarray".into(), "full_structs:today".into());
        let plan = Plan::new(&[study()], &wish, 1, "r".into()).unwrap();
        let mut ids: Vec<&str> = plan.runs.iter().map(|run| run.variant.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids, ["master", "procarray=full_structs:today"]);
    }

    #[test]
    fn more_clients_than_branches_are_refused() {
        let wish = Wish {
            clients: vec![4000],
            ..wish("quick")
        };
        let error = Plan::new(&[study()], &wish, 1, "r".into())
            .unwrap_err()
            .to_string();
        assert!(error.contains("less than 4000 clients"), "{error}");
    }
}
