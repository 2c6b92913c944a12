//! Runs side by side: a table, and one chart of their curves.

use super::find::is_run;
use super::summary::RunSummary;
use crate::absent;
use crate::failure::Failure;
use crate::fitting::curve;
use gorgon_runs::metrics;
use gorgon_runs::plot::{Chart, Series};
use std::path::PathBuf;

/// Metrics that a chart of several runs can show: the key of the evaluations, its name, and the axis with its unit.
const CURVES: [(&str, &str, &str); 2] = [
    ("tau", "Tokens per step on held-out text", "accepted tokens per step, bonus token included"),
    ("loss", "Held-out loss", "loss (weighted, nats per token)"),
];

/// Runs side by side.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The runs, in the order in which they were named.
    pub runs: Vec<RunSummary>,
    /// The metric of the chart: a key of the evaluations.
    pub metric: String,
    /// A line per run.
    pub chart: Chart,
}

/// Reads runs. The chart shows `metric`, a key of the evaluations in `metrics.jsonl`; without one it shows tokens per
/// step where all runs measured them, and the held-out loss otherwise, since losses of different methods do not compare.
///
/// # Errors
/// When a folder is no run, or none of them has the metric.
pub fn compare(folders: &[PathBuf], metric: Option<&str>) -> Result<Comparison, Failure> {
    let (mut runs, mut all) = (vec![], vec![]);
    for folder in folders {
        absent::check(folder, "run folder")?;
        if !is_run(folder) {
            return Err(Failure::input(format!("{}: this is no run folder", folder.display())));
        }
        runs.push(RunSummary::read(folder)?);
        all.push(metrics::read(&folder.join("metrics.jsonl")).unwrap_or_default());
    }
    let lines = |key: &str| -> Vec<Series> {
        let line = |(folder, records): (&PathBuf, &Vec<_>)| {
            let key = format!("evaluation/{key}");
            let points = curve(records, &key).into_iter().filter_map(|(step, value)| Some((step, value.as_f64()?)));
            Series { name: name(folder), points: points.collect() }
        };
        folders.iter().zip(&all).map(line).collect()
    };
    let measured_by_all = |key: &str| lines(key).iter().all(|line| !line.points.is_empty());
    let metric = metric.unwrap_or(if measured_by_all("tau") { "tau" } else { "loss" });
    let series = lines(metric);
    if series.iter().all(|line| line.points.is_empty()) {
        let hint = "the keys of \"evaluation\" in metrics.jsonl can be drawn";
        return Err(Failure::input(format!("{metric}: no evaluation of these runs has it")).hint(hint));
    }
    let known = CURVES.iter().find(|(key, ..)| *key == metric);
    let (title, y_label) = known.map_or((metric, metric), |(_, title, y_label)| (*title, *y_label));
    let (title, y_label) = (title.to_owned(), y_label.to_owned());
    let chart = Chart { title, x_label: "training step".into(), y_label, series, log_y: false };
    Ok(Comparison { runs, metric: metric.into(), chart })
}

fn name(folder: &std::path::Path) -> String {
    folder.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into_owned())
}
