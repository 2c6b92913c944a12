//! Charts of a run's metrics.

use crate::failure::Failure;
use gorgon_runs::metrics;
use gorgon_runs::plot::{Chart, Series};
use gorgon_runs::run_dir::RunView;
use serde_json::Value;

/// A chart over the steps of a run.
pub struct Plot {
    /// The file.
    pub file: &'static str,
    /// The title.
    pub title: &'static str,
    /// The vertical axis, with its unit.
    pub y_label: &'static str,
    /// The lines: keys of the step records or, with a slash, of the evaluations; and what a reader calls them. A key
    /// that holds a list makes a line for each entry.
    pub lines: &'static [(&'static str, &'static str)],
}

/// Draws each of `plots` into the run folder. One without a single point is left out: not every method measures
/// everything.
///
/// # Errors
/// When metrics cannot be read or plots cannot be written.
pub fn draw(run: &RunView, plots: &[Plot]) -> Result<(), Failure> {
    let records = metrics::read(&run.metrics())?;
    std::fs::create_dir_all(run.plots()).map_err(|e| Failure::run(format!("{}: {e}", run.plots().display())))?;
    for plot in plots {
        let series: Vec<Series> = plot.lines.iter().flat_map(|(key, words)| series(&records, key, words)).collect();
        if series.iter().all(|series| series.points.is_empty()) {
            continue;
        }
        let series = series.into_iter().filter(|series| !series.points.is_empty()).collect();
        let (title, y_label) = (plot.title.into(), plot.y_label.into());
        let chart = Chart { title, x_label: "training step".into(), y_label, series, log_y: false };
        chart.write(&run.plots().join(plot.file))?;
    }
    Ok(())
}

/// The values of a key of the records by step; the key may lead into an evaluation with a slash.
pub fn curve<'a>(records: &'a [Value], key: &str) -> Vec<(f64, &'a Value)> {
    let pointer = format!("/{key}");
    records.iter().filter_map(|record| Some((record.get("step")?.as_f64()?, record.pointer(&pointer)?))).collect()
}

/// One series of numbers, or one per entry of a list.
fn series(records: &[Value], key: &str, words: &str) -> Vec<Series> {
    let found = curve(records, key);
    let entries = found.iter().filter_map(|(_, value)| value.as_array()).map(Vec::len).max();
    let points = |number: &dyn Fn(&Value) -> Option<f64>| {
        found.iter().filter_map(|(step, value)| Some((*step, number(value)?))).collect()
    };
    match entries {
        None => vec![Series { name: words.into(), points: points(&Value::as_f64) }],
        Some(entries) => (0..entries)
            .map(|i| Series {
                name: format!("{words} {}", i + 1),
                points: points(&|value| value.get(i).and_then(Value::as_f64)),
            })
            .collect(),
    }
}
