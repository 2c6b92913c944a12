//! The files of a method's training, and the measurements of it.

use crate::failure::Failure;
use crate::fitting::{ADAPTER, HEADS, fitted_folder};
use gorgon_draft::folder::open_weights;
use gorgon_runs::run_dir::RunView;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The ways in which trainings of a method differ.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The seed.
    pub seed: u64,
    /// The learning rate, if it is not the config's own.
    pub rate: Option<f64>,
    /// Conversations that are fitted to, if not all.
    pub conversations: Option<usize>,
}

/// A finished training.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The run folder.
    pub run: PathBuf,
    /// Seed, learning rate and data.
    pub variant: Variant,
    /// How good it is on held-out text: tokens per step where that was measured, else the negative objective.
    pub score: f64,
    /// Parameters that were fitted.
    pub parameters: usize,
    /// Seconds it took, if it was not interrupted.
    pub seconds: Option<f64>,
    /// Where the training changed the model itself.
    pub departure: Option<Departure>,
}

/// How far a fitted model is from the original, at the last evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Departure {
    /// `KL(original ‖ fitted)` on held-out answers, in nats per token.
    pub kl: f64,
    /// True beyond the method's `kl_bound`.
    pub degraded: bool,
}

impl Fitted {
    /// Reads what a training left.
    ///
    /// # Errors
    /// When a file is missing or damaged.
    pub fn read(run: &Path, seconds: &Path, variant: Variant) -> Result<Self, Failure> {
        let view = RunView::open(run)?;
        let records = gorgon_runs::metrics::read(&view.metrics())?;
        let evaluations = records.iter().filter_map(|record| record.get("evaluation"));
        let of = |evaluation: &Value| {
            let number = |key: &str| evaluation.get(key).and_then(Value::as_f64);
            number("tau").or_else(|| number("loss").map(|loss| -loss))
        };
        let departure = evaluations.clone().next_back().and_then(|last| Departure::deserialize(last).ok());
        let score = evaluations.filter_map(of).fold(f64::NEG_INFINITY, f64::max);
        let parameters = fitted_parts(run).iter().map(|folder| count(folder)).sum::<Result<_, _>>()?;
        let text = std::fs::read_to_string(seconds).unwrap_or_default();
        let measured: Value = serde_json::from_str(&text).unwrap_or_default();
        let seconds = measured["seconds"].as_f64().filter(|_| measured["undisturbed"] == true);
        Ok(Self { run: run.into(), variant, score, parameters, seconds, departure })
    }
}

/// The folders with all that was fitted. An adapter stands for the model that it was merged into.
fn fitted_parts(run: &Path) -> Vec<PathBuf> {
    let (folder, adapter) = (fitted_folder(run), run.join(ADAPTER));
    match adapter.is_dir() {
        true if folder.ends_with(HEADS) => vec![folder, adapter],
        true => vec![adapter],
        false => vec![folder],
    }
}

/// The numbers in a folder's weights.
fn count(folder: &Path) -> Result<usize, Failure> {
    let weights = open_weights(folder)?
        .ok_or_else(|| Failure::run(format!("{}: the training left no weights", folder.display())))?;
    Ok(weights.entries().values().map(|entry| entry.shape.iter().product::<usize>()).sum())
}

/// A method with a tree, measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The method.
    pub method: String,
    /// The tree as it was named, or `calibrated`.
    pub tree: String,
    /// The temperature that was decoded at.
    pub temperature: f64,
    /// Conversations of the training, where they are a point of the learning curve.
    pub conversations: Option<usize>,
    /// Parameters that were fitted.
    pub parameters: usize,
    /// Seconds of the training.
    pub training_seconds: Option<f64>,
    /// The learning rate that did best, if several were tried.
    pub learning_rate: Option<f64>,
    /// Where the model itself was fitted: how far it is from the original, with the first seed.
    #[serde(default)]
    pub departure: Option<Departure>,
    /// Tokens per step, by seed.
    pub tokens_per_step: Vec<f64>,
    /// Their mean.
    pub mean_tokens_per_step: f64,
    /// Half the width of its 95 % interval over the seeds; `None` with a single one.
    pub half_width: Option<f64>,
    /// The measurement with the first seed.
    pub summary: Value,
}
