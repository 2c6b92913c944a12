//! `gorgon fetch`: a model from the hub into the cache.

use crate::args::Fetch;
use crate::commands::load;
use crate::error::Failure;
use crate::settings::Settings;
use std::process::ExitCode;

pub fn run(args: &Fetch, settings: &Settings) -> Result<ExitCode, Failure> {
    let folder = load::newest(&args.repo, settings)?;
    if settings.json {
        let document = serde_json::json!({ "repo": args.repo, "folder": folder.display().to_string() });
        crate::printer::document(&document.to_string());
    } else {
        crate::printer::document(&folder.display().to_string());
    }
    Ok(ExitCode::SUCCESS)
}
