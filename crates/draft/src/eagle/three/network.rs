//! The draft layer with gradients, unrolled over its own outputs: the network of [`super::Eagle3Model`], for fitting.

use super::config::Eagle3Shape;
use crate::layer::{LayerNetwork, linear};
use burn::tensor::Tensor;
use gorgon_kernels::norm::rms_norm_tracked;
use gorgon_kernels::unrolled_attention::unrolled_attention;
use std::ops::Range;

/// Where [`Eagle3Shape::parameters`] has the LM head.
pub(super) const LM_HEAD: usize = 12;

/// The draft layer, without its parameters.
#[derive(Clone, Debug)]
pub struct Eagle3Network {
    shape: Eagle3Shape,
    layer: LayerNetwork,
}

/// Keys and values of the steps so far, `[rows, kv_heads · head_dim]` each.
#[derive(Clone, Debug, Default)]
pub struct Unrolled(Vec<(Tensor<2>, Tensor<2>)>);

impl Eagle3Network {
    /// A layer of these sizes for sequences of at most `longest` pairs, unrolled over at most `steps` steps.
    pub fn new(shape: Eagle3Shape, longest: usize, steps: usize) -> Self {
        let layer = LayerNetwork::new(&shape.layer, longest + steps);
        Self { shape, layer }
    }

    /// The sizes.
    pub fn shape(&self) -> &Eagle3Shape {
        &self.shape
    }

    /// `W [l; m; h]` of hooked states side by side.
    ///
    /// # Shapes
    /// `weights` flat, as in [`Eagle3Shape::parameters`]; `hooks [rows, hooks · d]`, result `[rows, d]`.
    pub fn fuse(&self, weights: &[Tensor<1>], hooks: &Tensor<2>) -> Tensor<2> {
        let d = self.shape.layer.hidden_size;
        linear(hooks, &weights[0], d, self.shape.hooks.len() * d)
    }

    /// One more step over packed sequences of pairs; one sequence sees nothing of another. The first step starts from
    /// fused hooked states, every other from the output of the one before, with tokens that are one place further on.
    ///
    /// # Shapes
    /// `weights` as in [`Self::fuse`]; `embedded` and `states` `[rows, d]`, result the same; `segments` are
    /// the rows of each sequence, in order and without gaps.
    pub fn step(
        &self,
        weights: &[Tensor<1>],
        embedded: Tensor<2>,
        states: Tensor<2>,
        segments: &[Range<usize>],
        before: &mut Unrolled,
    ) -> Tensor<2> {
        let eps = self.layer.norm_eps();
        let read =
            vec![rms_norm_tracked(embedded, &weights[1], eps), rms_norm_tracked(states.clone(), &weights[2], eps)];
        let [queries, keys, values] = self.layer.attention_inputs(&weights[3..6], &Tensor::cat(read, 1));
        before.0.push((keys, values));
        let (first, later) = (before.0[0].clone(), &before.0[1..]);
        let mixed = unrolled_attention(&self.layer.segments(segments), queries, first, later);
        self.layer.after_attention(&weights[6..11], states, &mixed)
    }

    /// Input of the LM head.
    ///
    /// # Shapes
    /// `states [rows, d]`, result the same.
    pub fn normed(&self, weights: &[Tensor<1>], states: Tensor<2>) -> Tensor<2> {
        rms_norm_tracked(states, &weights[11], self.layer.norm_eps())
    }
}
