//! The draft layer with gradients: the network of [`super::EagleModel`], for fitting.

use super::config::EagleShape;
use burn::tensor::Tensor;
use gorgon_kernels::activation::silu_gate_tracked;
use gorgon_kernels::norm::rms_norm_tracked;
use gorgon_kernels::segment_attention::{Segments, segment_attention};
use gorgon_model::rope::RopeTable;
use std::ops::Range;
use std::sync::Arc;

/// The draft layer, without its parameters.
#[derive(Clone, Debug)]
pub struct EagleNetwork {
    shape: EagleShape,
    angles: Arc<(Vec<f32>, Vec<f32>)>,
}

impl EagleNetwork {
    /// A layer of these sizes for sequences of at most `longest` pairs.
    pub fn new(shape: EagleShape, longest: usize) -> Self {
        let angles = angles(&shape, longest);
        Self { shape, angles }
    }

    /// The sizes.
    pub fn shape(&self) -> &EagleShape {
        &self.shape
    }

    /// `f̂ = Layer(W [E(x); f] + b)` of packed sequences of pairs; one sequence sees nothing of another.
    ///
    /// # Shapes
    /// `weights` flat, as in [`EagleShape::parameters`]; `embedded` and `features` `[pairs, d]`, result the same;
    /// `segments` are the pairs of each sequence, in order and without gaps.
    pub fn predict(
        &self,
        weights: &[Tensor<1>],
        embedded: Tensor<2>,
        features: Tensor<2>,
        segments: &[Range<usize>],
    ) -> Tensor<2> {
        let s = &self.shape;
        let d = s.hidden_size;
        let (q, kv) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
        let joined = linear(&Tensor::cat(vec![embedded, features], 1), &weights[0], d, 2 * d);
        let (x, w) = match s.fc_bias {
            true => (joined + weights[1].clone().unsqueeze(), &weights[2..]),
            false => (joined, &weights[1..]),
        };
        let segments = s.segments(&self.angles, segments);
        // No norm in front of the attention: the reference's layer has none.
        let (queries, keys, values) = (linear(&x, &w[0], q, d), linear(&x, &w[1], kv, d), linear(&x, &w[2], kv, d));
        s.after_attention(x, &segment_attention(&segments, queries, keys, values), &w[3..8])
    }
}

/// `x Wᵀ` with a flat matrix.
pub(super) fn linear(x: &Tensor<2>, w: &Tensor<1>, out: usize, into: usize) -> Tensor<2> {
    x.clone().matmul(w.clone().reshape([out, into]).transpose())
}

/// Cosines and sines of every position below `longest`.
pub(super) fn angles(shape: &EagleShape, longest: usize) -> Arc<(Vec<f32>, Vec<f32>)> {
    let table = RopeTable::new(&shape.rope, longest);
    let (cos, sin): (Vec<&[f32]>, Vec<&[f32]>) = (0..longest).map(|position| table.at(position)).unzip();
    Arc::new((cos.concat(), sin.concat()))
}

impl EagleShape {
    /// The attention's geometry over packed sequences.
    pub(super) fn segments(&self, angles: &Arc<(Vec<f32>, Vec<f32>)>, rows: &[Range<usize>]) -> Segments {
        let (heads, kv_heads, head_dim) = (self.heads, self.kv_heads, self.head_dim);
        Segments { heads, kv_heads, head_dim, angles: angles.clone(), rows: rows.to_vec().into() }
    }

    /// The rest of a layer: what its attention mixed goes through the output projection into the residual stream `x`, then
    /// comes the feed-forward network. `w` are output projection, norm, gate, up and down projection.
    pub(super) fn after_attention(&self, x: Tensor<2>, mixed: &Tensor<2>, w: &[Tensor<1>]) -> Tensor<2> {
        let (d, ff) = (self.hidden_size, self.intermediate_size);
        let x = x + linear(mixed, &w[0], d, self.heads * self.head_dim);
        let normed = rms_norm_tracked(x.clone(), &w[1], self.norm_eps);
        let gated = silu_gate_tracked(linear(&normed, &w[2], ff, d), linear(&normed, &w[3], ff, d));
        x + linear(&gated, &w[4], d, ff)
    }
}
