//! Better weights in the place of those that training started from, where a server finds them.

use crate::failure::Failure;
use crate::files;
use crate::runs;
use crate::settings::Settings;
use gorgon_runs::provenance::{Provenance, hash_file};
use gorgon_runs::run_dir::RunDir;
use gorgon_train::checkpoint::MODEL_FILE;
use gorgon_train::config::TrainConfig;
use std::path::{Path, PathBuf};

/// The file that a run is to replace; `None` where it replaces none.
///
/// # Errors
/// When there is none, or it belongs to a run, whose files stay as they are.
pub(super) fn place(config: &TrainConfig) -> Result<Option<PathBuf>, Failure> {
    let Some(start) = config.start().filter(|_| config.publish) else { return Ok(None) };
    let shown = start.display();
    if runs::is_run(start) || start.parent().is_some_and(runs::is_run) {
        let message = format!("publish: {shown} belongs to a run, whose files stay as they are");
        return Err(
            Failure::input(message).hint("copy its heads/ or model/ to a folder of their own, and start from there")
        );
    }
    let path = start.join(MODEL_FILE);
    match path.is_file() {
        true => Ok(Some(path)),
        false => Err(Failure::input(format!("publish: {shown}: no {MODEL_FILE} is there that could be replaced"))),
    }
}

/// Replaces the weights that a run started from by its own, if these are better.
///
/// # Errors
/// When the weights are not those that it started from any more, or cannot be written.
pub(super) fn replace(path: &Path, run: &RunDir, best: u64, fitted: &Path, settings: &Settings) -> Result<(), Failure> {
    let shown = path.display();
    if best == 0 {
        settings.console.say(format!("note: nothing accepts more than the start: {shown} stays as it is"));
        return Ok(());
    }
    let hash = |path: &Path| hash_file(path).map_err(|error| Failure::io(path, &error));
    let own = fitted.join(MODEL_FILE);
    let (now, new) = (hash(path)?, hash(&own)?);
    if now == new {
        return Ok(());
    }
    let provenance = Provenance::read(&run.provenance())?;
    if provenance.inputs.get(&shown.to_string()) != Some(&now) {
        let message = format!("{shown}: it was replaced since this training started, so it stays as it is");
        return Err(Failure::run(message).hint(format!("this run's weights are {}", own.display())));
    }
    files::copy(&own, path)?;
    settings.console.say(format!("published: {shown} has the weights of step {best}"));
    Ok(())
}
