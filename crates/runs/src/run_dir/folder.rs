//! Folders: what is in them, what they are called, and when they are on the disk.

use crate::RunError;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Prefix of the name of an unfinished file or folder.
pub(super) const UNFINISHED_PREFIX: &str = ".gorgon-";
/// Suffix of the name of an unfinished file or folder.
pub(super) const UNFINISHED_SUFFIX: &str = ".tmp";

/// The entries of a folder, none if there is no folder. What is no text in a name is replaced.
pub(super) fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, RunError> {
    let found = match fs::read_dir(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
        Err(source) => return Err(RunError::Io { path: folder.into(), source }),
    };
    let mut entries = vec![];
    for entry in found {
        let entry = entry.map_err(RunError::io(folder))?;
        entries.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    Ok(entries)
}

/// Removes the files and folders whose writing was interrupted.
pub(super) fn remove_unfinished(folder: &Path) -> Result<(), RunError> {
    for (name, path) in entries(folder)? {
        if name.starts_with(UNFINISHED_PREFIX) && name.ends_with(UNFINISHED_SUFFIX) {
            // Of a link, only the link.
            let is_folder = path.symlink_metadata().map_err(RunError::io(&path))?.is_dir();
            let removed = if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(RunError::io(&path))?;
        }
    }
    Ok(())
}

/// A rename is durable once its folder is. Some systems cannot open folders; there the rename has to do.
pub(super) fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

/// The name of a checkpoint's folder.
pub(super) fn folder_name(step: u64) -> String {
    format!("step-{step:06}")
}

/// The number in the name of a checkpoint's folder.
pub(super) fn step_of(name: &str) -> Option<u64> {
    let step = name.strip_prefix("step-")?.parse().ok()?;
    (folder_name(step) == name).then_some(step)
}
