//! `gorgon fetch`: a model from the hub into the cache.

use crate::args::Fetch;
use crate::printer;
use crate::settings::Settings;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::load;
use std::process::ExitCode;

pub fn run(args: &Fetch, settings: &Settings) -> Result<ExitCode, Failure> {
    let folder = load::newest(&args.repo, settings)?;
    if settings.json {
        let document = serde_json::json!({ "repo": args.repo, "folder": folder.display().to_string() });
        printer::document(&document.to_string());
    } else {
        printer::untrusted(&format!("{}\n", folder.display()));
    }
    Ok(ExitCode::SUCCESS)
}
