//! `gorgon train` and `gorgon features`: draft heads on a frozen backbone, or a draft model beside one.

mod report;

pub use self::report::report;

use super::resume;
use crate::args::{Features, Fit};
use crate::printer;
use crate::settings::Settings;
use gorgon_train::config::TrainConfig;
use gorgon_workflows::config;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::train::{self, Done};
use serde_json::json;
use std::process::ExitCode;

pub fn run(args: &Fit, settings: &Settings) -> Result<ExitCode, Failure> {
    let config: TrainConfig = config::load(&args.config, &args.overrides)?;
    match train::execute(&config, args.resume.as_deref(), args.dry_run, settings)? {
        Done::Planned | Done::Kept { .. } => Ok(ExitCode::SUCCESS),
        Done::Finished(run) => {
            report(&run, settings)?;
            Ok(ExitCode::SUCCESS)
        }
        Done::Stopped { run, step } => {
            let line = resume::command(args, "train", &run);
            settings.console.say(format!("saved step {step}; resume with: {line}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The hidden states that a training will read, computed ahead.
pub fn features(args: &Features, settings: &Settings) -> Result<ExitCode, Failure> {
    let config: TrainConfig = config::load(&args.config, &args.overrides)?;
    if let Done::Kept { folder, plan } = train::features(&config, args.dry_run, settings)? {
        if settings.json {
            let document = json!({"features": folder.display().to_string(), "plan": plan});
            printer::document(&document.to_string());
        }
        let hint = if config.caches_features() { "" } else { "; train with cache_features=true to use them" };
        settings.console.say(format!("states in {}{hint}", folder.display()));
    }
    Ok(ExitCode::SUCCESS)
}
