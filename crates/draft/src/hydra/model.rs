//! Hydra heads that were loaded for decoding.

use crate::folder::{self, HeadsError, HeadsFolder};
use crate::format::{HeadSpec, HeadsFormat, HydraSpec, LmHeads};
use crate::layer::LayerShape;
use crate::residual::plus_silu;
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::{Decoder, ModelError};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::layer::DraftDecoderLayer;
use gorgon_model::linear::{Linear, Loader};
use gorgon_model::lm_head::LmHead;
use gorgon_model::norm::Norm;
use gorgon_model::target::PREFILL_CHUNK;
use gorgon_model::weights::WeightsError;
use std::sync::Arc;

/// Rows that a new cache of the prefix layer has room for.
const FIRST_ROWS: usize = 512;

/// Heads on a device, beside their backbone.
#[derive(Debug)]
pub struct HydraModel {
    decoder: Arc<Decoder>,
    heads: Vec<Head>,
    /// Whether heads read the tokens before them.
    grounded: bool,
    prefix: Option<Prefix>,
    format: HeadsFormat,
}

/// One head.
#[derive(Debug)]
struct Head {
    first: Linear,
    /// The way around the first block, whose output is narrower than its input.
    residual: Option<Linear>,
    rest: Vec<Linear>,
    /// Its own LM head; the backbone's serves where there is none.
    lm_head: Option<LmHead>,
}

/// The prefix-attention layer of Hydra++ with the norm after it.
#[derive(Debug)]
struct Prefix {
    layer: DraftDecoderLayer,
    norm: Norm,
    eps: f32,
}

impl Head {
    fn load(loader: &Loader<'_>, spec: &HydraSpec, head: usize) -> Result<Self, WeightsError> {
        let naming = spec.naming();
        let linear = |name: String| loader.linear(&[name], true);
        let residual = spec.grounded.then(|| linear(naming.residual(head))).transpose()?;
        let rest = (1..spec.blocks).map(|block| linear(naming.block(head, block))).collect::<Result<_, _>>()?;
        let own = spec.lm_heads == LmHeads::PerHead;
        let lm_head =
            own.then(|| linear(naming.lm_head(head)).map(|linear| LmHead::new(linear, loader.compute))).transpose()?;
        Ok(Self { first: linear(naming.block(head, 0))?, residual, rest, lm_head })
    }

    /// The state that the LM head reads.
    fn of(&self, z: &HiddenStates) -> HiddenStates {
        let around = self.residual.as_ref().map_or_else(|| z.clone(), |residual| residual.forward(z));
        let first = plus_silu(around, self.first.forward(z));
        self.rest.iter().fold(first, |h, block| {
            let inner = block.forward(&h);
            plus_silu(h, inner)
        })
    }
}

impl HydraModel {
    /// Loads recognised Hydra or Hydra++ heads for `decoder`.
    ///
    /// # Errors
    /// When the heads are of another kind, were made for another backbone, or cannot be read.
    pub fn load(folder: &HeadsFolder, decoder: Arc<Decoder>) -> Result<Self, HeadsError> {
        let wrong = |reason: String| HeadsError::Format { path: folder.path.clone(), reason };
        let HeadSpec::Hydra(spec) = &folder.detected.spec else {
            return Err(wrong(format!("{} heads, not Hydra heads", folder.detected.format.method())));
        };
        let config = decoder.config();
        if spec.hidden_size != config.hidden_size {
            let (theirs, ours) = (spec.hidden_size, config.hidden_size);
            return Err(wrong(format!("heads for a hidden size of {theirs}; the model's is {ours}")));
        }
        if let Some(theirs) = spec.vocab_size.filter(|vocab| *vocab != config.vocab_size) {
            return Err(wrong(format!("heads for a vocabulary of {theirs}; the model's is {}", config.vocab_size)));
        }
        // Heads may have been fitted to the state of an earlier layer, which the engine does not hand them.
        let given = folder::config(&folder.path)?.and_then(|config| config.get("hidden_state_offset").cloned());
        if let Some(offset) = given.filter(|offset| offset.as_u64() != Some(0)) {
            return Err(wrong(format!(
                "config.json: hidden_state_offset is {offset}; only heads on the last state (0) load"
            )));
        }
        let compute = decoder.compute().clone();
        let loader = Loader { checkpoint: &folder.checkpoint, compute: &compute };
        let heads = (0..spec.heads).map(|head| Head::load(&loader, spec, head)).collect::<Result<_, _>>()?;
        let prefix = match &spec.prefix_layer {
            None => None,
            Some(layer) => {
                // The reference makes the layer of the backbone's own config.
                let config = LayerShape::of(config).config(layer).map_err(wrong)?;
                let (eps, naming) = (config.norm_eps, spec.naming());
                let norm = Norm::load(&loader, &naming.prefix_norm(), false)?;
                let layer = DraftDecoderLayer::load(&folder.checkpoint, config, &naming.prefix_layer(), &compute)?;
                Some(Prefix { layer, norm, eps })
            }
        };
        Ok(Self { decoder, heads, grounded: spec.grounded, prefix, format: folder.detected.format })
    }

    /// Number of heads.
    pub fn heads(&self) -> usize {
        self.heads.len()
    }

    /// Size of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.decoder.config().vocab_size
    }

    /// The format they were stored in.
    pub fn format(&self) -> HeadsFormat {
        self.format
    }

    /// An empty cache for the prefix layer, if there is one; it is given more room as it needs it.
    pub fn new_cache(&self) -> Option<KvCache> {
        self.prefix.as_ref().map(|prefix| prefix.layer.new_cache(FIRST_ROWS))
    }

    /// State that heads read in place of the last of some committed tokens' states: the state itself, or the output of
    /// the prefix layer. The tokens' keys and values stay in `cache`.
    ///
    /// # Shapes
    /// `hidden` one row or more; result one.
    ///
    /// # Errors
    /// When the cache is in another use.
    pub fn state(&self, hidden: &HiddenStates, cache: Option<&mut KvCache>) -> Result<HiddenStates, ModelError> {
        let rows = hidden.rows();
        let mut last = hidden.narrow(rows - 1, 1);
        let (Some(prefix), Some(cache)) = (&self.prefix, cache) else { return Ok(last) };
        for first in (0..rows).step_by(PREFILL_CHUNK) {
            let n = PREFILL_CHUNK.min(rows - first);
            cache.reserve(n)?;
            let visible = AttentionMask::Causal { rows: n };
            let output = prefix.layer.forward(None, hidden.narrow(first, n), &visible, cache)?;
            cache.commit(&(0..n).collect::<PooledVec<_>>())?;
            last = output.narrow(n - 1, 1);
        }
        Ok(prefix.norm.forward(&last, prefix.eps))
    }

    /// Logits of head `head` (from 0) after some paths of `head + 1` tokens each, the root first.
    ///
    /// # Shapes
    /// `state` one row; `paths` one after another; result `[paths · V]`, row-major.
    ///
    /// # Errors
    /// When a token is outside the vocabulary.
    pub fn logits(&self, state: &HiddenStates, head: usize, paths: &[Token]) -> Result<PooledVec<f32>, ModelError> {
        self.states(state, head, paths).map(|states| self.project(head, &states))
    }

    /// Input of the LM head of head `head` after some paths, in the form of [`Self::logits`].
    ///
    /// # Shapes
    /// Result one row for each path.
    ///
    /// # Errors
    /// When a token is outside the vocabulary.
    pub fn states(&self, state: &HiddenStates, head: usize, paths: &[Token]) -> Result<HiddenStates, ModelError> {
        let depth = head + 1;
        let states = state.select(&PooledVec::of(0, paths.len() / depth));
        let z = match self.grounded {
            // A row's tokens lie side by side, so their embeddings already are a row of the input.
            true => HiddenStates::concat_columns(&[states, self.decoder.embed(paths)?.merge_rows(depth)]),
            false => states,
        };
        Ok(self.heads[head].of(&z))
    }

    /// The top `widths[i]` tokens after state `i` of head `head`, if they can be found without all logits; see
    /// [`LmHead::top_tokens`].
    pub fn top_tokens(&self, head: usize, states: &HiddenStates, widths: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        match &self.heads[head].lm_head {
            Some(lm_head) => lm_head.top_tokens(states, widths),
            None => self.decoder.top_tokens(states, widths),
        }
    }

    /// Logits of states of head `head`.
    ///
    /// # Shapes
    /// Result `[rows · V]`, row-major.
    pub fn project(&self, head: usize, states: &HiddenStates) -> PooledVec<f32> {
        match &self.heads[head].lm_head {
            Some(lm_head) => lm_head.forward(states).into_values(),
            None => self.decoder.draft_logits(states),
        }
    }
}
