//! `gorgon dev pretrain`: a small Llama from scratch.

use super::resume;
use crate::args::Fit;
use crate::printer;
use crate::settings::Settings;
use gorgon_train::config::PretrainConfig;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::pretrain::{self, Done};
use serde_json::json;
use std::process::ExitCode;

pub fn run(args: &Fit, settings: &Settings) -> Result<ExitCode, Failure> {
    let config: PretrainConfig = args.given(settings).load()?;
    if args.print_config {
        return super::config::print(config, settings);
    }
    match pretrain::execute(&config, args.run(), args.dry_run, settings)? {
        Done::Planned(plan) => Ok(super::config::planned(&plan, settings)),
        Done::Finished => {
            if settings.json {
                printer::document(&json!({ "model": config.out }).to_string());
            }
            Ok(ExitCode::SUCCESS)
        }
        Done::Stopped { run, step } => Ok(resume::stopped("dev pretrain", &run, Some(step), settings)),
    }
}
