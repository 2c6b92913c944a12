//! The draft layer's loss with its gradients.
//!
//! The layer is unrolled as it drafts: step 0 starts from the backbone's states, step `i` from the outputs of step `i − 1`, always
//! with the true tokens. `L = Σ_i Σ_t s_i · CE(softmax_D(target), softmax(U norm(g)))` over the rows `t` of step `i` that count: both
//! distributions are over the tokens that can be drafted. There is no loss on states. A final soft cap of the backbone is left out
//! of its distribution.

use super::network::{Eagle3Network, LM_HEAD, Unrolled};
use burn::tensor::{Int, Tensor, TensorData};
use gorgon_kernels::linear_cross_entropy::{Projected, soft_cross_entropy_between};
use std::ops::Range;

/// Packed sequences of pairs.
#[derive(Clone, Debug)]
pub struct Eagle3Batch {
    /// The backbone's taps side by side, `[rows, taps · d]`.
    pub taps: Tensor<2>,
    /// The rows of each sequence.
    pub segments: Vec<Range<usize>>,
    /// What is unrolled.
    pub steps: Vec<Eagle3Step>,
}

/// One step of a batch.
#[derive(Clone, Debug)]
pub struct Eagle3Step {
    /// Embeddings of the tokens, one place further on than those of the step before, `[rows, d]`.
    pub embedded: Tensor<2>,
    /// The rows that count, increasing.
    pub counted: Vec<u32>,
    /// What the backbone's LM head reads where it says what those rows guess, `[counted, width]`.
    pub targets: Tensor<2>,
}

/// What a step yields, an entry per row that counts.
#[derive(Clone, Debug, Default)]
pub struct Eagle3Output {
    /// Cross-entropies, in nats.
    pub losses: Vec<f32>,
    /// How many tokens the drafter ranks above the backbone's likeliest; 0 means that its first guess is right.
    pub ranks: Vec<u32>,
}

/// What a loss depends on beside weights and batch.
#[derive(Clone, Copy, Debug)]
pub struct Criterion<'a> {
    /// The rows of the backbone's LM head for the tokens that can be drafted, `[D, width]`.
    pub lm_head: &'a Tensor<2>,
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
    let lm_head = weights[LM_HEAD].clone().reshape([shape.draft_vocab, shape.layer.hidden_size]);
    let (mut outputs, mut sum, mut d_lm_head) = (vec![], None::<Tensor<1>>, None::<Tensor<2>>);
    let (mut states, mut before) = (network.fuse(&leaves, &batch.taps.clone().autodiff()), Unrolled::default());
    for (i, step) in batch.steps.iter().enumerate() {
        if batch.steps[i..].iter().all(|step| step.counted.is_empty()) {
            outputs.push(Eagle3Output::default());
            continue;
        }
        states = network.step(&leaves, step.embedded.clone().autodiff(), states, &batch.segments, &mut before);
        if step.counted.is_empty() {
            outputs.push(Eagle3Output::default());
            continue;
        }
        let guessed = network.normed(&leaves, states.clone()).select(0, rows(&step.counted, &weights[0]));
        let inner = guessed.clone().inner();
        let scale = scales.map_or(0.0, |scales| scales[i]);
        let found = soft_cross_entropy_between(
            Projected { states: &inner, weight: &lm_head },
            Projected { states: &step.targets, weight: criterion.lm_head },
            scale,
            criterion.chunk_rows,
            scales.is_some(),
        );
        outputs.push(Eagle3Output { losses: found.losses, ranks: found.ranks });
        // `Σ g ∘ ∂L/∂g` is a scalar whose gradient is `∂L/∂g`: it carries the gradient on into the layer.
        let carried = (guessed * found.d_hidden.autodiff()).sum();
        sum = Some(sum.map_or_else(|| carried.clone(), |sum| sum + carried.clone()));
        d_lm_head = add(d_lm_head, found.d_weight);
    }
    if scales.is_none() {
        return (outputs, vec![]);
    }
    let (Some(sum), Some(d_lm_head)) = (sum, d_lm_head) else {
        return (outputs, weights.iter().map(Tensor::zeros_like).collect());
    };
    let mut grads = sum.backward();
    let of = |(leaf, w): (&Tensor<1>, &Tensor<1>)| leaf.grad_remove(&mut grads).unwrap_or_else(|| w.zeros_like());
    let mut gradients: Vec<Tensor<1>> = leaves.iter().zip(weights).map(of).collect();
    gradients[LM_HEAD] = d_lm_head.reshape([-1]);
    (outputs, gradients)
}

fn rows(counted: &[u32], like: &Tensor<1>) -> Tensor<1, Int> {
    let index: Vec<i32> = counted.iter().map(|&row| row as i32).collect();
    Tensor::from_data(TensorData::new(index, [counted.len()]), &like.device())
}

fn add(sum: Option<Tensor<2>>, part: Option<Tensor<2>>) -> Option<Tensor<2>> {
    match (sum, part) {
        (Some(sum), Some(part)) => Some(sum + part),
        (sum, part) => sum.or(part),
    }
}
