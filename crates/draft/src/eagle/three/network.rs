//! The draft layer with gradients, unrolled over its own outputs: the network of [`super::Eagle3Model`], for fitting.

use super::config::Eagle3Shape;
use crate::eagle::network::{angles, linear};
use burn::tensor::Tensor;
use gorgon_kernels::norm::rms_norm_tracked;
use gorgon_kernels::unrolled_attention::unrolled_attention;
use std::ops::Range;
use std::sync::Arc;

/// Where [`Eagle3Shape::parameters`] has the LM head.
pub(super) const LM_HEAD: usize = 12;

/// The draft layer, without its parameters.
#[derive(Clone, Debug)]
pub struct Eagle3Network {
    shape: Eagle3Shape,
    angles: Arc<(Vec<f32>, Vec<f32>)>,
}

/// Keys and values of the steps so far, `[rows, kv_heads · head_dim]` each.
#[derive(Clone, Debug, Default)]
pub struct Unrolled(Vec<(Tensor<2>, Tensor<2>)>);

impl Eagle3Network {
    /// A layer of these sizes for sequences of at most `longest` pairs, unrolled over at most `steps` steps.
    pub fn new(shape: Eagle3Shape, longest: usize, steps: usize) -> Self {
        let angles = angles(&shape.layer, longest + steps);
        Self { shape, angles }
    }

    /// The sizes.
    pub fn shape(&self) -> &Eagle3Shape {
        &self.shape
    }

    /// `W [l; m; h]` of taps side by side.
    ///
    /// # Shapes
    /// `weights` flat, as in [`Eagle3Shape::parameters`]; `taps [rows, taps · d]`, result `[rows, d]`.
    pub fn fuse(&self, weights: &[Tensor<1>], taps: &Tensor<2>) -> Tensor<2> {
        let d = self.shape.layer.hidden_size;
        linear(taps, &weights[0], d, self.shape.taps.len() * d)
    }

    /// One more step over packed sequences of pairs; one sequence sees nothing of another. The first step starts from fused
    /// taps, every other from the output of the one before, with tokens that are one place further on.
    ///
    /// # Shapes
    /// `weights` as in [`Self::fuse`]; `embedded` and `states` `[rows, d]`, result the same; `segments` are the rows of each
    /// sequence, in order and without gaps.
    pub fn step(
        &self,
        weights: &[Tensor<1>],
        embedded: Tensor<2>,
        states: Tensor<2>,
        segments: &[Range<usize>],
        before: &mut Unrolled,
    ) -> Tensor<2> {
        let s = &self.shape.layer;
        let (d, q, kv) = (s.hidden_size, s.heads * s.head_dim, s.kv_heads * s.head_dim);
        let embedded = rms_norm_tracked(embedded, &weights[1], s.norm_eps);
        let normed = rms_norm_tracked(states.clone(), &weights[2], s.norm_eps);
        let reads = Tensor::cat(vec![embedded, normed], 1);
        let project = |w: usize, out: usize| linear(&reads, &weights[w], out, 2 * d);
        before.0.push((project(4, kv), project(5, kv)));
        let segments = s.segments(&self.angles, segments);
        let (first, later) = (before.0[0].clone(), &before.0[1..]);
        let mixed = unrolled_attention(&segments, project(3, q), first, later);
        s.after_attention(states, &mixed, &weights[6..11])
    }

    /// What the LM head reads of states.
    ///
    /// # Shapes
    /// `states [rows, d]`, result the same.
    pub fn normed(&self, weights: &[Tensor<1>], states: Tensor<2>) -> Tensor<2> {
        rms_norm_tracked(states, &weights[11], self.shape.layer.norm_eps)
    }
}
