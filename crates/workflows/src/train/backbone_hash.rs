//! The identity of a backbone.

use crate::failure::Failure;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::provenance::hash_folder_weights;
use std::path::{Path, PathBuf};

/// Hash of the backbone's files.
///
/// # Errors
/// When they cannot be read.
pub fn backbone_hash(dir: &Path) -> Result<String, Failure> {
    let checkpoint = Checkpoint::open(dir)?;
    let files: Vec<PathBuf> = checkpoint.files().map(Path::to_path_buf).collect();
    Ok(hash_folder_weights(&files)?)
}
