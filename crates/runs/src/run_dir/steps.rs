//! Checkpoints: folders that are whole or absent.

use super::folder::{UNFINISHED_PREFIX, UNFINISHED_SUFFIX, entries, folder_name, step_of, sync_folder};
use super::manifest::{self, Manifest};
use super::{RunDir, RunView};
use crate::crash::{self, Point};
use crate::provenance::hash_bytes;
use crate::{RunError, atomic};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The file of a checkpoint that is written last: the step, the caller's state and the hashes of all other files.
pub const STATE_FILE: &str = "state.json";

/// A checkpoint whose files are as they were written.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its folder.
    pub path: PathBuf,
    /// Its number.
    pub step: u64,
    /// The caller's state.
    pub state: Value,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StateFile {
    step: u64,
    state: Value,
    manifest: Manifest,
    /// SHA-256 of the fields above; checkpoints of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

impl StateFile {
    /// SHA-256 of the fields, in hexadecimal.
    fn digest(&self) -> Result<String, serde_json::Error> {
        serde_json::to_vec(&(self.step, &self.state, &self.manifest)).map(|bytes| hash_bytes(&bytes))
    }
}

impl Step {
    /// The caller's state, in the caller's own type.
    ///
    /// # Errors
    /// When it is something else.
    pub fn state<S: DeserializeOwned>(&self) -> Result<S, RunError> {
        S::deserialize(&self.state).map_err(|error| RunError::damaged(&self.path.join(STATE_FILE), error))
    }
}

impl RunView {
    /// The numbers of the whole checkpoints, in order. Whole means that all files are there; [`RunView::open_step`]
    /// looks into them.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn steps(&self) -> Result<Vec<u64>, RunError> {
        let named = entries(self.path())?.into_iter().filter_map(|(name, _)| step_of(&name));
        let mut steps: Vec<u64> = named.filter(|&step| read_whole(&self.step(step), step).is_ok()).collect();
        steps.sort_unstable();
        Ok(steps)
    }

    /// The errors of the checkpoints that are not whole, by name. An empty list says nothing about their contents;
    /// [`RunView::open_step`] looks into them.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn damaged_steps(&self) -> Result<Vec<RunError>, RunError> {
        let named = entries(self.path())?.into_iter().filter_map(|(name, _)| step_of(&name));
        Ok(named.filter_map(|step| read_whole(&self.step(step), step).err()).collect())
    }

    /// Reads a checkpoint's state and compares all files with their hashes.
    ///
    /// # Errors
    /// When there is no whole checkpoint of this step, or a file of it is not as it was written; the error names it.
    pub fn open_step(&self, step: u64) -> Result<Step, RunError> {
        let path = self.step(step);
        if !path.is_dir() {
            return Err(RunError::Missing { path });
        }
        let file = read_whole(&path, step)?;
        manifest::verify(&path, &file.manifest)?;
        tracing::debug!(step, folder = %path.display(), files = file.manifest.len(), "checkpoint read, hashes match");
        Ok(Step { path, step, state: file.state })
    }

    /// The number of the best checkpoint, if one was named.
    ///
    /// # Errors
    /// When the file `best` cannot be read, or names no whole checkpoint.
    pub fn best(&self) -> Result<Option<u64>, RunError> {
        let path = self.best_path();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(RunError::Io { path, source }),
        };
        let name = text.trim_end();
        match step_of(name) {
            Some(step) if read_whole(&self.step(step), step).is_ok() => Ok(Some(step)),
            _ => Err(RunError::damaged(&path, format!("it names {name:?}, which is no whole checkpoint of this run"))),
        }
    }

    /// The file that names the best checkpoint.
    #[must_use]
    pub fn best_path(&self) -> PathBuf {
        self.path().join("best")
    }
}

impl RunDir {
    /// Writes a checkpoint: `fill` gets an empty folder for the files and returns the state to store with them. The
    /// checkpoint appears under its name when all of it is on the disk. Returns its folder.
    ///
    /// # Errors
    /// When a checkpoint of this step is there already, `fill` fails, the folder cannot be written, or the state is not
    /// representable in JSON. Nothing is left behind then.
    pub fn write_step<S: Serialize>(
        &self,
        step: u64,
        fill: impl FnOnce(&Path) -> Result<S, Box<dyn Error + Send + Sync>>,
    ) -> Result<PathBuf, RunError> {
        let path = self.step(step);
        if read_whole(&path, step).is_ok() {
            return Err(RunError::Exists { path });
        }
        let unfinished = self.hidden_folder()?;
        let state = fill(unfinished.path()).map_err(|source| RunError::Fill { path: path.clone(), source })?;
        crash::at(Point::AfterWrite);
        seal(unfinished.path(), step, state)?;
        // What is in the way is no whole checkpoint, and opening could not have used it.
        if path.symlink_metadata().is_ok() {
            self.discard(&path)?;
        }
        crash::at(Point::BeforeRename);
        fs::rename(unfinished.path(), &path).map_err(RunError::io(&path))?;
        // It has moved: there is nothing to clean up.
        let _ = unfinished.keep();
        crash::at(Point::BeforeFolderSync);
        sync_folder(self.path());
        tracing::debug!(step, folder = %path.display(), "checkpoint saved");
        Ok(path)
    }

    /// Names the best checkpoint.
    ///
    /// # Errors
    /// When there is no whole checkpoint of this step, or the file cannot be written.
    pub fn set_best(&self, step: u64) -> Result<(), RunError> {
        let folder = self.step(step);
        if read_whole(&folder, step).is_err() {
            return Err(RunError::Missing { path: folder });
        }
        let path = self.best_path();
        atomic::write(&path, |file| writeln!(file, "{}", folder_name(step))).map_err(RunError::io(&path))
    }

    /// Deletes all whole checkpoints but the newest `n` and the best one. Returns the numbers of the deleted ones.
    ///
    /// # Errors
    /// When `best` names no checkpoint, or one cannot be deleted. Each is either whole or gone.
    pub fn keep_steps(&self, n: usize) -> Result<Vec<u64>, RunError> {
        let best = self.best()?;
        let mut old = self.steps()?;
        old.truncate(old.len().saturating_sub(n));
        old.retain(|&step| Some(step) != best);
        for &step in &old {
            self.discard(&self.step(step))?;
        }
        Ok(old)
    }

    /// Deletes all whole checkpoints after `step`, so that a run can go on from there and write them anew. If the best
    /// one is among them, or damaged, none is the best afterwards. Returns the numbers of the deleted ones.
    ///
    /// # Errors
    /// When one cannot be deleted. Each is either whole or gone.
    pub fn remove_steps_after(&self, step: u64) -> Result<Vec<u64>, RunError> {
        let later: Vec<u64> = self.steps()?.into_iter().filter(|&other| other > step).collect();
        let stays = match self.best() {
            Ok(best) => best.is_none_or(|best| best <= step),
            // It names nothing that could be kept.
            Err(RunError::Damaged { .. }) => false,
            Err(error) => return Err(error),
        };
        // First, so that it never names a checkpoint that is gone.
        if !stays {
            let path = self.best_path();
            fs::remove_file(&path).map_err(RunError::io(&path))?;
            sync_folder(self.path());
        }
        // The newest first: if this is interrupted, the run ends earlier, without a gap.
        for &other in later.iter().rev() {
            self.discard(&self.step(other))?;
        }
        Ok(later)
    }

    /// Takes a folder's name away at once, and then deletes what it holds.
    fn discard(&self, path: &Path) -> Result<(), RunError> {
        let bin = self.hidden_folder()?;
        crash::at(Point::BeforeRename);
        fs::rename(path, bin.path().join("discarded")).map_err(RunError::io(path))?;
        crash::at(Point::BeforeFolderSync);
        sync_folder(self.path());
        let hidden = bin.path().to_path_buf();
        bin.close().map_err(RunError::io(&hidden))
    }

    /// A folder that the next opening of the run removes if this process does not.
    fn hidden_folder(&self) -> Result<TempDir, RunError> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(UNFINISHED_PREFIX).suffix(UNFINISHED_SUFFIX);
        // What any new folder gets, less what the user's mask takes away.
        #[cfg(unix)]
        builder.permissions(<fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777));
        builder.tempdir_in(self.path()).map_err(RunError::io(self.path()))
    }
}

/// Flushes a filled folder to the disk and adds the state, with the hashes of what is there.
fn seal<S: Serialize>(folder: &Path, step: u64, state: S) -> Result<(), RunError> {
    let path = folder.join(STATE_FILE);
    if path.symlink_metadata().is_ok() {
        return Err(RunError::damaged(&path, "a checkpoint's own files cannot have this name"));
    }
    let manifest = manifest::sync_and_hash(folder)?;
    let wrong = |error| RunError::damaged(&path, error);
    let state = serde_json::to_value(state).map_err(wrong)?;
    let mut file = StateFile { step, state, manifest, sha256: None };
    file.sha256 = Some(file.digest().map_err(wrong)?);
    let mut json = serde_json::to_vec_pretty(&file).map_err(wrong)?;
    json.push(b'\n');
    atomic::write(&path, |file| file.write_all(&json)).map_err(RunError::io(&path))
}

/// The state of a checkpoint if all its files are there, whatever is in them.
pub(super) fn read_whole(folder: &Path, step: u64) -> Result<StateFile, RunError> {
    let path = folder.join(STATE_FILE);
    let wrong = |error| RunError::damaged(&path, error);
    let text = fs::read(&path).map_err(RunError::io(&path))?;
    let file: StateFile = crate::json::read(&text).map_err(wrong)?;
    if let Some(expected) = &file.sha256
        && *expected != file.digest().map_err(wrong)?
    {
        return Err(RunError::damaged(&path, "it is not as it was written: its own SHA-256 says otherwise"));
    }
    if file.step != step {
        return Err(RunError::damaged(&path, format!("it belongs to step {}, not to step {step}", file.step)));
    }
    for name in file.manifest.keys() {
        if !manifest::inside(folder, name).is_some_and(|path| path.is_file()) {
            return Err(RunError::damaged(&folder.join(name), "it is missing from the checkpoint"));
        }
    }
    Ok(file)
}
