//! The command that resumes a run.

use crate::args::Fit;
use gorgon_runs::run_dir::RunDir;

/// The command, as it is typed.
pub fn command(args: &Fit, verb: &str, run: &RunDir) -> String {
    let overrides: String = args.overrides.iter().map(|given| format!(" {given}")).collect();
    format!("gorgon {verb} -c {}{overrides} --resume {}", args.config.display(), run.path().display())
}
