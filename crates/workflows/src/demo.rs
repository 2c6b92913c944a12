//! The main job on the model that comes along: distil, train, and prompts to calibrate and measure with.

pub mod equality;
pub mod formats;
pub mod grow;

use crate::config::Resume;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::{config, distill, fitting, hub_id, train};
use gorgon_data::config::{DistillConfig, Synthetic};
use gorgon_runs::run_dir::{self, RunDir};
use gorgon_tiny_chat::{self as synth, Split};
use gorgon_train::config::TrainConfig;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The configs that `configs/` holds, with the demo's folders and sizes in place of their own.
const DISTILL: &str = include_str!("../../../configs/distill-tiny.toml");
const TRAIN: &str = include_str!("../../../configs/medusa-tiny.toml");
/// Held-out prompts to calibrate on, and as many others to measure on.
pub const HELD_OUT: u32 = 60;

/// Settings of the demo.
#[derive(Clone, Debug)]
pub struct Options {
    /// The model to draft for.
    pub model: String,
    /// Prompts for it to answer.
    pub dialogues: u64,
    /// Where to put data and heads.
    pub dir: PathBuf,
}

/// Lets the model answer prompts and fits Medusa heads to the answers; `None` if it stopped on request.
///
/// # Errors
/// When there is no model, or a step fails.
pub fn trained(options: &Options, settings: &Settings) -> Result<Option<RunDir>, Failure> {
    if !Path::new(&options.model).is_dir() {
        let message = format!("{}: there is no model here", options.model);
        return Err(Failure::input(message).hint("run this in the project's folder, or name a model with --model"));
    }
    let dir = &options.dir;
    std::fs::create_dir_all(dir).map_err(|e| Failure::input(format!("{}: {e}", dir.display())))?;
    settings.console.say("\n== the model answers prompts");
    let data = dir.join(format!("data-{}-{}", options.dialogues, settings.seed));
    let done = distill::execute(distill_config(options, &data, settings)?, settings)?;
    if !matches!(done, distill::Done::Written(_)) {
        return Ok(None);
    }
    settings.console.say("\n== Medusa heads are fitted to the answers");
    let config = train_config(options, &data)?;
    let before = earlier(&config)?;
    if let Some(run) = &before {
        settings.console.say(format!("those of {} are taken; remove it to fit new ones", run.display()));
    }
    let resume = before.as_deref().map(|run| Resume { run, allow_change: &[] });
    match train::execute(&config, resume, false, settings)? {
        train::Done::Finished(run) => Ok(Some(run)),
        _ => Ok(None),
    }
}

fn distill_config(options: &Options, data: &Path, settings: &Settings) -> Result<DistillConfig, Failure> {
    let mut distill: DistillConfig = config::embedded(DISTILL)?;
    distill.model = options.model.clone();
    distill.out = data.into();
    distill.synthetic =
        Some(Synthetic { dialogues: options.dialogues, seed: settings.seed.wrapping_add(100), held_out: false });
    Ok(distill)
}

fn train_config(options: &Options, data: &Path) -> Result<TrainConfig, Failure> {
    let mut train: TrainConfig = config::embedded(TRAIN)?;
    train.model = options.model.clone();
    train.data = data.into();
    train.runs = options.dir.clone();
    Ok(train)
}

/// The run of an earlier demo with this config, finished or not.
fn earlier(config: &TrainConfig) -> Result<Option<PathBuf>, Failure> {
    let stem = format!("{}-{}", config.method.name(), hub_id::stem(&config.model, Path::new(&config.model)));
    let run = run_dir::latest(&config.runs, &stem)?;
    let is_same = |run: &PathBuf| {
        let resume = Resume { run, allow_change: &[] };
        fitting::changes(Some(resume), &config.clone().resolved()).is_ok_and(|changes| changes.is_empty())
    };
    Ok(run.filter(is_same))
}

/// Writes two files of held-out prompts: to calibrate on, and to measure on.
///
/// # Errors
/// When they cannot be written.
pub fn prompts(dir: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    let n = u64::from(HELD_OUT);
    let write = |name: &str, range: std::ops::Range<u64>| {
        let path = dir.join(name);
        let line = |i| json!({"prompt": synth::dialogue(1, Split::HeldOut, i).exchanges[0].user}).to_string() + "\n";
        let text: String = range.map(line).collect();
        gorgon_runs::atomic::write(&path, |file| file.write_all(text.as_bytes()))
            .map_err(|error| Failure::io(&path, &error))?;
        Ok::<_, Failure>(path)
    };
    Ok((write("calibrate.jsonl", 0..n)?, write("bench.jsonl", n..2 * n)?))
}
