//! Which files a checkpoint holds, and their hashes.

use super::folder::{entries, sync_folder};
use crate::RunError;
use crate::provenance::hash_file;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

/// SHA-256 by file; paths are relative to the checkpoint's folder and written with `/`.
pub(super) type Manifest = BTreeMap<String, String>;

/// Flushes all files and folders below `folder` to the disk and hashes the files.
pub(super) fn sync_and_hash(folder: &Path) -> Result<Manifest, RunError> {
    let mut manifest = Manifest::new();
    collect(folder, "", &mut manifest)?;
    Ok(manifest)
}

fn collect(folder: &Path, prefix: &str, manifest: &mut Manifest) -> Result<(), RunError> {
    for (name, path) in entries(folder)? {
        let kind = path.symlink_metadata().map_err(RunError::io(&path))?.file_type();
        if folder.join(&name) != path {
            return Err(RunError::damaged(&path, "the name of a checkpoint's file has to be UTF-8"));
        }
        let name = format!("{prefix}{name}");
        if kind.is_dir() {
            collect(&path, &format!("{name}/"), manifest)?;
        } else if kind.is_file() {
            sync_file(&path)?;
            manifest.insert(name, hash_file(&path).map_err(RunError::io(&path))?);
        } else {
            return Err(RunError::damaged(&path, "a checkpoint holds files and folders only"));
        }
    }
    sync_folder(folder);
    Ok(())
}

/// Windows flushes only files that are open for writing.
pub(super) fn sync_file(path: &Path) -> Result<(), RunError> {
    let file = File::options().read(true).write(cfg!(windows)).open(path);
    file.and_then(|file| file.sync_all()).map_err(RunError::io(path))
}

/// The path of a file that a manifest names; none if the name leads out of the folder.
pub(super) fn inside(folder: &Path, name: &str) -> Option<PathBuf> {
    let relative = Path::new(name);
    let stays = relative.components().all(|part| matches!(part, Component::Normal(_)));
    (stays && !name.is_empty()).then(|| folder.join(relative))
}

/// Compares every file with its hash.
pub(super) fn verify(folder: &Path, manifest: &Manifest) -> Result<(), RunError> {
    for (name, expected) in manifest {
        let path = inside(folder, name)
            .ok_or_else(|| RunError::damaged(folder, format!("its manifest names {name:?}, which is not in it")))?;
        let found = hash_file(&path).map_err(RunError::io(&path))?;
        if found != *expected {
            let reason = format!("its SHA-256 is {found}, and {expected} when the checkpoint was written");
            return Err(RunError::damaged(&path, reason));
        }
    }
    Ok(())
}
