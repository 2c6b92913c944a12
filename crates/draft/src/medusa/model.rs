//! Medusa heads that were loaded for decoding.

use crate::folder::{HeadsError, HeadsFolder};
use crate::format::{HeadSpec, HeadsFormat, LmHeads};
use burn::tensor::Tensor;
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::Isa;
use gorgon_kernels::activation::{silu, silu_rows};
use gorgon_model::decoder::Decoder;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::linear::{Linear, Loader, Weight};
use gorgon_model::lm_head::LmHead;
use gorgon_model::target::read;
use gorgon_model::weights::WeightsError;
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

/// What makes logits of the heads' states.
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
        let HeadSpec::Medusa(facts) = &folder.detected.facts else {
            return Err(wrong(format!("{} heads, not Medusa heads", folder.detected.format.method())));
        };
        let config = decoder.config();
        if facts.hidden_size != config.hidden_size {
            let (theirs, ours) = (facts.hidden_size, config.hidden_size);
            return Err(wrong(format!("heads for a hidden size of {theirs}; the model's is {ours}")));
        }
        if facts.draft_vocab_size.is_some() {
            return Err(wrong("heads with a reduced vocabulary cannot be used".into()));
        }
        if facts.vocab_size.is_some_and(|vocab| vocab != config.vocab_size) {
            let (theirs, ours) = (facts.vocab_size.unwrap_or_default(), config.vocab_size);
            return Err(wrong(format!("heads for a vocabulary of {theirs}; the model's is {ours}")));
        }
        let compute = decoder.compute().clone();
        let loader = Loader { checkpoint: &folder.checkpoint, compute: &compute };
        let block = |head, block| loader.linear(&[facts.naming.linear(head, block)], facts.bias);
        let together = !compute.is_host() && facts.blocks > 0;
        let names: Vec<String> = (0..facts.heads).map(|head| facts.naming.linear(head, 0)).collect();
        let first = together.then(|| loader.linear(&names, facts.bias)).transpose()?;
        let blocks = (0..facts.heads)
            .map(|head| (usize::from(together)..facts.blocks).map(|b| block(head, b)).collect())
            .collect::<Result<Vec<Vec<Linear>>, WeightsError>>()?;
        let projection = |name: String| Ok::<_, WeightsError>(Linear::new(loader.weight(&[name])?));
        let lm_heads = match &facts.lm_heads {
            LmHeads::PerHead => {
                let heads = (0..facts.heads).map(|head| projection(facts.naming.lm_head(head, facts.blocks)));
                Projection::PerHead(heads.collect::<Result<_, WeightsError>>()?)
            }
            LmHeads::Shared { tensor } => Projection::Shared(Box::new(LmHead::new(projection(tensor.clone())?))),
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
        let Some(hidden) = hidden.on_host() else { return self.project(self.states(&hidden.tensor(), heads)).into() };
        let (states, width) = (self.states_on_host(hidden, heads), hidden.len());
        if states.is_empty() {
            return PooledVec::new();
        }
        let lm_heads: &[Linear] = match &self.lm_heads {
            Projection::Backbone => return self.decoder.draft_scores(&HiddenStates::Host { values: states, width }),
            Projection::Shared(lm_head) => std::slice::from_ref(lm_head),
            Projection::PerHead(lm_heads) => &lm_heads[..heads.min(lm_heads.len())],
        };
        let mut logits = PooledVec::unset(states.len() / width * self.vocab_size());
        let (rows, outputs) = (states.len() / lm_heads.len(), logits.len() / lm_heads.len());
        let each = states.chunks_exact(rows).zip(logits.chunks_exact_mut(outputs)).zip(lm_heads);
        each.for_each(|((states, logits), lm_head)| lm_head.rows(states, logits));
        logits
    }

    /// The same where they were computed.
    ///
    /// # Shapes
    /// `hidden [1, 1, d]`, result `[1, heads, V]`.
    pub fn head_logits(&self, hidden: &Tensor<3>, heads: usize) -> Tensor<3> {
        match &self.lm_heads {
            Projection::Backbone => self.decoder.draft_logits(&self.rows(hidden, heads)),
            Projection::Shared(lm_head) => lm_head.forward(&self.rows(hidden, heads)),
            Projection::PerHead(_) => self.projected(self.states(hidden, heads)),
        }
    }

    /// The `counts[k]` likeliest tokens of each head `k` with their logits, head by head, if they can be told without
    /// all logits; see [`LmHead::top_tokens`].
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
        let hidden = hidden.on_host().filter(|_| lm_head.has_copy())?;
        let mut found = PooledVec::new();
        lm_head.top_tokens_of(&self.states_on_host(hidden, counts.len()), counts, &mut found).then_some(found)
    }

    /// [`Self::states`] on the CPU, as rows.
    ///
    /// # Shapes
    /// `hidden [d]`, result `[heads, d]`.
    fn states_on_host(&self, hidden: &[f32], heads: usize) -> PooledVec<f32> {
        let (mut states, mut inner) = (PooledVec::new(), PooledVec::unset(hidden.len()));
        for blocks in &self.blocks[..heads.min(self.blocks.len())] {
            states.extend_from_slice(hidden);
            let start = states.len() - hidden.len();
            for block in blocks {
                let state = &mut states[start..];
                block.rows(state, &mut inner);
                silu_rows(Isa::detect(), &mut inner);
                state.iter_mut().zip(&inner).for_each(|(sum, value)| *sum += value);
            }
        }
        states
    }

    /// What the first `heads` heads' LM heads read, head by head.
    ///
    /// # Shapes
    /// `hidden [1, 1, d]`, each result the same.
    pub fn states(&self, hidden: &Tensor<3>, heads: usize) -> Vec<Tensor<3>> {
        let heads = heads.min(self.blocks.len());
        let after =
            |h: Tensor<3>, blocks: &Vec<Linear>| blocks.iter().fold(h, |h, block| h.clone() + silu(block.forward(&h)));
        match self.first_states(hidden) {
            None => self.blocks[..heads].iter().map(|blocks| after(hidden.clone(), blocks)).collect(),
            Some(first) => (0..heads).map(|k| after(first.clone().narrow(1, k, 1), &self.blocks[k])).collect(),
        }
    }

    /// What all heads' first blocks make of a state, where they are one product: `[1, heads, d]`.
    fn first_states(&self, hidden: &Tensor<3>) -> Option<Tensor<3>> {
        let [_, _, d] = hidden.dims();
        let inner = silu(self.first.as_ref()?.forward(hidden)).reshape([1, self.blocks.len(), d]);
        Some(hidden.clone() + inner)
    }

    /// The states of the first `heads` heads as rows.
    fn rows(&self, hidden: &Tensor<3>, heads: usize) -> Tensor<3> {
        match self.first_states(hidden).filter(|_| self.blocks.iter().all(Vec::is_empty)) {
            Some(all) => all.narrow(1, 0, heads.min(self.blocks.len())),
            None => Tensor::cat(self.states(hidden, heads), 1),
        }
    }

    /// Logits of the first heads' states.
    ///
    /// # Shapes
    /// `states [1, 1, d]` each, result `[heads · V]`, head by head.
    pub fn project(&self, states: Vec<Tensor<3>>) -> Vec<f32> {
        read(self.projected(states))
    }

    fn projected(&self, states: Vec<Tensor<3>>) -> Tensor<3> {
        match &self.lm_heads {
            Projection::Backbone => self.decoder.draft_logits(&Tensor::cat(states, 1)),
            Projection::Shared(lm_head) => lm_head.forward(&Tensor::cat(states, 1)),
            Projection::PerHead(lm_heads) => {
                Tensor::cat(states.iter().zip(lm_heads).map(|(state, lm_head)| lm_head.forward(state)).collect(), 1)
            }
        }
    }
}
