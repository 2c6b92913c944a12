//! Where run folders are.

use crate::absent;
use crate::failure::Failure;
use gorgon_runs::run_dir::RunView;
use std::path::{Path, PathBuf};

/// Whether a folder is that of a run: of a training, a pretraining or a comparison.
pub fn is_run(folder: &Path) -> bool {
    RunView::open(folder).is_ok_and(|run| run.metrics().is_file() || run.provenance().is_file())
}

/// How many folders below a given one are searched for runs.
const DEPTH: usize = 3;

/// The run folders among `folders` and at most three levels below them, in order of their folders and names.
///
/// # Errors
/// When one of `folders` cannot be read.
pub fn find(folders: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut runs = vec![];
    for folder in folders {
        if is_run(folder) {
            runs.push(folder.clone());
            continue;
        }
        absent::check(folder, "folder")?;
        folder.read_dir().map_err(|error| Failure::input(format!("{}: {error}", folder.display())))?;
        let mut below = vec![];
        search(folder, DEPTH, &mut below);
        below.sort_by_key(|path| order(path));
        runs.extend(below);
    }
    Ok(runs)
}

/// Adds the runs below a folder. Folders that cannot be read and links are left out.
fn search(folder: &Path, depth: usize, runs: &mut Vec<PathBuf>) {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    for path in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()) {
        if is_run(&path) {
            runs.push(path);
        } else if depth > 1 {
            search(&path, depth - 1, runs);
        }
    }
}

/// `medusa-tiny-2` comes before `medusa-tiny-10`.
fn order(path: &Path) -> (PathBuf, String, u64) {
    let parent = path.parent().unwrap_or(path).to_owned();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match name.rsplit_once('-').and_then(|(stem, number)| Some((stem.to_owned(), number.parse().ok()?))) {
        Some((stem, number)) => (parent, stem, number),
        None => (parent, name, 0),
    }
}
