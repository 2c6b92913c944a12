//! Paths that do not exist.

use crate::failure::Failure;
use gorgon_core::suggest::closest;
use gorgon_runs::visible;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Fails for a path that an option names and that does not exist. `noun` says what should be there.
///
/// # Errors
/// Then, with the name beside it that was probably meant.
pub fn check(path: &Path, noun: &str) -> Result<(), Failure> {
    // A folder that cannot be searched is no missing path: whoever opens it says why.
    if !matches!(path.symlink_metadata(), Err(error) if error.kind() == ErrorKind::NotFound) {
        return Ok(());
    }
    let failure = Failure::input(format!("{}: no such {noun}", path.display()));
    Err(failure.hint(match meant(path) {
        Some(meant) => format!("did you mean {}?", meant.display()),
        None => inside(existing(path)),
    }))
}

/// The names in a folder.
pub(crate) fn inside(folder: &Path) -> String {
    let names = names(folder);
    let folder = shown(folder);
    if names.is_empty() { format!("{folder} is empty") } else { format!("{folder} has {}", visible::listed(&names)) }
}

/// A folder in a sentence.
pub(crate) fn shown(folder: &Path) -> String {
    match folder.as_os_str().is_empty() {
        true => "the current folder".into(),
        false => folder.display().to_string(),
    }
}

/// The last folder on the way to a path that does not exist; empty for the current one.
pub(crate) fn existing(path: &Path) -> &Path {
    let is_folder = |folder: &&Path| folder.as_os_str().is_empty() || folder.is_dir();
    path.ancestors().skip(1).find(is_folder).unwrap_or(Path::new(""))
}

/// The path that was probably meant by one that does not exist: each part that is missing is the nearest name there, as
/// far as there is one.
pub(crate) fn meant(path: &Path) -> Option<PathBuf> {
    let folder = existing(path);
    let mut parts = path.strip_prefix(folder).ok()?.components().map(|part| Path::new(part.as_os_str()));
    let mut meant = folder.join(nearest(folder, parts.next()?)?);
    for part in parts {
        let exact = meant.join(part);
        let near = || nearest(&meant, part).map(|name| meant.join(name));
        match if exact.exists() { Some(exact) } else { near() } {
            Some(next) => meant = next,
            None => break,
        }
    }
    Some(meant)
}

/// Letters of a folder's name from which one wrong letter is a slip; shorter names differ by one on purpose.
const LONG_NAME: usize = 5;
/// How alike a folder's name must be if all that follows is alike, too: Jaro's measure.
const ALIKE: f64 = 0.85;

/// True if a missing path is likely a mistyped local one, not `owner/name` on the hub: its first part is at most one
/// letter away from a folder here, or each of its parts is close to a part of an existing path.
pub(crate) fn begins_nearly_here(path: &Path) -> bool {
    let count = path.components().count();
    let Some(meant) = meant(path).filter(|_| count > 1) else { return false };
    let (Some(typed), Some(here)) = (path.iter().next(), meant.iter().next()) else { return false };
    let is_folder = Path::new(here).is_dir();
    let (typed, here) = (typed.to_string_lossy().to_lowercase(), here.to_string_lossy().to_lowercase());
    let slip = typed.chars().count() >= LONG_NAME && strsim::osa_distance(&typed, &here) <= 1;
    let whole = meant.components().count() == count && strsim::jaro(&typed, &here) >= ALIKE;
    is_folder && (slip || whole)
}

/// The names in a folder, ordered, without hidden ones; an empty path is the current folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = folder.read_dir().into_iter().flatten();
    let entries = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = entries.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

/// The name in a folder that is nearest to a part of a path.
fn nearest(folder: &Path, part: &Path) -> Option<String> {
    let names = names(folder);
    closest(part.file_name()?.to_str()?, names.iter().map(String::as_str)).map(String::from)
}
