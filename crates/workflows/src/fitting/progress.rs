//! Progress of a training: on the console and in the run's log.

use crate::console::{Bar, BarStyle, Console};
use crate::settings::Settings;
use crate::units::duration;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::trainer::{FitSettings, Report, StepRecord};
use serde::Serialize;
use serde_json::{Map, Value};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Progress: a bar on a terminal, lines elsewhere; both go into the log.
pub struct Progress<'a> {
    bar: Bar,
    console: &'a Console,
    log: PathBuf,
    started: Instant,
    /// Seconds of all steps, by the speed of the first ones.
    corrected: OnceLock<f64>,
    /// Tokens per step of the last evaluation.
    tau: Mutex<Option<f64>>,
}

impl<'a> Progress<'a> {
    /// Begins the bar and the log of a run.
    pub fn new(run: &RunDir, fit: &FitSettings, settings: &'a Settings) -> Self {
        let bar = settings.console.bar(BarStyle::Steps, "", fit.schedule.steps);
        let (corrected, tau) = (OnceLock::new(), Mutex::new(None));
        Self { bar, console: &settings.console, log: run.log(), started: Instant::now(), corrected, tau }
    }

    /// Seconds of all steps, by the speed of the first ones.
    pub fn corrected(&self) -> Option<f64> {
        self.corrected.get().copied()
    }

    /// Estimates the remaining time once, from the steps after the first, which warms up.
    fn correct(&self, record: &StepRecord) {
        let StepRecord { step, eta_seconds: left, .. } = *record;
        if self.corrected.get().is_none() && step > 1 {
            let _ = self.corrected.set(self.started.elapsed().as_secs_f64() + left);
            if left >= 60.0 {
                self.say(&format!("by the first {step} steps: {} left, evaluations apart", duration(left)));
            }
        }
    }

    fn tau(&self) -> MutexGuard<'_, Option<f64>> {
        self.tau.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports what a training reports, on the console and in the log.
    pub fn show(&self, report: &Report) {
        match report {
            Report::Step(record) => {
                let tau = self.tau().map_or_else(String::new, |tau| format!(" · τ {tau:.2}"));
                let line = line(&fields(record)) + &tau;
                self.bar.set_position(record.step);
                self.bar.set_message(line.clone());
                if !self.bar.is_shown() {
                    self.console.say(&line);
                }
                self.write(&line);
                self.correct(record);
            }
            Report::Evaluation(record) => {
                let fields = fields(&record.evaluation);
                *self.tau() = fields.get("tau").and_then(Value::as_f64);
                let measured = line(&fields);
                self.say(&format!("held out at step {}: {measured}", record.step));
            }
            Report::Saved(step) => self.write(&format!("saved step {step}")),
            Report::Note(line) => self.say(line),
        }
    }

    /// A line for the terminal and the log.
    pub fn say(&self, line: &str) {
        self.console.say(line);
        self.write(line);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish();
    }

    fn write(&self, line: &str) {
        // A log that cannot be written is no reason to stop a run: the metrics are the record.
        if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(&self.log) {
            let _ = writeln!(file, "{line}");
        }
    }
}

/// The fields of a record, by name, in their order.
pub fn fields(record: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(record) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// `name 1.234 · name 5.678`.
fn line(record: &Map<String, Value>) -> String {
    let total = record.get("total_steps").map_or(String::new(), |total| format!("/{total}"));
    // The loss of each head is for the metrics; the line has the one that is fitted.
    let of_head = |name: &str| name.ends_with("_loss") && name.contains(|c: char| c.is_ascii_digit());
    let shown = |name: &str| name != "total_steps" && name != "method" && !of_head(name);
    let show = |(name, value): (&String, &Value)| match (name.as_str(), value.as_f64()) {
        ("step", _) => format!("step {value}{total}"),
        ("eta_seconds", Some(seconds)) => format!("{} left", duration(seconds)),
        ("tokens_per_second", Some(speed)) => format!("{speed:.0} tokens/s"),
        ("learning_rate", Some(rate)) => format!("rate {rate:.1e}"),
        (_, Some(number)) => format!("{} {number:.3}", name.replace('_', " ")),
        (_, None) => match value.as_array() {
            Some(list) => {
                let list: Vec<String> = list.iter().map(|v| format!("{:.3}", v.as_f64().unwrap_or(f64::NAN))).collect();
                format!("{} {}", name.replace('_', " "), list.join(" "))
            }
            None => format!("{} {value}", name.replace('_', " ")),
        },
    };
    record.iter().filter(|(name, _)| shown(name)).map(show).collect::<Vec<_>>().join(" · ")
}
