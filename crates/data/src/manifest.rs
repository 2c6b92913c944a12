//! Which shards a finished distillation wrote, and their hashes.

use crate::shard::{ShardError, files};
use gorgon_runs::atomic;
use gorgon_runs::provenance::{hash_bytes, hash_file};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The file, beside the shards. It is written when all of them are.
pub const MANIFEST: &str = "shards.json";
/// Written when a distillation begins.
pub const IDENTITY: &str = "identity.json";
/// Written when a distillation is done, also by versions without a manifest.
pub const REPORT: &str = "report.json";

/// A shard as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    rows: usize,
    sha256: String,
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    shards: BTreeMap<String, Written>,
    /// SHA-256 of the list above.
    sha256: String,
}

fn digest(shards: &BTreeMap<String, Written>) -> io::Result<String> {
    Ok(hash_bytes(&serde_json::to_vec(shards)?))
}

/// Hashes the named shards and writes the manifest.
///
/// # Errors
/// When a shard cannot be read or the manifest cannot be written.
pub fn write(dir: &Path, shards: &[(String, usize)]) -> io::Result<()> {
    let mut written = BTreeMap::new();
    for (name, rows) in shards {
        written.insert(name.clone(), Written { rows: *rows, sha256: hash_file(&dir.join(name))? });
    }
    let sha256 = digest(&written)?;
    let manifest = Manifest { shards: written, sha256 };
    atomic::write(&dir.join(MANIFEST), |file| {
        serde_json::to_writer_pretty(&mut *file, &manifest)?;
        file.write_all(b"\n")
    })
}

/// Compares a folder's shards with its manifest. Folders of earlier versions and of other programs have none, and are
/// taken as they are.
///
/// # Errors
/// When a shard is missing, is no longer what was written, or is not in the manifest, or when a distillation is not
/// done yet; the error names the file.
pub fn verify(dir: &Path) -> Result<(), ShardError> {
    let path = dir.join(MANIFEST);
    let invalid = |path: &Path, reason: String| ShardError::Invalid { path: path.into(), reason };
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match dir.join(IDENTITY).exists() && !dir.join(REPORT).exists() {
                true => {
                    Err(invalid(dir, "no shard-*.parquet files to rely on: gorgon distill has not finished".into()))
                }
                false => Ok(()),
            };
        }
        Err(source) => return Err(ShardError::Io { path, source }),
    };
    let Manifest { shards: manifest, sha256 } =
        gorgon_runs::json::read(&text).map_err(|error| invalid(&path, error.to_string()))?;
    if digest(&manifest).ok().as_ref() != Some(&sha256) {
        return Err(invalid(&path, "it is not as it was written: its own SHA-256 says otherwise".into()));
    }
    for (name, written) in &manifest {
        let shard = dir.join(name);
        if Path::new(name).file_name().is_none_or(|plain| plain != name.as_str()) {
            return Err(invalid(&path, format!("it names {name:?}, which is no file of this folder")));
        }
        let found = hash_file(&shard).map_err(|source| ShardError::Io { path: shard.clone(), source })?;
        if found != written.sha256 {
            let reason = format!("its SHA-256 is {found}, and {} when it was written", written.sha256);
            return Err(invalid(&shard, reason));
        }
    }
    let stray = files(dir)?
        .into_iter()
        .find(|path| path.file_name().is_none_or(|name| !manifest.contains_key(&name.to_string_lossy().into_owned())));
    match stray {
        Some(path) => Err(invalid(&path, format!("it is no shard of this distillation: {MANIFEST} does not name it"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
