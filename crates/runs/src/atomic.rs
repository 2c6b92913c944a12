//! Files that are either whole or absent.

use crate::crash::{self, Point};
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Writes a file through a temporary one in the same folder: write, flush to the disk, rename, flush the folder. A
/// reader, or a crash at any moment, sees the old file or the whole new one. A link is followed, not replaced.
///
/// # Errors
/// When the folder does not exist or cannot be written, something other than a file is in the way, or `fill` fails; the
/// old file, if any, is untouched then.
pub fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let path = destination(path)?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".gorgon-").suffix(".tmp");
    // What any new file gets, less what the user's mask takes away.
    #[cfg(unix)]
    builder.permissions(<Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666));
    let before = path.metadata().ok().map(|there| there.permissions());
    let mut temporary = builder.tempfile_in(folder)?;
    let mut buffered = io::BufWriter::with_capacity(1 << 18, temporary.as_file_mut());
    fill(&mut buffered)?;
    buffered.flush()?;
    drop(buffered);
    crash::at(Point::AfterWrite);
    if let Some(permissions) = before {
        temporary.as_file().set_permissions(permissions)?;
    }
    temporary.as_file().sync_all()?;
    crash::at(Point::BeforeRename);
    temporary.persist(&path).map_err(|error| error.error)?;
    crash::at(Point::BeforeFolderSync);
    // A rename is durable once its folder is. Some systems cannot open folders; there the rename has to do.
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Where a file of this path would really be written.
///
/// # Errors
/// When something other than a file is there: renaming over a device or a pipe would replace it.
pub fn destination(path: &Path) -> io::Result<PathBuf> {
    match path.metadata() {
        Ok(there) if there.is_file() => path.canonicalize(),
        Ok(there) => {
            let what = if there.is_dir() { "a folder" } else { "no ordinary file" };
            Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {what}")))
        }
        Err(error) if error.kind() == ErrorKind::NotFound && path.symlink_metadata().is_err() => Ok(path.into()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
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
}
