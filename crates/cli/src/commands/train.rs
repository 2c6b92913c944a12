//! `gorgon train` and `gorgon dev features`: draft heads on a frozen backbone, or a draft model beside one.

mod report;

pub use self::report::report;

use super::resume;
use crate::args::{Features, Train};
use crate::printer;
use crate::settings::Settings;
use gorgon_runs::run_dir::RunDir;
use gorgon_runs::visible;
use gorgon_train::config::TrainConfig;
use gorgon_workflows::config::Given;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::fitting::{HEADS, MERGED};
use gorgon_workflows::train::{self, Assumed, Done};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

pub fn run(args: &Train, settings: &Settings) -> Result<ExitCode, Failure> {
    let Train { fit: args, assume_tokens: tokens, assume_tflops: teraflops } = args;
    let config: TrainConfig = args.given(settings).load()?;
    if args.print_config {
        return super::config::print(config, settings);
    }
    if args.dry_run {
        let assumed = Assumed { tokens: *tokens, teraflops: *teraflops };
        return Ok(super::config::planned(&train::plan(&config, args.run(), assumed, settings)?, settings));
    }
    match train::execute(&config, args.run(), false, settings)? {
        Done::Planned(_) | Done::Kept { .. } => Ok(ExitCode::SUCCESS),
        Done::Finished(run) => {
            report(&run, settings)?;
            next(&config, &run, settings);
            Ok(ExitCode::SUCCESS)
        }
        Done::Stopped { run, step } => Ok(resume::stopped("train", &run, Some(step), settings)),
    }
}

/// Says how to find the tree that heads should draft with.
fn next(config: &TrainConfig, run: &RunDir, settings: &Settings) {
    if !train::fitted(run).ends_with(HEADS) {
        return;
    }
    let merged = run.path().join(MERGED);
    let model = if merged.is_dir() { merged.as_path() } else { Path::new(&config.model) };
    let [model, heads] = [model, run.path()].map(visible::word);
    let command = format!("gorgon tree calibrate --model {model} --heads {heads} --prompts FILE");
    settings.console.say(format!("next: {command} finds the tree that decodes fastest here"));
}

/// The hidden states that a training will read, computed ahead.
pub fn features(args: &Features, settings: &Settings) -> Result<ExitCode, Failure> {
    let (file, overrides) = (Some(args.config.as_path()), args.overrides.as_slice());
    let config: TrainConfig = Given { file, overrides, settings, resume: None }.load()?;
    let done = train::features(&config, args.dry_run, settings)?;
    if let Done::Planned(plan) = &done {
        return Ok(super::config::planned(plan, settings));
    }
    if let Done::Kept { folder, plan } = done {
        if settings.json {
            let document = json!({"features": folder.display().to_string(), "plan": plan});
            printer::document(&document.to_string());
        }
        let hint = if config.caches_features() { "" } else { "; train with cache_features=true to use them" };
        settings.console.say(format!("states in {}{hint}", folder.display()));
    }
    Ok(ExitCode::SUCCESS)
}
