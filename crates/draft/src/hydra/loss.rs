//! The heads' loss with its gradients.
//!
//! `L = Σ_k s_k Σ_t CE(head_k([p_t; E(x_{t+1}); …; E(x_{t+k})]), x_{t+k+1})` over the labels of each head, with the
//! text's own tokens on the path (teacher forcing); `p_t` is the backbone's state `h_t`, or the prefix layer's output.
//! With a teacher, the label is the backbone's distribution `softmax(LM(h_{t+k}))`.

use super::config::HydraShape;
use crate::fitting::{GradientCarry, HeadBatch, rows_of};
use crate::layer::{LayerNetwork, linear};
use crate::medusa::{HeadOutput, HeadScale};
use burn::tensor::{Tensor, activation};
use gorgon_kernels::Table;
use gorgon_kernels::linear_cross_entropy::{Labels, linear_cross_entropy, soft_cross_entropy};
use gorgon_kernels::norm::rms_norm_tracked;
use std::ops::Range;

/// The heads, without their parameters.
#[derive(Clone, Debug)]
pub struct HydraHeads {
    /// Their shape.
    pub shape: HydraShape,
    /// The prefix layer, where the shape has one.
    prefix: Option<LayerNetwork>,
    /// Rows of logits in memory at once.
    pub chunk_rows: usize,
}

/// Result of one head: its output, the gradients of its tensors, and that of the states it read.
type OfHead = (HeadOutput, Vec<Tensor<1>>, Option<Tensor<2>>);

impl HydraHeads {
    /// Heads for sequences of at most `longest` tokens.
    pub fn new(shape: HydraShape, longest: usize, chunk_rows: usize) -> Self {
        let prefix = shape.config.prefix_attention.then(|| LayerNetwork::new(&shape.layer, longest));
        Self { shape, prefix, chunk_rows }
    }

    /// Tensors of the prefix layer.
    fn of_prefix(&self) -> usize {
        if self.prefix.is_some() { self.shape.layer.parameters("").len() + 1 } else { 0 }
    }

    /// Tensors of one head.
    fn per_head(&self) -> usize {
        2 * (self.shape.config.blocks + 1) + 2 * usize::from(self.shape.config.own_lm_heads)
    }

    /// `p`: the states, or what the prefix layer makes of them.
    fn prefixed(&self, weights: &[Tensor<1>], states: Tensor<2>, segments: &[Range<usize>]) -> Tensor<2> {
        let Some(layer) = &self.prefix else { return states };
        let (norm, layer_weights) = (&weights[weights.len() - 1], &weights[..weights.len() - 1]);
        rms_norm_tracked(layer.forward(layer_weights, states, segments), norm, layer.norm_eps())
    }

    /// Output of head `head` for its input.
    ///
    /// # Shapes
    /// `weights` flat, as in [`HydraShape::parameters`] for one head; `z [rows, (head + 2) d]`, result `[rows, d]`.
    pub fn blocks(&self, head: usize, weights: &[Tensor<1>], z: &Tensor<2>) -> Tensor<2> {
        let d = self.shape.layer.hidden_size;
        let width = (head + 2) * d;
        let affine =
            |x: &Tensor<2>, pair: &[Tensor<1>], into: usize| linear(x, &pair[0], d, into) + pair[1].clone().unsqueeze();
        let first = affine(z, &weights[2..4], width) + activation::silu(affine(z, &weights[..2], width));
        weights[4..2 * (self.shape.config.blocks + 1)]
            .chunks_exact(2)
            .fold(first, |h, block| h.clone() + activation::silu(affine(&h, block, d)))
    }

    /// Losses and ranks of every head and, where `scales` are given, the gradient of every parameter. Without scales
    /// the losses are those against the labels, whatever the heads are fitted to.
    ///
    /// # Shapes
    /// `weights` flat, as in [`HydraShape::parameters`]; `lm_head [V, d]`; scales one per head.
    pub fn losses(
        &self,
        weights: &[Tensor<1>],
        lm_head: &Table,
        batch: &HeadBatch,
        scales: Option<&[HeadScale]>,
    ) -> (Vec<HeadOutput>, Vec<Tensor<1>>) {
        let fitting = scales.is_some();
        if batch.labels.iter().all(|labels| labels.rows.is_empty()) {
            let zeros = if fitting { weights.iter().map(Tensor::zeros_like).collect() } else { vec![] };
            return (vec![HeadOutput::default(); batch.labels.len()], zeros);
        }
        let (of_prefix, of_heads) = weights.split_at(self.of_prefix());
        // The fused operations are those of tracked tensors, so weights are tracked even where no gradient is wanted.
        let leaf = |w: &Tensor<1>| if fitting { w.clone().autodiff().require_grad() } else { w.clone().autodiff() };
        let leaves: Vec<Tensor<1>> = of_prefix.iter().map(leaf).collect();
        let prefixed = self.prefixed(&leaves, batch.states.clone().autodiff(), &batch.segments);
        let states = prefixed.clone().inner();
        let (mut outputs, mut gradients, mut of_states) = (vec![], vec![], None::<Tensor<2>>);
        for (head, weights) in of_heads.chunks_exact(self.per_head()).enumerate() {
            let scale = scales.map(|scales| scales[head]);
            let (output, of_head, slope) = self.one_head(head, weights, lm_head, &states, batch, scale);
            outputs.push(output);
            gradients.extend(self.tie(of_head));
            of_states = match (of_states, slope) {
                (Some(sum), Some(slope)) => Some(sum + slope),
                (sum, slope) => sum.or(slope),
            };
        }
        if !fitting {
            return (outputs, vec![]);
        }
        let of_layer = match of_states.filter(|_| self.prefix.is_some()) {
            Some(slope) => GradientCarry::of(prefixed, slope).of_leaves(&leaves, of_prefix),
            None => of_prefix.iter().map(Tensor::zeros_like).collect(),
        };
        (outputs, of_layer.into_iter().chain(gradients).collect())
    }

    fn one_head(
        &self,
        head: usize,
        weights: &[Tensor<1>],
        lm_head: &Table,
        states: &Tensor<2>,
        batch: &HeadBatch,
        scale: Option<HeadScale>,
    ) -> OfHead {
        let labels = &batch.labels[head];
        if labels.rows.is_empty() {
            let zeros = if scale.is_some() { weights.iter().map(Tensor::zeros_like).collect() } else { vec![] };
            return (HeadOutput::default(), zeros, None);
        }
        let n = 2 * (self.shape.config.blocks + 1);
        let tracked = |w: &Tensor<1>| if scale.is_some() { w.clone().autodiff().require_grad() } else { w.clone() };
        let constant = |x: Tensor<2>| if scale.is_some() { x.autodiff() } else { x };
        let leaves: Vec<Tensor<1>> = weights[..n].iter().map(tracked).collect();
        let wants_slope = scale.is_some() && self.prefix.is_some();
        let read = if wants_slope { states.clone().autodiff().require_grad() } else { constant(states.clone()) };
        let rows = rows_of(labels, 0, states);
        let mut parts = vec![read.clone().select(0, rows.clone())];
        parts.extend(batch.following[..=head].iter().map(|e| constant(e.clone().select(0, rows.clone()))));
        let top = self.blocks(head, &leaves, &Tensor::cat(parts, 1));
        let found = self.differentiate(head, &top.clone().inner(), &weights[n..], lm_head, batch, scale);
        if scale.is_none() {
            return (found.output, vec![], None);
        }
        let Some(mut carried) = GradientCarry::of(top, found.d_top).backward() else {
            return (found.output, vec![], None);
        };
        let mut gradients = carried.of_leaves(&leaves, weights);
        gradients.extend(found.of_lm_head);
        (found.output, gradients, if wants_slope { carried.of_rows(&read) } else { None })
    }

    /// The cross-entropy of one head's states `top`, one per label; `own` is its own LM head, if it has one.
    fn differentiate(
        &self,
        head: usize,
        top: &Tensor<2>,
        own: &[Tensor<1>],
        lm_head: &Table,
        batch: &HeadBatch,
        scale: Option<HeadScale>,
    ) -> Differentiated {
        let labels = &batch.labels[head];
        let counts = scale.unwrap_or(0.0);
        if self.shape.config.soft_targets && scale.is_some() {
            // The state whose distribution is that of the label's token.
            let targets = batch.states.clone().select(0, rows_of(labels, head + 1, top));
            let found = soft_cross_entropy(top, &targets, lm_head, counts, self.chunk_rows);
            let output = HeadOutput { losses: found.losses, ranks: found.ranks };
            return Differentiated { output, d_top: found.d_hidden, of_lm_head: vec![] };
        }
        let (n, d) = (labels.tokens.len(), self.shape.layer.hidden_size);
        let scales = vec![counts; n];
        let labels = Labels { tokens: &labels.tokens, scales: &scales };
        let [weight, bias] = own else {
            let found = linear_cross_entropy(top, lm_head, labels, self.chunk_rows, false);
            let output = HeadOutput { losses: found.losses, ranks: found.ranks };
            return Differentiated { output, d_top: found.d_hidden, of_lm_head: vec![] };
        };
        // A bias is the weight of one more input, which is 1.
        let vocab = self.shape.layer.vocab_size;
        let table = Tensor::cat(vec![weight.clone().reshape([vocab, d]), bias.clone().reshape([vocab, 1])], 1);
        let widened = Tensor::cat(vec![top.clone(), Tensor::ones([n, 1], &top.device())], 1);
        let found = linear_cross_entropy(&widened, &table.into(), labels, self.chunk_rows, scale.is_some());
        let of_table = found
            .d_weight
            .into_iter()
            .flat_map(|g| [g.clone().narrow(1, 0, d).reshape([-1]), g.narrow(1, d, 1).reshape([-1])]);
        let output = HeadOutput { losses: found.losses, ranks: found.ranks };
        Differentiated { output, d_top: found.d_hidden.narrow(1, 0, d), of_lm_head: of_table.collect() }
    }

    /// The gradients of one head; blocks that are one block each get what all of them get together, so that they stay
    /// one.
    fn tie(&self, mut gradients: Vec<Tensor<1>>) -> Vec<Tensor<1>> {
        let config = &self.shape.config;
        if !config.tied_blocks || config.blocks < 3 || gradients.is_empty() {
            return gradients;
        }
        for part in 0..2 {
            // After the first block's two pairs, one of them around it, comes a pair for each of the others.
            let places: Vec<usize> = (2..=config.blocks).map(|pair| 2 * pair + part).collect();
            if let Some(sum) = places.iter().map(|&i| gradients[i].clone()).reduce(|a, b| a + b) {
                places.iter().for_each(|&i| gradients[i] = sum.clone());
            }
        }
        gradients
    }
}

/// Result of the last step of a head's loss.
struct Differentiated {
    output: HeadOutput,
    d_top: Tensor<2>,
    of_lm_head: Vec<Tensor<1>>,
}
