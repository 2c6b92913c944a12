//! The adapter's loss with its gradients.
//!
//! `L = Σ_t s · CE(softmax(LM(h_L,t)), softmax(LM(f_t)))` over the rows that count: the target's own distribution is
//! what the adapter is fitted to. A final soft cap of the target is left out of both.

use super::config::KangarooShape;
use crate::fitting::{GradientCarry, row_index};
use crate::layer::LayerNetwork;
use burn::tensor::Tensor;
use gorgon_kernels::Table;
use gorgon_kernels::linear_cross_entropy::soft_cross_entropy;
use gorgon_kernels::norm::rms_norm_tracked;
use std::ops::Range;

/// The adapter, without its parameters.
#[derive(Clone, Debug)]
pub struct KangarooNetwork {
    /// Its shape.
    pub shape: KangarooShape,
    layer: LayerNetwork,
}

/// Packed sequences of states.
#[derive(Clone, Debug)]
pub struct KangarooBatch {
    /// The target's residual stream in front of the exit layer, `[rows, d]`.
    pub exits: Tensor<2>,
    /// The rows of each sequence.
    pub segments: Vec<Range<usize>>,
    /// The rows that count, increasing.
    pub counted: Vec<u32>,
    /// The target's states after its final norm at those rows, `[counted, d]`.
    pub targets: Tensor<2>,
}

/// Result of a batch, an entry per row that counts.
#[derive(Clone, Debug, Default)]
pub struct KangarooOutput {
    /// Cross-entropies, in nats.
    pub losses: Vec<f32>,
    /// How many tokens the adapter ranks above the target's argmax; 0 means that its first guess is right.
    pub ranks: Vec<u32>,
}

impl KangarooNetwork {
    /// An adapter for sequences of at most `longest` tokens.
    pub fn new(shape: KangarooShape, longest: usize) -> Self {
        let layer = LayerNetwork::new(&shape.layer, longest);
        Self { shape, layer }
    }

    /// Inputs of the LM head, `N(h + Attn(N_a(h)))`.
    ///
    /// # Shapes
    /// `weights` flat, as in [`KangarooShape::parameters`]; `exits [rows, d]`, result the same.
    pub fn features(&self, weights: &[Tensor<1>], exits: Tensor<2>, segments: &[Range<usize>]) -> Tensor<2> {
        let last = weights.len() - 1;
        let mixed = self.layer.attention_alone(&weights[..last], exits, segments);
        rms_norm_tracked(mixed, &weights[last], self.layer.norm_eps())
    }

    /// The losses of a batch and, where a scale `s` is given, the gradient of every parameter. `lm_head` is the
    /// target's, `[V, d]`; `chunk_rows` rows of logits are in memory at once.
    ///
    /// # Shapes
    /// `weights` flat, as in [`KangarooShape::parameters`].
    pub fn losses(
        &self,
        weights: &[Tensor<1>],
        (lm_head, chunk_rows): (&Table, usize),
        batch: &KangarooBatch,
        scale: Option<f32>,
    ) -> (KangarooOutput, Vec<Tensor<1>>) {
        if batch.counted.is_empty() {
            let zeros = if scale.is_some() { weights.iter().map(Tensor::zeros_like).collect() } else { vec![] };
            return (KangarooOutput::default(), zeros);
        }
        // The fused operations are those of tracked tensors, so weights are tracked even where no gradient is wanted.
        let tracked =
            |w: &Tensor<1>| if scale.is_some() { w.clone().autodiff().require_grad() } else { w.clone().autodiff() };
        let leaves: Vec<Tensor<1>> = weights.iter().map(tracked).collect();
        let all = self.features(&leaves, batch.exits.clone().autodiff(), &batch.segments);
        let index = row_index(batch.counted.iter().map(|&row| row as usize), &weights[0].device());
        let guessed = all.select(0, index);
        let rows = guessed.clone().inner();
        let found = soft_cross_entropy(&rows, &batch.targets, lm_head, scale.unwrap_or(0.0), chunk_rows);
        let output = KangarooOutput { losses: found.losses, ranks: found.ranks };
        match scale {
            None => (output, vec![]),
            Some(_) => (output, GradientCarry::of(guessed, found.d_hidden).of_leaves(&leaves, weights)),
        }
    }
}
