//! Recovery from checkpoints that were damaged on the disk.

use super::folder::{entries, step_of, sync_folder};
use super::{RunDir, RunView};
use crate::RunError;
use crate::crash::{self, Point};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Prefix of the name of a checkpoint that was set aside.
const ASIDE: &str = "damaged-";

/// The state of a run's checkpoints.
#[derive(Debug, Default)]
pub struct Survey {
    /// Number of the newest valid checkpoint, from which the run resumes.
    pub newest: Option<u64>,
    /// Damaged checkpoints after it, and the best one if it is damaged, each with what is wrong.
    pub damaged: Vec<(u64, RunError)>,
    /// Whether the file `best` names a damaged checkpoint, or none.
    best_is_lost: bool,
}

impl RunView {
    /// Looks for the newest checkpoint whose files are as they were written, and for damaged ones. Nothing is changed.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn survey(&self) -> Result<Survey, RunError> {
        let mut steps: Vec<u64> = entries(self.path())?
            .into_iter()
            .filter(|(_, path)| path.is_dir())
            .filter_map(|(name, _)| step_of(&name))
            .collect();
        steps.sort_unstable_by(|a, b| b.cmp(a));
        let mut survey = Survey::default();
        for step in steps {
            match self.damage(step)? {
                Some(damage) => survey.damaged.push((step, damage)),
                None => {
                    survey.newest = Some(step);
                    break;
                }
            }
        }
        let best = match self.best() {
            Ok(best) => best,
            // It names a checkpoint that is not whole: one of the damaged ones, or one that was removed by hand.
            Err(RunError::Damaged { .. }) => {
                survey.best_is_lost = true;
                None
            }
            Err(error) => return Err(error),
        };
        if let Some(best) = best
            && let Some(damage) = self.damage(best)?
        {
            survey.best_is_lost = true;
            if survey.damaged.iter().all(|(step, _)| *step != best) {
                survey.damaged.push((best, damage));
            }
        }
        Ok(survey)
    }

    /// The damage of a checkpoint, if there is any.
    fn damage(&self, step: u64) -> Result<Option<RunError>, RunError> {
        match self.open_step(step) {
            Ok(_) => Ok(None),
            Err(RunError::Io { path, source }) if source.kind() != ErrorKind::NotFound => {
                Err(RunError::Io { path, source })
            }
            Err(damage) => Ok(Some(damage)),
        }
    }
}

impl RunDir {
    /// Makes the newest checkpoint one whose files are as they were written: newer ones with missing, truncated or
    /// altered files are renamed to `damaged-step-…`, and so is the best one if it is damaged. Returns what is wrong
    /// with each of them, by name.
    ///
    /// # Errors
    /// When checkpoints are there and all are damaged (nothing is renamed then), or the folder cannot be read or
    /// written.
    pub fn set_aside_damaged(&self) -> Result<Vec<RunError>, RunError> {
        let Survey { newest, mut damaged, best_is_lost } = self.survey()?;
        if newest.is_none() && !damaged.is_empty() {
            return Err(damaged.remove(0).1);
        }
        if best_is_lost {
            self.forget_best()?;
        }
        for (step, _) in &damaged {
            self.set_aside(&self.step(*step))?;
        }
        Ok(damaged.into_iter().map(|(_, damage)| damage).collect())
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
