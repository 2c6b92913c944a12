//! Tests of `file`.

use super::*;

#[test]
fn only_ordinary_files_within_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, [7; 10]).unwrap();
    assert_eq!(read(&path, 10).unwrap(), [7; 10]);
    assert!(read(&path, 9).is_err());
    assert!(read(dir.path(), 9).is_err());
    assert_eq!(read(&dir.path().join("none"), 9).unwrap_err().kind(), ErrorKind::NotFound);
    #[cfg(unix)]
    assert!(read(Path::new("/dev/zero"), 9).is_err());
}
