//! A study as data: the question, the variants, the axes, the presets and the published figures it answers to.
//!
//! One TOML file a study, `studies/<id>.toml`. A key that is misspelt is an error that names the file, the key and
//! the nearest key there is; so is a figure for a variant that the study does not have.

use alloc::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use strsim::damerau_levenshtein;

use crate::cell::{Tables, WorkloadKind};

/// One study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// What is asked, and where it was asked first.
    #[serde(rename = "study")]
    pub about: About,
    /// What the clients do.
    pub workload: Workload,
    /// The coordinates that are crossed with the variants.
    pub axes: Axes,
    /// How much of the matrix is run, and how long.
    pub presets: Presets,
    /// What is compared, in the order in which reports list it.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
    /// The thread's own figures.
    #[serde(default)]
    pub published: Vec<Published>,
    /// What the thread's author concluded, in our words.
    pub finding: Finding,
}

/// The `[study]` table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// The study's name, also its file's.
    pub id: String,
    /// Title of the thread.
    pub thread: String,
    /// Date of the message, `yyyy-mm-dd`.
    pub date: String,
    /// The machine, as far as the thread tells it.
    pub machine: String,
    /// Cores of that machine.
    pub cores: u32,
    /// What the study wants to know.
    pub question: String,
    /// The variant that the others are held against.
    pub base: String,
}

/// The `[workload]` table: what ran, with the server settings that the thread gives.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// What the clients do.
    pub kind: WorkloadKind,
    /// The scale of the published runs.
    pub scale: u32,
    /// Buffers of 8192 bytes in the pool; 0, and where the key is left out: as many as there are pages.
    #[serde(default)]
    pub buffers: u32,
    /// How long each published run took, in seconds.
    pub run_seconds: u32,
    /// How many runs stand behind each published figure.
    pub runs: u32,
    /// The server's settings of the published runs; a record, nothing reads them.
    #[serde(default)]
    pub settings: BTreeMap<String, toml::Value>,
}

/// The `[axes]` table: the published coordinates.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axes {
    /// Table kinds.
    pub tables: Vec<Tables>,
    /// Client counts.
    pub clients: Vec<u32>,
}

/// The `[presets.*]` tables.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Presets {
    /// Does it work at all? Every variant, few cells, seconds.
    pub smoke: Preset,
    /// Every published coordinate once, minutes.
    pub quick: Preset,
    /// Enough runs for verdicts.
    pub standard: Preset,
    /// As long and as often as the thread ran.
    pub published: Preset,
}

impl Presets {
    /// The names that [`Presets::get`] knows, from the shortest to the longest.
    pub const NAMES: [&'static str; 4] = ["smoke", "quick", "standard", "published"];

    /// The preset of that name, if it is one of [`Presets::NAMES`].
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Preset> {
        match name {
            "smoke" => Some(&self.smoke),
            "quick" => Some(&self.quick),
            "standard" => Some(&self.standard),
            "published" => Some(&self.published),
            _ => None,
        }
    }
}

/// How much of the matrix is run, and how long.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Size of the data; at least the client count, or clients queue for the branches' rows.
    pub scale: u32,
    /// Runs of each cell.
    pub runs: u32,
    /// Uncounted time of each run, in milliseconds.
    pub warmup_ms: u64,
    /// Counted time of each run, in milliseconds.
    pub run_ms: u64,
    /// Table kinds, where not all of the axis.
    pub tables: Option<Vec<Tables>>,
    /// Client counts, where not all of the axis.
    pub clients: Option<Vec<u32>>,
}

/// One side of the comparison.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// The name that the thread gave it.
    pub id: String,
    /// What it is called in reports.
    pub label: String,
    /// What is different in it.
    pub what: String,
    /// Mechanism to implementation; what is not named runs the crate's front.
    pub set: BTreeMap<String, String>,
}

/// A published figure: transactions per second of one variant at one coordinate.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Table kind.
    pub tables: Tables,
    /// Clients.
    pub clients: u32,
    /// Id of the variant.
    pub variant: String,
    /// The slowest run.
    pub low: f64,
    /// The run in the middle.
    pub median: f64,
    /// The fastest run.
    pub high: f64,
    /// The second fastest, where the thread tells it because the fastest stands out.
    pub second_highest: Option<f64>,
}

/// What the thread's author concluded.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// In our words.
    pub text: String,
}

impl Study {
    /// Reads and checks the study in the file `path`.
    ///
    /// # Errors
    /// If the file cannot be read, is no study, or contradicts itself; the message names the file and what to change.
    pub fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read the study {}", path.display()))?;
        let study = Self::parse(&text)
            .with_context(|| format!("{} is not a valid study", path.display()))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        ensure!(
            stem == study.about.id,
            "{}: [study] id is `{}`, but a study's file is named after its id; rename one of them",
            path.display(),
            study.about.id
        );
        Ok(study)
    }

    /// Reads and checks a study.
    ///
    /// # Errors
    /// If `text` is no study or contradicts itself.
    pub fn parse(text: &str) -> Result<Self> {
        let study: Self = toml::from_str(text).map_err(|error| {
            let hint = suggestion(error.message())
                .map(|hint| format!("\n{hint}"))
                .unwrap_or_default();
            anyhow::anyhow!("{}{hint}", error.to_string().trim_end())
        })?;
        study.check()?;
        Ok(study)
    }

    /// The variant of that id.
    #[must_use]
    pub fn variant(&self, id: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.id == id)
    }

    /// The published figure of a variant at a coordinate.
    #[must_use]
    pub fn published(&self, variant: &str, tables: Tables, clients: u32) -> Option<&Published> {
        self.published
            .iter()
            .find(|row| row.variant == variant && row.tables == tables && row.clients == clients)
    }

    fn check(&self) -> Result<()> {
        self.check_variants()?;
        ensure!(
            !self.axes.tables.is_empty(),
            "[axes] tables is empty; name at least one table kind"
        );
        ensure!(
            !self.axes.clients.is_empty(),
            "[axes] clients is empty; name at least one client count"
        );
        for name in Presets::NAMES {
            if let Some(preset) = self.presets.get(name) {
                self.check_preset(name, preset)?;
            }
        }
        self.check_published()
    }

    fn check_variants(&self) -> Result<()> {
        for (at, variant) in self.variants.iter().enumerate() {
            ensure!(
                self.variants[..at]
                    .iter()
                    .all(|earlier| earlier.id != variant.id),
                "two [[variant]] have the id `{}`; ids must differ",
                variant.id
            );
        }
        self.require_variant("[study] base", &self.about.base)
    }

    fn check_preset(&self, name: &str, preset: &Preset) -> Result<()> {
        let clients = preset.clients.as_ref().unwrap_or(&self.axes.clients);
        ensure!(
            !clients.contains(&0),
            "[presets.{name}] has a cell of 0 clients; a cell needs at least one"
        );
        let most = clients.iter().max().copied().unwrap_or(0);
        ensure!(
            preset.scale >= most,
            "[presets.{name}] scale = {} is less than its {most} clients; they would queue for the branches' rows: \
             raise scale to at least {most}",
            preset.scale
        );
        ensure!(
            preset.runs > 0 && preset.run_ms > 0,
            "[presets.{name}] runs nothing: runs and run_ms must be above 0"
        );
        ensure!(
            !clients.is_empty()
                && preset
                    .tables
                    .as_ref()
                    .is_none_or(|tables| !tables.is_empty()),
            "[presets.{name}] has an empty axis; leave the key out to run all of [axes]"
        );
        Ok(())
    }

    fn check_published(&self) -> Result<()> {
        for (at, row) in self.published.iter().enumerate() {
            let name = format!(
                "[[published]] {:?}, {} clients, {}",
                row.tables, row.clients, row.variant
            );
            self.require_variant(&name, &row.variant)?;
            ensure!(
                row.low <= row.median && row.median <= row.high,
                "{name}: low, median and high are out of order"
            );
            let twice = self.published[..at].iter().any(|earlier| {
                (earlier.tables, earlier.clients, &earlier.variant)
                    == (row.tables, row.clients, &row.variant)
            });
            ensure!(!twice, "{name} stands there twice; keep one of them");
        }
        Ok(())
    }

    fn require_variant(&self, place: &str, id: &str) -> Result<()> {
        if self.variant(id).is_some() {
            return Ok(());
        }
        let known: Vec<&str> = self
            .variants
            .iter()
            .map(|variant| variant.id.as_str())
            .collect();
        bail!("{place}: {}", unknown("variant", id, &known))
    }
}

/// The sentence for a name that is not one of `known`: what is allowed, and what was probably meant.
#[must_use]
pub fn unknown(kind: &str, asked: &str, known: &[&str]) -> String {
    let allowed = if known.is_empty() {
        "none".to_owned()
    } else {
        known.join(", ")
    };
    let hint = nearest(asked, known)
        .map(|name| format!("; did you mean `{name}`?"))
        .unwrap_or_default();
    format!("unknown {kind} `{asked}`; there is {allowed}{hint}")
}

/// The one of `known` that is fewest edits away from `asked`, unless even that shares too little with it.
#[must_use]
pub fn nearest<'a>(asked: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = known
        .iter()
        .copied()
        .min_by_key(|name| damerau_levenshtein(asked, name))?;
    let longer = asked.chars().count().max(near.chars().count());
    (damerau_levenshtein(asked, near) * 2 <= longer).then_some(near)
}

/// What serde's message about an unknown key or value suggests. It quotes the unknown name first, the known ones after.
fn suggestion(message: &str) -> Option<String> {
    if !message.starts_with("unknown ") {
        return None;
    }
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (asked, known) = quoted.split_first()?;
    nearest(asked, known).map(|name| format!("did you mean `{name}` instead of `{asked}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PGPROC_HOT: &str = include_str!("../studies/pgproc-hot.toml");

    /// Per table kind the sums of low, median and high, each figure taken as often as its row's place says, in
    /// millionths: worked out from the thread's figures apart from this program.
    const SUMS: [[u64; 3]; 2] = [
        [879_076_008_001, 902_977_017_775, 930_401_697_033],
        [768_524_417_411, 797_836_195_805, 810_816_764_353],
    ];

    fn error_of(text: &str) -> String {
        format!(
            "{:#}",
            Study::parse(text).expect_err("the study must be refused")
        )
    }

    #[test]
    fn pgproc_hot_carries_every_published_figure() {
        let study = Study::parse(PGPROC_HOT).expect("the study is valid");
        let expected = study.axes.tables.len() * study.axes.clients.len() * 3;
        assert_eq!((study.published.len(), expected), (24, 24));

        // Millionths of a transaction per second, so that the sums are exact.
        let micro = |figure: f64| (figure * 1e6).round() as u64;
        let sum = |tables, of: fn(&Published) -> f64| -> u64 {
            let rows = study.published.iter().filter(|row| row.tables == tables);
            rows.zip(1..)
                .map(|(row, place)| place * micro(of(row)))
                .sum()
        };
        let rows = [Tables::Unlogged, Tables::Permanent].map(|tables| {
            [
                sum(tables, |row| row.low),
                sum(tables, |row| row.median),
                sum(tables, |row| row.high),
            ]
        });
        assert_eq!(rows, SUMS);
        let outlier = study
            .published("master", Tables::Unlogged, 1)
            .and_then(|row| row.second_highest);
        assert_eq!(outlier, Some(679.491822));
    }

    #[test]
    fn a_misspelt_key_names_its_neighbour() {
        let text = PGPROC_HOT.replacen("warmup_ms", "warmup_sm", 1);
        let error = error_of(&text);
        assert!(error.contains("unknown field `warmup_sm`"), "{error}");
        assert!(error.contains("did you mean `warmup_ms`"), "{error}");
    }

    #[test]
    fn a_file_is_named_in_its_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("pgproc-hot.toml");
        fs::write(&path, PGPROC_HOT.replacen("question", "qestion", 1)).expect("a file in it");
        let error = format!(
            "{:#}",
            Study::load(&path).expect_err("the study must be refused")
        );
        assert!(
            error.contains(&path.display().to_string())
                && error.contains("did you mean `question`"),
            "{error}"
        );
    }

    #[test]
    fn a_misspelt_value_names_its_neighbour() {
        let error =
            error_of(&PGPROC_HOT.replacen("kind = \"tpcb-like\"", "kind = \"tpcb-lik\"", 1));
        assert!(error.contains("did you mean `tpcb-like`"), "{error}");
    }

    #[test]
    fn contradictions_are_refused() {
        let base = error_of(&PGPROC_HOT.replacen("base = \"master\"", "base = \"mastr\"", 1));
        assert!(
            base.contains("unknown variant `mastr`") && base.contains("did you mean `master`"),
            "{base}"
        );
        let scale = error_of(&PGPROC_HOT.replacen(
            "[presets.quick]\nscale = 100",
            "[presets.quick]\nscale = 79",
            1,
        ));
        assert!(
            scale.contains("[presets.quick] scale = 79 is less than its 80 clients"),
            "{scale}"
        );
        let order = error_of(&PGPROC_HOT.replacen("low = 671.861618", "low = 1671.861618", 1));
        assert!(order.contains("out of order"), "{order}");
        let twice = error_of(&PGPROC_HOT.replacen("id = \"pgxact\"", "id = \"master\"", 1));
        assert!(
            twice.contains("two [[variant]] have the id `master`"),
            "{twice}"
        );
    }

    #[test]
    fn nearest_needs_something_in_common() {
        assert_eq!(nearest("quik", &Presets::NAMES), Some("quick"));
        assert_eq!(
            nearest("hot-array", &["full_structs", "hot_array"]),
            Some("hot_array")
        );
        assert_eq!(nearest("xyz", &Presets::NAMES), None);
        assert_eq!(nearest("x", &[]), None);
    }
}
