//! Tests of `atomic`.

use super::*;

#[test]
fn a_failed_write_leaves_the_old_file_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.bin");
    write(&path, |f| f.write_all(b"old")).unwrap();
    let failed = write(&path, |f| {
        f.write_all(b"half of the new")?;
        Err(io::Error::other("disk on fire"))
    });
    assert!(failed.is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    write(&path, |f| f.write_all(b"new")).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
}

#[test]
fn a_missing_folder_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    assert!(write(&dir.path().join("no/such/file"), |_| Ok(())).is_err());
    assert!(write(dir.path(), |_| Ok(())).unwrap_err().to_string().contains("a folder"));
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_devices_left_alone() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("file"), dir.path().join("link"));
    write(&file, |f| f.write_all(b"old")).unwrap();
    symlink(&file, &link).unwrap();
    write(&link, |f| f.write_all(b"new")).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"new");
    assert!(link.symlink_metadata().unwrap().is_symlink());
    symlink("/dev/null", dir.path().join("null")).unwrap();
    assert!(write(&dir.path().join("null"), |_| Ok(())).is_err());
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    assert!(write(&dir.path().join("dangling"), |_| Ok(())).is_err());
    // The permissions of any new file, whatever this user's mask is.
    let plain = dir.path().join("plain");
    File::create(&plain).unwrap();
    assert_eq!(file.metadata().unwrap().mode(), plain.metadata().unwrap().mode());
    // A file that is replaced keeps its own.
    std::fs::set_permissions(&plain, <Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600)).unwrap();
    write(&plain, |f| f.write_all(b"secret")).unwrap();
    assert_eq!(plain.metadata().unwrap().mode() & 0o777, 0o600);
}
