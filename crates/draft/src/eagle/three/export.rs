//! A draft layer under its published names.

use super::config::{hook_keys, layers_left};
use super::model::{spec, vocabulary};
use super::{DraftVocabulary, default_hooks};
use crate::folder::{HeadsError, HeadsFolder, layer_document};
use crate::format::{EagleSpec, LAYERS};
use crate::published::{Base, Destination, Named, torch_name};
use crate::speculators;
use serde_json::{Map, Value, json};

/// How published EAGLE-3 layers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `midlayer.*` and a flat config: the original, SpecForge, SGLang, vLLM.
    Original,
    /// `layers.0.*` and a nested config: speculators, vLLM.
    Speculators,
}

impl Layout {
    /// Its name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Original => "eagle3",
            Self::Speculators => "speculators",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Original => "midlayer.",
            Self::Speculators => "layers.0.",
        }
    }
}

/// Drafts of a step that vLLM makes unless it is configured otherwise.
const SPECULATED: usize = 3;
const EMBEDDING: &str = "embed_tokens.weight";

/// Writes the tensors of an EAGLE-3 draft layer, its vocabulary maps and its `config.json`.
///
/// # Errors
/// When these are other heads, have parts that the layout has no place for, have no config, a weight does not
/// fit the number format, or a file cannot be written.
pub fn export(from: &HeadsFolder, base: &Base<'_>, layout: Layout, to: &Destination<'_>) -> Result<(), HeadsError> {
    let wrong = |reason: String| HeadsError::Format { path: from.path.clone(), reason };
    let (spec, prefix) = spec(from)?;
    let vocabulary = vocabulary(from, spec, base.vocab_size)?;
    let hooks = spec.hook_layers.clone().unwrap_or_else(|| default_hooks(base.layers).into());
    if let Some(reason) = misfit(layout, spec, &hooks) {
        return Err(wrong(format!("{reason}, so that the layer cannot be written as {}", layout.name())));
    }
    let layer = layer_document(from)?;
    let config = match layout {
        Layout::Original => original(layer, base, spec, &vocabulary, &hooks),
        Layout::Speculators => {
            let mut document = speculators(&layer, base, spec, &vocabulary, &hooks);
            document[LAYERS]["torch_dtype"] = torch_name(to.dtype).into();
            document
        }
    };
    let mut tensors: Vec<Named> = vec![];
    for (name, entry) in from.checkpoint.entries() {
        let own_embedding =
            name == EMBEDDING && layout == Layout::Original && spec.hidden_size == spec.target_hidden_size;
        if own_embedding || matches!(name.as_str(), "d2t" | "t2d") || name.ends_with(".inv_freq") {
            continue;
        }
        let published =
            name.strip_prefix(prefix).map_or_else(|| name.clone(), |rest| layout.prefix().to_owned() + rest);
        tensors.push((published, entry.shape.clone(), from.checkpoint.read_all(name)?));
    }
    if let (Layout::Speculators, false, Some(table)) = (layout, spec.own_embedding, base.embedding) {
        tensors.push((EMBEDDING.into(), vec![base.vocab_size, spec.hidden_size], table.to_vec()));
    }
    to.write_beside(&vocabulary.stored(), tensors, Value::Object(config), "model.safetensors")
}

/// The part of a layer that a layout has no place for.
fn misfit(layout: Layout, spec: &EagleSpec, hooks: &[usize]) -> Option<&'static str> {
    match layout {
        Layout::Original if spec.norm_before_residual == Some(true) => {
            Some("norm_before_residual is true, and the original starts the residual stream from states as they are")
        }
        Layout::Original if spec.layer.qk_norm.is_some() => {
            Some("queries and keys have norms, and the original's have none")
        }
        Layout::Original if spec.input_norm => {
            Some("all hooked states together have a norm, and the original has no such norm")
        }
        Layout::Original if layers_left(hooks).is_none() => {
            Some("one of its hooks is the embedding, and the config names hooks by the layer that they follow")
        }
        Layout::Speculators if spec.draft_vocab_size.is_none() => Some("it has no LM head of its own"),
        _ => None,
    }
}

/// The keys that every layer's config has, whoever reads it, with the defaults that its own left out.
fn common(layer: &mut Map<String, Value>, base: &Base<'_>, spec: &EagleSpec) {
    if let Some(heads) = layer.get("num_attention_heads").and_then(Value::as_u64).filter(|heads| *heads > 0) {
        layer.entry("num_key_value_heads").or_insert_with(|| heads.into());
        layer.entry("head_dim").or_insert_with(|| (spec.layer.query_size as u64 / heads).into());
    }
    if !layer.contains_key("rope_parameters") {
        // The Llama config's own default.
        layer.entry("rope_theta").or_insert_with(|| json!(10_000.0));
        layer.entry("rope_scaling").or_insert(Value::Null);
    }
    layer.insert("num_hidden_layers".into(), 1.into());
    layer.insert("vocab_size".into(), base.vocab_size.into());
    layer.insert("tie_word_embeddings".into(), false.into());
}

fn original(
    mut layer: Map<String, Value>,
    base: &Base<'_>,
    spec: &EagleSpec,
    vocabulary: &DraftVocabulary,
    hooks: &[usize],
) -> Map<String, Value> {
    common(&mut layer, base, spec);
    let size = spec.draft_vocab_size.map_or(Value::Null, |_| vocabulary.len().into());
    let said = [
        ("architectures", json!(["LlamaForCausalLMEagle3"])),
        ("model_type", "llama".into()),
        ("draft_vocab_size", size),
        ("target_hidden_size", spec.target_hidden_size.into()),
        ("norm_before_residual", spec.norm_before_residual.unwrap_or(false).into()),
        ("fc_norm", spec.hook_norms.into()),
        ("norm_output", spec.norm_output.unwrap_or(false).into()),
        ("base_model_name_or_path", base.name.into()),
    ];
    layer.extend(said.map(|(key, value)| (key.to_owned(), value)));
    layer.extend(hook_keys(hooks));
    layer
}

fn speculators(
    layer: &Map<String, Value>,
    base: &Base<'_>,
    spec: &EagleSpec,
    vocabulary: &DraftVocabulary,
    hooks: &[usize],
) -> Map<String, Value> {
    let (kind, class) = match spec.layer.qk_norm {
        Some(_) => ("qwen3", "Qwen3ForCausalLM"),
        None => ("llama", "LlamaForCausalLM"),
    };
    let mut layer = speculators::layers(layer, kind, class);
    common(&mut layer, base, spec);
    let wide = spec.target_hidden_size != spec.hidden_size;
    let mut document = speculators::head(("eagle3", "0.3.0"), "Eagle3Speculator", SPECULATED, (base.name, base.class));
    let said = [
        (LAYERS, Value::Object(layer)),
        ("draft_vocab_size", vocabulary.len().into()),
        ("norm_before_residual", spec.norm_before_residual.unwrap_or(false).into()),
        ("target_hidden_size", if wide { spec.target_hidden_size.into() } else { Value::Null }),
        ("eagle_aux_hidden_state_layer_ids", hooks.into()),
        ("norm_before_fc", spec.input_norm.into()),
        ("fc_norm", spec.hook_norms.into()),
        ("norm_output", spec.norm_output.unwrap_or(false).into()),
        ("embed_requires_grad", false.into()),
    ];
    document.extend(said.map(|(key, value)| (key.to_owned(), value)));
    document
}
