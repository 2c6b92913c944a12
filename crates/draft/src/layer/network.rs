//! A decoder layer with gradients, over packed sequences.

use super::LayerShape;
use burn::tensor::Tensor;
use gorgon_kernels::activation::silu_gate_tracked;
use gorgon_kernels::norm::rms_norm_tracked;
use gorgon_kernels::segment_attention::{Segments, segment_attention};
use gorgon_model::rope::{RopeConfig, RopeTable};
use std::ops::Range;
use std::sync::Arc;

/// A decoder layer, without its parameters.
#[derive(Clone, Debug)]
pub struct LayerNetwork {
    shape: LayerShape,
    angles: Arc<(Vec<f32>, Vec<f32>)>,
}

impl LayerNetwork {
    /// A layer of these sizes for sequences of at most `longest` rows.
    pub fn new(shape: &LayerShape, longest: usize) -> Self {
        Self { shape: shape.clone(), angles: angles(&shape.rope, longest) }
    }

    /// The norms' epsilon.
    pub fn norm_eps(&self) -> f32 {
        self.shape.norm_eps
    }

    /// The whole layer.
    ///
    /// # Shapes
    /// `weights` flat, as in [`LayerShape::parameters`]; `x [rows, d]`, result the same; `segments` are the
    /// rows of each sequence, in order and without gaps.
    pub fn forward(&self, weights: &[Tensor<1>], x: Tensor<2>, segments: &[Range<usize>]) -> Tensor<2> {
        let read = rms_norm_tracked(x.clone(), &weights[0], self.shape.norm_eps);
        self.without_input_norm(&weights[1..], x, read, segments)
    }

    /// The layer with something else than its normed input for the attention to read.
    ///
    /// # Shapes
    /// As [`Self::forward`], without the first of the weights.
    pub fn without_input_norm(
        &self,
        weights: &[Tensor<1>],
        x: Tensor<2>,
        read: Tensor<2>,
        segments: &[Range<usize>],
    ) -> Tensor<2> {
        let [queries, keys, values] = self.attention_inputs(weights, &read);
        let mixed = segment_attention(&self.segments(segments), queries, keys, values);
        self.after_attention(&weights[3..], x, &mixed)
    }

    /// The attention alone with the norm in front of it, `x + Attn(norm(x))`.
    ///
    /// # Shapes
    /// As of [`Self::forward`]; `weights` are those of the norm, the three projections and the output.
    pub fn attention_alone(&self, weights: &[Tensor<1>], x: Tensor<2>, segments: &[Range<usize>]) -> Tensor<2> {
        let read = rms_norm_tracked(x.clone(), &weights[0], self.shape.norm_eps);
        let [queries, keys, values] = self.attention_inputs(&weights[1..], &read);
        x + self.attention_output(&weights[4], &segment_attention(&self.segments(segments), queries, keys, values))
    }

    /// Queries, keys and values of what the attention reads, however wide that is; `weights` are their projections.
    pub(crate) fn attention_inputs(&self, weights: &[Tensor<1>], read: &Tensor<2>) -> [Tensor<2>; 3] {
        let s = &self.shape;
        let (q, kv, wide) = (s.heads * s.head_dim, s.kv_heads * s.head_dim, read.dims()[1]);
        [(0, q), (1, kv), (2, kv)].map(|(w, out)| linear(read, &weights[w], out, wide))
    }

    /// The attention's geometry over packed sequences.
    pub(crate) fn segments(&self, rows: &[Range<usize>]) -> Segments {
        let LayerShape { heads, kv_heads, head_dim, .. } = self.shape;
        Segments { heads, kv_heads, head_dim, angles: self.angles.clone(), rows: rows.to_vec().into() }
    }

    /// The rest of the layer: what the attention mixed goes through the output projection into the residual stream `x`,
    /// then comes the feed-forward network. `w` are output projection, norm, gate, up and down projection.
    pub(crate) fn after_attention(&self, w: &[Tensor<1>], x: Tensor<2>, mixed: &Tensor<2>) -> Tensor<2> {
        let x = x + self.attention_output(&w[0], mixed);
        let normed = rms_norm_tracked(x.clone(), &w[1], self.shape.norm_eps);
        x + self.feed_forward(&w[2..], &normed)
    }

    /// Mixed values through the output projection.
    pub(crate) fn attention_output(&self, weight: &Tensor<1>, mixed: &Tensor<2>) -> Tensor<2> {
        linear(mixed, weight, self.shape.hidden_size, self.shape.heads * self.shape.head_dim)
    }

    /// The feed-forward network; `w` are gate, up and down projection.
    pub(crate) fn feed_forward(&self, w: &[Tensor<1>], normed: &Tensor<2>) -> Tensor<2> {
        let (d, ff) = (self.shape.hidden_size, self.shape.intermediate_size);
        let gated = silu_gate_tracked(linear(normed, &w[0], ff, d), linear(normed, &w[1], ff, d));
        linear(&gated, &w[2], d, ff)
    }
}

/// Cosines and sines of every position.
fn angles(rope: &RopeConfig, longest: usize) -> Arc<(Vec<f32>, Vec<f32>)> {
    Arc::new(RopeTable::new(rope).values(longest))
}

/// `x · Wᵀ` with `W [out, into]` flat.
pub(crate) fn linear(x: &Tensor<2>, weight: &Tensor<1>, out: usize, into: usize) -> Tensor<2> {
    x.clone().matmul(weight.clone().reshape([out, into]).transpose())
}
