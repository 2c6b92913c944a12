//! The drafter with gradients, over the blocks of packed sequences: the network of [`super::BlockModel`], for fitting.

use super::config::{BlockShape, LAYER_TENSORS};
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
        let layers = weights[2..].chunks_exact(LAYER_TENSORS).take(self.shape.layers);
        let x = layers.fold(embedded, |x, weights| self.layer(weights, &context, x, blocks));
        rms_norm_tracked(x, &weights[weights.len() - 1], eps)
    }

    /// One layer: `w` are the norm in front of the attention, the projections of queries, keys and values, the norms of
    /// query and key heads, and the rest.
    fn layer(&self, w: &[Tensor<1>], context: &Tensor<2>, x: Tensor<2>, blocks: &Blocks) -> Tensor<2> {
        let s = &self.shape.layer;
        let (d, q, kv) = (s.hidden_size, s.heads * s.head_dim, s.kv_heads * s.head_dim);
        let read = rms_norm_tracked(x.clone(), &w[0], s.norm_eps);
        let queries = self.head_norm(linear(&read, &w[1], q, d), &w[4]);
        let keys = |read: &Tensor<2>| self.head_norm(linear(read, &w[2], kv, d), &w[5]);
        let values = |read: &Tensor<2>| linear(read, &w[3], kv, d);
        let mixed = block_attention(blocks, queries, (keys(context), values(context)), (keys(&read), values(&read)));
        self.layer.after_attention(&w[6..], x, &mixed)
    }

    /// The norm of every head.
    fn head_norm(&self, x: Tensor<2>, weight: &Tensor<1>) -> Tensor<2> {
        let ([rows, width], head_dim) = (x.dims(), self.shape.layer.head_dim);
        let heads = x.reshape([rows * width / head_dim, head_dim]);
        rms_norm_tracked(heads, weight, self.layer.norm_eps()).reshape([rows, width])
    }
}
