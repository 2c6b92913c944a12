//! `gorgon distill`: prompts in, training shards out.

mod preview;

use crate::args::Distill;
use crate::printer;
use crate::settings::Settings;
use gorgon_data::config::DistillConfig;
use gorgon_workflows::config;
use gorgon_workflows::distill::{self, Done};
use gorgon_workflows::failure::Failure;
use std::process::ExitCode;

pub fn run(args: &Distill, settings: &Settings) -> Result<ExitCode, Failure> {
    let config: DistillConfig = config::load(&args.config, &args.overrides)?;
    if let Some(n) = args.preview {
        if let Some(shown) = distill::preview(config, n, args.dry_run, settings)? {
            preview::show(&shown)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let done = match args.shard {
        Some(part) => distill::execute_part(config, part, args.dry_run, settings)?,
        None => distill::execute(config, args.dry_run, settings)?,
    };
    match done {
        Done::Planned | Done::Part => Ok(ExitCode::SUCCESS),
        Done::Stopped => Ok(ExitCode::FAILURE),
        Done::Written(report) => {
            if settings.json {
                printer::document(&report.to_string());
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}
