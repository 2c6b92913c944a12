//! The config of a comparison.

use super::trees::Trees;
use gorgon_data::config::Files;
use gorgon_draft::settings::{SettingsCheck, SettingsErrors};
use gorgon_text::variables::{self, Variables};
use gorgon_train::config::Training;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A comparison of drafting methods: `gorgon compare`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompareConfig {
    /// Backbone: a model folder or a repo id on the hub.
    pub model: String,
    /// Folder of the shards that methods without `data` of their own are fitted to.
    pub data: PathBuf,
    /// Config of the distillation that makes the shards, if there are none yet.
    #[serde(default)]
    pub distill: Option<PathBuf>,
    /// File of held-out prompts, or a list of files, as in the config of a distillation.
    pub prompts: Files,
    /// Variables for the model's chat template, for the distillation and for the measurements.
    #[serde(default)]
    pub template: Variables,
    /// Prompts for calibration: this many, the first of the files.
    #[serde(default = "forty")]
    pub calibration_prompts: u32,
    /// Prompts for measurement: this many, after those for calibration.
    #[serde(default = "forty")]
    pub bench_prompts: u32,
    /// New tokens in an answer, at most.
    #[serde(default = "new_tokens")]
    pub max_new_tokens: u32,
    /// Rounds of plain and drafted decoding.
    #[serde(default = "rounds")]
    pub rounds: u32,
    /// Seeds: each method is fitted once with each. The first one chooses the learning rate.
    #[serde(default = "seeds")]
    pub seeds: Vec<u64>,
    /// Learning rates that each method tries; its own where the list is empty.
    #[serde(default)]
    pub learning_rates: Vec<f64>,
    /// Temperatures of the measurements. Calibrated trees are measured at the first one.
    #[serde(default = "temperatures")]
    pub temperatures: Vec<f64>,
    /// Numbers of conversations for a learning curve. Each method is fitted once more to the first so many
    /// conversations of the data, with the first seed and its learning rate.
    #[serde(default)]
    pub learning_curve: Vec<usize>,
    /// Folder in which the run folder is made.
    #[serde(default = "gorgon_train::config::checkpoints")]
    pub runs: PathBuf,
    /// Keys of `[training]` that replace those of every method's config: the budget that all share.
    #[serde(default)]
    #[schemars(with = "Training", default)]
    pub budget: toml::Table,
    /// Seconds that each training may take, evaluations apart. Its dry run on this machine decides how many steps these
    /// are, in place of `steps` and `epochs`. A resumed comparison keeps the steps.
    #[serde(default)]
    pub training_seconds: Option<f64>,
    /// Methods to compare.
    pub methods: Vec<Method>,
}

/// A way to draft.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Method {
    /// Name in the table.
    pub name: String,
    /// Config of the training; not set for a drafter that needs none.
    #[serde(default)]
    pub config: Option<PathBuf>,
    /// Keys of that config to override, as `key.path=value`.
    #[serde(default)]
    pub overrides: Vec<String>,
    /// Folder of shards for this method alone, for example a log of `gorgon serve --learn`. If it is not set, those of
    /// the comparison.
    #[serde(default)]
    pub data: Option<PathBuf>,
    /// Drafter, as `--drafter` names it; `{run}` stands for the run folder. If it is not set, the heads decide.
    #[serde(default)]
    pub drafter: Option<String>,
    /// Model to draft for, where it is not the backbone: `{run}/merged` of a training that changed it.
    #[serde(default)]
    pub model: Option<String>,
    /// Tree or list of trees that are measured beside the calibrated one, as `--tree` names them. The heads are fitted
    /// once for all.
    #[serde(default)]
    pub tree: Trees,
}

fn forty() -> u32 {
    40
}

fn new_tokens() -> u32 {
    128
}

fn rounds() -> u32 {
    3
}

fn seeds() -> Vec<u64> {
    vec![1]
}

fn temperatures() -> Vec<f64> {
    vec![0.0]
}

impl CompareConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::top();
        check.require(!self.methods.is_empty(), "methods", "[]", "there is nothing to compare");
        check.require(!self.seeds.is_empty(), "seeds", "[]", "at least one is needed");
        check.require(!self.temperatures.is_empty(), "temperatures", "[]", "at least one is needed");
        self.training_seconds.iter().for_each(|&seconds| check.positive("training_seconds", seconds));
        self.temperatures.iter().for_each(|&temperature| check.not_negative("temperatures", temperature));
        self.learning_curve.iter().for_each(|&conversations| check.at_least("learning_curve", conversations, 1));
        let numbers = [
            ("bench_prompts", self.bench_prompts),
            ("max_new_tokens", self.max_new_tokens),
            ("rounds", self.rounds),
            ("calibration_prompts", self.calibration_prompts),
        ];
        numbers.into_iter().for_each(|(key, value)| check.at_least(key, value as usize, 1));
        for (name, value) in &self.template {
            let valid = variables::check(name, value);
            check.require(valid.is_ok(), &format!("template.{name}"), value, valid.err().unwrap_or_default());
        }
        for rate in self.learning_rates.iter() {
            check.rate("learning_rates", *rate);
        }
        for (i, method) in self.methods.iter().enumerate() {
            let (name, key) = (&method.name, format!("methods[{i}].name"));
            let twice = self.methods[..i].iter().any(|other| other.slug() == method.slug());
            check.require(!twice, &key, format_args!("{name:?}"), "two methods are called so");
            let drafts = method.drafter.as_ref().is_some_and(|drafter| !drafter.contains("{run}"));
            let reason = "it has neither a training (config) nor a drafter that needs none";
            check.require(method.config.is_some() || drafts, &key, format_args!("{name:?}"), reason);
            let (key, given) = (format!("methods[{i}].overrides"), method.overrides.join(" "));
            let reason = "there is no training (config) whose keys they could be";
            check.require(method.config.is_some() || method.overrides.is_empty(), &key, given, reason);
            if let (None, Some(data)) = (&method.config, &method.data) {
                let reason = "there is no training (config) that could read it";
                check.require(false, &format!("methods[{i}].data"), data.display(), reason);
            }
        }
        check.finish()
    }
}

impl Method {
    /// Its name as a part of a folder's name.
    pub fn slug(&self) -> String {
        let clean = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        self.name.chars().map(clean).collect()
    }
}
