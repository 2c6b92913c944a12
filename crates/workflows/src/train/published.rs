//! Better weights in the place of those that training started from, where a server finds them.

use crate::failure::Failure;
use crate::settings::Settings;
use crate::{files, fitting, runs};
use gorgon_runs::metrics;
use gorgon_runs::provenance::{Provenance, hash_file};
use gorgon_runs::run_dir::RunDir;
use gorgon_train::checkpoint::{MODEL_FILE, read_parameters};
use gorgon_train::config::TrainConfig;
use gorgon_train::methods::OnBackbone;
use std::path::{Path, PathBuf};

/// The weights that were replaced last.
const PREVIOUS: &str = "previous.safetensors";

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

/// Replaces the weights that a run started from by its own, if these are better, and keeps the replaced ones beside
/// them. Kept ones that accept more on today's held-out texts than both come back: what was better in the texts of an
/// earlier training need not be so now.
///
/// # Errors
/// When the weights are not those that it started from any more, or cannot be written.
pub(super) fn replace<F: OnBackbone>(
    path: &Path,
    (run, best): (&RunDir, u64),
    objective: &F,
    settings: &Settings,
) -> Result<(), Failure> {
    let shown = path.display();
    let hash = |path: &Path| hash_file(path).map_err(|error| Failure::io(path, &error));
    let own = fitting::fitted_folder(run.path()).join(MODEL_FILE);
    let (now, new) = (hash(path)?, hash(&own)?);
    if best > 0 && now == new {
        return Ok(());
    }
    let is_other = Provenance::read(&run.provenance())?.inputs.get(&shown.to_string()) != Some(&now);
    let previous = path.with_file_name(PREVIOUS);
    let measured = fitting::measured(run, &metrics::read(&run.metrics())?, best)?;
    let (kept, found) = (acceptance(objective, &previous, settings), measured.and_then(|found| found.acceptance()));
    let comes_back = kept.zip(found).filter(|(kept, found)| kept > found);
    if is_other && (best > 0 || comes_back.is_some()) {
        let message = format!("{shown}: it was replaced since this training started, so it stays as it is");
        return Err(Failure::run(message).hint(format!("this run's weights are {}", own.display())));
    }
    if let Some((kept, found)) = comes_back {
        files::copy(&previous, path)?;
        std::fs::remove_file(&previous).map_err(|error| Failure::io(&previous, &error))?;
        let line = format!(
            "rolled back: {shown} has the weights again that it had before: their acceptance on held-out texts is \
             {kept:.3}, that of step {best} {found:.3}"
        );
        settings.console.say(line);
        return Ok(());
    }
    if best == 0 {
        settings.console.say(format!("note: nothing accepts more than the start: {shown} stays as it is"));
        return Ok(());
    }
    files::copy(path, &previous)?;
    files::copy(&own, path)?;
    settings.console.say(format!("published: {shown} has the weights of step {best}"));
    Ok(())
}

/// The share of drafts that weights in a file accept on held-out texts; `None` where there is no such file.
fn acceptance<F: OnBackbone>(objective: &F, file: &Path, settings: &Settings) -> Option<f64> {
    if !file.is_file() {
        return None;
    }
    let mut parameters = objective.parameters(0);
    let read = read_parameters(file, &mut parameters, &objective.constants());
    match read.and_then(|()| objective.evaluate(&parameters)) {
        Ok(evaluation) => evaluation.metrics.acceptance(),
        Err(error) => {
            settings.console.say(format!("note: {}: not compared: {error}", file.display()));
            None
        }
    }
}
