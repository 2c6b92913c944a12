//! Finding the reference data that several test files compare with.

use std::path::{Path, PathBuf};

/// The path of `rel` inside the folder of reference data, or `None`, said loudly, when it is not there.
///
/// The folder is `$GORGON_SHARED`, or `shared` beside the repository.
pub fn shared(rel: &str, test: &str) -> Option<PathBuf> {
    let root = std::env::var_os("GORGON_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    let path = root.join(rel);
    if path.exists() {
        return Some(path);
    }
    eprintln!("SKIPPED: {test}: {} not found", path.display());
    None
}
