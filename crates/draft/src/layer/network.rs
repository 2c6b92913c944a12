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
    hidden_size: usize,
    intermediate_size: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    norm_eps: f32,
    angles: Arc<(Vec<f32>, Vec<f32>)>,
}

impl LayerNetwork {
    /// A layer of these sizes for sequences of at most `longest` rows.
    pub fn new(shape: &LayerShape, longest: usize) -> Self {
        Self {
            hidden_size: shape.hidden_size,
            intermediate_size: shape.intermediate_size,
            heads: shape.heads,
            kv_heads: shape.kv_heads,
            head_dim: shape.head_dim,
            norm_eps: shape.norm_eps,
            angles: angles(&shape.rope, longest),
        }
    }

    /// The norms' epsilon.
    pub fn norm_eps(&self) -> f32 {
        self.norm_eps
    }

    /// The whole layer.
    ///
    /// # Shapes
    /// `weights` flat, as in [`LayerShape::parameters`]; `x [rows, d]`, result the same; `segments` are the rows of each
    /// sequence, in order and without gaps.
    pub fn forward(&self, weights: &[Tensor<1>], x: Tensor<2>, segments: &[Range<usize>]) -> Tensor<2> {
        let read = rms_norm_tracked(x.clone(), &weights[0], self.norm_eps);
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
        let (d, ff) = (self.hidden_size, self.intermediate_size);
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let w = weights;
        let segments = Segments {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            angles: self.angles.clone(),
            rows: segments.to_vec().into(),
        };
        let (queries, keys, values) =
            (linear(&read, &w[0], q, d), linear(&read, &w[1], kv, d), linear(&read, &w[2], kv, d));
        let x = x + linear(&segment_attention(&segments, queries, keys, values), &w[3], d, q);
        let normed = rms_norm_tracked(x.clone(), &w[4], self.norm_eps);
        let gated = silu_gate_tracked(linear(&normed, &w[5], ff, d), linear(&normed, &w[6], ff, d));
        x + linear(&gated, &w[7], d, ff)
    }
}

/// Cosines and sines of every position.
fn angles(rope: &RopeConfig, longest: usize) -> Arc<(Vec<f32>, Vec<f32>)> {
    let table = RopeTable::new(rope, longest);
    let (cos, sin): (Vec<&[f32]>, Vec<&[f32]>) = (0..longest).map(|position| table.at(position)).unzip();
    Arc::new((cos.concat(), sin.concat()))
}

/// `x · Wᵀ` with `W [out, into]` flat.
pub(crate) fn linear(x: &Tensor<2>, weight: &Tensor<1>, out: usize, into: usize) -> Tensor<2> {
    x.clone().matmul(weight.clone().reshape([out, into]).transpose())
}
