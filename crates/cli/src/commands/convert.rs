//! `gorgon convert`: PyTorch files as safetensors.

use crate::args::Convert;
use crate::printer;
use crate::settings::Settings;
use gorgon_workflows::convert;
use gorgon_workflows::failure::Failure;
use serde_json::json;
use std::process::ExitCode;

pub fn run(args: &Convert, settings: &Settings) -> Result<ExitCode, Failure> {
    let found = convert::execute(&args.from, &args.out, settings)?;
    if settings.json {
        let document = json!({"out": args.out.display().to_string(), "format": found.map(|format| format.name())});
        printer::document(&document.to_string());
    }
    Ok(ExitCode::SUCCESS)
}
