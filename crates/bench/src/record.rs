//! Results of a calibration, as they are stored with the heads.

use crate::calibrate::{Accuracies, Choice};
use crate::step_times::StepTime;
use gorgon_core::tree::{DepthCalibration, RankPath, TreeShape};
use gorgon_runs::sealed;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The name of the file in a heads folder.
pub const FILE: &str = "calibration.json";
/// The largest such file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", .path.display())]
pub struct RecordError {
    /// The file.
    pub path: PathBuf,
    /// Reason why it is refused.
    pub reason: String,
}

/// A calibration: measured accuracies, step times, and the tree that follows from them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CalibrationRecord {
    /// The chosen tree as rank paths; none if plain decoding is faster.
    pub tree: Vec<RankPath>,
    /// The best tree with drafts, which is measured where none pays.
    #[serde(default)]
    pub drafting_tree: Vec<RankPath>,
    /// Accuracy by head and rank; for drafters that know their own guesses, by depth and rank where the parent was
    /// accepted.
    pub accuracies: Vec<Vec<f64>>,
    /// Positions they were measured on.
    pub positions: usize,
    /// Positional acceptance by rank.
    #[serde(default)]
    pub children: Vec<f64>,
    /// Acceptance of first guesses by depth.
    #[serde(default)]
    pub chain: Vec<f64>,
    /// Corrections of the drafter's probabilities by depth, with which trellis trees begin.
    #[serde(default)]
    pub rows: Vec<DepthCalibration>,
    /// Trees that decoded the prompts beside plain decoding, the fastest first.
    #[serde(default)]
    pub decoded: Vec<DecodedTree>,
    /// Step times by number of nodes.
    pub step_times: Vec<StepTime>,
    /// Expected tokens per step of the chosen tree.
    pub expected_tokens_per_step: f64,
    /// Its expected speed relative to plain decoding.
    pub expected_speedup: f64,
    /// CPU threads.
    pub threads: usize,
    /// The device.
    pub device: String,
    /// The number format.
    pub dtype: String,
}

/// A tree that decoded prompts beside plain decoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecodedTree {
    /// Its name on the command line.
    pub tree: String,
    /// Tokens per step.
    pub tokens_per_step: f64,
    /// Its speed relative to plain decoding.
    pub speedup: f64,
}

impl CalibrationRecord {
    /// The record of a calibration on a device.
    pub fn new(accuracies: &Accuracies, times: &[StepTime], choice: &Choice, on: (String, String, usize)) -> Self {
        let (device, dtype, threads) = on;
        let paths = |shape: &TreeShape| shape.paths().iter().filter(|path| !path.is_empty()).cloned().collect();
        Self {
            tree: paths(&choice.shape),
            drafting_tree: choice.drafting.as_ref().map_or_else(Vec::new, |(shape, _)| paths(shape)),
            accuracies: accuracies.heads.heads().to_vec(),
            positions: accuracies.positions,
            children: accuracies.children.clone(),
            chain: accuracies.chain.clone(),
            rows: vec![],
            decoded: vec![],
            step_times: times.to_vec(),
            expected_tokens_per_step: choice.expected_tokens,
            expected_speedup: choice.expected_speedup,
            threads,
            device,
            dtype,
        }
    }

    /// The record as it is stored, with its hash.
    ///
    /// # Errors
    /// When a number in it has no JSON form.
    pub fn sealed(&self) -> Result<serde_json::Value, serde_json::Error> {
        Ok(sealed::seal(&serde_json::to_value(self)?))
    }

    /// Reads the record of a heads folder; `None` if there is none.
    ///
    /// # Errors
    /// When it cannot be read, or its numbers make no sense.
    pub fn read(folder: &Path) -> Result<Option<Self>, RecordError> {
        let path = folder.join(FILE);
        if !path.is_file() {
            return Ok(None);
        }
        let wrong = |reason: String| RecordError { path: path.clone(), reason };
        let bytes = gorgon_runs::file::read(&path, MAX_BYTES).map_err(|error| wrong(error.to_string()))?;
        let document = gorgon_runs::json::read(&bytes).map_err(|error| wrong(error.to_string()))?;
        let document = sealed::open(document).map_err(|error| wrong(error.to_string()))?;
        let record: Self = serde_json::from_value(document).map_err(|error| wrong(error.to_string()))?;
        let shares = record.accuracies.iter().flatten().chain(&record.children).chain(&record.chain);
        if let Some(share) = shares.into_iter().find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(wrong(format!("{share} is no share")));
        }
        if let Some(time) = record.step_times.iter().find(|time| !(time.seconds > 0.0 && time.seconds < 1e6)) {
            return Err(wrong(format!("a step of {} nodes cannot last {} seconds", time.nodes, time.seconds)));
        }
        if let Some(time) = record.step_times.iter().find(|time| !(0.0..1e6).contains(&time.spread)) {
            return Err(wrong(format!("the times of a step of {} nodes cannot spread by {}", time.nodes, time.spread)));
        }
        if record.step_times.windows(2).any(|pair| pair[0].nodes >= pair[1].nodes) {
            return Err(wrong("the step times are not in order of their nodes".into()));
        }
        Ok(Some(record))
    }

    /// Seconds of a plain step.
    pub fn plain_seconds(&self) -> Option<f64> {
        self.step_times.first().filter(|time| time.nodes == 1).map(|time| time.seconds)
    }

    /// How many plain steps a drafted step of `nodes` nodes lasts: between measured sizes a straight line, beyond them
    /// in proportion to the nodes.
    pub fn cost(&self, nodes: usize) -> Option<f64> {
        let plain = self.plain_seconds()?;
        let above = self.step_times.iter().position(|time| time.nodes >= nodes);
        let seconds = match above {
            Some(0) => plain,
            Some(i) => {
                let (a, b) = (self.step_times[i - 1], self.step_times[i]);
                // A drafted step of few nodes has the drafter's whole cost, which plain decoding does not.
                let from = if i == 1 { b.seconds } else { a.seconds };
                let share = (nodes - a.nodes) as f64 / (b.nodes - a.nodes) as f64;
                from + share * (b.seconds - from)
            }
            None => {
                let last = self.step_times.last()?;
                last.seconds * nodes as f64 / last.nodes as f64
            }
        };
        Some(seconds / plain)
    }
}

#[cfg(test)]
mod tests;
