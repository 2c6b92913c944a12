//! A draft layer under its published names.

use crate::folder::{self, HeadsError, HeadsFolder};
use crate::format::{HeadSpec, HeadsFormat};
use crate::published::{Destination, Named};
use serde_json::Value;

/// Writes the tensors of an EAGLE-1/2 draft layer and its `config.json`. The embedding is left out: every loader takes
/// it from the backbone. `base` is what the config names as the base model.
///
/// # Errors
/// When these are other heads or have no config, a weight does not fit the number format, or a file cannot be written.
pub fn export(from: &HeadsFolder, base: &str, to: &Destination<'_>) -> Result<(), HeadsError> {
    let wrong = |reason: String| HeadsError::Format { path: from.path.clone(), reason };
    let format = from.detected.format;
    let (HeadSpec::Eagle(spec), HeadsFormat::Eagle1) = (&from.detected.spec, format) else {
        return Err(wrong(format!("{format} heads, not an EAGLE-1 draft layer")));
    };
    let Some(Value::Object(mut config)) = folder::config(&from.path)? else {
        return Err(wrong("no config.json, so that the number of attention heads is not known".into()));
    };
    // Engines find the method by the class, and the bias by the flag.
    config.insert("architectures".into(), serde_json::json!(["LlamaForCausalLMEagle"]));
    config.insert("bias".into(), spec.fc_bias.into());
    config.insert("base_model_name_or_path".into(), base.into());
    let mut tensors: Vec<Named> = vec![];
    for (name, entry) in from.checkpoint.entries() {
        if name != "embed_tokens.weight" {
            tensors.push((name.clone(), entry.shape.clone(), from.checkpoint.read_all(name)?));
        }
    }
    to.write(tensors, Value::Object(config), "model.safetensors")
}
