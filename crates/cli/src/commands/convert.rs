//! `gorgon convert`: PyTorch files as safetensors, without executing anything of them.

use crate::args::Convert;
use crate::commands::export::{publish, staging};
use crate::error::Failure;
use crate::fitting;
use crate::settings::Settings;
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::pytorch;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(args: &Convert, settings: &Settings) -> Result<ExitCode, Failure> {
    let from = source(&args.from)?;
    if args.out.exists() && args.out.read_dir().map_or(true, |mut files| files.next().is_some()) {
        return Err(Failure::input(format!("{}: it is there already and not empty", args.out.display())));
    }
    let staged = staging(&args.out)?;
    pytorch::convert(&from, &staged.path().join("model.safetensors"))?;
    let config = from.with_file_name("config.json");
    if config.is_file() {
        fitting::copy(&config, &staged.path().join("config.json"))?;
    }
    publish(staged, &args.out)?;
    // What was written is read back; weights that are no draft heads are converted all the same.
    let found = HeadsFolder::open(&args.out).ok().map(|folder| folder.detected.format);
    if settings.json {
        let document = json!({"out": args.out.display().to_string(), "format": found.map(|format| format.name())});
        crate::printer::document(&document.to_string());
    }
    let what = found.map_or("weights that are no draft heads", |format| format.description());
    settings.talk.say(format!("{what} in {}", args.out.display()));
    Ok(ExitCode::SUCCESS)
}

/// The PyTorch file that is meant.
fn source(from: &Path) -> Result<PathBuf, Failure> {
    if !from.is_dir() {
        return Ok(from.to_path_buf());
    }
    let files = from.read_dir().map_err(|error| Failure::input(format!("{}: {error}", from.display())))?;
    let mut files: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    files.sort();
    let none = || Failure::input(format!("{}: no single .pt, .pth or .bin file is here", from.display()));
    pytorch::find(&files).cloned().ok_or_else(none)
}
