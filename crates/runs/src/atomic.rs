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
mod tests;
