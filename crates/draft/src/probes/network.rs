//! The frozen backbone behind probes: gradients reach the probes' embeddings and nothing else.

use super::config::ProbeShape;
use crate::layer::{LayerNetwork, LayerShape, linear};
use burn::tensor::{Int, Tensor, TensorData};
use gorgon_kernels::block_attention::{Blocks, block_attention};
use gorgon_kernels::norm::rms_norm_tracked;
use std::ops::Range;

/// Tensors of a layer.
const PER_LAYER: usize = 9;

/// A frozen Llama that reads probes over packed sequences of known hidden states.
#[derive(Clone, Debug)]
pub struct ProbeNetwork {
    shape: ProbeShape,
    backbone: LayerShape,
    layer: LayerNetwork,
    /// Layer by layer as in [`LayerShape::parameters`], then the final norm.
    weights: Vec<Tensor<1>>,
}

impl ProbeNetwork {
    /// Probes of a backbone of these sizes, in sequences of at most `longest` tokens. `weights` are the backbone's, flat,
    /// layer by layer as in [`LayerShape::parameters`], then its final norm.
    pub fn new(shape: ProbeShape, backbone: &LayerShape, weights: Vec<Tensor<1>>, longest: usize) -> Self {
        let layer = LayerNetwork::new(backbone, longest + shape.places + 1);
        let weights = weights.into_iter().map(Tensor::autodiff).collect();
        Self { shape, backbone: backbone.clone(), layer, weights }
    }

    /// The probes' sizes.
    pub fn shape(&self) -> &ProbeShape {
        &self.shape
    }

    /// Layers of the backbone.
    pub fn layers(&self) -> usize {
        self.weights.len() / PER_LAYER
    }

    /// States after the final norm at the probes, the mean over an ensemble's members.
    ///
    /// # Shapes
    /// `probes` flat, the table's rows one after another; `hooks [rows, layers · d]` the states that enter each layer,
    /// side by side; `positions` the last token that each sequence's probes see, counted in the sequence and increasing.
    /// Result `[positions · n, d]`, place by place.
    pub fn forward(
        &self,
        probes: &Tensor<1>,
        hooks: &Tensor<2>,
        context: &[Range<usize>],
        positions: &[Vec<usize>],
    ) -> Tensor<2> {
        let ProbeShape { places, members, hidden_size: d, .. } = self.shape;
        let anchors: Vec<Vec<usize>> = positions.iter().map(|of| self.anchors(of)).collect();
        let context = self.layer.segments(context);
        let blocks = Blocks { context, anchors: anchors.into(), slots: places, causal: true, window: None };
        let table = probes.clone().reshape([self.shape.rows(), d]);
        let x = table.select(0, self.index(blocks.count() / members, &hooks.device()));
        let layers = self.weights.chunks_exact(PER_LAYER).enumerate();
        let x = layers.fold(x, |x, (layer, w)| self.layer(w, x, hooks.clone().narrow(1, layer * d, d), &blocks));
        let last = &self.weights[self.weights.len() - 1];
        let states = rms_norm_tracked(x, last, self.layer.norm_eps());
        if members == 1 {
            return states;
        }
        let probed = blocks.count() / members;
        states.reshape([probed, members, places * d]).mean_dim(1).reshape([probed * places, d])
    }

    /// A block for every member behind every position; its first probe stands one position further.
    fn anchors(&self, positions: &[usize]) -> Vec<usize> {
        positions.iter().flat_map(|&position| std::iter::repeat_n(position + 1, self.shape.members)).collect()
    }

    /// The table's rows in the slots of so many positions.
    fn index(&self, positions: usize, device: &burn::tensor::Device) -> Tensor<1, Int> {
        let ProbeShape { places, members, .. } = self.shape;
        let row = |member: usize| (0..places).map(move |place| self.shape.row(place, member) as i32);
        let one: Vec<i32> = (0..members).flat_map(row).collect();
        let all = one.repeat(positions);
        let n = all.len();
        Tensor::from_data(TensorData::new(all, [n]), device)
    }

    /// A layer: probes attend to the sequence before them, which enters the layer as `entering`.
    fn layer(&self, w: &[Tensor<1>], x: Tensor<2>, entering: Tensor<2>, blocks: &Blocks) -> Tensor<2> {
        let LayerShape { hidden_size: d, kv_heads, head_dim, .. } = self.backbone;
        let (eps, kv) = (self.layer.norm_eps(), kv_heads * head_dim);
        let read = rms_norm_tracked(x.clone(), &w[0], eps);
        let [queries, keys, values] = self.layer.attention_inputs(&w[1..], &read);
        let before = rms_norm_tracked(entering, &w[0], eps);
        let of_context = (linear(&before, &w[2], kv, d), linear(&before, &w[3], kv, d));
        let mixed = block_attention(blocks, queries, of_context, (keys, values));
        self.layer.after_attention(&w[4..], x, &mixed)
    }
}
