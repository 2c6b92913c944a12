//! Files that are either whole or absent.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use tempfile::NamedTempFile;

/// Writes a file through a temporary one in the same folder: write, flush to the disk, rename, flush the folder. A
/// reader, or a crash at any moment, sees the old file or the whole new one.
///
/// # Errors
/// When the folder does not exist or cannot be written, or `fill` fails; the old file, if any, is untouched then.
pub fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut temporary = beside(path)?;
    let mut buffered = io::BufWriter::new(temporary.as_file_mut());
    fill(&mut buffered)?;
    buffered.flush()?;
    drop(buffered);
    publish(temporary, path)
}

/// As [`write`], for writers that want a path of their own: `produce` writes to the path it is given.
///
/// # Errors
/// As [`write`].
pub fn write_path(path: &Path, produce: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let temporary = beside(path)?;
    produce(temporary.path())?;
    publish(temporary, path)
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn beside(path: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(".gorgon-").suffix(".tmp").tempfile_in(folder(path))
}

fn publish(temporary: NamedTempFile, path: &Path) -> io::Result<()> {
    temporary.as_file().sync_all()?;
    // Temporary files are private; the result gets the permissions an ordinary new file would have.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        temporary.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    }
    temporary.persist(path).map_err(|error| error.error)?;
    // A rename is durable once its folder is. Some systems cannot open folders; there the rename has to do.
    if let Ok(folder) = File::open(folder(path)) {
        let _ = folder.sync_all();
    }
    Ok(())
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
        write_path(&path, |temporary| std::fs::write(temporary, b"new")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert!(write_path(&path, |_| Err(io::Error::other("no"))).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(write(&dir.path().join("no/such/file"), |_| Ok(())).is_err());
    }
}
