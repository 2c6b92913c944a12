//! The drafter's loss with its gradients.
//!
//! A block at anchor `a` has `n` labels, the tokens `x_{a+1} … x_{a+n}` of slots `1..=n`. With `CE_k` the cross-entropy of
//! slot `k`, `L = s · Σ_blocks Σ_k w_k CE_k`, where no gradient goes through the weights `w`. D-PACE (arXiv 2605.18810):
//! `w_k = Σ_{j ≥ k} Π_{i ≤ j} s_i` with `s_i = (1 - α) exp(-CE_i) + α`: up to `α`, the slope of the expected number of
//! accepted drafts `Σ_j Π_{i ≤ j} exp(-CE_i)` against `-CE_k`. DFlash: `w_k = exp(-(k - 1) / γ)`. A selector's
//! cross-entropy counts as much as the slot's.

use super::config::{BlockConfig, SlotWeights};
use super::network::BlockNetwork;
use super::selector_loss::{self, Candidates};
use crate::d_pace;
use crate::fitting::{GradientCarry, row_index};
use burn::tensor::{Tensor, TensorData};
use gorgon_core::Token;
use gorgon_kernels::Table;
use gorgon_kernels::linear_cross_entropy::{Labels, linear_cross_entropy};
use gorgon_model::target::read;
use std::ops::Range;

/// Blocks over packed sequences.
#[derive(Clone, Debug)]
pub struct BlockBatch {
    /// The backbone's hooked states side by side, `[rows, hooks · d]`.
    pub hooks: Tensor<2>,
    /// The rows of each sequence.
    pub context: Vec<Range<usize>>,
    /// The anchors of each sequence, increasing.
    pub anchors: Vec<Vec<usize>>,
    /// Embeddings of the slots, `[blocks · B, d]`.
    pub embedded: Tensor<2>,
    /// The token at each block's anchor.
    pub anchor_tokens: Vec<Token>,
    /// Labels of each block's slots from slot 1 on, at most `B - 1`.
    pub labels: Vec<Vec<Token>>,
}

/// Results of a block, an entry per label.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockOutput {
    /// Cross-entropies, in nats.
    pub losses: Vec<f32>,
    /// Cross-entropies of the selector, if there is one.
    pub selector_losses: Vec<f32>,
    /// Weights of these in the loss.
    pub weights: Vec<f32>,
    /// How many tokens the drafter ranks above the label; 0 means that its first guess is right.
    pub ranks: Vec<u32>,
}

impl BlockOutput {
    /// `Σ_k w_k CE_k`, with the selector's cross-entropies.
    pub fn loss(&self) -> f64 {
        let weighed = |losses: &[f32]| {
            let each = losses.iter().zip(&self.weights);
            each.map(|(&loss, &weight)| f64::from(loss) * f64::from(weight)).sum::<f64>()
        };
        weighed(&self.losses) + weighed(&self.selector_losses)
    }
}

/// Inputs of a loss beside weights and batch.
#[derive(Clone, Copy, Debug)]
pub struct Criterion<'a> {
    /// Weights of the slots.
    pub config: &'a BlockConfig,
    /// The backbone's LM head, `[V, d]`.
    pub lm_head: &'a Table,
    /// Rows of logits in memory at once.
    pub chunk_rows: usize,
}

/// The weights of a block's losses.
pub fn slot_weights(config: &BlockConfig, losses: &[f32]) -> Vec<f32> {
    match config.slot_weights {
        SlotWeights::Exponential => (0..losses.len()).map(|k| (-(k as f64) / config.gamma).exp() as f32).collect(),
        SlotWeights::DPace => d_pace::weights(config.alpha, &losses.iter().copied().map(Some).collect::<Vec<_>>()),
    }
}

/// The results of each block and, where a scale `s` is given, the gradient of every parameter.
///
/// # Shapes
/// `weights` flat, as in [`super::BlockShape::parameters`].
pub fn losses(
    network: &BlockNetwork,
    criterion: &Criterion<'_>,
    weights: &[Tensor<1>],
    batch: &BlockBatch,
    scale: Option<f32>,
) -> (Vec<BlockOutput>, Vec<Tensor<1>>) {
    // The fused operations are those of tracked tensors, so weights are tracked even where no gradient is wanted.
    let tracked =
        |w: &Tensor<1>| if scale.is_some() { w.clone().autodiff().require_grad() } else { w.clone().autodiff() };
    let leaves: Vec<Tensor<1>> = weights.iter().map(tracked).collect();
    let tokens: Vec<Token> = batch.labels.iter().flatten().copied().collect();
    let zeros = || if scale.is_some() { weights.iter().map(Tensor::zeros_like).collect() } else { vec![] };
    if tokens.is_empty() {
        return (vec![BlockOutput::default(); batch.labels.len()], zeros());
    }
    let (slots, blocks) = (network.shape().slots, network.blocks(&batch.context, &batch.anchors));
    let states = network.forward(&leaves, &batch.hooks.clone().autodiff(), batch.embedded.clone().autodiff(), &blocks);
    let rows =
        batch.labels.iter().enumerate().flat_map(|(block, labels)| (1..=labels.len()).map(move |k| block * slots + k));
    let guessed = states.select(0, row_index(rows, &batch.embedded.device()));
    let one = vec![if scale.is_some() { 1.0 } else { 0.0 }; tokens.len()];
    let labels = Labels { tokens: &tokens, scales: &one };
    let found = linear_cross_entropy(&guessed.clone().inner(), criterion.lm_head, labels, criterion.chunk_rows, false);
    let selected = network.shape().selector.map(|config| {
        let states = guessed.clone().inner();
        let candidates = Candidates::of(config.k, &states, criterion.lm_head, &tokens, criterion.chunk_rows);
        selector_loss::losses(config, network.selector(&leaves), &guessed, &predecessors(batch), candidates)
    });
    let of_selector = selected.as_ref().map_or(vec![], |losses| read(losses.clone().inner()));
    let outputs = by_block(criterion.config, &batch.labels, [&found.losses, &of_selector], &found.ranks);
    let Some(scale) = scale else { return (outputs, vec![]) };
    // Each row's gradient is that of its own loss, so its weight comes after it.
    let scales: Vec<f32> =
        outputs.iter().flat_map(|output| output.weights.iter().map(|weight| scale * weight)).collect();
    let scales = Tensor::<2>::from_data(TensorData::new(scales, [tokens.len(), 1]), &found.d_hidden.device());
    let mut carry = GradientCarry::of(guessed, found.d_hidden * scales.clone());
    if let Some(losses) = selected {
        carry.add(losses.reshape([tokens.len(), 1]), scales);
    }
    (outputs, carry.of_leaves(&leaves, weights))
}

/// The token in front of each label.
fn predecessors(batch: &BlockBatch) -> Vec<Token> {
    let one = |(&anchor, labels): (&Token, &Vec<Token>)| {
        let before = labels.len().saturating_sub(1);
        std::iter::once(anchor).chain(labels[..before].iter().copied()).take(labels.len()).collect::<Vec<_>>()
    };
    batch.anchor_tokens.iter().zip(&batch.labels).flat_map(one).collect()
}

/// Losses and ranks of all labels, cut into blocks.
fn by_block(
    config: &BlockConfig,
    labels: &[Vec<Token>],
    [losses, of_selector]: [&[f32]; 2],
    ranks: &[u32],
) -> Vec<BlockOutput> {
    let mut start = 0;
    let one = |labels: &Vec<Token>| {
        let part = start..start + labels.len();
        start = part.end;
        let losses = losses[part.clone()].to_vec();
        let selector_losses = of_selector.get(part.clone()).unwrap_or(&[]).to_vec();
        BlockOutput { weights: slot_weights(config, &losses), losses, selector_losses, ranks: ranks[part].to_vec() }
    };
    labels.iter().map(one).collect()
}
