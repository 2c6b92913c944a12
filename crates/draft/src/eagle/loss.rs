//! The draft layer's loss with its gradients.
//!
//! `L = Σ_i s · (SmoothL1(f̂_{i+1}, f_{i+1}) + w · CE(softmax(LM(f_{i+1})), LM(f̂_{i+1})))` over the pairs that count:
//! smooth L1 with threshold 1 as a mean over the feature's width, `w = 0.1` in the paper. A final soft cap of the
//! backbone is left out of both distributions.

use super::network::EagleNetwork;
use crate::fitting::{GradientCarry, row_index};
use burn::tensor::Tensor;
use gorgon_kernels::Table;
use gorgon_kernels::linear_cross_entropy::soft_cross_entropy;
use std::ops::Range;

/// Packed sequences of pairs.
#[derive(Clone, Debug)]
pub struct EagleBatch {
    /// Embeddings of the tokens, `[feature_tokens, d]`.
    pub embedded: Tensor<2>,
    /// The features before them, with any noise, `[feature_tokens, d]`.
    pub features: Tensor<2>,
    /// The pairs of each sequence.
    pub segments: Vec<Range<usize>>,
    /// The pairs that count, increasing.
    pub counted: Vec<u32>,
    /// The features that those lead to, without noise, `[counted, d]`.
    pub targets: Tensor<2>,
}

/// Result of a batch, an entry per pair that counts.
#[derive(Clone, Debug, Default)]
pub struct EagleOutput {
    /// Smooth L1 distances.
    pub regression: Vec<f32>,
    /// Cross-entropies, in nats.
    pub cross_entropy: Vec<f32>,
    /// How many tokens the drafter ranks above the backbone's argmax; 0 means that its first guess is right.
    pub ranks: Vec<u32>,
}

/// Inputs of a loss beside weights and batch.
#[derive(Clone, Copy, Debug)]
pub struct Criterion<'a> {
    /// The backbone's LM head, `[V, d]`.
    pub lm_head: &'a Table,
    /// Weight of the cross-entropy beside the regression, `w`.
    pub cross_entropy: f64,
    /// Rows of logits in memory at once.
    pub chunk_rows: usize,
}

/// The losses of a batch and, where a scale `s` is given, the gradient of every parameter.
///
/// # Shapes
/// `weights` flat, as in [`super::EagleShape::parameters`].
pub fn losses(
    network: &EagleNetwork,
    criterion: &Criterion<'_>,
    weights: &[Tensor<1>],
    batch: &EagleBatch,
    scale: Option<f32>,
) -> (EagleOutput, Vec<Tensor<1>>) {
    if batch.counted.is_empty() {
        let zeros = if scale.is_some() { weights.iter().map(Tensor::zeros_like).collect() } else { vec![] };
        return (EagleOutput::default(), zeros);
    }
    // The fused operations are those of tracked tensors, so weights are tracked even where no gradient is wanted.
    let tracked =
        |w: &Tensor<1>| if scale.is_some() { w.clone().autodiff().require_grad() } else { w.clone().autodiff() };
    let leaves: Vec<Tensor<1>> = weights.iter().map(tracked).collect();
    let inputs = (batch.embedded.clone().autodiff(), batch.features.clone().autodiff());
    let all = network.predict(&leaves, inputs.0, inputs.1, &batch.segments);
    let index = row_index(batch.counted.iter().map(|&row| row as usize), &weights[0].device());
    let guessed = all.select(0, index);
    let rows = guessed.clone().inner();
    let counts = scale.unwrap_or(0.0);
    let (regression, slope) = smooth_l1(&rows, &batch.targets);
    let weight = criterion.cross_entropy as f32 * counts;
    let found = soft_cross_entropy(&rows, &batch.targets, criterion.lm_head, weight, criterion.chunk_rows);
    let output = EagleOutput { regression, cross_entropy: found.losses, ranks: found.ranks };
    if scale.is_none() {
        return (output, vec![]);
    }
    let carry = GradientCarry::of(guessed, slope * counts + found.d_hidden);
    (output, carry.of_leaves(&leaves, weights))
}

/// Smooth L1 distances of rows, means over the width, and their gradients. With `c = clamp(x − y, −1, 1)` an element's
/// is `c (x − y − c / 2)`, its gradient `c`.
fn smooth_l1(x: &Tensor<2>, y: &Tensor<2>) -> (Vec<f32>, Tensor<2>) {
    let width = x.dims()[1] as f32;
    let difference = x.clone() - y.clone();
    let clamped = difference.clone().clamp(-1.0, 1.0);
    let distances = (clamped.clone() * (difference - clamped.clone() * 0.5)).mean_dim(1);
    (gorgon_model::target::read(distances), clamped / width)
}
