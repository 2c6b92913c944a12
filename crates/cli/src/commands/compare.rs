//! `gorgon compare`: several methods fitted to the same answers of one backbone, calibrated and measured side by side.
//!
//! What is done lies on the disk: shards, a run folder per training, a file per measurement. `--resume` goes on with
//! whatever is missing.

mod config;
mod measured;
mod report;

use self::config::{CompareConfig, Method};
use self::measured::{Fitted, Measuring};
use crate::args::Fit;
use crate::commands::{distill, load, train};
use crate::config as files;
use crate::error::Failure;
use crate::fitting;
use crate::settings::Settings;
use gorgon_data::config::DistillConfig;
use gorgon_data::shard;
use gorgon_runs::run_dir::{self, RunDir};
use gorgon_train::config::TrainConfig;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// What a training took, in its folder.
const SECONDS: &str = "seconds.json";

pub fn run(args: &Fit, settings: &Settings) -> Result<ExitCode, Failure> {
    let config: CompareConfig = files::load(&args.config, &args.overrides)?;
    config.check()?;
    fitting::check_resume(args.resume.as_deref())?;
    // Wrong configs are found before hours of work.
    for method in &config.methods {
        if let Some(file) = &method.config {
            training(&config, method, file, config.seeds[0], None, Path::new("."))?;
        }
        measured::drafter(method, Path::new("."))?;
    }
    load::folder(&config.model, settings)?;
    measured::prompt_lines(&config)?;
    if !has_shards(&config.data) && config.distill.is_none() {
        let message = format!("data: {}: there are no shards here", config.data.display());
        return Err(Failure::input(message).hint("name with distill the config that makes them"));
    }
    say_plan(&config, settings);
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    if !has_shards(&config.data) && !distilled(&config, settings)? {
        return Ok(ExitCode::FAILURE);
    }
    let stem = format!("compare-{}", fitting::stem(Path::new(&config.model)));
    let inputs = std::slice::from_ref(&config.prompts);
    let run = fitting::run_folder(&config.runs, &stem, args.resume.as_deref(), &config, inputs, settings)?;
    settings.talk.say(format!("run folder {}", run.path().display()));
    let measuring = Measuring::new(&config, run.path(), settings)?;
    let mut results = vec![];
    for method in &config.methods {
        let Some(fitted) = fit(&config, method, &run, settings)? else {
            let line = fitting::resume_line(args, "compare", &run);
            settings.talk.say(format!("stopped; go on with: {line}"));
            return Ok(ExitCode::FAILURE);
        };
        results.extend(measuring.method(method, &fitted)?);
    }
    report::write(&run, &config, &results)?;
    report::print(&run, &results, settings);
    Ok(ExitCode::SUCCESS)
}

fn say_plan(config: &CompareConfig, settings: &Settings) {
    let fitted = config.methods.iter().filter(|method| method.config.is_some()).count();
    let each = config.learning_rates.len().max(1) + config.seeds.len() - 1;
    settings.talk.say(format!(
        "{} methods; {} trainings ({each} for each of {fitted}); {} prompts to calibrate on, {} to measure on",
        config.methods.len(),
        fitted * each,
        config.calibration_prompts,
        config.bench_prompts
    ));
}

fn has_shards(folder: &Path) -> bool {
    shard::files(folder).is_ok_and(|files| !files.is_empty())
}

/// Lets the model answer, if the config says how.
fn distilled(config: &CompareConfig, settings: &Settings) -> Result<bool, Failure> {
    let Some(file) = &config.distill else { return Ok(false) };
    settings.talk.say("\n== the model answers prompts");
    let mut job: DistillConfig = files::load(file, &[])?;
    job.model.clone_from(&config.model);
    job.out.clone_from(&config.data);
    Ok(distill::execute(job, None, false, &settings.quiet_json())? == ExitCode::SUCCESS)
}

/// The config of one training.
fn training(
    config: &CompareConfig,
    method: &Method,
    file: &Path,
    seed: u64,
    rate: Option<f64>,
    runs: &Path,
) -> Result<TrainConfig, Failure> {
    let budget = config.budget.iter().map(|(key, value)| format!("training.{key}={value}"));
    let rate = rate.map(|rate| format!("training.learning_rate={rate:?}"));
    let overrides: Vec<String> = method.overrides.iter().cloned().chain(budget).chain(rate).collect();
    let mut training: TrainConfig = files::load(file, &overrides)?;
    training.model.clone_from(&config.model);
    training.data.clone_from(&config.data);
    training.runs = runs.into();
    training.seed = seed;
    training.check().map_err(|errors| Failure::settings(&errors))?;
    Ok(training)
}

/// Fits a method with every rate, then with every other seed at the best one; `None` if it was asked to stop.
fn fit(
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
    for rate in rates {
        let Some(fitted) = fit_once(config, method, file, (config.seeds[0], rate), run, settings)? else {
            return Ok(None);
        };
        tried.push(fitted);
    }
    tried.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut all = vec![tried.remove(0)];
    for &seed in &config.seeds[1..] {
        let Some(fitted) = fit_once(config, method, file, (seed, all[0].rate), run, settings)? else { return Ok(None) };
        all.push(fitted);
    }
    Ok(Some(all))
}

fn fit_once(
    config: &CompareConfig,
    method: &Method,
    file: &Path,
    (seed, rate): (u64, Option<f64>),
    run: &RunDir,
    settings: &Settings,
) -> Result<Option<Fitted>, Failure> {
    let shown = rate.map_or_else(|| "own".to_owned(), |rate| format!("{rate:e}"));
    settings.talk.say(format!("\n== {}: seed {seed}, learning rate {shown}", method.name));
    let folder = run.path().join(format!("{}-seed{seed}-rate{shown}", method.slug()));
    std::fs::create_dir_all(&folder).map_err(|e| Failure::run(format!("{}: {e}", folder.display())))?;
    let training = training(config, method, file, seed, rate, &folder)?;
    let before = previous(&folder)?;
    let fitted = match before {
        Some(path) if folder.join(SECONDS).is_file() => path,
        before => {
            let started = Instant::now();
            let done = train::execute(&training, before.as_deref(), false, &settings.quiet_json())?;
            let train::Done::Finished(finished) = done else { return Ok(None) };
            let whole = before.is_none();
            let seconds = started.elapsed().as_secs_f64();
            fitting::write_json(&folder.join(SECONDS), &json!({"seconds": seconds, "undisturbed": whole}))?;
            finished.path().to_path_buf()
        }
    };
    Fitted::read(&fitted, &folder.join(SECONDS), seed, rate).map(Some)
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
