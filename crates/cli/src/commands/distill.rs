//! `gorgon distill`: prompts in, training shards out.

mod preview;

use crate::args::Distill;
use crate::printer;
use crate::settings::Settings;
use gorgon_data::config::DistillConfig;
use gorgon_workflows::config::Given;
use gorgon_workflows::distill::{self, Assumed, Done};
use gorgon_workflows::failure::Failure;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

pub fn run(args: &Distill, settings: &Settings) -> Result<ExitCode, Failure> {
    let (file, overrides) = (Some(args.config.as_path()), args.overrides.as_slice());
    let config: DistillConfig = Given { file, overrides, settings, resume: None }.load()?;
    if args.print_config {
        return super::config::print(config, settings);
    }
    if let Some(n) = args.preview.filter(|_| !args.dry_run) {
        let shown = distill::preview(config, n, settings)?;
        match settings.json {
            true => printer::document(&preview::document(&shown).to_string()),
            false => preview::show(&shown)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let out = config.out.clone();
    if args.dry_run {
        let assumed = Assumed { tokens: args.assume_tokens, bandwidth: args.assume_bandwidth };
        return Ok(super::config::planned(&distill::plan(config, args.shard, assumed, settings)?, settings));
    }
    let done = match args.shard {
        Some(part) => distill::execute_part(config, part, settings)?,
        None => distill::execute(config, settings)?,
    };
    match done {
        Done::Part => Ok(ended(&out, "part", settings, ExitCode::SUCCESS)),
        Done::Stopped => Ok(ended(&out, "stopped", settings, ExitCode::FAILURE)),
        Done::Written(report) => {
            if settings.json {
                printer::document(&report.to_string());
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The JSON document of a distillation that has no report yet.
fn ended(out: &Path, state: &str, settings: &Settings, code: ExitCode) -> ExitCode {
    if settings.json {
        printer::document(&json!({ "data": out, "state": state }).to_string());
    }
    code
}
