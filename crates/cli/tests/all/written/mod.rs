//! Files of the repository that tests keep true.

use std::path::{Path, PathBuf};

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Fails where a file is not `text`; with `GORGON_WRITE_REFERENCE=1` writes it.
pub fn check(name: &str, text: &str) {
    let path = root().join(name);
    if std::env::var_os("GORGON_WRITE_REFERENCE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == text, "{name} is stale: run this test with GORGON_WRITE_REFERENCE=1");
}
