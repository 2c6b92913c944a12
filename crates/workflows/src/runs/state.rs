//! How far a run is, as its files tell.

use gorgon_runs::RunError;
use gorgon_runs::run_dir::RunView;
use serde::Serialize;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// A process is at work: it holds the folder's lock.
    Running,
    /// All steps are done, and the results are written.
    Finished,
    /// It stopped before its last step, and can be resumed.
    Interrupted,
    /// A file is not as it was written, so that the run cannot be resumed, or what it says cannot be relied on.
    Damaged,
}

impl RunState {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Interrupted => "interrupted",
            Self::Damaged => "damaged",
        }
    }

    /// The state of a run; `problems` were met when its config, metrics and results were read.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(super) fn of(run: &RunView, problems: &mut Vec<String>) -> Result<Self, RunError> {
        let lost = run.damaged_steps()?;
        let whole = !run.steps()?.is_empty();
        // A step that is being written has another name, so these are damaged however busy the run is.
        problems.extend(lost.iter().map(ToString::to_string));
        let finished = run.results().is_file();
        Ok(match problems.is_empty() {
            _ if run.is_in_use() => Self::Running,
            // Training resumes from an older checkpoint that is whole.
            false if finished || !whole || problems.len() > lost.len() => Self::Damaged,
            _ if finished => Self::Finished,
            _ => Self::Interrupted,
        })
    }
}
