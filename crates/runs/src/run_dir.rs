//! A run's folder: numbered, locked while a process writes in it, and whole at every moment.

mod folder;
mod manifest;
mod recovery;
mod steps;

pub use recovery::Survey;
pub use steps::{STATE_FILE, Step};

use crate::RunError;
use folder::{entries, folder_name, remove_unfinished, sync_folder};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// The file that a process at work holds locked.
pub const LOCK: &str = "lock";

/// A run's folder, to read from: any number of processes can, also while another one writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunView {
    path: PathBuf,
}

/// A run's folder, to write into: one process at a time has it. Reading works as with [`RunView`].
#[derive(Debug)]
pub struct RunDir {
    view: RunView,
    /// Locked as long as it is open; the system unlocks it when the process ends, however that happens.
    _lock: Option<File>,
}

impl RunView {
    /// A folder to read from.
    ///
    /// # Errors
    /// When there is no folder.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        if !fs::metadata(path).map_err(RunError::io(path))?.is_dir() {
            return Err(RunError::damaged(path, "it is no folder"));
        }
        Ok(Self { path: path.into() })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The resolved settings.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.path.join("config.toml")
    }

    /// Where the run comes from.
    #[must_use]
    pub fn provenance(&self) -> PathBuf {
        self.path.join("provenance.json")
    }

    /// The metrics.
    #[must_use]
    pub fn metrics(&self) -> PathBuf {
        self.path.join("metrics.jsonl")
    }

    /// Losses, lengths, plan and measurement of a finished run.
    #[must_use]
    pub fn results(&self) -> PathBuf {
        self.path.join("results.json")
    }

    /// Whether a process is writing in the folder now: it holds the lock. False where the file system has no locks.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        let lock = File::open(self.path.join(LOCK));
        lock.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.path.join("log.txt")
    }

    /// The folder of the plots, which may not exist yet.
    #[must_use]
    pub fn plots(&self) -> PathBuf {
        self.path.join("plots")
    }

    /// The folder of a checkpoint, which may not exist.
    #[must_use]
    pub fn step(&self, step: u64) -> PathBuf {
        self.path.join(folder_name(step))
    }
}

impl RunDir {
    /// Makes the folder `<stem>-<n>` in `parent` and locks it. `n` is one more than the highest there is; of two
    /// processes that want the same number, the second gets the next one.
    ///
    /// # Errors
    /// When the name is no name for a folder, or the folder cannot be made.
    pub fn create(parent: &Path, stem: &str) -> Result<Self, RunError> {
        let allowed = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        if stem.is_empty() || stem.starts_with(['.', '-']) || !stem.chars().all(allowed) {
            return Err(RunError::Stem { stem: stem.into() });
        }
        fs::create_dir_all(parent).map_err(RunError::io(parent))?;
        let mut n = numbers(parent, stem)?.into_iter().max().map_or(1, |last| u64::from(last) + 1);
        loop {
            let path = parent.join(format!("{stem}-{n}"));
            // The system makes a folder once: whoever made it owns it.
            match fs::create_dir(&path) {
                Ok(()) => {
                    sync_folder(parent);
                    return Self::open(&path);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => n += 1,
                Err(source) => return Err(RunError::Io { path, source }),
            }
        }
    }

    /// Opens and locks the folder of an earlier run, to go on with it, and removes what interrupted writes left there.
    ///
    /// On file systems without locks, the folder is used without one.
    ///
    /// # Errors
    /// When there is no such folder, another process is using it, or it cannot be written.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let view = RunView::open(path)?;
        let lock_path = path.join(LOCK);
        let mut options = File::options();
        let lock =
            options.create(true).truncate(false).write(true).open(&lock_path).map_err(RunError::io(&lock_path))?;
        let lock = match lock.try_lock() {
            Ok(()) => Some(lock),
            Err(TryLockError::WouldBlock) => return Err(RunError::Locked { path: path.into() }),
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => None,
            Err(TryLockError::Error(source)) => return Err(RunError::Io { path: lock_path, source }),
        };
        // Only now: without the lock these could belong to a process at work.
        remove_unfinished(path)?;
        if view.plots().is_dir() {
            remove_unfinished(&view.plots())?;
        }
        Ok(Self { view, _lock: lock })
    }
}

impl Deref for RunDir {
    type Target = RunView;

    fn deref(&self) -> &RunView {
        &self.view
    }
}

/// The run folder `<stem>-<n>` in `parent` with the highest number, if there is one.
///
/// # Errors
/// When the folder cannot be read. A missing one has no runs.
pub fn latest(parent: &Path, stem: &str) -> Result<Option<PathBuf>, RunError> {
    let last = numbers(parent, stem)?.into_iter().max();
    Ok(last.map(|n| parent.join(format!("{stem}-{n}"))))
}

/// The numbers of the run folders with this name.
fn numbers(parent: &Path, stem: &str) -> Result<Vec<u32>, RunError> {
    let mut numbers = vec![];
    for (name, path) in entries(parent)? {
        let number = name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('-'));
        // `7`, but neither `07` nor `+7`.
        let number = number.and_then(|text| text.parse::<u32>().ok().filter(|n| n.to_string() == text));
        if let Some(number) = number
            && path.is_dir()
        {
            numbers.push(number);
        }
    }
    Ok(numbers)
}
