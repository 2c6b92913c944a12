//! A run in a line.

use super::state::RunState;
use crate::bench_record::BenchRecord;
use crate::failure::Failure;
use crate::fitting::{HEADS, curve, evaluation};
use gorgon_bench::record::CalibrationRecord;
use gorgon_runs::run_dir::RunView;
use gorgon_runs::table::{Column, Table};
use gorgon_runs::visible;
use gorgon_runs::{file, metrics};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The largest config or file of results that is read.
const MAX_BYTES: u64 = 16 << 20;

/// A run, as its files tell. What they do not tell is `null`.
#[derive(Clone, Debug, Serialize)]
pub struct RunSummary {
    /// The folder.
    pub run: PathBuf,
    /// How far it is.
    pub state: RunState,
    /// Problems of its files.
    pub problems: Vec<String>,
    /// The method of a training; `pretrain`, or `compare`.
    pub method: Option<String>,
    /// The command that made it, as its config tells.
    #[serde(skip)]
    pub verb: Option<Verb>,
    /// The target as the config names it; of a pretraining, the model that is written.
    pub model: Option<String>,
    /// The training data.
    pub data: Option<String>,
    /// Steps done.
    pub steps: u64,
    /// Steps of the whole run.
    pub total_steps: Option<u64>,
    /// Loss on held-out text of the best checkpoint, in nats per token; weighted over heads.
    pub held_out_loss: Option<f64>,
    /// Tokens per step (τ) when held-out prompts are decoded with the best checkpoint.
    pub tokens_per_step: Option<f64>,
    /// Speed over plain decoding, where it was measured.
    pub speedup: Option<Speedup>,
}

/// A command that makes runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `gorgon train`.
    Train,
    /// `gorgon compare`.
    Compare,
    /// `gorgon dev pretrain`.
    Pretrain,
}

impl Verb {
    /// The command that resumes a run of this folder.
    pub fn resume(self, folder: &Path) -> String {
        let verb = match self {
            Self::Train => "train",
            Self::Compare => "compare",
            Self::Pretrain => "dev pretrain",
        };
        format!("gorgon {verb} --resume {}", visible::word(folder))
    }
}

/// Speed over plain decoding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Speedup {
    /// Times as fast.
    pub factor: f64,
    /// Tokens per step (τ) with the tree that was measured or is expected to be best.
    pub tokens_per_step: f64,
    /// True for what `gorgon bench` measured; false for what `gorgon tree calibrate` expects of measured step times.
    pub measured: bool,
    /// The device.
    pub device: String,
}

impl RunSummary {
    /// Reads a run folder. Files that are damaged are named in `problems`.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        let run = RunView::open(folder)?;
        let mut problems = vec![];
        let config = config(&run).map_err(|problem| problems.push(problem)).unwrap_or_default();
        let records = match run.metrics().is_file() {
            true => metrics::read(&run.metrics()).map_err(|error| problems.push(error.to_string())).unwrap_or_default(),
            false => vec![],
        };
        results(&run).map_err(|problem| problems.push(problem)).ok();
        let state = RunState::of(&run, &mut problems)?;
        let last = |key: &str| curve(&records, key).into_iter().filter_map(|(_, value)| value.as_u64()).next_back();
        let steps = records.iter().filter_map(|record| record["step"].as_u64()).max().unwrap_or(0);
        let evaluated = best(&run, &records).and_then(|step| evaluation(&records, step));
        let number = |key: &str| evaluated.and_then(|evaluation| evaluation[key].as_f64());
        let Subject { verb, method, model, data } = Subject::of(&config);
        Ok(Self {
            run: folder.into(),
            state,
            problems,
            method,
            verb,
            model,
            data,
            steps,
            total_steps: last("total_steps"),
            held_out_loss: number("loss").or_else(|| number("answer_loss")),
            tokens_per_step: number("tau"),
            speedup: speedup(&folder.join(HEADS)),
        })
    }
}

/// The step whose evaluation counts: that of the best checkpoint, else the last one that was evaluated.
pub(super) fn best(run: &RunView, records: &[Value]) -> Option<u64> {
    let last = || records.iter().rev().find(|record| record.get("evaluation").is_some())?["step"].as_u64();
    run.best().ok().flatten().or_else(last)
}

/// The config that the run was started with, whatever version of gorgon wrote it.
pub(super) fn config(run: &RunView) -> Result<toml::Table, String> {
    let path = run.config();
    let wrong =
        |reason: &dyn std::fmt::Display| format!("{}: {}", path.display(), reason.to_string().replace('\n', " "));
    let bytes = file::read(&path, MAX_BYTES).map_err(|error| wrong(&error))?;
    let text = String::from_utf8(bytes).map_err(|error| wrong(&error))?;
    text.parse().map_err(|error: toml::de::Error| wrong(&error.message()))
}

/// The contents of `results.json`, if there is one.
pub(super) fn results(run: &RunView) -> Result<Option<Value>, String> {
    let path = run.results();
    if !path.is_file() {
        return Ok(None);
    }
    let wrong = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
    let bytes = file::read(&path, MAX_BYTES).map_err(|error| wrong(&error))?;
    gorgon_runs::json::read(&bytes).map(Some).map_err(|error| wrong(&error))
}

/// Names in a config. A config that is damaged or of no known command names nothing.
#[derive(Default)]
struct Subject {
    verb: Option<Verb>,
    method: Option<String>,
    model: Option<String>,
    data: Option<String>,
}

impl Subject {
    fn of(config: &toml::Table) -> Self {
        let text = |key: &str| config.get(key).and_then(toml::Value::as_str).map(str::to_owned);
        let of =
            |verb, method| Self { verb: Some(verb), method: Some(method), model: text("model"), data: text("data") };
        if config.contains_key("methods") {
            return of(Verb::Compare, "compare".into());
        }
        if let Some(method) = text("method") {
            return of(Verb::Train, method);
        }
        let Some(corpus) = config.get("data").and_then(toml::Value::as_table) else { return Self::default() };
        let files = corpus.get("files").and_then(toml::Value::as_array);
        let files: Vec<&str> = files.into_iter().flatten().filter_map(toml::Value::as_str).collect();
        let data = if files.is_empty() { "synthetic".to_owned() } else { files.join(", ") };
        Self { model: text("out"), data: Some(data), ..of(Verb::Pretrain, "pretrain".into()) }
    }
}

/// The speed-up that is stored with heads: a measured one before an expected one.
pub(super) fn speedup(heads: &Path) -> Option<Speedup> {
    if let Some(record) = BenchRecord::read(heads) {
        let (factor, tokens_per_step) = (record.all.speedup, record.all.tokens_per_step);
        return Some(Speedup { factor, tokens_per_step, measured: true, device: record.machine.device });
    }
    let record = CalibrationRecord::read(heads).ok().flatten()?;
    let (factor, tokens_per_step) = (record.expected_speedup, record.expected_tokens_per_step);
    Some(Speedup { factor, tokens_per_step, measured: false, device: record.device })
}

/// Runs as a table.
pub fn table(runs: &[RunSummary]) -> Table {
    let mut table = Table::new([
        Column::text("run"),
        Column::text("method"),
        Column::text("model"),
        Column::text("data").spare(),
        Column::number("steps"),
        Column::number("loss").spare(),
        Column::number("τ"),
        Column::number("speed-up"),
        Column::text("state"),
    ]);
    for run in runs {
        let number = |value: Option<f64>, digits: usize| value.map_or_else(|| "-".into(), |x| format!("{x:.digits$}"));
        let text = |value: &Option<String>| value.as_deref().map_or_else(|| "-".into(), short);
        table.row([
            run.run.display().to_string(),
            text(&run.method),
            text(&run.model),
            text(&run.data),
            run.progress(),
            number(run.held_out_loss, 3),
            number(run.tokens_per_step, 2),
            run.speedup.as_ref().map_or_else(|| "-".into(), Speedup::words),
            run.state.name().to_owned(),
        ]);
    }
    table
}

/// A path without its folders; a hub id, `owner/name`, as it is. A folder that exists is a path.
fn short(name: &str) -> String {
    let path = Path::new(name);
    match path.is_absolute() || path.components().count() > 2 || path.exists() {
        true => path.file_name().map_or_else(|| name.into(), |last| last.to_string_lossy().into_owned()),
        false => name.into(),
    }
}

impl RunSummary {
    /// `300/500`.
    pub fn progress(&self) -> String {
        match self.total_steps {
            Some(total) => format!("{}/{total}", self.steps),
            None => self.steps.to_string(),
        }
    }
}

impl Speedup {
    /// `1.85× at τ 2.30`, or `1.85× at τ 2.30 expected`.
    pub fn words(&self) -> String {
        format!("{:.2}× at τ {:.2}{}", self.factor, self.tokens_per_step, if self.measured { "" } else { " expected" })
    }
}

#[cfg(test)]
mod tests;
