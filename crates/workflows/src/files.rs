//! Files and folders of results: checks before work begins, and writes that appear whole or not at all.

use crate::failure::Failure;
use crate::settings::Settings;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::file::{OTHER_TEXT_FILES, TEXT_FILES};
use gorgon_runs::provenance::{hash_bytes, hash_folder_weights};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Copies a file, whole or not at all.
///
/// # Errors
/// When it cannot be read or written.
pub fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let bytes = std::fs::read(from).map_err(|error| Failure::run(format!("{}: {error}", from.display())))?;
    write(to, &bytes)
}

fn write(to: &Path, bytes: &[u8]) -> Result<(), Failure> {
    gorgon_runs::atomic::write(to, |file| file.write_all(bytes))
        .map_err(|error| Failure::run(format!("{}: {error}", to.display())))
}

/// Writes pretty-printed JSON, whole or not at all.
///
/// # Errors
/// When it cannot be written.
pub fn write_json(path: &Path, value: &Value) -> Result<(), Failure> {
    gorgon_runs::atomic::write(path, |file| {
        serde_json::to_writer_pretty(&mut *file, value)?;
        file.write_all(b"\n")
    })
    .map_err(|error| Failure::run(format!("{}: {error}", path.display())))
}

/// Writes raw rows of a measurement to the file that was asked for, if there is one.
///
/// # Errors
/// When it cannot be written.
pub fn store_rows(path: Option<&Path>, rows: &Value, settings: &Settings) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    gorgon_runs::atomic::write(path, |file| file.write_all(rows.to_string().as_bytes()))
        .map_err(|error| Failure::io(path, &error))?;
    settings.console.say(format!("raw rows in {}", path.display()));
    Ok(())
}

/// Longest file of a tokenizer that is read.
const MAX_TOKENIZER_BYTES: u64 = 512 << 20;

/// Copies the files of a tokenizer from one model's folder to another's.
///
/// # Errors
/// When one cannot be read or written.
pub fn copy_tokenizer(from: &Path, out: &Path) -> Result<(), Failure> {
    for name in TEXT_FILES.into_iter().chain(OTHER_TEXT_FILES) {
        let failed = |error: std::io::Error| Failure::run(format!("{}: {error}", from.join(name).display()));
        match gorgon_gguf::read(from, name, MAX_TOKENIZER_BYTES) {
            Ok(bytes) => {
                let to = out.join(name);
                let folder = to.parent().unwrap_or(out);
                std::fs::create_dir_all(folder).map_err(|error| Failure::io(folder, &error))?;
                write(&to, &bytes)?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

/// Hash of a model's `tokenizer.json`, or of that which a GGUF file's metadata makes.
///
/// # Errors
/// When there is none or it cannot be read.
pub fn tokenizer_hash(model: &Path) -> Result<String, Failure> {
    const NAME: &str = "tokenizer.json";
    let bytes = gorgon_gguf::read(model, NAME, MAX_TOKENIZER_BYTES);
    Ok(hash_bytes(&bytes.map_err(|error| Failure::io(&gorgon_gguf::place(model, NAME), &error))?))
}

/// Hash of a model's weights.
///
/// # Errors
/// When they cannot be read.
pub fn weights_hash(model: &Path) -> Result<String, Failure> {
    let checkpoint = Checkpoint::open(model)?;
    let files: Vec<PathBuf> = checkpoint.files().map(Path::to_path_buf).collect();
    Ok(hash_folder_weights(&files)?)
}

/// SHA-256 of the files beside a model's weights that its text depends on, by name: sizes, end tokens, chat templates.
/// The tokenizer has a hash of its own ([`tokenizer_hash`]).
///
/// # Errors
/// When one cannot be read.
pub fn description_hashes(model: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let mut hashes = BTreeMap::new();
    for name in ["config.json"].into_iter().chain(TEXT_FILES).filter(|name| *name != "tokenizer.json") {
        match gorgon_gguf::read(model, name, MAX_TOKENIZER_BYTES) {
            Ok(bytes) => drop(hashes.insert(name.to_owned(), hash_bytes(&bytes))),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::io(&gorgon_gguf::place(model, name), &error)),
        }
    }
    Ok(hashes)
}

/// Copies the files of a licence from one model's folder to another's.
///
/// # Errors
/// When one cannot be read or written.
pub fn copy_licence(from: &Path, out: &Path) -> Result<(), Failure> {
    const NAMES: [&str; 5] = ["license", "licence", "notice", "copying", "use_policy"];
    for entry in from.read_dir().map_err(|error| Failure::io(from, &error))?.flatten() {
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if NAMES.iter().any(|known| name.starts_with(known)) && entry.path().is_file() {
            copy(&entry.path(), &out.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Bytes of all files in a folder and the folders in it.
pub fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => folder_bytes(&entry.path()),
        Ok(data) if data.is_file() => data.len(),
        _ => 0,
    };
    entries.map(size).sum()
}

/// The last part of a path, as a part of a folder's name.
pub fn stem(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let clean: String = name.chars().map(|c| if c.is_alphanumeric() || "-_".contains(c) { c } else { '-' }).collect();
    let clean = clean.trim_matches('-');
    if clean.is_empty() { "model".into() } else { clean.into() }
}

/// Fails where a folder that is to be written holds something already.
///
/// # Errors
/// Then.
pub fn check_empty(folder: &Path) -> Result<(), Failure> {
    if folder.exists() && folder.read_dir().map_or(true, |mut files| files.next().is_some()) {
        let message = format!("{}: it is there already and not empty", folder.display());
        return Err(Failure::input(message).hint("name another folder, or delete this one"));
    }
    Ok(())
}

/// Makes a hidden folder beside the one to be written: that one appears when it is whole.
///
/// # Errors
/// When it cannot be made.
pub fn staging(out: &Path) -> Result<tempfile::TempDir, Failure> {
    let failed = |e: std::io::Error| Failure::io(out, &e);
    let parent = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    check_writable(out)?;
    std::fs::create_dir_all(parent).map_err(failed)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".gorgon-").suffix(".tmp");
    // What any new folder gets, less what the user's mask takes away.
    #[cfg(unix)]
    builder.permissions(<std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777));
    builder.tempdir_in(parent).map_err(failed)
}

/// Gives a finished folder its name.
///
/// # Errors
/// When it cannot be renamed.
pub fn publish(staged: tempfile::TempDir, out: &Path) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::io(out, &e);
    // It is empty: that was checked.
    if out.is_dir() {
        std::fs::remove_dir(out).map_err(failed)?;
    }
    std::fs::rename(staged.path(), out).map_err(failed)?;
    let _ = staged.keep();
    // The name is durable once the folder around it is. Some systems cannot open folders.
    if let Some(Ok(parent)) = out.parent().map(std::fs::File::open) {
        let _ = parent.sync_all();
    }
    Ok(())
}

/// Fails early when a result could not be written in the end.
///
/// # Errors
/// When the folder of `path` does not exist or something other than a file is there.
pub fn check_output(path: &Path) -> Result<(), Failure> {
    let text = path.as_os_str().to_string_lossy();
    if path.file_name().is_none() || text.ends_with(['/', '\\']) || text.ends_with("/.") {
        return Err(Failure::input(format!("{}: a file name is expected", path.display())));
    }
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(Failure::input(format!("{}: the folder {} does not exist", path.display(), folder.display())));
    }
    let refused = |error: std::io::Error| Failure::not_writable(path, &error);
    // A link's file is written where the link leads.
    let real = gorgon_runs::atomic::destination(path).map_err(refused)?;
    let folder = real.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    probe(folder).map_err(refused)
}

/// Fails early when nothing could be written into a folder, which need not be there yet, and leaves nothing behind: the
/// folder is made when there is something to put into it.
///
/// # Errors
/// When a file is in its place or on the way to it, or its file system is full or read-only.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    let there = path.ancestors().find(|folder| folder.symlink_metadata().is_ok());
    let there = there.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if there.is_dir() {
        return probe(there).map_err(|error| Failure::not_writable(path, &error));
    }
    let what = if there == path { "it is no folder".into() } else { format!("{} is no folder", there.display()) };
    Err(Failure::input(format!("{}: {what}", path.display())))
}

/// Writes a byte to a file in a folder, and takes it away again.
fn probe(folder: &Path) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".gorgon-").suffix(".tmp").tempfile_in(folder)?;
    file.write_all(&[0])?;
    file.as_file().sync_all()?;
    file.close()
}

#[cfg(test)]
mod tests;
