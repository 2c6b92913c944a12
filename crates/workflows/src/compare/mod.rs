//! Comparison of methods: fitted to answers of one backbone, the same ones unless a method names others, then measured
//! side by side.
//!
//! Finished work lies on the disk: shards, a run folder per training, a file per measurement. A resumed comparison does
//! what is missing.

mod config;
pub mod measuring;
mod report;
mod results;
mod trees;

pub use self::config::{CompareConfig, Method};
pub use self::report::{table, write};
pub use self::results::{Fitted, Outcome, Variant};

use crate::config::Resume;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::{distill, files, fitting, train};
use gorgon_data::config::DistillConfig;
use gorgon_data::shard;
use gorgon_runs::provenance::hash_file;
use gorgon_runs::run_dir::{self, RunDir};
use gorgon_train::config::{MethodConfig, TrainConfig, Training};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The seconds of a training, in its folder.
const SECONDS: &str = "seconds.json";
/// Steps that a training takes within the seconds of the config, in its folder.
const STEPS: &str = "steps.json";
/// Longest such files that are read.
const MAX_SECONDS: u64 = 1 << 20;

/// Reads the config of every training once, so that wrong ones are found before hours of work.
///
/// # Errors
/// When one of them is wrong.
pub fn check_trainings(config: &CompareConfig) -> Result<(), Failure> {
    for method in &config.methods {
        if let Some(file) = &method.config {
            let variant = Variant { seed: config.seeds[0], rate: None, conversations: None };
            training(config, method, file, variant, Path::new("."))?;
        }
    }
    Ok(())
}

/// Reports what will be done. Returns it as a document.
///
/// # Errors
/// When the run to resume cannot be read, or a key of its config was changed.
pub fn report_plan(config: &CompareConfig, resume: Option<Resume<'_>>, settings: &Settings) -> Result<Value, Failure> {
    let changes = fitting::changes(resume, config)?;
    let fitted = config.methods.iter().filter(|method| method.config.is_some()).count();
    let each = config.learning_rates.len().max(1) + config.seeds.len() - 1 + config.learning_curve.len();
    settings.console.say(format!(
        "{} methods; {} trainings ({each} for each of {fitted}); {} prompts to calibrate on, {} to measure on",
        config.methods.len(),
        fitted * each,
        config.calibration_prompts,
        config.bench_prompts
    ));
    if let Some(seconds) = config.training_seconds {
        settings.console.say(format!("each training: as many steps as its dry run takes in {seconds} s"));
    }
    let mut document = json!({
        "methods": config.methods.len(), "trainings": fitted * each,
        "calibration_prompts": config.calibration_prompts, "bench_prompts": config.bench_prompts,
    });
    if let Some(Resume { run, .. }) = resume {
        let done = finished_trainings(run)?;
        settings.console.say(format!("{} has {done} finished trainings", run.display()));
        document["resume"] = json!({"run": run.display().to_string(), "finished_trainings": done, "changes": changes});
    }
    Ok(document)
}

/// Trainings of a comparison that are finished.
fn finished_trainings(run: &Path) -> Result<usize, Failure> {
    let entries = run.read_dir().map_err(|error| Failure::input(format!("{}: {error}", run.display())))?;
    Ok(entries.filter_map(Result::ok).filter(|entry| entry.path().join(SECONDS).is_file()).count())
}

/// True if a folder has a shard.
pub fn has_shards(folder: &Path) -> bool {
    shard::files(folder).is_ok_and(|files| !files.is_empty())
}

/// As [`has_shards`], with a look at the metadata of each, so that no training has begun when a damaged one is found.
///
/// # Errors
/// When a shard is no Parquet file.
pub fn check_shards(folder: &Path) -> Result<bool, Failure> {
    let files = shard::files(folder).unwrap_or_default();
    files.iter().try_for_each(|file| shard::described(file).map(drop))?;
    Ok(!files.is_empty())
}

/// Lets the model answer, if the config says how. Returns whether it was done.
///
/// # Errors
/// When the distillation fails.
pub fn distil(comparison: &CompareConfig, settings: &Settings) -> Result<bool, Failure> {
    let Some(file) = &comparison.distill else { return Ok(false) };
    settings.console.say("\n== the model answers prompts");
    let mut job: DistillConfig = crate::config::load(file, &[])?;
    job.model.clone_from(&comparison.model);
    job.out.clone_from(&comparison.data);
    job.template.extend(comparison.template.clone());
    Ok(matches!(distill::execute(job, settings)?, distill::Done::Written(_)))
}

/// Writes the Jacobi trajectories that methods are fitted to, where they are missing. Returns whether all that the
/// methods need is there.
///
/// # Errors
/// When a config is wrong, or they cannot be computed or written.
pub fn write_trajectories(comparison: &CompareConfig, settings: &Settings) -> Result<bool, Failure> {
    let first = Variant { seed: comparison.seeds[0], rate: None, conversations: None };
    let mut folders = BTreeSet::new();
    for method in &comparison.methods {
        let Some(file) = &method.config else { continue };
        let training = training(comparison, method, file, first, Path::new("."))?;
        if matches!(training.method, MethodConfig::Cllm { .. }) && !train::has_trajectories(&training.data)? {
            folders.insert(training.data);
        }
    }
    for data in folders {
        settings.console.say(format!("\n== Jacobi trajectories of the answers in {}", data.display()));
        let (model, block) = (comparison.model.clone(), train::DEFAULT_BLOCK as usize);
        if train::write_trajectories(&train::TrajectoryOptions { data, model, block }, settings)?.is_none() {
            settings.console.say("stopped; the same command resumes from here");
            return Ok(false);
        }
    }
    Ok(true)
}

/// The config of one training.
fn training(
    job: &CompareConfig,
    method: &Method,
    file: &Path,
    Variant { seed, rate, conversations }: Variant,
    runs: &Path,
) -> Result<TrainConfig, Failure> {
    let budget = job.budget.iter().map(|(key, value)| format!("training.{key}={value}"));
    let rate = rate.map(|rate| format!("training.learning_rate={rate:?}"));
    let overrides: Vec<String> = method.overrides.iter().cloned().chain(budget).chain(rate).collect();
    let mut training: TrainConfig = crate::config::load(file, &overrides)?;
    training.model.clone_from(&job.model);
    training.data.clone_from(method.data.as_ref().unwrap_or(&job.data));
    training.runs = runs.into();
    training.seed = seed;
    training.train_conversations = conversations.or(training.train_conversations);
    training.check().map_err(|errors| Failure::settings(&errors))?;
    Ok(training)
}

/// Fits a method with every rate, then at the best one with every other seed and to every part of the data that the
/// learning curve names; `None` if it stopped on request.
///
/// # Errors
/// When a training fails.
pub fn fit(
    config: &CompareConfig,
    method: &Method,
    run: &RunDir,
    settings: &Settings,
) -> Result<Option<Vec<Fitted>>, Failure> {
    let Some(file) = &method.config else { return Ok(Some(vec![])) };
    let rates: Vec<Option<f64>> = match config.learning_rates.is_empty() {
        true => vec![None],
        false => config.learning_rates.iter().copied().map(Some).collect(),
    };
    let mut tried = vec![];
    let first = |rate| Variant { seed: config.seeds[0], rate, conversations: None };
    for rate in rates {
        let Some(fitted) = fit_once(config, method, file, first(rate), run, settings)? else { return Ok(None) };
        tried.push(fitted);
    }
    tried.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut all = vec![tried.remove(0)];
    let best = all[0].variant;
    let seeds = config.seeds[1..].iter().map(|&seed| Variant { seed, ..best });
    let curve = config.learning_curve.iter().map(|&n| Variant { conversations: Some(n), ..best });
    for variant in seeds.chain(curve) {
        let Some(fitted) = fit_once(config, method, file, variant, run, settings)? else { return Ok(None) };
        all.push(fitted);
    }
    Ok(Some(all))
}

fn fit_once(
    config: &CompareConfig,
    method: &Method,
    file: &Path,
    variant: Variant,
    run: &RunDir,
    settings: &Settings,
) -> Result<Option<Fitted>, Failure> {
    let Variant { seed, rate, conversations } = variant;
    let shown = rate.map_or_else(|| "own".to_owned(), |rate| format!("{rate:e}"));
    let to = conversations.map_or_else(String::new, |n| format!(", {n} conversations"));
    settings.console.say(format!("\n== {}: seed {seed}, learning rate {shown}{to}", method.name));
    let part = conversations.map_or_else(String::new, |n| format!("-first{n}"));
    let folder = run.path().join(format!("{}-seed{seed}-rate{shown}{part}", method.slug()));
    std::fs::create_dir_all(&folder).map_err(|e| Failure::run(format!("{}: {e}", folder.display())))?;
    let mut training = training(config, method, file, variant, &folder)?;
    if let Some(seconds) = config.training_seconds {
        let Some(steps) = steps_within(seconds, &training, &folder, settings)? else { return Ok(None) };
        (training.training.steps, training.training.epochs) = (steps, Training::default().epochs);
        training.check().map_err(|errors| Failure::settings(&errors))?;
    }
    let before = previous(&folder)?;
    let resume = before.as_deref().map(|run| Resume { run, allow_change: &[] });
    fitting::changes(resume, &training.clone().resolved())?;
    let seconds_file = folder.join(SECONDS);
    let is_whole = |path: &PathBuf| is_as_written(&seconds_file, path);
    if let Some(path) = before.as_ref().filter(|path| seconds_file.is_file() && !is_whole(path)) {
        settings.console.say(format!("{}: its weights are not as they were written: published again", path.display()));
    }
    let fitted = match &before {
        Some(path) if is_whole(path) => path.clone(),
        _ => {
            let started = Instant::now();
            let done = train::execute(&training, resume, false, settings)?;
            let train::Done::Finished(finished) = done else { return Ok(None) };
            let whole = before.is_none();
            let seconds = started.elapsed().as_secs_f64();
            let weights = published(finished.path())?;
            let document = json!({"seconds": seconds, "undisturbed": whole, "weights": weights});
            files::write_json(&seconds_file, &document)?;
            finished.path().to_path_buf()
        }
    };
    Fitted::read(&fitted, &seconds_file, variant).map(Some)
}

/// Steps that a training takes in some seconds by its dry run, at least one; those of an earlier attempt if there was
/// one; `None` if the dry run stopped on request.
fn steps_within(
    seconds: f64,
    training: &TrainConfig,
    folder: &Path,
    settings: &Settings,
) -> Result<Option<u64>, Failure> {
    let path = folder.join(STEPS);
    let known = document(&path).filter(|known| known["within_seconds"] == seconds);
    if let Some(steps) = known.and_then(|known| known["steps"].as_u64()) {
        return Ok(Some(steps));
    }
    let train::Done::Planned(plan) = train::execute(training, None, true, settings)? else { return Ok(None) };
    let (Some(planned), Some(steps)) = (plan["seconds"].as_f64(), plan["steps"].as_u64()) else {
        return Err(Failure::run(format!("{}: the plan of the training has no time", folder.display())));
    };
    let fitting = (seconds * steps as f64 / planned.max(f64::MIN_POSITIVE)) as u64;
    let fitting = fitting.max(1);
    settings.console.say(format!("{fitting} steps in {seconds} s: the dry run takes {planned:.1} s for {steps}"));
    files::write_json(&path, &json!({"within_seconds": seconds, "steps": fitting}))?;
    Ok(Some(fitting))
}

/// A small JSON file; `None` where there is none that can be read.
fn document(path: &Path) -> Option<Value> {
    gorgon_runs::json::read(&gorgon_runs::file::read(path, MAX_SECONDS).ok()?).ok()
}

/// SHA-256 of the weights and the config that a training published, by file name.
fn published(run: &Path) -> Result<Value, Failure> {
    let folder = fitting::fitted_folder(run);
    let wrong = |error: std::io::Error| Failure::io(&folder, &error);
    let mut hashes = serde_json::Map::new();
    for entry in folder.read_dir().map_err(wrong)? {
        let name = entry.map_err(wrong)?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".safetensors") || name == "config.json" {
            let hash = hash_file(&folder.join(&name)).map_err(wrong)?;
            hashes.insert(name, hash.into());
        }
    }
    Ok(hashes.into())
}

/// Whether a finished training's weights are those whose hashes were written beside its duration.
fn is_as_written(seconds: &Path, run: &Path) -> bool {
    document(seconds).is_some_and(|known| published(run).is_ok_and(|found| known["weights"] == found))
}

/// The run folder that an earlier attempt left.
fn previous(folder: &Path) -> Result<Option<PathBuf>, Failure> {
    let wrong = |error: std::io::Error| Failure::run(format!("{}: {error}", folder.display()));
    let mut stems: Vec<String> = vec![];
    for entry in folder.read_dir().map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((stem, _)) = name.rsplit_once('-').filter(|_| entry.path().is_dir()) {
            stems.push(stem.to_owned());
        }
    }
    stems.sort();
    Ok(stems.first().map(|stem| run_dir::latest(folder, stem)).transpose()?.flatten())
}
