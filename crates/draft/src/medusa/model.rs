//! Medusa heads that were loaded for decoding.

use crate::folder::{HeadsError, HeadsFolder};
use crate::format::{HeadSpec, HeadsFormat, LmHeads};
use crate::residual::plus_silu;
use burn::tensor::Tensor;
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::activation::silu;
use gorgon_model::decoder::Decoder;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::linear::{Linear, Loader, Weight};
use gorgon_model::lm_head::LmHead;
use gorgon_model::weights::WeightsError;
use smallvec::SmallVec;
use std::sync::Arc;

/// Heads on a device, beside their backbone.
#[derive(Debug)]
pub struct MedusaModel {
    decoder: Arc<Decoder>,
    /// On a GPU: the first block of every head, one below the other, since all of them read the same state.
    first: Option<Linear>,
    /// Residual blocks by head; without the first one where that is above.
    blocks: Vec<Vec<Linear>>,
    lm_heads: Projection,
    format: HeadsFormat,
}

/// Projection of the heads' states to logits.
#[derive(Debug)]
enum Projection {
    /// The backbone's LM head.
    Backbone,
    /// One of the heads' own file, for all of them.
    Shared(Box<LmHead>),
    /// One per head.
    PerHead(Vec<Linear>),
}

impl MedusaModel {
    /// Loads recognised Medusa heads for `decoder`.
    ///
    /// # Errors
    /// When the heads are of another kind, were made for another backbone, or cannot be read.
    pub fn load(folder: &HeadsFolder, decoder: Arc<Decoder>) -> Result<Self, HeadsError> {
        let wrong = |reason: String| HeadsError::Format { path: folder.path.clone(), reason };
        let HeadSpec::Medusa(spec) = &folder.detected.spec else {
            return Err(wrong(format!("{} heads, not Medusa heads", folder.detected.format.method())));
        };
        let config = decoder.config();
        if spec.hidden_size != config.hidden_size {
            let (theirs, ours) = (spec.hidden_size, config.hidden_size);
            return Err(wrong(format!("heads for a hidden size of {theirs}; the model's is {ours}")));
        }
        if spec.draft_vocab_size.is_some() {
            return Err(wrong("heads with a reduced vocabulary cannot be used".into()));
        }
        if spec.vocab_size.is_some_and(|vocab| vocab != config.vocab_size) {
            let (theirs, ours) = (spec.vocab_size.unwrap_or_default(), config.vocab_size);
            return Err(wrong(format!("heads for a vocabulary of {theirs}; the model's is {ours}")));
        }
        let compute = decoder.compute().clone();
        let loader = Loader { checkpoint: &folder.checkpoint, compute: &compute };
        let block = |head, block| loader.linear(&[spec.naming.linear(head, block)], spec.bias);
        let together = !compute.is_host() && spec.blocks > 0;
        let names: Vec<String> = (0..spec.heads).map(|head| spec.naming.linear(head, 0)).collect();
        let first = together.then(|| loader.linear(&names, spec.bias)).transpose()?;
        let blocks = (0..spec.heads)
            .map(|head| (usize::from(together)..spec.blocks).map(|b| block(head, b)).collect())
            .collect::<Result<Vec<Vec<Linear>>, WeightsError>>()?;
        let projection = |name: String| Ok::<_, WeightsError>(Linear::new(loader.weight(&[name])?));
        let lm_heads = match &spec.lm_heads {
            LmHeads::PerHead => {
                let heads = (0..spec.heads).map(|head| projection(spec.naming.lm_head(head, spec.blocks)));
                Projection::PerHead(heads.collect::<Result<_, WeightsError>>()?)
            }
            LmHeads::Shared { tensor } => {
                Projection::Shared(Box::new(LmHead::new(projection(tensor.clone())?, &compute)))
            }
            LmHeads::Target => Projection::Backbone,
        };
        Ok(Self { decoder, first, blocks, lm_heads, format: folder.detected.format })
    }

    /// Heads as training begins with, one block of zeros each and the backbone's LM head, beside a decoder on a GPU:
    /// for measuring, since what they cost does not depend on what they say.
    pub fn untrained(decoder: Arc<Decoder>, heads: usize) -> Self {
        let d = decoder.config().hidden_size;
        let (device, format) = (decoder.compute().device().clone(), decoder.compute().activation());
        let first = Some(Linear::new(Weight::Dense(Tensor::zeros([heads * d, d], (&device, format)))));
        Self {
            decoder,
            first,
            blocks: vec![vec![]; heads],
            lm_heads: Projection::Backbone,
            format: HeadsFormat::MedusaV2,
        }
    }

    /// Number of heads.
    pub fn heads(&self) -> usize {
        self.blocks.len()
    }

    /// Size of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.decoder.config().vocab_size
    }

    /// The format they were stored in.
    pub fn format(&self) -> HeadsFormat {
        self.format
    }

    /// Logits of the first `heads` heads at one state. With a shared LM head, its weights are read once for all of
    /// them.
    ///
    /// # Shapes
    /// `hidden [1, d]`, result `[heads · V]`, head by head.
    pub fn logits(&self, hidden: &HiddenStates, heads: usize) -> PooledVec<f32> {
        if heads.min(self.heads()) == 0 {
            return PooledVec::new();
        }
        self.project(&self.states(hidden, heads)).into_values()
    }

    /// The `counts[k]` tokens with the greatest logits of each head `k`, head by head, if they can be found without all
    /// logits; see [`LmHead::top_tokens`].
    ///
    /// # Shapes
    /// `hidden [1, d]`.
    pub fn top_tokens(&self, hidden: &HiddenStates, counts: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        let lm_head = match &self.lm_heads {
            Projection::Backbone => self.decoder.lm_head(),
            Projection::Shared(lm_head) => lm_head,
            Projection::PerHead(_) => return None,
        };
        // Asked first, since states would be computed for nothing.
        if !lm_head.has_prefilter() {
            return None;
        }
        lm_head.top_tokens(&self.states(hidden, counts.len()), counts)
    }

    /// The states that the first `heads` heads' LM heads read: `h + silu(W h + b)`, block after block.
    ///
    /// # Shapes
    /// `hidden [1, d]`, result `[heads, d]`; at least one head.
    pub fn states(&self, hidden: &HiddenStates, heads: usize) -> HiddenStates {
        let heads = heads.min(self.blocks.len());
        let first = self.first_states(hidden);
        if let Some(all) = first.as_ref().filter(|_| self.blocks.iter().all(Vec::is_empty)) {
            return all.narrow(0, heads);
        }
        let state = |head: usize| {
            let begun = first.as_ref().map_or_else(|| hidden.clone(), |all| all.narrow(head, 1));
            self.blocks[head].iter().fold(begun, |h, block| {
                let inner = block.forward(&h);
                plus_silu(h, inner)
            })
        };
        HiddenStates::concat(&(0..heads).map(state).collect::<SmallVec<[_; 4]>>())
    }

    /// The output of all heads' first blocks, where they are one matrix: `[heads, d]`.
    fn first_states(&self, hidden: &HiddenStates) -> Option<HiddenStates> {
        let inner = self.first.as_ref()?.forward(hidden).into_tensor();
        let (hidden, d) = (hidden.tensor(), hidden.width());
        Some(HiddenStates::on_device(hidden + silu(inner).reshape([1, self.blocks.len(), d])))
    }

    /// Logits of the first heads' states, left where they were computed.
    ///
    /// # Shapes
    /// `states [heads, d]`, result `[heads, V]`.
    pub fn project(&self, states: &HiddenStates) -> HiddenStates {
        match (&self.lm_heads, states) {
            (Projection::Backbone, HiddenStates::Host { .. }) => {
                HiddenStates::Host { values: self.decoder.draft_logits(states), width: self.vocab_size() }
            }
            (Projection::Backbone, HiddenStates::Device(states)) => {
                HiddenStates::on_device(self.decoder.draft_logits_tensor(states))
            }
            (Projection::Shared(lm_head), states) => lm_head.forward(states),
            (Projection::PerHead(lm_heads), states) => {
                let rows = (0..states.rows()).zip(lm_heads);
                let logits: SmallVec<[_; 4]> =
                    rows.map(|(row, lm_head)| lm_head.forward(&states.narrow(row, 1))).collect();
                HiddenStates::concat(&logits)
            }
        }
    }
}
