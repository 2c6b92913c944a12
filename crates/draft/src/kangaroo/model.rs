//! An adapter that was loaded for decoding.

use super::config::{LAST_NORM, PREFIX, STOP, STOP_KEY};
use crate::folder::{self, HeadsError, HeadsFolder};
use crate::format::{HeadSpec, KangarooSpec};
use crate::layer::LayerShape;
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::attention_layer::DraftAttention;
use gorgon_model::cache::KvCache;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::{Decoder, ModelError};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::linear::Loader;
use gorgon_model::norm::Norm;
use std::sync::Arc;

/// Rows that a new cache has room for.
const FIRST_ROWS: usize = 512;

/// An adapter on a device, beside its backbone.
#[derive(Debug)]
pub struct KangarooModel {
    decoder: Arc<Decoder>,
    attention: DraftAttention,
    last_norm: Norm,
    eps: f32,
    exit_layer: usize,
    stop: f64,
}

impl KangarooModel {
    /// Loads a recognised adapter for `decoder`.
    ///
    /// # Errors
    /// When the heads are of another kind, were made for another backbone, or cannot be read.
    pub fn load(folder: &HeadsFolder, decoder: Arc<Decoder>) -> Result<Self, HeadsError> {
        let wrong = |reason: String| HeadsError::Format { path: folder.path.clone(), reason };
        let HeadSpec::Kangaroo(spec) = &folder.detected.spec else {
            return Err(wrong(format!("{} heads, not a Kangaroo adapter", folder.detected.format)));
        };
        let backbone = decoder.config();
        if spec.hidden_size != backbone.hidden_size {
            let (theirs, ours) = (spec.hidden_size, backbone.hidden_size);
            return Err(wrong(format!("an adapter for a hidden size of {theirs}; the model's is {ours}")));
        }
        if spec.exit_layer >= backbone.layers {
            let (exit, layers) = (spec.exit_layer, backbone.layers);
            return Err(wrong(format!("an adapter on {exit} layers; the model has {layers}, and fewer have to draft")));
        }
        let config = attention_config(spec, backbone).map_err(wrong)?;
        let (eps, compute) = (config.norm_eps, decoder.compute().clone());
        let attention = DraftAttention::load(&folder.checkpoint, config, PREFIX, &compute)?;
        let last_norm = Norm::load(&Loader { checkpoint: &folder.checkpoint, compute: &compute }, LAST_NORM, false)?;
        let (exit_layer, stop) = (spec.exit_layer, stop(folder)?);
        Ok(Self { decoder, attention, last_norm, eps, exit_layer, stop })
    }

    /// Layers of the target that draft.
    pub fn exit_layer(&self) -> usize {
        self.exit_layer
    }

    /// The probability of a draft below which its path ends after it.
    pub fn stop(&self) -> f64 {
        self.stop
    }

    /// Replaces the threshold.
    #[must_use]
    pub fn stopping_at(self, stop: f64) -> Self {
        Self { stop, ..self }
    }

    /// The states of the target that it reads.
    pub fn hooks(&self) -> Hooks {
        Hooks::new(vec![self.exit_layer], self.exit_layer).unwrap_or_default()
    }

    /// Size of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.decoder.config().vocab_size
    }

    /// An empty cache; it is given more room as it needs it.
    pub fn new_cache(&self) -> KvCache {
        self.attention.new_cache(FIRST_ROWS)
    }

    /// Reads states of committed tokens.
    ///
    /// # Shapes
    /// `exits [rows, d]`, the residual stream in front of the exit layer.
    ///
    /// # Errors
    /// When rows of `cache` are uncommitted.
    pub fn commit(&self, exits: &HiddenStates, cache: &mut KvCache) -> Result<(), ModelError> {
        Ok(self.attention.commit(exits, cache)?)
    }

    /// `N(h + Attn(N_a(h)))` of some rows, whose keys and values stay uncommitted in `cache`.
    ///
    /// # Shapes
    /// `exits [rows, d]`, result the same.
    ///
    /// # Errors
    /// When rows are uncommitted that `mask` does not count.
    pub fn forward(
        &self,
        exits: &HiddenStates,
        mask: &AttentionMask,
        cache: &mut KvCache,
    ) -> Result<HiddenStates, ModelError> {
        cache.extend_reservation(exits.rows());
        let mixed = self.attention.forward(exits, mask, cache)?;
        Ok(self.last_norm.forward(&mixed, self.eps))
    }

    /// The LM head's logits of the adapter's output.
    ///
    /// # Shapes
    /// Result `[rows · V]`, row-major.
    pub fn logits(&self, states: &HiddenStates) -> PooledVec<f32> {
        self.decoder.draft_logits(states)
    }

    /// The top `widths[i]` tokens after state `i`, if they can be found without all logits.
    pub fn top_tokens(&self, states: &HiddenStates, widths: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        self.decoder.top_tokens(states, widths)
    }
}

/// The config of the adapter's attention: the backbone's sizes, with the numbers of heads that its own config names.
fn attention_config(spec: &KangarooSpec, backbone: &ModelConfig) -> Result<ModelConfig, String> {
    let base = LayerShape::of(backbone);
    let heads = spec.heads.unwrap_or(base.heads);
    if !spec.query_size.is_multiple_of(heads) {
        return Err(format!("queries of width {} cannot be {heads} heads", spec.query_size));
    }
    let head_dim = spec.query_size / heads;
    if !spec.key_value_size.is_multiple_of(head_dim) {
        return Err(format!("keys of width {} cannot be heads of size {head_dim}", spec.key_value_size));
    }
    let kv_heads = spec.key_value_size / head_dim;
    let rope = base.rope.for_heads(head_dim);
    let config = ModelConfig::from_json(&LayerShape { heads, kv_heads, head_dim, rope, ..base }.document())?;
    Ok(ModelConfig { qkv_bias: spec.qkv_bias, ..config })
}

/// The threshold that the folder's config names, or the paper's.
fn stop(folder: &HeadsFolder) -> Result<f64, HeadsError> {
    let config = folder::config(&folder.path)?;
    let Some(value) = config.as_ref().and_then(|config| config.get(STOP_KEY)).filter(|value| !value.is_null()) else {
        return Ok(STOP);
    };
    value.as_f64().filter(|stop| (0.0..=1.0).contains(stop)).ok_or_else(|| HeadsError::Config {
        path: folder.path.join("config.json"),
        reason: format!("{STOP_KEY} is {value}, not a number from 0 to 1"),
    })
}
