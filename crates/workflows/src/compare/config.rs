//! The config of a comparison.

use crate::failure::Failure;
use gorgon_core::tree::TreeChoice;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The config of a comparison.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CompareConfig {
    /// The backbone: a model folder or a repo id.
    pub model: String,
    /// The shards that every method is fitted to.
    pub data: PathBuf,
    /// The config that makes them, if there are none yet.
    #[serde(default)]
    pub distill: Option<PathBuf>,
    /// A file of held-out prompts.
    pub prompts: PathBuf,
    /// So many prompts, the first of the file, are calibrated on.
    #[serde(default = "forty")]
    pub calibration_prompts: u32,
    /// So many prompts, those after them, are measured on.
    #[serde(default = "forty")]
    pub bench_prompts: u32,
    /// New tokens of an answer at most.
    #[serde(default = "new_tokens")]
    pub max_new_tokens: u32,
    /// Rounds of plain and drafted decoding.
    #[serde(default = "rounds")]
    pub rounds: u32,
    /// Each method is fitted once with each; the first one chooses the learning rate.
    #[serde(default = "seeds")]
    pub seeds: Vec<u64>,
    /// The rates that each method tries; its own where there are none.
    #[serde(default)]
    pub learning_rates: Vec<f64>,
    /// Where the run folder is made.
    #[serde(default = "gorgon_train::config::checkpoints")]
    pub runs: PathBuf,
    /// Keys that replace those of every method's config: the budget that they share.
    #[serde(default)]
    pub budget: toml::Table,
    /// The methods to compare.
    pub methods: Vec<Method>,
}

/// One way to draft.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Method {
    /// Its name in the table.
    pub name: String,
    /// The config of its training; none if it needs none.
    #[serde(default)]
    pub config: Option<PathBuf>,
    /// Keys of that config to override, `key.path=value`.
    #[serde(default)]
    pub overrides: Vec<String>,
    /// What drafts, as `--drafter` has it; `{run}` stands for the folder of what was fitted. What the heads are, if not
    /// said.
    #[serde(default)]
    pub drafter: Option<String>,
    /// The model that it drafts for, where that is not the backbone itself: `{run}/merged` of a training that changed
    /// it.
    #[serde(default)]
    pub model: Option<String>,
    /// The tree that it is measured with beside the calibrated one.
    #[serde(default)]
    pub tree: Option<TreeChoice>,
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

impl CompareConfig {
    /// Fails on settings that cannot be.
    ///
    /// # Errors
    /// With the key and the value.
    pub fn check(&self) -> Result<(), Failure> {
        let wrong = |what: String| Err(Failure::input(what));
        if self.methods.is_empty() {
            return wrong("methods: there is nothing to compare".into());
        }
        if self.seeds.is_empty() {
            return wrong("seeds: at least one is needed".into());
        }
        let numbers = [self.bench_prompts, self.max_new_tokens, self.rounds, self.calibration_prompts];
        if numbers.contains(&0) {
            return wrong("calibration_prompts, bench_prompts, max_new_tokens and rounds have to be at least 1".into());
        }
        if let Some(rate) = self.learning_rates.iter().find(|rate| !(rate.is_finite() && **rate > 0.0)) {
            return wrong(format!("learning_rates: {rate} is no rate"));
        }
        for (i, method) in self.methods.iter().enumerate() {
            let name = &method.name;
            if self.methods[..i].iter().any(|other| other.slug() == method.slug()) {
                return wrong(format!("methods: two are called {name:?}"));
            }
            if method.config.is_none() && method.drafter.as_ref().is_none_or(|drafter| drafter.contains("{run}")) {
                return wrong(format!(
                    "methods: {name:?} has neither a training (config) nor a drafter that needs none"
                ));
            }
        }
        Ok(())
    }
}

impl Method {
    /// Its name as a part of a folder's name.
    pub fn slug(&self) -> String {
        let clean = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        self.name.chars().map(clean).collect()
    }
}
