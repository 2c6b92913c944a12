//! Which format a set of names belongs to.

use super::config_hints::ConfigHints;
use super::heads_format::HeadsFormat;
use super::medusa::{self, MedusaNaming};
use super::probe_kind::ProbeKind;
use super::tensor_index::{TensorIndex, numbered, shown};
use super::{block, eagle, hydra, kangaroo, mtp, probes};

/// Why tensors are not recognised as draft heads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DetectError {
    /// There is nothing to recognise.
    #[error("no tensors, so no draft heads")]
    Empty,
    /// The names fit no known format.
    #[error("the {total} tensor names fit no known format of draft heads{hint}; among them: {}", .names.join(", "))]
    Unknown {
        /// Number of tensors.
        total: usize,
        /// The first few names.
        names: Vec<String>,
        /// Alternative reading of the tensors, in parentheses; or nothing.
        hint: &'static str,
    },
    /// The names fit two formats.
    #[error("the tensor names fit two formats at once: {first_tensor} is {first}, {second_tensor} is {second}")]
    Ambiguous {
        /// One format.
        first: HeadsFormat,
        /// A tensor of it.
        first_tensor: String,
        /// Another format.
        second: HeadsFormat,
        /// A tensor of that.
        second_tensor: String,
    },
}

/// Formats that share the names that tell them from all others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Medusa V1 and V2.
    MedusaPlain,
    MedusaInModel,
    MedusaModelOpt,
    MedusaVllm,
    /// EAGLE-3 under its original names.
    Midlayer,
    /// EAGLE-1, the other namings of EAGLE-3, block drafters and Kangaroo.
    LayerZero,
    Hydra,
    Mtp,
    Probes(ProbeKind),
}

/// The family that a name belongs to; names that several have (`fc.weight`, `lm_head.weight`, …) belong to none.
fn family(name: &str) -> Option<Family> {
    if let Some(rest) = name.strip_prefix(medusa::HEADS) {
        // vLLM strips this prefix, ModelOpt numbers the heads under it.
        return Some(if numbered(rest).is_some() { Family::MedusaModelOpt } else { Family::MedusaVllm });
    }
    if name.strip_prefix(medusa::IN_MODEL).is_some_and(|rest| numbered(rest).is_some()) {
        return Some(Family::MedusaInModel);
    }
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if starts(&["midlayer."]) {
        return Some(Family::Midlayer);
    }
    if starts(&["layers.0."]) {
        return Some(Family::LayerZero);
    }
    if starts(&["hydra_mlp.", "hydra_lm_head.", hydra::PREFIX_LAYER]) {
        return Some(Family::Hydra);
    }
    if let Some(kind) = probes::kind_of(name) {
        return Some(Family::Probes(kind));
    }
    if mtp::module_of(name).is_some() {
        return Some(Family::Mtp);
    }
    if (MedusaNaming::Blocks { prefix: "" }).part(name).is_some() {
        return Some(Family::MedusaVllm);
    }
    // A lone `0.1.weight` may come from any network at all; a block may not.
    let block = matches!((MedusaNaming::Sequential { prefix: "" }).part(name), Some(medusa::Part::Block { .. }));
    block.then_some(Family::MedusaPlain)
}

/// The format of a set of tensors.
pub(super) fn recognise(index: &TensorIndex<'_>, hints: &ConfigHints<'_>) -> Result<HeadsFormat, DetectError> {
    let mut found: Option<(Family, &str)> = None;
    // The layers of a full model saved without its usual prefix start like a draft layer, but there are more of them.
    let model = !index.has("fc.weight") && index.names().any(|name| name.starts_with("layers.1."));
    for name in index.names() {
        let Some(family) = family(name).filter(|family| !(model && *family == Family::LayerZero)) else { continue };
        match found {
            None => found = Some((family, name)),
            Some((first, first_tensor)) if first != family => {
                return Err(DetectError::Ambiguous {
                    first: format(first, index, hints),
                    first_tensor: shown(first_tensor),
                    second: format(family, index, hints),
                    second_tensor: shown(name),
                });
            }
            Some(_) => {}
        }
    }
    found.map(|(family, _)| format(family, index, hints)).ok_or_else(|| unknown(index))
}

/// The format within a family.
fn format(family: Family, index: &TensorIndex<'_>, hints: &ConfigHints<'_>) -> HeadsFormat {
    match family {
        Family::MedusaPlain => medusa::plain_format(index),
        Family::MedusaInModel => HeadsFormat::MedusaInModel,
        Family::MedusaModelOpt => HeadsFormat::MedusaModelOpt,
        Family::MedusaVllm => HeadsFormat::MedusaVllm,
        Family::Midlayer => HeadsFormat::Eagle3,
        Family::LayerZero if kangaroo::is_adapter(index, hints) => HeadsFormat::Kangaroo,
        Family::LayerZero if block::is_block(index, hints) => block::format(hints),
        Family::LayerZero => eagle::layer_zero_format(index, hints),
        Family::Hydra => hydra::format(index),
        Family::Mtp => HeadsFormat::Mtp,
        Family::Probes(kind) => HeadsFormat::Probes(kind),
    }
}

fn unknown(index: &TensorIndex<'_>) -> DetectError {
    const EXAMPLES: usize = 6;
    if index.len() == 0 {
        return DetectError::Empty;
    }
    let names = index.names().take(EXAMPLES).map(shown).collect();
    let layer = |name: &str| name.starts_with("model.layers.") || name.starts_with("layers.");
    let model = index.names().any(layer);
    let hint = if model { " (they look like a full model without draft heads)" } else { "" };
    DetectError::Unknown { total: index.len(), names, hint }
}
