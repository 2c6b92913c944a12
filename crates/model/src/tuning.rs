//! Tuning results of a GPU build, kept from run to run: the fastest kernel of each matmul.
//!
//! The database that it is in panics over damage (flipped bits in its pages, its table of readers overwritten). So what
//! a run leaves is sealed with its hashes when the program ends, and read only while the seal holds; without it, it is
//! deleted and measured again. One process at a time has the folder; others measure for themselves.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Prefix of the database's files.
const DATABASE: &str = "default.db";
/// Suffix of its table of readers: of no use once they are gone.
const READERS: &str = "-tshm";
const SEAL: &str = "seal";
/// More than any database of this kind.
const LARGEST: u64 = 1 << 28;

/// The folder that this process has.
#[derive(Debug)]
struct Held {
    folder: PathBuf,
    /// Locked for as long as this process lives.
    _lock: File,
}

static HELD: OnceLock<Option<Held>> = OnceLock::new();

/// Takes the folder, once, before a GPU is looked for. Nothing that goes wrong here is worth more than measuring again.
pub(crate) fn begin() {
    if cfg!(feature = "tuned") {
        HELD.get_or_init(|| {
            let held = folder(&|name| std::env::var(name).ok(), std::env::home_dir()).and_then(|path| hold(&path).ok());
            gorgon_kernels::tuning::keep_in(held.as_ref().map(|held| held.folder.clone()));
            held
        });
    }
}

/// Seals what this process has measured. To be called when it ends in good order.
pub fn seal() {
    if let Some(Some(held)) = HELD.get() {
        // Without a seal the next run measures again.
        let _ = write_seal(&held.folder);
    }
}

/// `gorgon/tuning` in the user's folder for caches, if there is one. A relative `XDG_CACHE_HOME` counts as none.
fn folder(var: &dyn Fn(&str) -> Option<String>, home: Option<PathBuf>) -> Option<PathBuf> {
    let named = var("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = named.or_else(|| home.map(|home| home.join(".cache")))?;
    Some(cache.join("gorgon").join("tuning"))
}

/// Locks a folder, and deletes what is not as it was sealed.
fn hold(folder: &Path) -> io::Result<Held> {
    std::fs::create_dir_all(folder)?;
    let lock = File::options().create(true).truncate(false).write(true).open(folder.join("lock"))?;
    lock.try_lock().map_err(io::Error::other)?;
    let sealed =
        std::fs::read_to_string(folder.join(SEAL)).is_ok_and(|seal| hashes(folder).is_ok_and(|now| now == seal));
    for name in names(folder)? {
        if !sealed || name.ends_with(READERS) {
            std::fs::remove_file(folder.join(name))?;
        }
    }
    Ok(Held { folder: folder.to_owned(), _lock: lock })
}

fn write_seal(folder: &Path) -> io::Result<()> {
    let hashes = hashes(folder)?;
    gorgon_runs::atomic::write(&folder.join(SEAL), |file| file.write_all(hashes.as_bytes()))
}

/// The database's files.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = vec![];
    for entry in std::fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string().ok().filter(|name| name.starts_with(DATABASE)));
    }
    names.sort();
    Ok(names)
}

/// A line with the hash of each file but the table of readers.
fn hashes(folder: &Path) -> io::Result<String> {
    let mut lines = String::new();
    for name in names(folder)?.into_iter().filter(|name| !name.ends_with(READERS)) {
        let path = folder.join(&name);
        let mut bytes = vec![];
        if !path.metadata()?.is_file() || File::open(path)?.take(LARGEST).read_to_end(&mut bytes)? as u64 == LARGEST {
            return Err(io::Error::other("it is no database of this kind"));
        }
        let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        lines.push_str(&format!("{hash}  {name}\n"));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests;
