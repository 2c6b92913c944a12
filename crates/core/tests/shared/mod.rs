//! Finds the reference fixtures, which live beside the project and are not part of it.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// The path of `rel` inside the shared folder: `$GORGON_SHARED` when set, else `shared/` beside the project's root.
///
/// `None` when it is not there; the line printed to stderr then names the `test` that was skipped.
#[allow(dead_code)] // each test binary compiles its own copy of this module
pub fn shared(rel: &str, test: &str) -> Option<PathBuf> {
    let root = std::env::var_os("GORGON_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = root.join(rel);
    if path.exists() {
        return Some(path);
    }
    // Written past the test harness, which swallows what passing tests print with macros.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {} not found", path.display());
    None
}
