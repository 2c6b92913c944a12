//! The modules' loss with its gradients.
//!
//! `L = Σ_k s_k Σ_i CE(LM(h^k_i), x_{i+k+1})` over the labels of each depth, with the text's own tokens read (teacher
//! forcing). A module's pairs beyond the end of a text come last in its chain, so that nothing that counts sees them.

use super::config::MtpShape;
use crate::fitting::{GradientCarry, HeadBatch, rows_of};
use crate::layer::{LayerNetwork, linear};
use crate::medusa::{HeadOutput, HeadScale};
use burn::tensor::Tensor;
use gorgon_kernels::Table;
use gorgon_kernels::linear_cross_entropy::{Labels, linear_cross_entropy};
use gorgon_kernels::norm::rms_norm_tracked;
use std::ops::Range;

/// The modules, without their parameters.
#[derive(Clone, Debug)]
pub struct MtpHeads {
    /// Their shape.
    pub shape: MtpShape,
    layer: LayerNetwork,
    /// Rows of logits in memory at once.
    pub chunk_rows: usize,
}

impl MtpHeads {
    /// Modules for sequences of at most `longest` tokens.
    pub fn new(shape: MtpShape, longest: usize, chunk_rows: usize) -> Self {
        let layer = LayerNetwork::new(&shape.layer, longest);
        Self { shape, layer, chunk_rows }
    }

    /// Weight of depth `depth` (from 0) in the loss: equal for all, 1 in total.
    pub fn weight(&self, _depth: usize) -> f64 {
        1.0 / self.shape.config.depths as f64
    }

    /// One module over packed sequences: `N(Layer(W [N(E(x)); N(h)]))`.
    ///
    /// # Shapes
    /// `weights` flat, as in [`MtpShape::parameters`] for one module; `embedded` and `states` `[rows, d]`, result the
    /// same.
    fn module(
        &self,
        weights: &[Tensor<1>],
        embedded: Tensor<2>,
        states: Tensor<2>,
        segments: &[Range<usize>],
    ) -> Tensor<2> {
        let (d, eps) = (self.shape.layer.hidden_size, self.layer.norm_eps());
        let (of_embedding, of_state, last) = (&weights[0], &weights[1], weights.len() - 1);
        let read = vec![rms_norm_tracked(embedded, of_embedding, eps), rms_norm_tracked(states, of_state, eps)];
        let x = linear(&Tensor::cat(read, 1), &weights[2], d, 2 * d);
        rms_norm_tracked(self.layer.forward(&weights[3..last], x, segments), &weights[last], eps)
    }

    /// Losses and ranks of every depth and, where `scales` are given, the gradient of every parameter.
    ///
    /// # Shapes
    /// `weights` flat, as in [`MtpShape::parameters`]; `lm_head [V, d]`; scales one per depth.
    pub fn losses(
        &self,
        weights: &[Tensor<1>],
        lm_head: &Table,
        batch: &HeadBatch,
        scales: Option<&[HeadScale]>,
    ) -> (Vec<HeadOutput>, Vec<Tensor<1>>) {
        let fitting = scales.is_some();
        // The fused operations are those of tracked tensors, so weights are tracked even where no gradient is wanted.
        let leaf = |w: &Tensor<1>| if fitting { w.clone().autodiff().require_grad() } else { w.clone().autodiff() };
        let leaves: Vec<Tensor<1>> = weights.iter().map(leaf).collect();
        let (mut states, mut outputs) = (batch.states.clone().autodiff(), vec![]);
        let mut carry = GradientCarry::default();
        for (depth, labels) in batch.labels.iter().enumerate() {
            let n = labels.tokens.len();
            if batch.states.dims()[0] > 0 {
                let per_module = weights.len() / self.shape.config.depths;
                let own = &leaves[depth * per_module..][..per_module];
                let embedded = batch.following[depth].clone().autodiff();
                states = self.module(own, embedded, states, &batch.segments);
            }
            if n == 0 {
                outputs.push(HeadOutput::default());
                continue;
            }
            let top = states.clone().select(0, rows_of(labels, 0, &batch.states));
            let counts = vec![scales.map_or(0.0, |scales| scales[depth]); n];
            let labels = Labels { tokens: &labels.tokens, scales: &counts };
            let found = linear_cross_entropy(&top.clone().inner(), lm_head, labels, self.chunk_rows, false);
            outputs.push(HeadOutput { losses: found.losses, ranks: found.ranks });
            carry.add(top, found.d_hidden);
        }
        if !fitting {
            return (outputs, vec![]);
        }
        (outputs, carry.of_leaves(&leaves, weights))
    }
}
