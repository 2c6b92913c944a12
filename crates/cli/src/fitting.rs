//! What all training verbs share: the run folder, Ctrl-C, progress, plots.

use crate::args::Fit;
use crate::commands::load;
use crate::config;
use crate::error::Failure;
use crate::settings::Settings;
use gorgon_runs::metrics;
use gorgon_runs::plot::{Chart, Series};
use gorgon_runs::provenance::{self, Host, Launch, Provenance, Resumed};
use gorgon_runs::run_dir::{RunDir, RunView};
use gorgon_train::error::TrainError;
use gorgon_train::trainer::{FitSettings, Report, StepRecord};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::{Map, Value};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// A flag that Ctrl-C sets: once asks to save and stop, twice ends the program.
///
/// # Errors
/// When the handler cannot be installed.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    // One handler for the whole process, whatever jobs it does.
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(flag) = FLAG.get() {
        return Ok(flag.clone());
    }
    let flag = Arc::new(AtomicBool::new(false));
    let seen = flag.clone();
    ctrlc::set_handler(move || {
        if seen.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        crate::printer::complain("stopping after this step; Ctrl-C again ends at once");
    })
    .map_err(Failure::run)?;
    Ok(FLAG.get_or_init(|| flag).clone())
}

/// Fails early if there is nothing to go on with: what comes before can take minutes.
///
/// # Errors
/// When the folder is none.
pub fn check_resume(resume: Option<&Path>) -> Result<(), Failure> {
    resume.map(RunView::open).transpose().map(|_| ()).map_err(Failure::from)
}

/// The folder of a new run, or of the one to go on with.
///
/// # Errors
/// When it cannot be made, opened or written.
pub fn run_folder(
    parent: &Path,
    stem: &str,
    resume: Option<&Path>,
    resolved: &impl Serialize,
    inputs: &[PathBuf],
    settings: &Settings,
) -> Result<RunDir, Failure> {
    load::check_writable(resume.unwrap_or(parent))?;
    let host = Host { device: settings.device_name()?, cpu_threads: rayon::current_num_threads() };
    let launch = Launch::new(env!("CARGO_PKG_VERSION"), std::env::args_os(), settings.started, host);
    if let Some(path) = resume {
        let run = RunDir::open(path)?;
        let damaged = run.set_aside_damaged().map_err(|error| {
            Failure::input(format!("{error}; no checkpoint of this run is whole")).hint("begin a new run")
        })?;
        for damage in damaged {
            settings.talk.say(format!("a damaged checkpoint was set aside: {damage}"));
        }
        let step = run.steps()?.last().copied().unwrap_or(0);
        // A kill can fall between making the folder and writing what it is.
        if !run.config().exists() {
            config::store(&run.config(), resolved)?;
        }
        if run.provenance().exists() {
            provenance::append_resumed(&run.provenance(), &Resumed { step, launch })?;
        } else {
            write_provenance(&run, launch, inputs)?;
        }
        return Ok(run);
    }
    let run = RunDir::create(parent, stem)?;
    config::store(&run.config(), resolved)?;
    write_provenance(&run, launch, inputs)?;
    Ok(run)
}

fn write_provenance(run: &RunDir, launch: Launch, inputs: &[PathBuf]) -> Result<(), Failure> {
    let mut provenance = Provenance::new(launch);
    for input in inputs {
        provenance.add_input(input)?;
    }
    Ok(provenance.write(&run.provenance())?)
}

/// The last part of a path, as a part of a run folder's name.
pub fn stem(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let clean: String = name.chars().map(|c| if c.is_alphanumeric() || "-_".contains(c) { c } else { '-' }).collect();
    let clean = clean.trim_matches('-');
    if clean.is_empty() { "model".into() } else { clean.into() }
}

/// The command that goes on with a run.
pub fn resume_line(args: &Fit, verb: &str, run: &RunDir) -> String {
    let overrides: String = args.overrides.iter().map(|given| format!(" {given}")).collect();
    format!("gorgon {verb} -c {}{overrides} --resume {}", args.config.display(), run.path().display())
}

/// Copies a file, whole or not at all.
///
/// # Errors
/// When it cannot be read or written.
pub fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let bytes = std::fs::read(from).map_err(|error| Failure::run(format!("{}: {error}", from.display())))?;
    gorgon_runs::atomic::write(to, |file| file.write_all(&bytes))
        .map_err(|error| Failure::run(format!("{}: {error}", to.display())))
}

/// Writes pretty-printed JSON, whole or not at all.
///
/// # Errors
/// When it cannot be written.
pub fn write_json(path: &Path, value: &Value) -> Result<(), Failure> {
    gorgon_runs::atomic::write(path, |file| {
        serde_json::to_writer_pretty(&mut *file, value)?;
        file.write_all(b"\n")
    })
    .map_err(|error| Failure::run(format!("{}: {error}", path.display())))
}

/// What went wrong while fitting, with the exit code it deserves.
pub fn failure(error: TrainError) -> Failure {
    match error {
        TrainError::NotFinite { .. } | TrainError::Overflow { .. } => {
            Failure::run(error).hint("a lower training.learning_rate may help, if the data is valid")
        }
        TrainError::Settings(errors) => Failure::settings(&errors),
        error => Failure::input(error),
    }
}

/// Progress: a bar on a terminal, lines elsewhere; both go into the log.
pub struct Progress<'a> {
    bar: ProgressBar,
    settings: &'a Settings,
    log: PathBuf,
    started: Instant,
    /// The seconds that the first steps made one expect.
    corrected: OnceLock<f64>,
}

impl<'a> Progress<'a> {
    pub fn new(run: &RunDir, fit: &FitSettings, settings: &'a Settings) -> Self {
        let bar = match settings.progress {
            true => ProgressBar::new(fit.schedule.steps),
            false => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, settings, log: run.log(), started: Instant::now(), corrected: OnceLock::new() }
    }

    /// The seconds of all steps, as the first of them made one expect.
    pub fn corrected(&self) -> Option<f64> {
        self.corrected.get().copied()
    }

    /// The first step warms up, those after it tell how long the rest will take.
    fn correct(&self, record: &StepRecord) {
        let StepRecord { step, eta_seconds: left, .. } = *record;
        if self.corrected.get().is_none() && step > 1 {
            let _ = self.corrected.set(self.started.elapsed().as_secs_f64() + left);
            if left >= 60.0 {
                self.say(&format!("by the first {step} steps: {} left, evaluations apart", duration(left)));
            }
        }
    }

    pub fn show(&self, report: &Report) {
        match report {
            Report::Step(record) => {
                let line = line(&fields(record));
                self.bar.set_position(record.step);
                self.bar.set_message(line.clone());
                if !self.settings.progress {
                    self.settings.talk.say(&line);
                }
                self.write(&line);
                self.correct(record);
            }
            Report::Evaluation(record) => {
                let measured = line(&fields(&record.evaluation));
                self.say(&format!("held out at step {}: {measured}", record.step));
            }
            Report::Saved(step) => self.write(&format!("saved step {step}")),
            Report::Note(line) => self.say(line),
        }
    }

    /// A line for the terminal and the log.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| self.settings.talk.say(line));
        self.write(line);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
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
    let show = |(name, value): (&String, &Value)| match (name.as_str(), value.as_f64()) {
        ("step", _) => format!("step {value}"),
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
    record.iter().map(show).collect::<Vec<_>>().join(" · ")
}

/// A time as people say it.
pub fn duration(seconds: f64) -> String {
    let s = seconds.max(0.0).round() as u64;
    match s {
        0..=99 => format!("{s} s"),
        100..=5999 => format!("{} min", s.div_ceil(60)),
        _ => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

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
