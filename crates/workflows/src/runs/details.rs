//! A run in detail.

use super::find::is_run;
use super::state::RunState;
use super::summary::{RunSummary, best, results};
use crate::absent;
use crate::failure::Failure;
use crate::fitting::{FITTED_MODEL, HEADS, MERGED};
use gorgon_runs::metrics;
use gorgon_runs::provenance::Provenance;
use gorgon_runs::run_dir::RunView;
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Everything that a run folder tells.
#[derive(Clone, Debug, Serialize)]
pub struct RunDetails {
    /// The line of the list of runs.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// The steps of its whole checkpoints.
    pub checkpoints: Vec<u64>,
    /// The folder of the newest of them.
    pub newest_checkpoint: Option<PathBuf>,
    /// The step that did best on held-out text.
    pub best_step: Option<u64>,
    /// The folder of what was fitted, once the run has finished.
    pub heads: Option<PathBuf>,
    /// The command that resumes it, if it was interrupted.
    pub resume: Option<String>,
    /// Its plots.
    pub plots: Vec<PathBuf>,
    /// Where it comes from.
    pub provenance: Option<Provenance>,
    /// `results.json`.
    pub results: Option<Value>,
}

impl RunDetails {
    /// Reads a run folder. The files of the newest checkpoint are compared with their hashes.
    ///
    /// # Errors
    /// When there is no run in the folder.
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        absent::check(folder, "run folder")?;
        if !is_run(folder) {
            let hint = "gorgon runs list finds the runs in a folder; gorgon inspect tells what a folder is";
            return Err(Failure::input(format!("{}: this is no run folder", folder.display())).hint(hint));
        }
        let mut summary = RunSummary::read(folder)?;
        let run = RunView::open(folder)?;
        let checkpoints = run.steps()?;
        let newest = checkpoints.last().copied();
        if let Some(damage) = newest.and_then(|step| run.open_step(step).err()) {
            summary.problems.push(damage.to_string());
            let resumable = summary.state == RunState::Interrupted && checkpoints.len() > 1;
            summary.state = if resumable { RunState::Interrupted } else { RunState::Damaged };
        }
        let verb = summary.verb.filter(|_| summary.state == RunState::Interrupted);
        let resume = verb.map(|verb| verb.resume(folder));
        let records = metrics::read(&run.metrics()).unwrap_or_default();
        if records.is_empty() && newest.is_some() {
            summary.problems.push(format!("{}: it has no records", run.metrics().display()));
        }
        let provenance = Provenance::read(&run.provenance()).map_err(|error| summary.problems.push(error.to_string()));
        let heads =
            [HEADS, FITTED_MODEL, MERGED].map(|name| folder.join(name)).into_iter().find(|heads| heads.is_dir());
        Ok(Self {
            checkpoints,
            newest_checkpoint: newest.map(|step| run.step(step)),
            best_step: best(&run, &records),
            heads,
            resume,
            plots: plots(&run),
            provenance: provenance.ok(),
            results: results(&run).ok().flatten(),
            summary,
        })
    }
}

/// The plots of a run, by name.
fn plots(run: &RunView) -> Vec<PathBuf> {
    let entries = run.plots().read_dir().into_iter().flatten().flatten();
    let mut plots: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    plots.retain(|path| path.extension().is_some_and(|extension| extension == "svg"));
    plots.sort();
    plots
}
