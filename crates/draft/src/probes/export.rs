//! Probes as they are, in another number format.

use crate::folder::{self, HeadsError, HeadsFolder};
use crate::format::HeadSpec;
use crate::published::{Destination, Named};
use serde_json::Value;

/// Writes probes under their own names. `base` is the base model that the config names.
///
/// # Errors
/// When these are other heads or have no config, a weight does not fit the number format, or a file cannot be written.
pub fn export(from: &HeadsFolder, base: &str, to: &Destination<'_>) -> Result<(), HeadsError> {
    let wrong = |reason: String| HeadsError::Format { path: from.path.clone(), reason };
    let HeadSpec::Probes(spec) = &from.detected.spec else {
        return Err(wrong(format!("{} heads, not probes", from.detected.format.method())));
    };
    let Some(Value::Object(mut config)) = folder::config(&from.path)? else {
        return Err(wrong("no config.json, so that the number of probes is not known".into()));
    };
    config.insert("base_model_name_or_path".into(), base.into());
    let name = spec.kind.tensor();
    let rows = if spec.kind.is_shared() { 1 } else { spec.places * spec.members };
    let tensor: Named = (name.into(), vec![rows, spec.hidden_size], from.checkpoint.read_all(name)?);
    to.write(vec![tensor], Value::Object(config), "model.safetensors")
}
