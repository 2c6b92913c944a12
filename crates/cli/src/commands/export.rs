//! `gorgon export`: heads for other engines.

use crate::args::Export;
use crate::printer;
use crate::settings::Settings;
use gorgon_workflows::export::{self, Options, Upload};
use gorgon_workflows::failure::Failure;
use serde_json::json;
use std::process::ExitCode;

pub fn run(args: &Export, settings: &Settings) -> Result<ExitCode, Failure> {
    let Export { run, to, out, model, push, private } = args;
    let upload = push.as_ref().map(|repo| Upload { repo: repo.clone(), private: *private });
    let options = Options { run: run.clone(), to: *to, out: out.clone(), model: model.clone(), upload };
    let exported = export::execute(&options, settings)?;
    if settings.json {
        let format = exported.format.map(|format| format.name());
        let mut document = json!({"out": out.display().to_string(), "to": to.name(), "format": format});
        if let Some(address) = exported.address {
            document["address"] = address.into();
        }
        printer::document(&document.to_string());
    }
    Ok(ExitCode::SUCCESS)
}
