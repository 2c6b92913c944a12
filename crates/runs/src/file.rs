//! Small files from outside, read with a limit.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Opens an ordinary file. Opening a pipe would wait for a writer, and a device may never end.
///
/// # Errors
/// When there is none, it is something else, or the system refuses.
pub fn open(path: &Path) -> io::Result<File> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "not an ordinary file"));
    }
    File::open(path)
}

/// The contents of an ordinary file of at most `limit` bytes.
///
/// # Errors
/// As [`open`], or when the file is longer.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("longer than {limit} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
