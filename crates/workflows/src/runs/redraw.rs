//! Plots of a run, drawn again.

use super::RunDetails;
use crate::failure::Failure;
use crate::{fitting, pretrain, train};
use gorgon_runs::run_dir::RunView;
use std::path::{Path, PathBuf};

/// Draws the plots of a training or pretraining anew from its `metrics.jsonl`, also of one that has not finished.
/// Returns their paths.
///
/// # Errors
/// When the folder is no run, its metrics cannot be read, or the plots cannot be written.
pub fn redraw(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let details = RunDetails::read(folder)?;
    let plots = match details.summary.method.as_deref() {
        Some("compare") => {
            let message = format!("{}: plots of a comparison are drawn from its measurements", folder.display());
            return Err(Failure::input(message).hint("gorgon compare --resume RUN draws them again"));
        }
        Some("pretrain") => pretrain::PLOTS,
        _ => train::PLOTS,
    };
    fitting::draw(&RunView::open(folder)?, plots)?;
    Ok(RunDetails::read(folder)?.plots)
}
