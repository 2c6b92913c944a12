//! A block drafter that was loaded for decoding.

use super::own_tables::OwnTables;
use super::selector::{Selector, SelectorConfig};
use crate::drafter::{DraftError, Needs};
use crate::folder::{self, HeadsError, HeadsFolder};
use crate::format::{BlockSpec, HeadSpec};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::KvCache;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::{Decoder, ModelError};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::layer::DraftDecoderLayer;
use gorgon_model::linear::{Linear, Loader};
use gorgon_model::norm::Norm;
use gorgon_model::pass::{HookedStates, PassOutput};
use serde_json::{Value, json};
use smallvec::SmallVec;
use std::sync::Arc;

/// Context rows that a new cache has room for.
const FIRST_ROWS: usize = 512;

/// A block drafter on a device, beside its backbone.
#[derive(Debug)]
pub struct BlockModel {
    decoder: Arc<Decoder>,
    hooks: Hooks,
    tables: OwnTables,
    fc: Linear,
    hidden_norm: Norm,
    layers: Vec<Layer>,
    norm: Norm,
    selector: Option<Selector>,
    eps: f32,
    mask_token: Token,
    /// Position of each slot after the context.
    positions: Vec<usize>,
}

#[derive(Debug)]
struct Layer {
    layer: DraftDecoderLayer,
    /// Which slots each slot sees.
    mask: AttentionMask,
}

impl BlockModel {
    /// Loads a recognised block drafter for `decoder`.
    ///
    /// # Errors
    /// When the heads are of another kind, were made for another backbone, come without a usable config, or cannot be
    /// read.
    pub fn load(folder: &HeadsFolder, decoder: Arc<Decoder>) -> Result<Self, HeadsError> {
        let wrong = |reason: String| HeadsError::Format { path: folder.path.clone(), reason };
        let HeadSpec::Block(spec) = &folder.detected.spec else {
            return Err(wrong(format!("{} heads, not a block drafter", folder.detected.format)));
        };
        let backbone = decoder.config();
        check_backbone(spec, backbone).map_err(&wrong)?;
        let hooks = Hooks::new(spec.hook_layers.clone(), backbone.layers).map_err(|error| wrong(error.to_string()))?;
        let config = layer_config(folder, spec, backbone)?;
        let compute = decoder.compute().clone();
        let loader = Loader { checkpoint: &folder.checkpoint, compute: &compute };
        let layer = |number: usize| {
            let config = ModelConfig { windows: vec![spec.windows[number]], ..config.clone() };
            let prefix = format!("layers.{number}.");
            let layer = DraftDecoderLayer::load(&folder.checkpoint, config, &prefix, &compute)?;
            let layer = if spec.conv { layer.with_convolutions(&folder.checkpoint, &prefix)? } else { layer };
            Ok(Layer { layer, mask: mask(spec.slots, spec.causal[number]) })
        };
        Ok(Self {
            tables: OwnTables::load(folder, spec, &loader, backbone.vocab_size)?,
            fc: loader.linear(&["fc".to_owned()], false)?,
            hidden_norm: Norm::load(&loader, "hidden_norm.weight", false)?,
            layers: (0..spec.layers).map(layer).collect::<Result<_, HeadsError>>()?,
            norm: Norm::load(&loader, "norm.weight", false)?,
            selector: spec.selector.map(|(k, rank)| Selector::load(&loader, SelectorConfig { k, rank })).transpose()?,
            eps: config.norm_eps,
            mask_token: spec.mask_token as Token,
            positions: (0..spec.slots).collect(),
            hooks,
            decoder,
        })
    }

    /// Requirements of the drafter on the target's passes.
    pub fn needs(&self) -> Needs {
        Needs { hooks: self.hooks.clone(), ..Needs::default() }
    }

    /// Slots, `B`: one more than the tokens that are drafted.
    pub fn slots(&self) -> usize {
        self.positions.len()
    }

    /// The selector, if there is one.
    pub(super) fn selector(&self) -> Option<&Selector> {
        self.selector.as_ref()
    }

    /// Size of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.decoder.config().vocab_size
    }

    /// Empty caches, one per layer; they are given more room as they need it.
    pub fn new_caches(&self) -> Vec<KvCache> {
        self.layers.iter().map(|layer| layer.layer.new_cache(FIRST_ROWS)).collect()
    }

    /// The context features of some rows of a pass.
    ///
    /// # Shapes
    /// Result `[rows, d]`.
    ///
    /// # Errors
    /// When the pass did not hand out the hooked states.
    pub fn context(&self, output: &PassOutput, rows: &[usize]) -> Result<HiddenStates, DraftError> {
        let (wanted, found) = (self.hooks.layers().len(), output.hooks.len());
        if wanted != found {
            return Err(DraftError::Hooks { wanted, found });
        }
        let hooks: HookedStates = output.hooks.iter().map(|hook| hook.select(rows)).collect();
        Ok(self.fuse(&hooks))
    }

    /// `N(W [h^1; …; h^m])`.
    ///
    /// # Shapes
    /// As many rows in each of `hooks`, of width `d`; result the same.
    pub fn fuse(&self, hooks: &[HiddenStates]) -> HiddenStates {
        self.hidden_norm.forward(&self.fc.forward(&HiddenStates::concat_columns(hooks)), self.eps)
    }

    /// Adds context features to the caches of all layers.
    ///
    /// # Errors
    /// When rows of a cache are uncommitted.
    pub fn commit(&self, context: &HiddenStates, caches: &mut [KvCache]) -> Result<(), ModelError> {
        for (layer, cache) in self.layers.iter().zip(caches) {
            layer.layer.commit_context(context, cache)?;
        }
        Ok(())
    }

    /// The states of a block's drafted slots, `1..B`, as the LM head reads them. The caches are as before.
    ///
    /// # Shapes
    /// Result `[B - 1, d]`.
    ///
    /// # Errors
    /// When the token is outside the vocabulary.
    pub fn block(&self, anchor: Token, caches: &mut [KvCache]) -> Result<HiddenStates, ModelError> {
        let mut tokens = PooledVec::of(self.mask_token, self.slots());
        tokens[0] = anchor;
        let mut x = self.tables.embed(&self.decoder, &tokens)?;
        for (Layer { layer, mask }, cache) in self.layers.iter().zip(caches) {
            cache.extend_reservation(tokens.len());
            let done = layer.forward_at(x, mask, &self.positions, cache);
            cache.roll_back();
            x = done?;
        }
        Ok(self.norm.forward(&x.narrow(1, self.slots() - 1), self.eps))
    }

    /// The top `widths[i]` tokens after state `i`, if they can be found without all logits.
    pub fn top_tokens(&self, states: &HiddenStates, widths: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        self.tables.top_tokens(&self.decoder, states, widths)
    }

    /// The LM head's logits of slots, `-∞` for tokens that cannot be drafted.
    ///
    /// # Shapes
    /// Result `[rows · V]`, row-major.
    pub fn logits(&self, states: &HiddenStates) -> PooledVec<f32> {
        self.tables.logits(&self.decoder, states)
    }
}

/// The slots that each slot of a block sees.
fn mask(slots: usize, causal: bool) -> AttentionMask {
    match causal {
        true => AttentionMask::Causal { rows: slots },
        false => {
            let all: SmallVec<[usize; 16]> = (0..slots).collect();
            AttentionMask::from_paths((0..slots).map(|_| &all))
        }
    }
}

/// Fails if a drafter was made for another backbone than this one.
pub(super) fn check_backbone(spec: &BlockSpec, backbone: &ModelConfig) -> Result<(), String> {
    let (hidden, vocab, layers) = (backbone.hidden_size, backbone.vocab_size, backbone.layers);
    if spec.hidden_size != hidden {
        return Err(format!("a block drafter for a hidden size of {}; the model's is {hidden}", spec.hidden_size));
    }
    if let Some(theirs) = spec.vocab_size.filter(|theirs| *theirs != vocab) {
        return Err(format!("a block drafter for a vocabulary of {theirs}; the model's is {vocab}"));
    }
    if let Some(theirs) = spec.target_layers.filter(|theirs| *theirs != layers) {
        return Err(format!("a block drafter for a model of {theirs} layers; the model has {layers}"));
    }
    if spec.mask_token >= vocab {
        return Err(format!("the mask token {} is none of the model's {vocab} tokens", spec.mask_token));
    }
    Ok(())
}

/// The config of one layer: what the file beside the weights says of a Qwen 3 layer, what the tensors say of sizes.
fn layer_config(folder: &HeadsFolder, spec: &BlockSpec, backbone: &ModelConfig) -> Result<ModelConfig, HeadsError> {
    let path = folder.path.join("config.json");
    let wrong = |reason: String| HeadsError::Config { path: path.clone(), reason };
    let mut object = folder::layer_document(folder)?;
    // Windows are read with the format; the others are a whole model's, which a drafter is not.
    for key in ["architectures", "eos_token_id", "layer_types", "sliding_window", "use_sliding_window"] {
        object.remove(key);
    }
    object.insert("model_type".into(), "qwen3".into());
    object.insert("num_hidden_layers".into(), 1.into());
    object.entry("vocab_size").or_insert_with(|| backbone.vocab_size.into());
    object.entry("max_position_embeddings").or_insert_with(|| backbone.max_positions.into());
    object.entry("intermediate_size").or_insert_with(|| json!(spec.layer.intermediate_size));
    let config = ModelConfig::from_json(&Value::Object(object)).map_err(&wrong)?;
    let found = (config.hidden_size, config.intermediate_size, config.heads * config.head_dim);
    let stored = (spec.hidden_size, spec.layer.intermediate_size, spec.layer.query_size);
    let (keys, of_keys) = (config.kv_heads * config.head_dim, spec.layer.key_value_size);
    if found != stored || keys != of_keys {
        return Err(wrong(format!("sizes {found:?} and {keys} of keys; the tensors say {stored:?} and {of_keys}")));
    }
    if spec.layer.qk_norm != Some(config.head_dim) {
        return Err(wrong(format!("heads of {}; the norms of queries and keys are of another size", config.head_dim)));
    }
    Ok(ModelConfig { qkv_bias: spec.layer.qkv_bias, o_bias: false, mlp_bias: false, experts: None, ..config })
}
