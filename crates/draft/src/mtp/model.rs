//! Modules that were loaded for decoding.

use crate::folder::{HeadsError, HeadsFolder};
use crate::format::{HeadSpec, MtpSpec, mtp_prefix};
use crate::layer::LayerShape;
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::KvCache;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::{Decoder, ModelError};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::layer::DraftDecoderLayer;
use gorgon_model::linear::{Linear, Loader};
use gorgon_model::norm::Norm;
use gorgon_model::weights::WeightsError;
use std::sync::Arc;

/// Pairs that a new cache has room for.
const FIRST_ROWS: usize = 512;

/// Modules on a device, beside their backbone.
#[derive(Debug)]
pub struct MtpModel {
    decoder: Arc<Decoder>,
    modules: Vec<Module>,
    eps: f32,
}

#[derive(Debug)]
struct Module {
    of_embedding: Norm,
    of_state: Norm,
    projection: Linear,
    layer: DraftDecoderLayer,
    last_norm: Norm,
}

impl Module {
    fn load(loader: &Loader<'_>, config: &ModelConfig, prefix: &str) -> Result<Self, WeightsError> {
        let norm = |name: &str| Norm::load(loader, &format!("{prefix}{name}.weight"), false);
        Ok(Self {
            of_embedding: norm("enorm")?,
            of_state: norm("hnorm")?,
            projection: loader.linear(&[format!("{prefix}eh_proj")], false)?,
            layer: DraftDecoderLayer::load(loader.checkpoint, config.clone(), prefix, loader.compute)?,
            last_norm: norm("shared_head.norm")?,
        })
    }
}

impl MtpModel {
    /// Loads recognised modules for `decoder`. Copies of embedding and LM head in the file are left alone: the
    /// backbone's serve.
    ///
    /// # Errors
    /// When the heads are of another kind, were made for another backbone, or cannot be read.
    pub fn load(folder: &HeadsFolder, decoder: Arc<Decoder>) -> Result<Self, HeadsError> {
        let wrong = |reason: String| HeadsError::Format { path: folder.path.clone(), reason };
        let HeadSpec::Mtp(spec) = &folder.detected.spec else {
            let format = folder.detected.format;
            return Err(wrong(format!("{format} heads, not multi-token-prediction modules")));
        };
        let backbone = decoder.config();
        if spec.hidden_size != backbone.hidden_size {
            let (theirs, ours) = (spec.hidden_size, backbone.hidden_size);
            return Err(wrong(format!("modules for a hidden size of {theirs}; the model's is {ours}")));
        }
        if let Some(theirs) = spec.vocab_size.filter(|vocab| *vocab != backbone.vocab_size) {
            return Err(wrong(format!("modules for a vocabulary of {theirs}; the model's is {}", backbone.vocab_size)));
        }
        let MtpSpec { modules, first_layer, layer, .. } = spec;
        let config = LayerShape::of(backbone).config(layer).map_err(wrong)?;
        let (eps, compute) = (config.norm_eps, decoder.compute().clone());
        let loader = Loader { checkpoint: &folder.checkpoint, compute: &compute };
        let module = |module| Module::load(&loader, &config, &mtp_prefix(first_layer + module));
        let modules = (0..*modules).map(module).collect::<Result<_, _>>()?;
        Ok(Self { decoder, modules, eps })
    }

    /// Number of modules.
    pub fn modules(&self) -> usize {
        self.modules.len()
    }

    /// Size of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.decoder.config().vocab_size
    }

    /// An empty cache for a module; it is given more room as it needs it.
    pub fn new_cache(&self, module: usize) -> KvCache {
        self.modules[module].layer.new_cache(FIRST_ROWS)
    }

    /// `N(Layer(W [N(E(x)); N(h)]))` of some pairs by a module (from 0), whose keys and values stay uncommitted in
    /// `cache`.
    ///
    /// # Shapes
    /// One of `tokens` for each of `states`; result the same.
    ///
    /// # Errors
    /// When a token is outside the vocabulary or rows are uncommitted that `visible` does not count.
    pub fn forward(
        &self,
        module: usize,
        tokens: &[Token],
        states: &HiddenStates,
        visible: &AttentionMask,
        cache: &mut KvCache,
    ) -> Result<HiddenStates, ModelError> {
        let Module { of_embedding, of_state, projection, layer, last_norm } = &self.modules[module];
        let embedded = self.decoder.embed(tokens)?;
        cache.extend_reservation(tokens.len());
        let read = [of_embedding.forward(&embedded, self.eps), of_state.forward(states, self.eps)];
        let x = projection.forward(&HiddenStates::concat_columns(&read));
        Ok(last_norm.forward(&layer.forward(None, x, visible, cache)?, self.eps))
    }

    /// The top `widths[i]` tokens after state `i`, if they can be found without all logits.
    pub fn top_tokens(&self, states: &HiddenStates, widths: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        self.decoder.top_tokens(states, widths)
    }

    /// The LM head's logits of a module's output.
    ///
    /// # Shapes
    /// Result `[rows · V]`, row-major.
    pub fn logits(&self, states: &HiddenStates) -> PooledVec<f32> {
        self.decoder.draft_logits(states)
    }
}
