//! PyTorch files as safetensors, without executing anything of them.

use crate::failure::Failure;
use crate::settings::Settings;
use crate::{absent, files};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::format::HeadsFormat;
use gorgon_draft::pytorch;
use std::path::{Path, PathBuf};

/// Converts a PyTorch file, or the one in a folder, to safetensors in the folder `out`. Returns the format of the heads
/// in it; weights that are no draft heads are converted all the same.
///
/// # Errors
/// When there is no such file, it holds more than tensors, or the folder cannot be written.
pub(super) fn execute(from: &Path, out: &Path, settings: &Settings) -> Result<Option<HeadsFormat>, Failure> {
    absent::check(from, "file or folder")?;
    let from = source(from)?;
    files::check_empty(out)?;
    let staged = files::staging(out)?;
    pytorch::convert(&from, &staged.path().join("model.safetensors"))?;
    let config = from.with_file_name("config.json");
    if config.is_file() {
        files::copy(&config, &staged.path().join("config.json"))?;
    }
    files::publish(staged, out)?;
    let found = HeadsFolder::open(out).ok().map(|folder| folder.detected.format);
    let description = found.map_or("weights that are no draft heads", |format| format.description());
    settings.console.say(format!("{description} in {}", out.display()));
    Ok(found)
}

/// The PyTorch file that is meant.
fn source(from: &Path) -> Result<PathBuf, Failure> {
    if !from.is_dir() {
        return Ok(from.to_path_buf());
    }
    let files = from.read_dir().map_err(|error| Failure::io(from, &error))?;
    let mut files: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    files.sort();
    let none = || Failure::input(format!("{}: no single .pt, .pth or .bin file is here", from.display()));
    pytorch::find(&files).cloned().ok_or_else(none)
}
