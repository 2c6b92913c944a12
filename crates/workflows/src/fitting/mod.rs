//! Parts that all trainings share: devices that train together, the run folder, progress, charts.

/// Where a training leaves its heads in the run folder.
pub const HEADS: &str = "heads";
/// Where a training leaves a draft model in the run folder.
pub const FITTED_MODEL: &str = "model";
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
pub use self::run_folder::{changes, report_resume, run_folder};
