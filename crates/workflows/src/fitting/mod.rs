//! Parts that all trainings share: devices that train together, the run folder, progress, charts.

/// Where a training leaves its heads in the run folder.
pub const HEADS: &str = "heads";
/// Where a training leaves a draft model in the run folder.
pub const FITTED_MODEL: &str = "model";
/// Where a training leaves an adapter of the backbone in the run folder.
pub const ADAPTER: &str = "adapter";
/// The folder of a fitted backbone in a run folder.
pub const MERGED: &str = "merged";

mod plots;
mod progress;
pub mod replicas;
mod results;
mod run_folder;

pub use self::plots::{Plot, curve, draw};
pub use self::progress::{Progress, fields};
pub use self::results::{Fitted, Losses, Results, evaluation, measured};
pub use self::run_folder::{Inputs, changes, report_resume, run_folder};

use std::path::{Path, PathBuf};

/// The folder of what a run fitted: draft heads, a draft model, or the backbone where there are no heads.
pub fn fitted_folder(run: &Path) -> PathBuf {
    let [model, heads, merged] = [FITTED_MODEL, HEADS, MERGED].map(|name| run.join(name));
    match model.is_dir() {
        true => model,
        false if !heads.is_dir() && merged.is_dir() => merged,
        false => heads,
    }
}
