//! Charts of a run's metrics.

use crate::failure::Failure;
use gorgon_runs::metrics;
use gorgon_runs::plot::{Chart, Series};
use gorgon_runs::run_dir::RunDir;
use serde_json::Value;

/// Draws a chart for each group of metrics: `(file, title, y label, names)`, a name being a key of the step records or,
/// with a slash, of the evaluations.
///
/// # Errors
/// When metrics cannot be read or plots cannot be written.
pub fn plots(run: &RunDir, groups: &[(&str, &str, &str, &[&str])]) -> Result<(), Failure> {
    let records = metrics::read(&run.metrics())?;
    std::fs::create_dir_all(run.plots()).map_err(|e| Failure::run(format!("{}: {e}", run.plots().display())))?;
    for (file, title, y_label, names) in groups {
        let series: Vec<Series> = names.iter().flat_map(|name| series(&records, name)).collect();
        // Not every method measures everything.
        if series.iter().all(|series| series.points.is_empty()) {
            continue;
        }
        let chart =
            Chart { title: (*title).into(), x_label: "step".into(), y_label: (*y_label).into(), series, log_y: false };
        chart.write(&run.plots().join(file))?;
    }
    Ok(())
}

/// One series of numbers, or one per entry of a list.
fn series(records: &[Value], name: &str) -> Vec<Series> {
    let pointer = format!("/{name}");
    let shown = name.rsplit('/').next().unwrap_or(name).replace('_', " ");
    let held_out = if name.contains('/') { "held out: " } else { "" };
    let found = || {
        let values = records.iter().filter_map(|r| Some((r.get("step")?.as_f64()?, r.pointer(&pointer)?)));
        values.collect::<Vec<_>>()
    };
    let entries = found().iter().filter_map(|(_, v)| v.as_array()).map(Vec::len).max();
    match entries {
        None => {
            let points = found().into_iter().filter_map(|(x, v)| Some((x, v.as_f64()?))).collect();
            vec![Series { name: format!("{held_out}{shown}"), points }]
        }
        Some(entries) => {
            let points = |i: usize| found().into_iter().filter_map(|(x, v)| Some((x, v.get(i)?.as_f64()?))).collect();
            (0..entries)
                .map(|i| Series { name: format!("{held_out}{shown}, head {}", i + 1), points: points(i) })
                .collect()
        }
    }
}
