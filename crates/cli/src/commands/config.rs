//! `gorgon config`: schemas and checks of config files; printing resolved configs.

use crate::args::ConfigCommand;
use crate::printer;
use crate::settings::Settings;
use gorgon_workflows::config::{self, Config};
use gorgon_workflows::failure::Failure;
use serde_json::json;
use std::process::ExitCode;

pub fn run(command: &ConfigCommand, settings: &Settings) -> Result<ExitCode, Failure> {
    match command {
        ConfigCommand::Schema { kind } => printer::document(&pretty(&kind.schema())?),
        ConfigCommand::Reference { kind } if settings.json => {
            printer::document(&json!({"kind": kind.name(), "page": config::reference(*kind)}).to_string());
        }
        ConfigCommand::Reference { kind } => printer::piece(&config::reference(*kind)),
        ConfigCommand::Check { file, overrides } => {
            let kind = config::check(file, overrides)?;
            if settings.json {
                let document = json!({"file": file.display().to_string(), "kind": kind.name(), "valid": true});
                printer::document(&document.to_string());
            } else {
                printer::line(&format!("{}: a valid {kind} config", file.display()));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn pretty(document: &serde_json::Value) -> Result<String, Failure> {
    serde_json::to_string_pretty(document).map_err(Failure::run)
}

/// Prints a resolved config: as TOML, or as a JSON document.
pub fn print<T: Config>(resolved: T, settings: &Settings) -> Result<ExitCode, Failure> {
    let resolved = resolved.resolved();
    if settings.json {
        printer::document(&serde_json::to_string(&resolved).map_err(Failure::run)?);
    } else {
        printer::untrusted(&config::to_toml(&resolved)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a plan as the one JSON document that was asked for.
pub fn planned(plan: &serde_json::Value, settings: &Settings) -> ExitCode {
    if settings.json {
        printer::document(&json!({"plan": plan}).to_string());
    }
    ExitCode::SUCCESS
}
