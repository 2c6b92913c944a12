//! What to go on from when checkpoints were damaged on the disk.

use super::RunDir;
use super::folder::{entries, step_of, sync_folder};
use crate::RunError;
use crate::crash::{self, Point};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What the name of a checkpoint that was set aside starts with.
const ASIDE: &str = "damaged-";

impl RunDir {
    /// Makes the newest checkpoint one whose files are as they were written: newer ones with missing, truncated or
    /// altered files are renamed to `damaged-step-…`, and so is the best one if it is damaged. Returns what is wrong
    /// with each of them, by name.
    ///
    /// # Errors
    /// When checkpoints are there and all are damaged (nothing is renamed then), or the folder cannot be read or
    /// written.
    pub fn set_aside_damaged(&self) -> Result<Vec<RunError>, RunError> {
        let mut steps: Vec<u64> = entries(self.path())?
            .into_iter()
            .filter(|(_, path)| path.is_dir())
            .filter_map(|(name, _)| step_of(&name))
            .collect();
        steps.sort_unstable_by(|a, b| b.cmp(a));
        let (mut damaged, mut is_sound) = (vec![], false);
        for step in steps {
            if let Some(damage) = self.damage(step)? {
                damaged.push((step, damage));
            } else {
                is_sound = true;
                break;
            }
        }
        if !is_sound && !damaged.is_empty() {
            return Err(damaged.remove(0).1);
        }
        let best = match self.best() {
            Ok(best) => best,
            // It names a checkpoint that is not whole: one of the damaged ones, or one that was removed by hand.
            Err(RunError::Damaged { .. }) => {
                self.forget_best()?;
                None
            }
            Err(error) => return Err(error),
        };
        if let Some(best) = best
            && let Some(damage) = self.damage(best)?
        {
            self.forget_best()?;
            if damaged.iter().all(|(step, _)| *step != best) {
                damaged.push((best, damage));
            }
        }
        for (step, _) in &damaged {
            self.set_aside(&self.step(*step))?;
        }
        Ok(damaged.into_iter().map(|(_, damage)| damage).collect())
    }

    /// What is wrong with a checkpoint, if anything is.
    fn damage(&self, step: u64) -> Result<Option<RunError>, RunError> {
        match self.open_step(step) {
            Ok(_) => Ok(None),
            Err(RunError::Io { path, source }) if source.kind() != ErrorKind::NotFound => {
                Err(RunError::Io { path, source })
            }
            Err(damage) => Ok(Some(damage)),
        }
    }

    fn forget_best(&self) -> Result<(), RunError> {
        let path = self.best_path();
        fs::remove_file(&path).map_err(RunError::io(&path))?;
        sync_folder(self.path());
        Ok(())
    }

    fn set_aside(&self, path: &Path) -> Result<(), RunError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let free = |n: u32| match n {
            1 => self.path().join(format!("{ASIDE}{name}")),
            n => self.path().join(format!("{ASIDE}{name}-{n}")),
        };
        let aside: Option<PathBuf> = (1..).map(free).find(|path| path.symlink_metadata().is_err());
        crash::at(Point::BeforeRename);
        if let Some(aside) = aside {
            fs::rename(path, aside).map_err(RunError::io(path))?;
        }
        crash::at(Point::BeforeFolderSync);
        sync_folder(self.path());
        Ok(())
    }
}
