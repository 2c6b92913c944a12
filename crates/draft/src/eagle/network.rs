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
        let table = RopeTable::new(&shape.rope, longest);
        let (cos, sin): (Vec<&[f32]>, Vec<&[f32]>) = (0..longest).map(|position| table.at(position)).unzip();
        let angles = Arc::new((cos.concat(), sin.concat()));
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
        let (d, ff) = (s.hidden_size, s.intermediate_size);
        let (q, kv) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
        let linear = |x: &Tensor<2>, w: &Tensor<1>, out: usize, into: usize| {
            x.clone().matmul(w.clone().reshape([out, into]).transpose())
        };
        let joined = linear(&Tensor::cat(vec![embedded, features], 1), &weights[0], d, 2 * d);
        let (x, w) = match s.fc_bias {
            true => (joined + weights[1].clone().unsqueeze(), &weights[2..]),
            false => (joined, &weights[1..]),
        };
        let segments = Segments {
            heads: s.heads,
            kv_heads: s.kv_heads,
            head_dim: s.head_dim,
            angles: self.angles.clone(),
            rows: segments.to_vec().into(),
        };
        // No norm in front of the attention: the reference's layer has none.
        let (queries, keys, values) = (linear(&x, &w[0], q, d), linear(&x, &w[1], kv, d), linear(&x, &w[2], kv, d));
        let x = x + linear(&segment_attention(&segments, queries, keys, values), &w[3], d, q);
        let normed = rms_norm_tracked(x.clone(), &w[4], s.norm_eps);
        let gated = silu_gate_tracked(linear(&normed, &w[5], ff, d), linear(&normed, &w[6], ff, d));
        x + linear(&gated, &w[7], d, ff)
    }
}
