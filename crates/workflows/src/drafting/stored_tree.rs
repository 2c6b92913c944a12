//! Trees in files, and the tree that is stored with heads.

use crate::failure::Failure;
use crate::{absent, files};
use gorgon_core::tree::TreeShape;
use gorgon_runs::sealed;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The tree stored with heads.
pub const TREE_FILE: &str = "tree.json";
/// Key of the rank paths.
const PATHS: &str = "tree";
/// The largest file of a tree that is read.
const MAX_BYTES: u64 = 1 << 20;

/// A tree from a file: a list of rank paths, or what [`store`] wrote.
///
/// # Errors
/// When it cannot be read, is no such list, or was changed after it was stored.
pub fn file(path: &Path) -> Result<TreeShape, Failure> {
    absent::check(path, "file of a tree")?;
    let wrong = |reason: String| Failure::input(format!("{}: {reason}", path.display()));
    let bytes = gorgon_runs::file::read(path, MAX_BYTES).map_err(|error| wrong(error.to_string()))?;
    let document = gorgon_runs::json::read(&bytes).map_err(|error| wrong(error.to_string()))?;
    let mut document = sealed::open(document).map_err(|error| wrong(error.to_string()))?;
    // Of a key that is not known it is not known whether it was the hash's.
    let unknown = document.as_object().and_then(|fields| fields.keys().find(|key| *key != PATHS));
    if let Some(key) = unknown {
        return Err(wrong(format!("unknown key \"{key}\"")));
    }
    let paths = document.get_mut(PATHS).map(Value::take).unwrap_or(document);
    TreeShape::from_json(&paths.to_string()).map_err(|error| wrong(error.to_string()))
}

/// Stores a tree with the heads in a folder: rank paths, and a hash of them. Returns the file.
///
/// # Errors
/// When it cannot be written.
pub fn store(folder: &Path, paths: &[impl AsRef<[usize]>]) -> Result<PathBuf, Failure> {
    let path = folder.join(TREE_FILE);
    let paths: Vec<&[usize]> = paths.iter().map(AsRef::as_ref).collect();
    files::write_json(&path, &sealed::seal(&json!({ PATHS: paths })))?;
    Ok(path)
}

#[cfg(test)]
mod tests;
