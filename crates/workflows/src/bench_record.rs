//! Measurements of `gorgon bench`, as they are stored with the heads: the list of runs and model cards read them.

use crate::failure::Failure;
use crate::files;
use crate::settings::Settings;
use gorgon_bench::measure::Summary;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use sysinfo::{CpuRefreshKind, RefreshKind, System};

/// The file in a heads folder.
pub const FILE: &str = "bench.json";
/// The largest such file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// A measurement of heads against plain decoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchRecord {
    /// The version of gorgon and its commit.
    pub gorgon: String,
    /// When it began: UTC, to the second.
    pub started: String,
    /// Where it ran.
    pub machine: Machine,
    /// The file of prompts, without its folder.
    pub prompts: String,
    /// The tree.
    pub tree: String,
    /// True if the tree was named, and is not the one that the heads are decoded with.
    #[serde(default)]
    pub named_tree: bool,
    /// The acceptance rule.
    pub accept: String,
    /// True if the rule keeps the text, or at temperatures above 0 its distribution.
    #[serde(default = "yes")]
    pub lossless: bool,
    /// The sampling temperature.
    pub temperature: f64,
    /// All prompts together.
    pub all: TaskRecord,
    /// By category of the prompts, where they have one.
    pub tasks: BTreeMap<String, TaskRecord>,
}

/// The prompts of a measurement, and how they were decoded.
#[derive(Clone, Copy, Debug)]
pub struct Decoded<'a> {
    /// The file of prompts.
    pub prompts: &'a Path,
    /// The tree.
    pub tree: &'a str,
    /// True if the tree was named.
    pub named_tree: bool,
    /// The acceptance rule.
    pub accept: &'a str,
    /// True if the rule is lossless.
    pub lossless: bool,
    /// The sampling temperature.
    pub temperature: f64,
}

/// Where something was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The device, as `--device` names it.
    pub device: String,
    /// The processor, as it names itself.
    pub cpu: String,
    /// CPU threads.
    pub threads: usize,
    /// The number format of the weights.
    pub dtype: String,
}

/// The measurement on some prompts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Mean tokens per step (τ), the bonus token included.
    pub tokens_per_step: f64,
    /// Speed over plain decoding in the same run: the median over rounds.
    pub speedup: f64,
    /// The lowest and highest of the rounds.
    pub speedup_range: (f64, f64),
    /// Tokens a second of plain decoding.
    pub plain_tokens_per_second: f64,
    /// Tokens a second with drafts.
    pub drafted_tokens_per_second: f64,
    /// Drafted runs whose text was the plain run's.
    pub same_text: usize,
    /// Pairs of runs.
    pub pairs: usize,
}

impl From<&Summary> for TaskRecord {
    fn from(summary: &Summary) -> Self {
        Self {
            tokens_per_step: summary.tokens_per_step,
            speedup: summary.speedup,
            speedup_range: summary.speedup_range,
            plain_tokens_per_second: summary.plain_tokens_per_second,
            drafted_tokens_per_second: summary.drafted_tokens_per_second,
            same_text: summary.same_text,
            pairs: summary.pairs,
        }
    }
}

impl Machine {
    /// This machine, with the device and number format of a job.
    ///
    /// # Errors
    /// When the device is not there.
    pub fn of(settings: &Settings) -> Result<Self, Failure> {
        let compute = settings.compute()?;
        let system = System::new_with_specifics(RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing()));
        let brand = system.ok().and_then(|system| Some(system.cpus().first()?.brand().trim().to_owned()));
        Ok(Self {
            device: compute.choice().to_string(),
            cpu: brand.filter(|brand| !brand.is_empty()).unwrap_or_else(|| "unknown".into()),
            threads: rayon::current_num_threads(),
            dtype: compute.precision().to_owned(),
        })
    }
}

fn yes() -> bool {
    true
}

/// True if no weights in a heads folder are younger than its record.
fn is_of_weights(heads: &Path) -> bool {
    let time = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    let is_younger = |path: &Path| time(path) > time(&heads.join(FILE));
    let files = heads.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let mut weights = files.filter(|path| path.extension().is_some_and(|end| end == "safetensors" || end == "pt"));
    !weights.any(|path| is_younger(&path))
}

impl BenchRecord {
    /// The record of a measurement; the tasks are summaries by category.
    ///
    /// # Errors
    /// When the device is not there.
    pub fn new(
        decoded: Decoded<'_>,
        all: &Summary,
        tasks: &BTreeMap<String, Summary>,
        settings: &Settings,
    ) -> Result<Self, Failure> {
        Ok(Self {
            gorgon: settings.build.to_string(),
            started: settings.started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            machine: Machine::of(settings)?,
            prompts: decoded.prompts.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            tree: decoded.tree.into(),
            named_tree: decoded.named_tree,
            accept: decoded.accept.into(),
            lossless: decoded.lossless,
            temperature: decoded.temperature,
            all: all.into(),
            tasks: tasks.iter().map(|(task, summary)| (task.clone(), summary.into())).collect(),
        })
    }

    /// Stores it in a heads folder, unless a better one of the same weights is there: of a lossless rule, of the heads' own
    /// tree, or of more runs. Heads in a folder that cannot be written are measured all the same. Returns what was done.
    pub fn store(&self, heads: &Path) -> String {
        let path = heads.join(FILE);
        let shown = path.display();
        let rank = |record: &Self| (record.lossless, !record.named_tree, record.all.pairs);
        if let Some(stored) = Self::read(heads).filter(|stored| rank(stored) > rank(self) && is_of_weights(heads)) {
            let (tree, pairs) = (&stored.tree, stored.all.pairs);
            let rule = if stored.lossless { "lossless" } else { "lossy" };
            return format!("note: {shown} stays as it is: {pairs} pairs of runs with tree {tree}, {rule}");
        }
        match files::write_json(&path, &json!(self)) {
            Ok(()) => format!("stored with the heads as {shown}"),
            Err(failure) => format!("note: not stored with the heads: {}", failure.message()),
        }
    }

    /// The record of a heads folder; `None` where there is none that can be read.
    pub fn read(heads: &Path) -> Option<Self> {
        let bytes = gorgon_runs::file::read(&heads.join(FILE), MAX_BYTES).ok()?;
        gorgon_runs::json::read(&bytes).ok()
    }
}

#[cfg(test)]
mod tests;
