//! Hydra heads under their published names.

use crate::folder::{HeadsError, HeadsFolder};
use crate::format::{HeadSpec, HydraSpec, LmHeads};
use crate::medusa::Backbone;
use crate::published::{Destination, Named};
use serde_json::{Value, json};

/// The file of tensors, as the original calls it.
const FILE: &str = "hydra_lm_head.safetensors";

/// Writes Hydra or Hydra++ heads and their `config.json`. Shared LM heads are written out, with biases of zero: the
/// original loader needs one per head.
///
/// # Errors
/// When these are other heads, have blocks that the original loader would make one of, a weight does not fit the number
/// format, or a file cannot be written.
pub fn export(from: &HeadsFolder, backbone: &Backbone<'_>, to: &Destination<'_>) -> Result<(), HeadsError> {
    let wrong = |reason: String| HeadsError::Format { path: from.path.clone(), reason };
    let HeadSpec::Hydra(spec) = &from.detected.spec else {
        return Err(wrong(format!("{} heads, not Hydra heads", from.detected.format.method())));
    };
    if let Some((block, first)) = independent(from, spec)? {
        return Err(wrong(format!(
            "blocks of their own ({block} differs from {first}): the original loader makes one block of all but the first; \
             train with hydra.tied_blocks"
        )));
    }
    let naming = spec.naming();
    let mut tensors: Vec<Named> = vec![];
    for (name, entry) in from.checkpoint.entries() {
        // Copies of the backbone's embedding, which every loader has.
        if !name.ends_with("embed_tokens.weight") && name != "input_embed_fn.weight" {
            tensors.push((name.clone(), entry.shape.clone(), from.checkpoint.read_all(name)?));
        }
    }
    if spec.lm_heads == LmHeads::Target {
        let (vocab, d) = (backbone.vocab_size, spec.hidden_size);
        for head in 0..spec.heads {
            let name = naming.lm_head(head);
            let shared = backbone.lm_head.unwrap_or_default().to_vec();
            tensors.push((format!("{name}.weight"), vec![vocab, d], shared));
            tensors.push((format!("{name}.bias"), vec![vocab], vec![0.0; vocab]));
        }
    }
    to.write(tensors, config(spec, backbone), FILE)
}

/// A block that is another one than the first of those that the original loader builds as one, and that first one. In
/// grounded heads these are all but the very first block.
fn independent(from: &HeadsFolder, spec: &HydraSpec) -> Result<Option<(String, String)>, HeadsError> {
    let naming = spec.naming();
    let shared = usize::from(spec.grounded);
    for head in 0..spec.heads {
        for block in shared + 1..spec.blocks {
            for part in ["weight", "bias"] {
                let first = format!("{}.{part}", naming.block(head, shared));
                let other = format!("{}.{part}", naming.block(head, block));
                if from.checkpoint.read_all(&first)? != from.checkpoint.read_all(&other)? {
                    return Ok(Some((other, first)));
                }
            }
        }
    }
    Ok(None)
}

fn config(spec: &HydraSpec, backbone: &Backbone<'_>) -> Value {
    json!({
        "hydra_num_heads": spec.heads, "hydra_num_layers": spec.blocks,
        "hydra_head_arch": if spec.prefix_layer.is_some() { "prefix-mlp" } else { "mlp" },
        "grounded_heads": spec.grounded, "hidden_state_offset": 0, "base_model_name_or_path": backbone.name,
        "hidden_size": spec.hidden_size, "vocab_size": backbone.vocab_size
    })
}
