//! `gorgon export`: heads for other engines.

use crate::args::Export;
use crate::printer;
use crate::settings::Settings;
use gorgon_workflows::export::{self, Options};
use gorgon_workflows::failure::Failure;
use serde_json::json;
use std::process::ExitCode;

pub fn run(args: &Export, settings: &Settings) -> Result<ExitCode, Failure> {
    let Export { run, to, out, model } = args;
    let options = Options { run: run.clone(), to: *to, out: out.clone(), model: model.clone() };
    let written = export::execute(&options, settings)?;
    if settings.json {
        let document = json!({"out": out.display().to_string(), "format": written.name()});
        printer::document(&document.to_string());
    }
    Ok(ExitCode::SUCCESS)
}
