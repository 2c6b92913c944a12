//! Folders that are named as a model and are something else.

use crate::absent;
use crate::failure::Failure;
use crate::fitting::FITTED_MODEL;
use crate::runs;
use gorgon_data::manifest;
use gorgon_draft::folder;
use gorgon_draft::format;
use gorgon_model::layout;
use gorgon_model::weights::Checkpoint;
use serde_json::Value;
use std::path::Path;

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
        return Err(Failure::input(message).hint(absent::inside(path)));
    }
    Ok(())
}

/// The failure for a path that does not exist below a folder that does: nothing to ask the hub for.
pub fn missing(path: &Path) -> Option<Failure> {
    let parent = path.parent().filter(|parent| parent.is_dir() && !parent.as_os_str().is_empty())?;
    if path.exists() {
        return None;
    }
    Some(Failure::input(format!("{}: no such folder", path.display())).hint(absent::beside(parent, path)))
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
            let is = |file: &std::path::PathBuf| file.to_string_lossy().ends_with("lm_head.safetensors");
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
