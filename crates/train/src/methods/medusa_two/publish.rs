//! Writes a finished run: heads, adapter, and the two merged into one model.

use super::fitting::MedusaTwoFitting;
use super::merged::{Merged, MergedHeads};
use crate::checkpoint::{self, MODEL_FILE, values};
use crate::error::{TrainError, io};
use crate::parameters::Parameter;
use crate::trainer::Objective;
use burn::tensor::Tensor;
use std::path::Path;

/// The folder of the merged model in a run folder.
pub const MERGED: &str = "merged";

/// Writes `heads/`, `adapter/` (as PEFT reads it) and `merged/` into a run folder.
pub(super) fn publish(fitting: &MedusaTwoFitting, step: &Path, run: &Path) -> Result<(), TrainError> {
    let mut parameters = fitting.parameters(0);
    checkpoint::read_parameters(&step.join(MODEL_FILE), &mut parameters, &[])?;
    let (heads, adapter) = parameters.split_at(fitting.split());
    let merged = run.join(MERGED);
    write_merged(fitting, &parameters, &merged)?;
    let config = &fitting.heads.config;
    // The heads belong to the merged model: they were fitted to its states, not to the original's.
    let document = config.document(fitting.heads.hidden_size, fitting.heads.vocab_size, &merged.display().to_string());
    write_part(&run.join("heads"), MODEL_FILE, heads, "config.json", &document)?;
    fitting.data.publish_ngrams(&run.join("heads"))?;
    let document = fitting.lora.document(&fitting.data.base);
    write_part(&run.join("adapter"), "adapter_model.safetensors", adapter, "adapter_config.json", &document)
}

/// Writes some parameters and a document beside them.
pub(in crate::methods) fn write_part(
    dir: &Path,
    file: &str,
    parameters: &[Parameter],
    config: &str,
    document: &serde_json::Value,
) -> Result<(), TrainError> {
    std::fs::create_dir_all(dir).map_err(io(dir))?;
    checkpoint::write_parameters_as(&dir.join(file), parameters, &[])?;
    let path = dir.join(config);
    let text = serde_json::to_string_pretty(document).unwrap_or_default();
    gorgon_runs::atomic::write(&path, |file| file.write_all(text.as_bytes())).map_err(io(&path))
}

/// Writes backbone, adapter and heads as one model.
pub(super) fn write_merged(fitting: &MedusaTwoFitting, parameters: &[Parameter], out: &Path) -> Result<(), TrainError> {
    let (heads, adapter) = parameters.split_at(fitting.split());
    let adapter: Vec<Tensor<1>> = adapter.iter().map(|p| p.value.clone()).collect();
    let heads = heads.iter().map(|p| (p.name.clone(), p.shape.clone(), values(&p.value))).collect();
    let lm_head = values(&(*fitting.lm_head).clone().reshape([-1]));
    let (changed, config) = (fitting.lora.merged(&adapter), fitting.heads.config);
    let heads = Some(MergedHeads { tensors: heads, lm_head, config });
    Merged { base: &fitting.base, changed, heads }.write(out)
}
