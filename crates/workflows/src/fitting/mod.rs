//! What all trainings share: devices that train together, the run folder, progress, charts.

mod plots;
mod progress;
pub mod replicas;
mod run_folder;

pub use self::plots::plots;
pub use self::progress::{Progress, fields};
pub use self::run_folder::{check_resume, run_folder};
