//! Paths that are named as a model and are none.

use crate::absent;
use crate::failure::Failure;
use crate::fitting::FITTED_MODEL;
use crate::runs;
use gorgon_data::manifest;
use gorgon_draft::folder;
use gorgon_draft::format;
use gorgon_hub::Repo;
use gorgon_model::layout;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::visible;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Fails where `--model` names the folder of a run, of draft heads or of a dataset, with the command that is meant, or no model at all.
///
/// # Errors
/// Then.
pub fn check(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    if path.is_dir() && runs::is_run(path) {
        return Err(run(path));
    }
    if let Some((description, base)) = heads(path) {
        let model = base.unwrap_or_else(|| "MODEL".into());
        let message = format!("{shown}: this folder holds draft heads ({description}), not a model");
        return Err(
            Failure::input(message).hint(format!("name the model they draft for: --model {model} --heads {shown}"))
        );
    }
    if path.join(manifest::IDENTITY).is_file() || path.join(manifest::MANIFEST).is_file() {
        let message = format!("{shown}: this folder holds a dataset, not a model");
        return Err(Failure::input(message).hint(format!("gorgon inspect {shown} describes it")));
    }
    if path.is_dir() && !path.join("config.json").exists() && matches!(gorgon_gguf::find(path), Ok(None)) {
        let message = format!("{shown}: there is no model here (no config.json, no GGUF file)");
        return Err(Failure::input(message).hint(listed(&models(path)).unwrap_or_else(|| absent::inside(path))));
    }
    Ok(())
}

/// The failure for a path that does not exist and is meant as one here: its folder is there, it begins nearly as a
/// path here does, or with the folder that trainings write to. Then the hub is not asked, unless the name has a
/// revision as in `owner/name@main`.
pub fn missing(path: &Path) -> Option<Failure> {
    let repo = path.to_str().filter(|name| Repo::parse(name).is_ok());
    if path.exists() || repo.is_some_and(|name| name.contains('@')) {
        return None;
    }
    let parent = path.parent().filter(|parent| parent.is_dir() && !parent.as_os_str().is_empty());
    let is_meant =
        parent.is_some() || path.starts_with(gorgon_train::config::checkpoints()) || absent::begins_nearly_here(path);
    if !is_meant {
        return None;
    }
    let none = || format!("no model is in {}", absent::shown(absent::existing(path)));
    let mut hint = suggestion(path).unwrap_or_else(none);
    if let Some(name) = repo {
        hint.push_str(&format!(" ({name}@main is a repository on the hub)"));
    }
    Some(Failure::input(format!("{}: no such folder", path.display())).hint(hint))
}

/// Suggestion for a model that is not there: the model of that name near it, a path that is nearly the same, or the
/// models near it.
pub(crate) fn suggestion(path: &Path) -> Option<String> {
    let near = models(absent::existing(path));
    let namesake = near.iter().find(|model| model.file_name() == path.file_name()).cloned();
    let meant = || absent::meant(path).filter(|meant| meant.is_dir() || is_gguf(meant));
    match namesake.or_else(meant) {
        Some(meant) => Some(format!("did you mean {}?", meant.display())),
        None => listed(&near),
    }
}

fn listed(models: &[PathBuf]) -> Option<String> {
    let names: Vec<String> = models.iter().map(|model| model.display().to_string()).collect();
    (!names.is_empty()).then(|| format!("models nearby: {}", visible::listed(&names)))
}

/// The models in a folder, and in the folders in it, as far as their names tell.
fn models(folder: &Path) -> Vec<PathBuf> {
    let inside = |folder: &Path| absent::names(folder).into_iter().map(|name| folder.join(name)).collect::<Vec<_>>();
    let is_model = |path: &PathBuf| is_gguf(path) || path.join("config.json").is_file() && heads(path).is_none();
    let (mut found, others): (Vec<_>, Vec<_>) = inside(folder).into_iter().partition(is_model);
    found.extend(others.iter().flat_map(|folder| inside(folder)).filter(is_model));
    found
}

fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gguf") && path.is_file()
}

/// The failure for a run folder, with the command that is meant.
fn run(path: &Path) -> Failure {
    let shown = path.display();
    let summary = runs::RunSummary::read(path).ok();
    let method = summary.as_ref().and_then(|summary| summary.method.clone()).unwrap_or_else(|| "training".into());
    let model = summary.and_then(|summary| summary.model).unwrap_or_else(|| "MODEL".into());
    let hint = match method.as_str() {
        "pretrain" => format!("the model that it wrote: --model {model}"),
        "compare" => format!("gorgon runs list {shown} has its trainings"),
        "medusa-2" => format!("the model and its heads: --model {shown}/merged --heads {shown}"),
        "layerskip" => {
            format!(
                "the model that it fitted drafts for itself: --model {shown}/{FITTED_MODEL} --drafter early-exit:LAYERS"
            )
        }
        "distill-spec" => format!("it holds a draft model: --model {model} --drafter model:{shown}/{FITTED_MODEL}"),
        _ => format!("its heads draft for another model: --model {model} --heads {shown}"),
    };
    Failure::input(format!("{shown}: this is the run folder of a training ({method}), not a model")).hint(hint)
}

/// The kind of the draft heads in a folder, and the model that their config names; `None` where there are none. PyTorch
/// files are not looked into: a whole model's would have to be read.
fn heads(path: &Path) -> Option<(&'static str, Option<String>)> {
    if !path.is_dir() {
        return None;
    }
    let checkpoint = match Checkpoint::open(path) {
        Ok(checkpoint) => checkpoint,
        Err(_) => {
            let mut files = path.read_dir().ok()?.flatten().map(|entry| entry.path());
            let is = |file: &PathBuf| file.to_string_lossy().ends_with("lm_head.safetensors");
            let named = files.find(is)?;
            Checkpoint::open_files(path, &[named]).ok()?
        }
    };
    if layout::is_model(checkpoint.entries().keys()) {
        return None;
    }
    let config = folder::config(path).ok().flatten();
    let detected = format::detect(&folder::tensors(&checkpoint), config.as_ref()).ok()?;
    let base = config.as_ref().and_then(base_model);
    Some((detected.format.description(), base))
}

/// The model that a config of heads says they are for.
pub fn base_model(config: &Value) -> Option<String> {
    let verifier = config.pointer("/speculators_config/verifier/name_or_path");
    config.get("base_model_name_or_path").or(verifier).and_then(Value::as_str).map(str::to_owned)
}
