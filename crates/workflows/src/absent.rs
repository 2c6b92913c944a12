//! Paths that do not exist.

use crate::failure::Failure;
use gorgon_core::suggest::closest;
use gorgon_runs::visible;
use std::io::ErrorKind;
use std::path::Path;

/// Fails for a path that an option names and that does not exist. `noun` says what should be there.
///
/// # Errors
/// Then, with the name beside it that was probably meant.
pub fn check(path: &Path, noun: &str) -> Result<(), Failure> {
    // A folder that cannot be searched is no missing path: whoever opens it says why.
    if !matches!(path.symlink_metadata(), Err(error) if error.kind() == ErrorKind::NotFound) {
        return Ok(());
    }
    // The first part of the path that is not there.
    let is_there = |path: &Path| path.as_os_str().is_empty() || path.is_dir();
    let missing = path.ancestors().find(|part| part.parent().is_none_or(is_there)).unwrap_or(path);
    let parent = missing.parent().unwrap_or(Path::new(""));
    let failure = Failure::input(format!("{}: no such {noun}", path.display()));
    Err(failure.hint(beside(parent, missing)))
}

/// The name in a folder that was probably meant, or the names in it.
pub(crate) fn beside(parent: &Path, path: &Path) -> String {
    let names = names(parent);
    match nearest(&names, path) {
        Some(name) => format!("did you mean {}?", parent.join(name).display()),
        None => listed(parent, &names),
    }
}

/// The names in a folder.
pub(crate) fn inside(folder: &Path) -> String {
    listed(folder, &names(folder))
}

fn listed(folder: &Path, names: &[String]) -> String {
    let folder = match folder.as_os_str().is_empty() {
        true => "the current folder".into(),
        false => folder.display().to_string(),
    };
    if names.is_empty() { format!("{folder} is empty") } else { format!("{folder} has {}", visible::listed(names)) }
}

/// Whether the first part of a relative path is a name here, or nearly one.
pub(crate) fn begins_nearly_here(path: &Path) -> bool {
    let first = path.components().next().map(|first| Path::new(first.as_os_str()));
    first.is_some_and(|first| nearest(&names(Path::new("")), first).is_some())
}

fn shown(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

/// The names in a folder, ordered, without hidden ones.
fn names(folder: &Path) -> Vec<String> {
    let entries = shown(folder).read_dir().into_iter().flatten();
    let entries = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = entries.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

fn nearest<'a>(names: &'a [String], path: &Path) -> Option<&'a str> {
    closest(path.file_name()?.to_str()?, names.iter().map(String::as_str))
}
