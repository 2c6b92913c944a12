//! The heads' loss with its gradients.

use super::{LabelWeights, MedusaConfig};
use crate::d_pace;
use crate::fitting::{GradientCarry, HeadLabels, rows_of};
use burn::tensor::{DType, IndexingUpdateOp, Tensor, TensorData, activation};
use gorgon_core::Token;
use gorgon_kernels::linear_cross_entropy::{Labels, linear_cross_entropy};
use gorgon_kernels::{Table, host, tall_matmul};

/// Weight of each label of a head in the gradients; zero for an evaluation.
pub type HeadScale = f32;

/// Result of one head.
#[derive(Clone, Debug, Default)]
pub struct HeadOutput {
    /// Cross-entropy of each label, in nats.
    pub losses: Vec<f32>,
    /// How many tokens the head ranks above each label; 0 means that its first guess is right.
    pub ranks: Vec<u32>,
}

/// The heads, without their parameters.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// Their shape.
    pub config: MedusaConfig,
    /// Width of a hidden state.
    pub hidden_size: usize,
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Rows of logits in memory at once.
    pub chunk_rows: usize,
}

impl Heads {
    /// Tensors of one head.
    fn per_head(&self) -> usize {
        2 * self.config.blocks + usize::from(self.config.own_lm_heads)
    }

    /// A head's residual blocks: `h ← h + SiLU(W1 h + b1)`. What is multiplied is rounded to `product`, everything else
    /// stays as it is, and so do the weights that are fitted.
    ///
    /// # Shapes
    /// `weights` flat, as in [`MedusaConfig::parameters`] for one head; `hidden [rows, d]`, result the same.
    pub fn blocks(&self, weights: &[Tensor<1>], hidden: Tensor<2>, product: DType) -> Tensor<2> {
        let d = self.hidden_size;
        weights[..2 * self.config.blocks].chunks_exact(2).fold(hidden, |h, block| {
            let matrix = block[0].clone().reshape([d, d]).cast(product).transpose();
            let inner =
                tall_matmul::matmul(h.clone().cast(product), matrix).cast(h.dtype()) + block[1].clone().unsqueeze();
            h + activation::silu(inner)
        })
    }

    /// `Σ_k scale_k Σ_i w_{k,i} CE(head_k(h_i), y_i)`: losses and ranks of every head and, where `scales` are given, the
    /// gradient of every parameter. `w` is 1 or D-PACE's weight of the label; no gradient goes through it.
    ///
    /// Hidden states and the shared LM head are constants. The logits are made and used up a chunk at a time.
    ///
    /// # Shapes
    /// `weights` flat, as in [`MedusaConfig::parameters`]; `lm_head [V, d]`; `hidden [rows, d]`; labels and
    /// scales one per head.
    pub fn losses(
        &self,
        weights: &[Tensor<1>],
        lm_head: &Table,
        hidden: &Tensor<2>,
        labels: &[HeadLabels],
        scales: Option<&[HeadScale]>,
    ) -> (Vec<HeadOutput>, Vec<Tensor<1>>) {
        let (mut outputs, mut gradients) = (vec![], vec![]);
        for (output, gradient, _) in self.all_heads(weights, lm_head, hidden, labels, scales) {
            outputs.push(output);
            gradients.extend(gradient);
        }
        (outputs, gradients)
    }

    /// As [`Self::losses`], with the gradient of the hidden states too: for a backbone that is fitted along with the
    /// heads.
    ///
    /// # Shapes
    /// The gradient of the states is `[rows, d]`.
    pub fn joint_losses(
        &self,
        weights: &[Tensor<1>],
        lm_head: &Table,
        hidden: &Tensor<2>,
        labels: &[HeadLabels],
        scales: &[HeadScale],
    ) -> (Vec<HeadOutput>, Vec<Tensor<1>>, Tensor<2>) {
        let (mut outputs, mut gradients, mut states) = (vec![], vec![], hidden.zeros_like());
        let all = self.all_heads(weights, lm_head, hidden, labels, Some(scales));
        for ((output, gradient, d_rows), labels) in all.into_iter().zip(labels) {
            outputs.push(output);
            gradients.extend(gradient);
            if let Some(d_rows) = d_rows {
                let index = rows_of(labels, 0, hidden);
                states = states.select_assign(0, index, d_rows, IndexingUpdateOp::Add);
            }
        }
        (outputs, gradients, states)
    }

    /// Every head. On a GPU heads with a shared LM head are rows of the same products, and their losses are read
    /// together; on the CPU one head after another takes less memory, unless labels are weighed by all heads.
    fn all_heads(
        &self,
        weights: &[Tensor<1>],
        lm_head: &Table,
        hidden: &Tensor<2>,
        labels: &[HeadLabels],
        scales: Option<&[HeadScale]>,
    ) -> Vec<OfHead> {
        let heads = labels.iter().enumerate().map(|(head, labels)| {
            let own = &weights[head * self.per_head()..][..self.per_head()];
            let product = if self.config.own_lm_heads { DType::F32 } else { lm_head.product_dtype() };
            self.begin(own, hidden, labels, scales.map(|scales| scales[head]), product)
        });
        if self.config.own_lm_heads || host::is_host(&hidden.device()) {
            let scored = heads.map(|head| self.alone(head, lm_head));
            return match self.config.label_weights {
                LabelWeights::Equal => scored.map(Scored::finish).collect(),
                LabelWeights::DPace => self.finish(scored.collect(), lm_head),
            };
        }
        self.finish(self.together(heads.collect(), lm_head), lm_head)
    }

    /// Gradients of heads whose losses are known.
    fn finish<'a>(&self, mut heads: Vec<Scored<'a>>, lm_head: &Table) -> Vec<OfHead> {
        if self.config.label_weights == LabelWeights::DPace {
            let rows = heads.iter().flat_map(|head| &head.begun.labels.rows).max().map_or(0, |&row| row as usize + 1);
            let mut losses = vec![vec![None; heads.len()]; rows];
            for (k, head) in heads.iter().enumerate() {
                let each = head.begun.labels.rows.iter().zip(&head.output.losses);
                each.for_each(|(&row, &loss)| losses[row as usize][k] = Some(loss));
            }
            let weights: Vec<Vec<f32>> = losses.iter().map(|row| d_pace::weights(self.config.alpha, row)).collect();
            let weigh = |(k, head): (usize, Scored<'a>)| self.weigh(head, |row| weights[row][k], lm_head);
            heads = heads.into_iter().enumerate().map(weigh).collect();
        }
        heads.into_iter().map(Scored::finish).collect()
    }

    /// Multiplies the gradient of each label by its weight. The gradient of an own LM head is a sum over labels, so it is
    /// computed only now, from scores that are computed again.
    fn weigh<'a>(&self, mut head: Scored<'a>, weight: impl Fn(usize) -> f32, lm_head: &Table) -> Scored<'a> {
        let Some(scale) = head.begun.scale else { return head };
        let mut weights: Vec<f32> = head.begun.labels.rows.iter().map(|&row| weight(row as usize)).collect();
        if self.config.own_lm_heads {
            weights.iter_mut().for_each(|weight| *weight *= scale);
            return self.scored(head.begun, lm_head, &weights, true);
        }
        head.d_top = head.d_top.map(|d_top| {
            let weights = TensorData::new(weights, [d_top.dims()[0], 1]);
            let weights = Tensor::<2>::from_data(weights, &d_top.device());
            d_top * weights
        });
        head
    }

    /// A head's states, ready for its LM head.
    fn begin<'a>(
        &self,
        weights: &'a [Tensor<1>],
        hidden: &Tensor<2>,
        labels: &'a HeadLabels,
        scale: Option<HeadScale>,
        product: DType,
    ) -> Begun<'a> {
        let blocks = &weights[..2 * self.config.blocks];
        let tracked = |w: &Tensor<1>| if scale.is_some() { w.clone().autodiff().require_grad() } else { w.clone() };
        let states = (!labels.rows.is_empty()).then(|| {
            let rows = match labels.rows.len() == hidden.dims()[0] {
                true => hidden.clone(),
                false => hidden.clone().select(0, rows_of(labels, 0, hidden)),
            };
            let leaves: Vec<Tensor<1>> = blocks.iter().map(tracked).collect();
            let rows = if scale.is_some() { rows.autodiff().require_grad() } else { rows };
            let top = self.blocks(&leaves, rows.clone(), product);
            HeadStates { leaves, rows, top }
        });
        Begun { weights, labels, scale, states }
    }

    fn alone<'a>(&self, begun: Begun<'a>, lm_head: &Table) -> Scored<'a> {
        let scales = vec![begun.scale.unwrap_or(0.0); begun.labels.rows.len()];
        self.scored(begun, lm_head, &scales, self.config.label_weights == LabelWeights::Equal)
    }

    fn scored<'a>(&self, begun: Begun<'a>, lm_head: &Table, scales: &[f32], is_weighed: bool) -> Scored<'a> {
        let own = begun.weights.get(2 * self.config.blocks);
        let table = own.map(|own| own.clone().reshape([self.vocab_size, self.hidden_size]).into());
        let Some(top) = begun.top() else { return Scored::empty(begun) };
        let labels = Labels { tokens: &begun.labels.tokens, scales };
        let own_gradient = is_weighed && begun.scale.is_some() && own.is_some();
        let found =
            linear_cross_entropy(&top, table.as_ref().unwrap_or(lm_head), labels, self.chunk_rows, own_gradient);
        let output = HeadOutput { losses: found.losses, ranks: found.ranks };
        let d_table = found.d_weight.map(|g| g.reshape([-1]));
        Scored { begun, output, d_top: Some(found.d_hidden), d_table }
    }

    fn together<'a>(&self, heads: Vec<Begun<'a>>, lm_head: &Table) -> Vec<Scored<'a>> {
        let tops: Vec<Tensor<2>> = heads.iter().filter_map(Begun::top).collect();
        if tops.is_empty() {
            return heads.into_iter().map(Scored::empty).collect();
        }
        let tokens: Vec<Token> = heads.iter().flat_map(|head| head.labels.tokens.iter().copied()).collect();
        let scale = |head: &Begun<'_>| vec![head.scale.unwrap_or(0.0); head.labels.rows.len()];
        let scales: Vec<f32> = heads.iter().flat_map(scale).collect();
        let labels = Labels { tokens: &tokens, scales: &scales };
        let found = linear_cross_entropy(&Tensor::cat(tops, 0), lm_head, labels, self.chunk_rows, false);
        let mut first = 0;
        let one = |begun: Begun<'a>| {
            if begun.states.is_none() {
                return Scored::empty(begun);
            }
            let part = first..first + begun.labels.rows.len();
            first = part.end;
            let (losses, ranks) = (found.losses[part.clone()].to_vec(), found.ranks[part.clone()].to_vec());
            let d_top = Some(found.d_hidden.clone().narrow(0, part.start, part.len()));
            Scored { begun, output: HeadOutput { losses, ranks }, d_top, d_table: None }
        };
        heads.into_iter().map(one).collect()
    }
}

/// Result of a head: losses and ranks, gradients of its parameters, and the gradient of the states that it read.
type OfHead = (HeadOutput, Vec<Tensor<1>>, Option<Tensor<2>>);

/// A head on its way to its loss.
struct Begun<'a> {
    weights: &'a [Tensor<1>],
    labels: &'a HeadLabels,
    scale: Option<HeadScale>,
    /// `None` without labels.
    states: Option<HeadStates>,
}

struct HeadStates {
    leaves: Vec<Tensor<1>>,
    /// `[labels, d]`: what the blocks read.
    rows: Tensor<2>,
    /// `[labels, d]`: what the LM head reads.
    top: Tensor<2>,
}

impl Begun<'_> {
    fn top(&self) -> Option<Tensor<2>> {
        self.states.as_ref().map(|states| states.top.clone().inner())
    }
}

/// A head whose losses are known.
struct Scored<'a> {
    begun: Begun<'a>,
    output: HeadOutput,
    /// `[labels, d]`: gradient of the input of the LM head; `None` without labels.
    d_top: Option<Tensor<2>>,
    /// Gradient of an own LM head.
    d_table: Option<Tensor<1>>,
}

impl<'a> Scored<'a> {
    /// A head without labels.
    fn empty(begun: Begun<'a>) -> Self {
        Self { begun, output: HeadOutput::default(), d_top: None, d_table: None }
    }

    /// Gradients of its weights and of the states, if they are asked for.
    fn finish(self) -> OfHead {
        let Begun { weights, scale, states, .. } = self.begun;
        let (Some(states), Some(d_top)) = (states, self.d_top) else {
            let zeros = if scale.is_some() { weights.iter().map(Tensor::zeros_like).collect() } else { vec![] };
            return (self.output, zeros, None);
        };
        if scale.is_none() {
            return (self.output, vec![], None);
        }
        let Some(mut carried) = GradientCarry::of(states.top, d_top).backward() else {
            return (self.output, vec![], None);
        };
        let mut gradients = carried.of_leaves(&states.leaves, weights);
        gradients.extend(self.d_table);
        (self.output, gradients, carried.of_rows(&states.rows))
    }
}

#[cfg(test)]
mod tests;
