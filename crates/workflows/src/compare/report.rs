//! The table and the plots of a comparison.

use super::config::CompareConfig;
use super::results::Outcome;
use crate::failure::Failure;
use crate::files;
use crate::units::count;
use gorgon_runs::plot::{Chart, Series};
use gorgon_runs::run_dir::RunDir;
use gorgon_runs::table::{Column, Table};
use serde_json::{Value, json};

/// Writes `results.json`, `table.md` and the plots into the run folder.
///
/// # Errors
/// When a file cannot be written.
pub fn write(run: &RunDir, config: &CompareConfig, outcomes: &[Outcome]) -> Result<(), Failure> {
    let document = json!({"config": config, "results": outcomes});
    files::write_json(&run.path().join("results.json"), &document)?;
    let path = run.path().join("table.md");
    let text = table(outcomes).to_markdown();
    gorgon_runs::atomic::write(&path, |file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::io(&path, &error))?;
    let plots = run.plots();
    std::fs::create_dir_all(&plots).map_err(|e| Failure::run(format!("{}: {e}", plots.display())))?;
    depths(outcomes).write(&plots.join("acceptance.svg"))?;
    speeds(outcomes).write(&plots.join("speed.svg"))?;
    match config.learning_curve.is_empty() {
        true => Ok(()),
        false => Ok(learning_curve(outcomes).write(&plots.join("learning_curve.svg"))?),
    }
}

/// The table.
pub fn table(outcomes: &[Outcome]) -> Table {
    let columns = [
        Column::text("method"),
        Column::text("tree"),
        Column::number("T"),
        Column::number("parameters"),
        Column::number("training, s"),
        Column::number("tokens/step"),
        Column::number("step / plain"),
        Column::number("tokens/s"),
        Column::number("speed-up"),
        Column::number("same text"),
        Column::text("1, 2, … accepted"),
    ];
    let mut table = Table::new(columns);
    outcomes.iter().for_each(|outcome| table.row(row(outcome)));
    table
}

fn row(outcome: &Outcome) -> [String; 11] {
    let number = |key: &str| outcome.summary[key].as_f64();
    let shown = |value: Option<f64>, digits: usize| value.map_or_else(|| "-".into(), |x| format!("{x:.digits$}"));
    let spread = outcome.half_width.map_or_else(String::new, |half| format!(" ± {half:.2}"));
    let seen = outcome.conversations.map_or_else(String::new, |n| format!(", {n} seen"));
    let degraded = if outcome.departure.is_some_and(|departure| departure.degraded) { ", degraded" } else { "" };
    let depths: Vec<String> = depth_shares(outcome).iter().take(6).map(|share| format!("{share:.2}")).collect();
    [
        format!("{}{seen}{degraded}", outcome.method),
        outcome.tree.clone(),
        outcome.temperature.to_string(),
        if outcome.parameters == 0 { "-".into() } else { count(outcome.parameters as u128) },
        outcome.training_seconds.map_or_else(|| "-".into(), |seconds| format!("{seconds:.0}")),
        shown(number("tokens_per_step").map(|_| outcome.mean_tokens_per_step), 2) + &spread,
        shown(number("eta").map(|eta| 1.0 / eta), 2),
        shown(number("drafted_tokens_per_second"), 0),
        shown(number("speedup"), 2),
        format!("{}/{}", shown(number("same_text"), 0), shown(number("pairs"), 0)),
        depths.join(" "),
    ]
}

fn depth_shares(outcome: &Outcome) -> Vec<f64> {
    let shares = outcome.summary["acceptance_by_depth"].as_array();
    shares.map(|shares| shares.iter().filter_map(Value::as_f64).collect()).unwrap_or_default()
}

fn name(outcome: &Outcome) -> String {
    match outcome.temperature {
        0.0 => format!("{} ({})", outcome.method, outcome.tree),
        temperature => format!("{} ({}, T = {temperature})", outcome.method, outcome.tree),
    }
}

/// A line per method, a point per number of conversations.
fn learning_curve(outcomes: &[Outcome]) -> Chart {
    let mut series: Vec<Series> = vec![];
    for outcome in outcomes {
        let Some(conversations) = outcome.conversations else { continue };
        let point = (conversations as f64, outcome.mean_tokens_per_step);
        match series.iter_mut().find(|line| line.name == name(outcome)) {
            Some(line) => line.points.push(point),
            None => series.push(Series { name: name(outcome), points: vec![point] }),
        }
    }
    Chart {
        title: "Tokens per step over conversations fitted to".into(),
        x_label: "conversations".into(),
        y_label: "tokens per step".into(),
        series,
        log_y: false,
    }
}

/// Those that are no points of the learning curve.
fn whole(outcomes: &[Outcome]) -> impl Iterator<Item = &Outcome> {
    outcomes.iter().filter(|outcome| outcome.conversations.is_none())
}

fn depths(outcomes: &[Outcome]) -> Chart {
    let line = |outcome: &Outcome| {
        let points = depth_shares(outcome).into_iter().enumerate();
        Series { name: name(outcome), points: points.map(|(i, share)| ((i + 1) as f64, share)).collect() }
    };
    Chart {
        title: "Steps with at least so many drafts accepted".into(),
        x_label: "drafts".into(),
        y_label: "share of steps".into(),
        series: whole(outcomes).filter(|outcome| !outcome.tree.starts_with("calibrated")).map(line).collect(),
        log_y: false,
    }
}

fn speeds(outcomes: &[Outcome]) -> Chart {
    let point = |outcome: &Outcome| {
        let speedup = outcome.summary["speedup"].as_f64().unwrap_or(f64::NAN);
        Series { name: name(outcome), points: vec![(outcome.mean_tokens_per_step, speedup)] }
    };
    Chart {
        title: "Speed over tokens per step".into(),
        x_label: "tokens per step".into(),
        y_label: "times plain decoding".into(),
        series: whole(outcomes).map(point).collect(),
        log_y: false,
    }
}
