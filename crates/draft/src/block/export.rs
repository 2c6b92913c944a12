//! A block drafter under its published names.

use super::model::check_backbone;
use crate::eagle::three::stored_vocabulary;
use crate::folder::{HeadsError, HeadsFolder, layer_document};
use crate::format::{BlockSpec, HeadSpec, HeadsFormat, LAYERS};
use crate::published::{Base, Destination, Named, torch_name};
use crate::speculators;
use gorgon_model::config::ModelConfig;
use gorgon_model::hooks::Hooks;
use serde_json::{Map, Value, json};

/// How published block drafters are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A flat config, without tables of the base model's: z-lab, SGLang, vLLM.
    ZLab,
    /// A nested config, with the base model's embedding and LM head: speculators, vLLM.
    Speculators,
}

impl Layout {
    /// Its name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZLab => "dflash",
            Self::Speculators => "speculators",
        }
    }
}

const EMBEDDING: &str = "embed_tokens.weight";
const LM_HEAD: &str = "lm_head.weight";

/// Fails if heads cannot be written for a base model in a layout. Its tables are not read.
///
/// # Errors
/// When these are other heads, were made for another model, or have parts that the layout has no place for.
pub fn check_export<'a>(
    from: &'a HeadsFolder,
    base: &ModelConfig,
    layout: Layout,
) -> Result<&'a BlockSpec, HeadsError> {
    let wrong = |reason: String| HeadsError::Format { path: from.path.clone(), reason };
    let HeadSpec::Block(spec) = &from.detected.spec else {
        return Err(wrong(format!("{} heads, not a block drafter", from.detected.format.method())));
    };
    check_backbone(spec, base).map_err(wrong)?;
    Hooks::new(spec.hook_layers.clone(), base.layers).map_err(|error| wrong(error.to_string()))?;
    match misfit(layout, spec, base.vocab_size) {
        Some(reason) => Err(wrong(format!("{reason}, so that the drafter cannot be written as {}", layout.name()))),
        None => Ok(spec),
    }
}

/// Writes a block drafter that [can be written](check_export) and its `config.json`.
///
/// # Errors
/// When the heads have no config, a table of theirs is not the base model's where readers take that, a weight does not
/// fit the number format, or a file cannot be written.
pub fn export(
    (from, spec): (&HeadsFolder, &BlockSpec),
    base: &Base<'_>,
    layout: Layout,
    to: &Destination<'_>,
) -> Result<(), HeadsError> {
    let wrong = |reason: String| HeadsError::Format { path: from.path.clone(), reason };
    let vocabulary = stored_vocabulary(from, (spec.draft_vocab_size, spec.vocab_map), base.vocab_size)?;
    let mut tensors: Vec<Named> = vec![];
    for (name, entry) in from.checkpoint.entries().iter().filter(|(name, _)| !name.ends_with(".inv_freq")) {
        if matches!(name.as_str(), "d2t" | "t2d") {
            continue;
        }
        let values = from.checkpoint.read_all(name)?;
        match (layout, table(base, name)) {
            (Layout::ZLab, Some(of_base)) if is_copy(&values, of_base) => {}
            (Layout::ZLab, Some(_)) => {
                let reason = "is not the base model's, and readers of dflash take that one";
                return Err(wrong(format!("{name} {reason}, so that the drafter cannot be written as dflash")));
            }
            _ => tensors.push((name.clone(), entry.shape.clone(), values)),
        }
    }
    match layout {
        Layout::ZLab => to.write(tensors, Value::Object(z_lab(from, spec, base)?), "model.safetensors"),
        Layout::Speculators => {
            let missing = [(EMBEDDING, spec.own_embedding), (LM_HEAD, spec.draft_vocab_size.is_some())];
            for (name, _) in missing.iter().filter(|(_, is_own)| !is_own) {
                let values = table(base, name).ok_or_else(|| wrong(format!("the base model's {name} is not known")))?;
                tensors.push(((*name).into(), vec![base.vocab_size, spec.hidden_size], values.to_vec()));
            }
            let mut document = nested(from, spec, base, vocabulary.len())?;
            document[LAYERS]["torch_dtype"] = torch_name(to.dtype).into();
            to.write_beside(&vocabulary.stored(), tensors, document, "model.safetensors")
        }
    }
}

/// The base model's table that a tensor is a copy of.
fn table<'a>(base: &Base<'a>, name: &str) -> Option<&'a [f32]> {
    match name {
        EMBEDDING => base.embedding,
        LM_HEAD => base.lm_head,
        _ => None,
    }
}

/// True if values are others', up to the rounding of 16-bit formats: a share of the value, or half of the least f16.
fn is_copy(values: &[f32], others: &[f32]) -> bool {
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= b.abs() / 128.0 + 2f32.powi(-25);
    values.len() == others.len() && values.iter().zip(others).all(close)
}

/// The part of a drafter that a layout has no place for.
fn misfit(layout: Layout, spec: &BlockSpec, vocab_size: usize) -> Option<&'static str> {
    let layers = || spec.windows.iter().zip(&spec.causal);
    let of_sliding = || layers().filter(|(window, _)| window.is_some()).map(|(_, causal)| *causal);
    match layout {
        Layout::ZLab if spec.draft_vocab_size.is_some_and(|size| size != vocab_size) => {
            Some("some tokens cannot be drafted, and readers of dflash draft all")
        }
        Layout::ZLab if spec.hook_layers.contains(&0) => {
            Some("one of its hooks is the embedding, and the config names hooks by the layer that they follow")
        }
        Layout::Speculators if spec.conv || spec.selector.is_some() => {
            Some("its convolutions and its selector have no place there")
        }
        Layout::Speculators if layers().any(|(window, causal)| window.is_none() && *causal) => {
            Some("slots of full attention see only the slots before them, and there they see all")
        }
        Layout::Speculators if of_sliding().any(|causal| Some(causal) != of_sliding().next()) => {
            Some("its sliding layers are not all causal or all not")
        }
        _ => None,
    }
}

/// The config of z-lab's form.
fn z_lab(from: &HeadsFolder, spec: &BlockSpec, base: &Base<'_>) -> Result<Map<String, Value>, HeadsError> {
    let mut config = layer_document(from)?;
    if from.detected.format == HeadsFormat::DFlashSpeculators {
        let left: Vec<usize> = spec.hook_layers.iter().map(|layer| layer.saturating_sub(1)).collect();
        let mut own = json!({"mask_token_id": spec.mask_token, "target_layer_ids": left});
        if !spec.causal.contains(&true) {
            own["causal"] = false.into();
        }
        let said = [
            ("architectures", json!(["DFlashDraftModel"])),
            ("model_type", "qwen3".into()),
            ("num_target_layers", base.layers.into()),
            ("dflash_config", own),
        ];
        config.extend(said.map(|(key, value)| (key.to_owned(), value)));
    }
    // Some readers look for the block size at the top and some inside.
    config.insert("block_size".into(), spec.slots.into());
    config["dflash_config"]["block_size"] = json!(spec.slots);
    config.insert("base_model_name_or_path".into(), base.name.into());
    Ok(config)
}

/// The config of speculators' form.
fn nested(from: &HeadsFolder, spec: &BlockSpec, base: &Base<'_>, drafted: usize) -> Result<Value, HeadsError> {
    let mut layers = speculators::layers(&layer_document(from)?, "qwen3", "Qwen3ForCausalLM");
    let kind = |window: &Option<usize>| if window.is_some() { "sliding_attention" } else { "full_attention" };
    let window = spec.windows.iter().copied().flatten().next();
    let said = [
        ("num_hidden_layers", spec.layers.into()),
        ("vocab_size", base.vocab_size.into()),
        ("tie_word_embeddings", false.into()),
        ("layer_types", spec.windows.iter().map(kind).collect::<Vec<_>>().into()),
        ("sliding_window", window.into()),
        ("use_sliding_window", window.is_some().into()),
    ];
    layers.extend(said.map(|(key, value)| (key.to_owned(), value)));
    layers.entry("head_dim").or_insert_with(|| spec.layer.qk_norm.into());
    if !layers.contains_key("rope_parameters") {
        // The config's own default; vLLM's is another.
        layers.entry("rope_theta").or_insert_with(|| json!(10_000.0));
    }
    let mut document =
        speculators::head(("dflash", "0.7.0"), "DFlashDraftModel", spec.slots - 1, (base.name, base.class));
    // Only sliding layers are causal here; some readers take the key for all layers.
    let causal = spec.causal.contains(&true);
    let said = [
        (LAYERS, Value::Object(layers)),
        ("draft_vocab_size", drafted.into()),
        ("block_size", spec.slots.into()),
        ("mask_token_id", spec.mask_token.into()),
        ("aux_hidden_state_layer_ids", spec.hook_layers.clone().into()),
        ("sliding_window_non_causal", (!causal).into()),
        ("sample_from_anchor", false.into()),
        ("target_hidden_size", Value::Null),
    ];
    document.extend(said.map(|(key, value)| (key.to_owned(), value)));
    Ok(Value::Object(document))
}
