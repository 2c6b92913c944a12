//! `gorgon pretrain`: a small Llama from scratch.

use super::resume;
use crate::args::Fit;
use crate::settings::Settings;
use gorgon_train::config::PretrainConfig;
use gorgon_workflows::config;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::pretrain::{self, Done};
use std::process::ExitCode;

pub fn run(args: &Fit, settings: &Settings) -> Result<ExitCode, Failure> {
    let config: PretrainConfig = config::load(&args.config, &args.overrides)?;
    match pretrain::execute(&config, args.resume.as_deref(), args.dry_run, settings)? {
        Done::Planned | Done::Finished => Ok(ExitCode::SUCCESS),
        Done::Stopped { run, step } => {
            let line = resume::command(args, "pretrain", &run);
            settings.console.say(format!("saved step {step}; resume with: {line}"));
            Ok(ExitCode::FAILURE)
        }
    }
}
