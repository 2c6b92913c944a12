//! Tests of `newer`.

use super::*;

#[test]
fn a_replaced_file_appears_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(MODEL_FILE);
    let write = |text: &str| gorgon_runs::atomic::write(&path, |file| file.write_all(text.as_bytes())).unwrap();
    write("one");
    let mut newer = Newer { path: path.clone(), seen: Stamp::of(&path) };
    assert!(!newer.appeared());
    write("two and more");
    assert!(newer.appeared());
    assert!(!newer.appeared());
    std::fs::remove_file(&path).unwrap();
    assert!(!newer.appeared(), "there is nothing to load");
    write("three");
    assert!(newer.appeared());
}
