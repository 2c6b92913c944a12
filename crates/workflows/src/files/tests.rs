//! Tests of `files`.

use super::*;

#[test]
fn a_folder_is_as_large_as_its_files() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("a")).unwrap();
    std::fs::write(dir.path().join("a/b"), [0; 300]).unwrap();
    std::fs::write(dir.path().join("c"), [0; 70]).unwrap();
    assert_eq!(folder_bytes(dir.path()), 370);
    assert_eq!(folder_bytes(&dir.path().join("nowhere")), 0);
}
