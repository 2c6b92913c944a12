//! The probes' loss with its gradients.
//!
//! `L = (1/M) Σ_t (1/n) Σ_k decay^(k-1) D_k` over `M` positions, with `D_k` the divergence `KL(p(·|x_{≤t+k}) ‖ p_k)` from
//! the backbone itself (PPD), or the cross-entropy of `x_{t+k+1}` (PaSS, SPACE). No gradient goes into the backbone's
//! distribution. Places behind the end of an answer have no label and count nothing.

use super::network::ProbeNetwork;
use crate::fitting::{GradientCarry, HeadLabels, row_index};
use crate::medusa::HeadOutput;
use burn::tensor::Tensor;
use gorgon_kernels::Table;
use gorgon_kernels::linear_cross_entropy::{Labels, linear_cross_entropy, soft_cross_entropy};
use std::ops::Range;

/// Probes over packed sequences.
#[derive(Clone, Debug)]
pub struct ProbeBatch {
    /// States that enter each layer of the backbone, side by side, `[rows, layers · d]`.
    pub hooks: Tensor<2>,
    /// The rows of each sequence.
    pub context: Vec<Range<usize>>,
    /// The last token that probes see, counted in its sequence and increasing; several in each sequence.
    pub positions: Vec<Vec<usize>>,
    /// The labels of each place; rows count the positions of all sequences.
    pub labels: Vec<HeadLabels>,
    /// The backbone's own states in front of the labels of each place, `[labels, d]`; empty where the loss is of tokens.
    pub originals: Vec<Tensor<2>>,
}

/// Inputs of a loss beside weights and batch.
#[derive(Clone, Copy, Debug)]
pub struct ProbeCriterion<'a> {
    /// The backbone's LM head, `[V, d]`.
    pub lm_head: &'a Table,
    /// Rows of logits in memory at once.
    pub chunk_rows: usize,
    /// Whether the loss is the divergence from [`ProbeBatch::originals`].
    pub soft: bool,
}

/// Losses and ranks of every place and, where `scales` are given, the gradient of the probes. In a soft loss ranks are
/// those of the backbone's first guess.
///
/// # Shapes
/// `weights` the table, flat; scales one per place.
pub fn losses(
    network: &ProbeNetwork,
    criterion: &ProbeCriterion<'_>,
    weights: &[Tensor<1>],
    batch: &ProbeBatch,
    scales: Option<&[f32]>,
) -> (Vec<HeadOutput>, Vec<Tensor<1>>) {
    let places = network.shape().places;
    let leaf =
        |w: &Tensor<1>| if scales.is_some() { w.clone().autodiff().require_grad() } else { w.clone().autodiff() };
    let leaves: Vec<Tensor<1>> = weights.iter().map(leaf).collect();
    let zeros = || if scales.is_some() { weights.iter().map(Tensor::zeros_like).collect() } else { vec![] };
    if batch.labels.iter().all(|labels| labels.tokens.is_empty()) {
        return (vec![HeadOutput::default(); places], zeros());
    }
    let states = network.forward(&leaves[0], &batch.hooks.clone().autodiff(), &batch.context, &batch.positions);
    let (mut outputs, mut carry) = (vec![], GradientCarry::default());
    for (place, labels) in batch.labels.iter().enumerate() {
        if labels.tokens.is_empty() {
            outputs.push(HeadOutput::default());
            continue;
        }
        let rows = labels.rows.iter().map(|&row| row as usize * places + place);
        let guessed = states.clone().select(0, row_index(rows, &batch.hooks.device()));
        let scale = scales.map_or(0.0, |scales| scales[place]);
        let original = batch.originals.get(place).filter(|_| criterion.soft);
        let (output, gradient) = criterion.place(&guessed.clone().inner(), labels, original, scale);
        outputs.push(output);
        carry.add(guessed, gradient);
    }
    match scales {
        Some(_) => (outputs, carry.of_leaves(&leaves, weights)),
        None => (outputs, vec![]),
    }
}

impl ProbeCriterion<'_> {
    /// Losses of one place, and their gradient with respect to its states.
    fn place(
        &self,
        states: &Tensor<2>,
        labels: &HeadLabels,
        original: Option<&Tensor<2>>,
        scale: f32,
    ) -> (HeadOutput, Tensor<2>) {
        let Some(original) = original else {
            let scales = vec![scale; labels.tokens.len()];
            let labels = Labels { tokens: &labels.tokens, scales: &scales };
            let found = linear_cross_entropy(states, self.lm_head, labels, self.chunk_rows, false);
            return (HeadOutput { losses: found.losses, ranks: found.ranks }, found.d_hidden);
        };
        let found = soft_cross_entropy(states, original, self.lm_head, scale, self.chunk_rows);
        // Cross-entropy less entropy is the divergence.
        let entropy = soft_cross_entropy(original, original, self.lm_head, 0.0, self.chunk_rows).losses;
        let losses = found.losses.iter().zip(entropy).map(|(crossed, entropy)| crossed - entropy).collect();
        (HeadOutput { losses, ranks: found.ranks }, found.d_hidden)
    }
}
