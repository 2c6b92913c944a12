//! Adapters under Kangaroo's names.

use crate::folder::{self, HeadsError, HeadsFolder};
use crate::format::HeadSpec;
use crate::published::{Destination, Named};
use serde_json::Value;

/// Writes an adapter as Kangaroo stores it, `layers.0.{input_layernorm,self_attn.*}` and `norm`, with its exit layer
/// in the config. `base` is what the config names as the base model.
///
/// # Errors
/// When these are other heads or have no config, a weight does not fit the number format, or a file cannot be written.
pub fn export(from: &HeadsFolder, base: &str, to: &Destination<'_>) -> Result<(), HeadsError> {
    let wrong = |reason: String| HeadsError::Format { path: from.path.clone(), reason };
    let HeadSpec::Kangaroo(spec) = &from.detected.spec else {
        return Err(wrong(format!("{} heads, not a Kangaroo adapter", from.detected.format.method())));
    };
    let Some(Value::Object(mut config)) = folder::config(&from.path)? else {
        return Err(wrong("no config.json, so that the exit layer is not known".into()));
    };
    config.insert("exit_layer".into(), spec.exit_layer.into());
    config.insert("base_model_name_or_path".into(), base.into());
    let mut tensors: Vec<Named> = vec![];
    for (name, entry) in from.checkpoint.entries().iter().filter(|(name, _)| !name.ends_with(".inv_freq")) {
        tensors.push((name.clone(), entry.shape.clone(), from.checkpoint.read_all(name)?));
    }
    to.write(tensors, Value::Object(config), "model.safetensors")
}
