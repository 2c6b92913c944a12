//! What a calibration found, as it is stored with the heads.

use crate::calibrate::{Accuracies, Choice};
use crate::step_times::StepTime;
use gorgon_core::tree::RankPath;
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
    /// What is wrong with it.
    pub reason: String,
}

/// A calibration: measured accuracies, step times, and the tree that follows from them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CalibrationRecord {
    /// The chosen tree as rank paths; none if plain decoding is faster.
    pub tree: Vec<RankPath>,
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

impl CalibrationRecord {
    /// What was found on a device.
    pub fn new(accuracies: &Accuracies, times: &[StepTime], choice: &Choice, on: (String, String, usize)) -> Self {
        let (device, dtype, threads) = on;
        Self {
            tree: choice.shape.paths().iter().filter(|path| !path.is_empty()).cloned().collect(),
            accuracies: accuracies.heads.heads().to_vec(),
            positions: accuracies.positions,
            children: accuracies.children.clone(),
            chain: accuracies.chain.clone(),
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
        let bytes = gorgon_model::file::read(&path, MAX_BYTES).map_err(|error| wrong(error.to_string()))?;
        let document = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
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
mod tests {
    use super::*;

    fn record(times: &[(usize, f64)]) -> CalibrationRecord {
        CalibrationRecord {
            tree: vec![],
            accuracies: vec![],
            positions: 0,
            children: vec![],
            chain: vec![],
            step_times: times
                .iter()
                .map(|&(nodes, seconds)| StepTime { nodes, seconds, draft_seconds: 0.0, spread: 0.0 })
                .collect(),
            expected_tokens_per_step: 1.0,
            expected_speedup: 1.0,
            threads: 1,
            device: "cpu".into(),
            dtype: "f32".into(),
        }
    }

    #[test]
    fn costs_lie_between_the_measured_ones() {
        let record = record(&[(1, 2.0), (3, 4.0), (5, 6.0)]);
        let costs: Vec<f64> = [1, 2, 3, 4, 5, 10].iter().map(|&n| record.cost(n).unwrap()).collect();
        assert_eq!(costs, [1.0, 2.0, 2.0, 2.5, 3.0, 6.0]);
        assert_eq!(self::record(&[]).cost(3), None);
    }

    #[test]
    fn a_record_that_makes_no_sense_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(CalibrationRecord::read(dir.path()).unwrap().is_none());
        let good = record(&[(1, 1.0), (2, 1.5)]);
        let write = |record: &CalibrationRecord| {
            std::fs::write(dir.path().join(FILE), serde_json::to_string(record).unwrap()).unwrap();
            CalibrationRecord::read(dir.path())
        };
        assert_eq!(write(&good).unwrap().unwrap().cost(2), Some(1.5));
        for bad in [record(&[(1, -1.0)]), record(&[(2, 1.0), (1, 1.0)]), record(&[(1, f64::MAX)])] {
            assert!(write(&bad).unwrap_err().to_string().contains(FILE));
        }
        let sealed = good.sealed().unwrap().to_string();
        for (from, to, reads) in [("", "", true), ("1.5", "1.25", false)] {
            std::fs::write(dir.path().join(FILE), sealed.replace(from, to)).unwrap();
            assert_eq!(CalibrationRecord::read(dir.path()).is_ok(), reads);
        }
        let mut bad = good.clone();
        bad.step_times[1].spread = -0.5;
        assert!(write(&bad).unwrap_err().to_string().contains("cannot spread by -0.5"));
        let mut bad = good;
        bad.chain = vec![1.5];
        assert!(write(&bad).unwrap_err().to_string().contains("1.5 is no share"));
        std::fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(CalibrationRecord::read(dir.path()).is_err());
    }
}
