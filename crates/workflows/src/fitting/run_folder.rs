//! The folder of a run: made, or opened to resume it.

use crate::config::{self, Config, Resume};
use crate::failure::Failure;
use crate::files;
use crate::settings::Settings;
use gorgon_data::shard;
use gorgon_runs::metrics::Metrics;
use gorgon_runs::provenance::{self, ConfigChange, Host, Launch, Provenance, Resumed, hash_bytes, hash_file};
use gorgon_runs::run_dir::{RunDir, RunView};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The changes of the config of the run to resume; none for a new run. Fails early, since what comes before a run
/// folder is opened can take minutes.
///
/// # Errors
/// When the folder is no run's, or a key was changed that may not be.
pub fn changes<T: Config>(resume: Option<Resume<'_>>, config: &T) -> Result<Vec<ConfigChange>, Failure> {
    let Some(resume) = resume else { return Ok(vec![]) };
    check_config(&RunView::open(resume.run)?)?;
    resume.changes(config)
}

/// Fails where a run's config is not the one that the run wrote.
fn check_config(run: &RunView) -> Result<(), Failure> {
    let (Ok(text), Ok(provenance)) = (std::fs::read(run.config()), Provenance::read(&run.provenance())) else {
        return Ok(());
    };
    if provenance.knows_config(&hash_bytes(&text)) {
        return Ok(());
    }
    let message = format!("{}: it was changed after the run wrote it", run.config().display());
    Err(Failure::input(message).hint("put it back; KEY=VALUE with --allow-change KEY changes a key and records it"))
}

/// Files that go into a run.
#[derive(Default)]
pub struct Inputs {
    /// Files that must not change: resuming is refused if one has.
    pub fixed: Vec<PathBuf>,
    /// Files that may change while the run is interrupted: a growing log, published weights.
    pub changing: Vec<PathBuf>,
    /// SHA-256 of others that are fixed, by name.
    pub hashes: BTreeMap<String, String>,
}

impl Inputs {
    /// Files that a run cannot go on with if they change.
    pub fn fixed(fixed: Vec<PathBuf>) -> Self {
        Self { fixed, ..Self::default() }
    }

    /// Fails where an input is not what the run in a folder began with.
    ///
    /// # Errors
    /// Then, or when a file cannot be read.
    pub fn check(&self, run: &RunView) -> Result<(), Failure> {
        if !run.provenance().exists() {
            return Ok(());
        }
        let known = Provenance::read(&run.provenance())?.inputs;
        let mut now = self.hashes.clone();
        for path in &self.fixed {
            now.insert(path.display().to_string(), hash_file(path).map_err(|error| Failure::io(path, &error))?);
        }
        match now.iter().find(|(name, hash)| known.get(*name).is_some_and(|known| known != *hash)) {
            None => Ok(()),
            Some((name, _)) => {
                let message = format!("{name}: it is not what {} was begun with", run.path().display());
                Err(Failure::input(message).hint("put it back, or begin a new run"))
            }
        }
    }
}

/// Reports what resuming a run would do, without doing it: the checkpoint, damaged ones by name, steps left of
/// `steps`, changed keys.
///
/// # Errors
/// When the folder cannot be read, or all of its checkpoints are damaged.
pub fn report_resume(run: &Path, steps: u64, changes: &[ConfigChange], settings: &Settings) -> Result<Value, Failure> {
    let survey = RunView::open(run)?.survey()?;
    let damaged: Vec<String> = survey.damaged.iter().map(|(_, damage)| damage.to_string()).collect();
    for damage in &damaged {
        settings.console.say(format!("a damaged checkpoint would be set aside: {damage}"));
    }
    if survey.newest.is_none() && !damaged.is_empty() {
        return Err(
            Failure::input(format!("{}; no checkpoint of this run is whole", damaged[0])).hint("begin a new run")
        );
    }
    let (step, from) = match survey.newest {
        Some(step) => (step, format!("step {step}")),
        None => (0, "the beginning, since there is no checkpoint".into()),
    };
    let left = steps.saturating_sub(step);
    settings.console.say(format!("{} would resume from {from}: {left} of {steps} steps left", run.display()));
    for change in changes {
        settings.console.say(format!("would change {}", words(change)));
    }
    Ok(json!({
        "run": run.display().to_string(), "step": survey.newest, "steps_left": left, "damaged": damaged,
        "changes": changes,
    }))
}

/// A change in words.
fn words(ConfigChange { key, old, new }: &ConfigChange) -> String {
    let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "no value".into(), Value::to_string);
    format!("{key} from {} to {}", shown(old), shown(new))
}

/// The folder of a new run, or of the one that is resumed, with the changes of its config.
///
/// # Errors
/// When it cannot be made, opened or written.
pub fn run_folder<T: Config>(
    (parent, stem): (&Path, &str),
    resume: Option<(Resume<'_>, &[ConfigChange])>,
    resolved: &T,
    inputs: &Inputs,
    settings: &Settings,
) -> Result<RunDir, Failure> {
    files::check_writable(resume.map_or(parent, |(resume, _)| resume.run))?;
    let formats = settings.number_formats();
    let host = Host { device: settings.device_name()?, cpu_threads: rayon::current_num_threads(), formats };
    let launch = Launch::new(&settings.build, std::env::args_os(), settings.started, host);
    let config_sha256 = hash_bytes(config::to_toml(resolved)?.as_bytes());
    if let Some((resume, changes)) = resume {
        let run = RunDir::open(resume.run)?;
        report_torn(&run, settings);
        let damaged = run.set_aside_damaged().map_err(|error| {
            Failure::input(format!("{error}; no checkpoint of this run is whole")).hint("begin a new run")
        })?;
        for damage in damaged {
            settings.console.say(format!("a damaged checkpoint was set aside: {damage}"));
        }
        let step = run.steps()?.last().copied().unwrap_or(0);
        tracing::debug!(run = %run.path().display(), step, changes = changes.len(), "run resumed");
        // A change is recorded before it is made, so that a kill in between leaves no change without a record.
        let mut recorded = changes.to_vec();
        if run.provenance().exists() {
            inputs.check(&run)?;
            recorded.extend(other_formats(&run, &launch.host)?);
            provenance::append_resumed(
                &run.provenance(),
                &Resumed { step, changes: recorded.clone(), config_sha256: Some(config_sha256), launch },
            )?;
        } else {
            write_provenance(&run, (launch, config_sha256), inputs)?;
        }
        record(&run, step, &recorded, settings)?;
        // A kill can fall between making the folder and writing what it is.
        if !changes.is_empty() || !run.config().exists() {
            config::store(&run.config(), resolved)?;
        }
        return Ok(run);
    }
    let run = RunDir::create(parent, stem)?;
    config::store(&run.config(), resolved)?;
    write_provenance(&run, (launch, config_sha256), inputs)?;
    Ok(run)
}

/// Reports a last line of the metrics without an end, which is dropped, and metrics that are gone.
fn report_torn(run: &RunDir, settings: &Settings) {
    let path = run.metrics();
    let said = match std::fs::read(&path) {
        Ok(bytes) if bytes.last().is_some_and(|&last| last != b'\n') => "its last line is cut off, and dropped",
        Err(error) if error.kind() == ErrorKind::NotFound && run.steps().is_ok_and(|steps| !steps.is_empty()) => {
            "it is gone, and with it the records of the steps so far"
        }
        _ => return,
    };
    settings.console.say(format!("note: {}: {said}", path.display()));
}

/// The change of device or number formats since the last process of a run: evaluations before and after it differ.
fn other_formats(run: &RunDir, host: &Host) -> Result<Option<ConfigChange>, Failure> {
    let provenance = Provenance::read(&run.provenance())?;
    let before = provenance.resumed.last().map_or(&provenance.launch, |resumed| &resumed.launch);
    if before.host.computes_as(host) {
        return Ok(None);
    }
    let text = |host: &Host| {
        Some(Value::from([Some(&*host.device), host.formats.as_deref()].map(Option::unwrap_or_default).join(" ")))
    };
    Ok(Some(ConfigChange { key: "number formats".into(), old: text(&before.host), new: text(host) }))
}

/// Writes changes of the config into metrics and log, and reports them.
fn record(run: &RunDir, step: u64, changes: &[ConfigChange], settings: &Settings) -> Result<(), Failure> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut metrics = Metrics::append(&run.metrics())?;
    metrics.truncate_after(step)?;
    let failed = |error: std::io::Error| Failure::run(format!("{}: {error}", run.log().display()));
    let mut log = std::fs::OpenOptions::new().create(true).append(true).open(run.log()).map_err(failed)?;
    for change in changes {
        metrics.record(&json!({"step": step, "changed": change}))?;
        let line = format!("from step {step} on: changed {}", words(change));
        writeln!(log, "{line}").map_err(failed)?;
        settings.console.say(line);
    }
    Ok(metrics.sync()?)
}

fn write_provenance(run: &RunDir, (launch, config): (Launch, String), inputs: &Inputs) -> Result<(), Failure> {
    let mut provenance = Provenance { config_sha256: Some(config), ..Provenance::new(launch) };
    for input in inputs.fixed.iter().chain(&inputs.changing) {
        provenance.add_input(input)?;
    }
    provenance.inputs.extend(inputs.hashes.clone());
    let is_shard = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "parquet");
    if let Some(shard) = inputs.fixed.iter().chain(&inputs.changing).find(is_shard) {
        provenance.template = shard::template(shard)?;
    }
    Ok(provenance.write(&run.provenance())?)
}
