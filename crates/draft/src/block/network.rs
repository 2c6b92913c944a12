//! The drafter with gradients, over the blocks of packed sequences: the network of [`super::BlockModel`], for fitting.

use super::config::BlockShape;
use super::convolution;
use crate::layer::{LayerNetwork, linear};
use burn::tensor::Tensor;
use gorgon_kernels::block_attention::{Blocks, block_attention};
use gorgon_kernels::norm::rms_norm_tracked;
use std::ops::Range;

/// A block drafter, without its parameters.
#[derive(Clone, Debug)]
pub struct BlockNetwork {
    shape: BlockShape,
    layer: LayerNetwork,
}

impl BlockNetwork {
    /// A drafter of these sizes for sequences of at most `longest` tokens.
    pub fn new(shape: BlockShape, longest: usize) -> Self {
        let layer = LayerNetwork::new(&shape.layer, longest + shape.slots);
        Self { shape, layer }
    }

    /// The sizes.
    pub fn shape(&self) -> &BlockShape {
        &self.shape
    }

    /// The geometry of blocks: the context rows of each sequence, in order and without gaps, and the positions of its
    /// blocks' first slots, increasing.
    pub fn blocks(&self, context: &[Range<usize>], anchors: &[Vec<usize>]) -> Blocks {
        let BlockShape { slots, causal, window, .. } = self.shape;
        Blocks { context: self.layer.segments(context), anchors: anchors.to_vec().into(), slots, causal, window }
    }

    /// Inputs of the LM head at all slots.
    ///
    /// # Shapes
    /// `weights` flat, as in [`BlockShape::parameters`]; `hooks [rows, hooks · d]` of the context, `embedded
    /// [blocks · B, d]` of the slots; result as `embedded`.
    pub fn forward(&self, weights: &[Tensor<1>], hooks: &Tensor<2>, embedded: Tensor<2>, blocks: &Blocks) -> Tensor<2> {
        let (d, eps) = (self.shape.layer.hidden_size, self.layer.norm_eps());
        let fused = linear(hooks, &weights[0], d, self.shape.hooks.len() * d);
        let context = rms_norm_tracked(fused, &weights[1], eps);
        let (each, count) = (self.shape.layer_tensors(), self.shape.layers);
        let layers = weights[2..].chunks_exact(each).take(count);
        let x = layers.fold(embedded, |x, weights| self.layer(weights, &context, x, blocks));
        rms_norm_tracked(x, &weights[2 + each * count], eps)
    }

    /// The selector's tensors.
    pub(super) fn selector<'a>(&self, weights: &'a [Tensor<1>]) -> &'a [Tensor<1>] {
        &weights[3 + self.shape.layer_tensors() * self.shape.layers..]
    }

    /// One layer: `w` are the norm in front of the attention, the projections of queries, keys and values, the norms of
    /// query and key heads, the rest of the layer, and the convolutions if there are any.
    fn layer(&self, w: &[Tensor<1>], context: &Tensor<2>, x: Tensor<2>, blocks: &Blocks) -> Tensor<2> {
        let eps = self.layer.norm_eps();
        let read = rms_norm_tracked(x.clone(), &w[0], eps);
        let x = x + self.convolved(w, 0, read, |read| self.attention(w, context, read, blocks));
        let normed = rms_norm_tracked(x.clone(), &w[7], eps);
        x + self.convolved(w, 1, normed, |normed| self.layer.feed_forward(&w[8..11], normed))
    }

    /// A sublayer of what it reads, between the two sides of its convolution if there are any.
    fn convolved(
        &self,
        w: &[Tensor<1>],
        number: usize,
        read: Tensor<2>,
        sublayer: impl FnOnce(&Tensor<2>) -> Tensor<2>,
    ) -> Tensor<2> {
        match self.shape.conv {
            true => convolution::around(&w[11 + 2 * number..], self.shape.slots, read, sublayer),
            false => sublayer(&read),
        }
    }

    /// The attention of what slots read over the context and each other.
    fn attention(&self, w: &[Tensor<1>], context: &Tensor<2>, read: &Tensor<2>, blocks: &Blocks) -> Tensor<2> {
        let s = &self.shape.layer;
        let (d, q, kv) = (s.hidden_size, s.heads * s.head_dim, s.kv_heads * s.head_dim);
        let queries = self.head_norm(linear(read, &w[1], q, d), &w[4]);
        let keys = |read: &Tensor<2>| self.head_norm(linear(read, &w[2], kv, d), &w[5]);
        let values = |read: &Tensor<2>| linear(read, &w[3], kv, d);
        let mixed = block_attention(blocks, queries, (keys(context), values(context)), (keys(read), values(read)));
        self.layer.attention_output(&w[6], &mixed)
    }

    /// The norm of every head.
    fn head_norm(&self, x: Tensor<2>, weight: &Tensor<1>) -> Tensor<2> {
        let ([rows, width], head_dim) = (x.dims(), self.shape.layer.head_dim);
        let heads = x.reshape([rows * width / head_dim, head_dim]);
        rms_norm_tracked(heads, weight, self.layer.norm_eps()).reshape([rows, width])
    }
}
