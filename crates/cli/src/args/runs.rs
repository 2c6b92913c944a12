//! `gorgon runs`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// A table of run folders: method, model, data, steps, held-out loss, tokens per step, speed-up, state.
    List(ListRuns),
    /// Everything about a run: checkpoints, results, where it comes from, how it is resumed.
    Show(OneRun),
    /// Runs side by side: a table, and a chart of their curves.
    Compare(CompareRuns),
    /// Print the paths of a run's plots, and open them where there is a desktop.
    Open(OneRun),
}

#[derive(Debug, Args)]
pub struct ListRuns {
    /// Run folders, or folders with run folders in them.
    #[arg(value_name = "DIR", default_value = "checkpoints")]
    pub folders: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct OneRun {
    /// A run folder.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
}

#[derive(Debug, Args)]
pub struct CompareRuns {
    /// Run folders.
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// The metric of the chart: a key of the evaluations in metrics.jsonl, as tau, loss or top1 [default: tau where all
    /// runs have it, else loss].
    #[arg(long, value_name = "KEY")]
    pub metric: Option<String>,
    /// The chart to write.
    #[arg(long, value_name = "F", default_value = "comparison.svg")]
    pub out: PathBuf,
}
