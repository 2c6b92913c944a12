//! Modules under DeepSeek's names.

use crate::folder::{self, HeadsError, HeadsFolder};
use crate::format::{HeadSpec, mtp_prefix};
use crate::published::{Destination, Named};
use serde_json::Value;

/// Writes modules as DeepSeek-V3 stores them, layers `N`, `N + 1`, … after the base model's last:
/// `model.layers.N.{enorm,hnorm,eh_proj,shared_head.norm}` around a decoder layer's own names.
///
/// Copies of the base model's embedding and LM head are left out: every loader has both. `base` is what the config
/// names as the base model.
///
/// # Errors
/// When these are other heads or have no config, a weight does not fit the number format, or a file cannot be written.
pub fn export(from: &HeadsFolder, base: &str, to: &Destination<'_>) -> Result<(), HeadsError> {
    let wrong = |reason: String| HeadsError::Format { path: from.path.clone(), reason };
    let HeadSpec::Mtp(spec) = &from.detected.spec else {
        return Err(wrong(format!("{} heads, not multi-token-prediction modules", from.detected.format.method())));
    };
    let Some(Value::Object(mut config)) = folder::config(&from.path)? else {
        return Err(wrong("no config.json, so that the number of attention heads is not known".into()));
    };
    config.insert("num_hidden_layers".into(), spec.first_layer.into());
    config.insert("num_nextn_predict_layers".into(), spec.modules.into());
    config.insert("base_model_name_or_path".into(), base.into());
    let prefixes: Vec<String> = (0..spec.modules).map(|module| mtp_prefix(spec.first_layer + module)).collect();
    let mut tensors: Vec<Named> = vec![];
    for (name, entry) in from.checkpoint.entries() {
        let part = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix.as_str()));
        if part.is_some_and(|part| !matches!(part, "shared_head.head.weight" | "embed_tokens.weight")) {
            tensors.push((name.clone(), entry.shape.clone(), from.checkpoint.read_all(name)?));
        }
    }
    to.write(tensors, Value::Object(config), "model.safetensors")
}
