//! The folder of a run: made, or opened to resume it.

use crate::config;
use crate::failure::Failure;
use crate::files;
use crate::settings::Settings;
use gorgon_runs::provenance::{self, Host, Launch, Provenance, Resumed};
use gorgon_runs::run_dir::{RunDir, RunView};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Fails early if there is no run to resume: what comes before can take minutes.
///
/// # Errors
/// When the folder is no run's.
pub fn check_resume(resume: Option<&Path>) -> Result<(), Failure> {
    resume.map(RunView::open).transpose().map(|_| ()).map_err(Failure::from)
}

/// The folder of a new run, or of the one that is resumed.
///
/// # Errors
/// When it cannot be made, opened or written.
pub fn run_folder(
    parent: &Path,
    stem: &str,
    resume: Option<&Path>,
    resolved: &impl Serialize,
    inputs: &[PathBuf],
    settings: &Settings,
) -> Result<RunDir, Failure> {
    files::check_writable(resume.unwrap_or(parent))?;
    let host = Host { device: settings.device_name()?, cpu_threads: rayon::current_num_threads() };
    let launch = Launch::new(env!("CARGO_PKG_VERSION"), std::env::args_os(), settings.started, host);
    if let Some(path) = resume {
        let run = RunDir::open(path)?;
        let damaged = run.set_aside_damaged().map_err(|error| {
            Failure::input(format!("{error}; no checkpoint of this run is whole")).hint("begin a new run")
        })?;
        for damage in damaged {
            settings.console.say(format!("a damaged checkpoint was set aside: {damage}"));
        }
        let step = run.steps()?.last().copied().unwrap_or(0);
        // A kill can fall between making the folder and writing what it is.
        if !run.config().exists() {
            config::store(&run.config(), resolved)?;
        }
        if run.provenance().exists() {
            provenance::append_resumed(&run.provenance(), &Resumed { step, launch })?;
        } else {
            write_provenance(&run, launch, inputs)?;
        }
        return Ok(run);
    }
    let run = RunDir::create(parent, stem)?;
    config::store(&run.config(), resolved)?;
    write_provenance(&run, launch, inputs)?;
    Ok(run)
}

fn write_provenance(run: &RunDir, launch: Launch, inputs: &[PathBuf]) -> Result<(), Failure> {
    let mut provenance = Provenance::new(launch);
    for input in inputs {
        provenance.add_input(input)?;
    }
    Ok(provenance.write(&run.provenance())?)
}
