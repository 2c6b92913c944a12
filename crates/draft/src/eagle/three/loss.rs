//! The draft layer's loss with its gradients.
//!
//! The layer is unrolled as it drafts: step 0 starts from the backbone's states, step `i` from the outputs of step
//! `i − 1`, always with the true tokens. `L = Σ_i Σ_t s_i · CE(softmax_D(target), softmax(U norm(g)))` over the rows
//! `t` of step `i` that count: both distributions are over the tokens that can be drafted. There is no loss on states.
//! A final soft cap of the backbone is left out of its distribution.

use super::network::{Eagle3Network, LM_HEAD, Unrolled};
use crate::fitting::{GradientCarry, row_index};
use burn::tensor::Tensor;
use gorgon_kernels::Table;
use gorgon_kernels::linear_cross_entropy::soft_cross_entropy_between;
use gorgon_kernels::projected::Projected;
use std::ops::Range;

/// Packed sequences of pairs.
#[derive(Clone, Debug)]
pub struct Eagle3Batch {
    /// The backbone's hooked states side by side, `[rows, hooks · d]`.
    pub hooks: Tensor<2>,
    /// The rows of each sequence.
    pub segments: Vec<Range<usize>>,
    /// Unrolled steps.
    pub steps: Vec<Eagle3Step>,
}

/// One step of a batch.
#[derive(Clone, Debug)]
pub struct Eagle3Step {
    /// Embeddings of the tokens, one place further on than those of the step before, `[rows, d]`.
    pub embedded: Tensor<2>,
    /// The rows that count, increasing.
    pub counted: Vec<u32>,
    /// Inputs of the backbone's LM head at the positions that those rows guess, `[counted, width]`.
    pub targets: Tensor<2>,
}

/// Result of a step, an entry per row that counts.
#[derive(Clone, Debug, Default)]
pub struct Eagle3Output {
    /// Cross-entropies, in nats.
    pub losses: Vec<f32>,
    /// How many tokens the drafter ranks above the backbone's argmax; 0 means that its first guess is right.
    pub ranks: Vec<u32>,
}

/// Inputs of a loss beside weights and batch.
#[derive(Clone, Copy, Debug)]
pub struct Criterion<'a> {
    /// The rows of the backbone's LM head for the tokens that can be drafted, `[D, width]`.
    pub lm_head: &'a Table,
    /// Rows of logits in memory at once.
    pub chunk_rows: usize,
}

/// The losses of a batch, step by step, and, where scales `s_i` are given, the gradient of every parameter.
///
/// # Shapes
/// `weights` flat, as in [`super::Eagle3Shape::parameters`]; a scale per step.
pub fn losses(
    network: &Eagle3Network,
    criterion: &Criterion<'_>,
    weights: &[Tensor<1>],
    batch: &Eagle3Batch,
    scales: Option<&[f32]>,
) -> (Vec<Eagle3Output>, Vec<Tensor<1>>) {
    // The fused operations are those of tracked tensors, so weights are tracked even where no gradient is wanted.
    let tracked =
        |w: &Tensor<1>| if scales.is_some() { w.clone().autodiff().require_grad() } else { w.clone().autodiff() };
    let leaves: Vec<Tensor<1>> = weights.iter().map(tracked).collect();
    let shape = network.shape();
    let lm_head = Table::from(weights[LM_HEAD].clone().reshape([shape.draft_vocab, shape.layer.hidden_size]));
    let (mut outputs, mut sums) = (vec![], Sums::default());
    let (mut states, mut before) = (network.fuse(&leaves, &batch.hooks.clone().autodiff()), Unrolled::default());
    // Nothing depends on steps after the last one in which a row counts.
    let taken = batch.steps.iter().rposition(|step| !step.counted.is_empty()).map_or(0, |last| last + 1);
    for (i, step) in batch.steps[..taken].iter().enumerate() {
        states = network.step(&leaves, step.embedded.clone().autodiff(), states, &batch.segments, &mut before);
        let normed = network.normed(&leaves, states.clone());
        outputs.push(sums.add(step, normed, &lm_head, criterion, scales.map(|scales| scales[i])));
    }
    outputs.resize(batch.steps.len(), Eagle3Output::default());
    let gradients = if scales.is_some() { sums.gradients(&leaves, weights) } else { vec![] };
    (outputs, gradients)
}

/// Sums that the steps' gradients are made of.
#[derive(Default)]
struct Sums {
    /// `∂L/∂g` of the guessed states.
    carry: GradientCarry,
    /// `∂L/∂U`, which never enters the graph.
    d_lm_head: Option<Tensor<2>>,
}

impl Sums {
    /// One step's losses; its gradients are added where a scale is given.
    fn add(
        &mut self,
        step: &Eagle3Step,
        normed: Tensor<2>,
        lm_head: &Table,
        criterion: &Criterion<'_>,
        scale: Option<f32>,
    ) -> Eagle3Output {
        if step.counted.is_empty() {
            return Eagle3Output::default();
        }
        let index = row_index(step.counted.iter().map(|&row| row as usize), &lm_head.device());
        let guessed = normed.select(0, index);
        let found = soft_cross_entropy_between(
            Projected::new(&guessed.clone().inner(), lm_head),
            Projected::new(&step.targets, criterion.lm_head),
            scale.unwrap_or(0.0),
            criterion.chunk_rows,
            scale.is_some(),
        );
        if let Some(part) = found.d_weight {
            self.carry.add(guessed, found.d_hidden);
            self.d_lm_head = Some(match self.d_lm_head.take() {
                Some(sum) => sum + part,
                None => part,
            });
        }
        Eagle3Output { losses: found.losses, ranks: found.ranks }
    }

    /// The gradient of every parameter.
    fn gradients(self, leaves: &[Tensor<1>], weights: &[Tensor<1>]) -> Vec<Tensor<1>> {
        let (Some(mut carried), Some(d_lm_head)) = (self.carry.backward(), self.d_lm_head) else {
            return weights.iter().map(Tensor::zeros_like).collect();
        };
        let mut gradients = carried.of_leaves(leaves, weights);
        gradients[LM_HEAD] = d_lm_head.reshape([-1]);
        gradients
    }
}
