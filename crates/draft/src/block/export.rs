//! A block drafter under its published names.

use crate::folder::{self, HeadsError, HeadsFolder};
use crate::format::HeadSpec;
use crate::published::{Destination, Named};
use serde_json::{Value, json};

/// Writes a block drafter as z-lab stores DFlash. `base` is the base model that the config names.
///
/// # Errors
/// When these are other heads or have no config, a weight does not fit the number format, or a file cannot be written.
pub fn export(from: &HeadsFolder, base: &str, to: &Destination<'_>) -> Result<(), HeadsError> {
    let wrong = |reason: String| HeadsError::Format { path: from.path.clone(), reason };
    let HeadSpec::Block(spec) = &from.detected.spec else {
        return Err(wrong(format!("{} heads, not a block drafter", from.detected.format.method())));
    };
    let Some(Value::Object(mut config)) = folder::config(&from.path)? else {
        return Err(wrong("no config.json, so that the number of attention heads is not known".into()));
    };
    // Some readers look for the block size at the top and some inside.
    config.insert("block_size".into(), spec.slots.into());
    config["dflash_config"]["block_size"] = json!(spec.slots);
    config.insert("base_model_name_or_path".into(), base.into());
    let mut tensors: Vec<Named> = vec![];
    for (name, entry) in from.checkpoint.entries().iter().filter(|(name, _)| !name.ends_with(".inv_freq")) {
        tensors.push((name.clone(), entry.shape.clone(), from.checkpoint.read_all(name)?));
    }
    to.write(tensors, Value::Object(config), "model.safetensors")
}
