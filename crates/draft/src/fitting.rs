//! Training batches of heads with a loss each.

use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use gorgon_core::Token;
use std::ops::Range;

/// The labels of one head: a row of hidden states and the token to guess there, rows increasing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadLabels {
    /// Rows.
    pub rows: Vec<u32>,
    /// Tokens.
    pub tokens: Vec<Token>,
}

/// Hidden states of the backbone, and the tokens that came after them.
#[derive(Clone, Debug)]
pub struct HeadBatch {
    /// The backbone's states, sequence after sequence, `[rows, d]`: those with a label, or, where heads read every
    /// position before or compare with a later one, all of a sequence up to the last one that counts.
    pub states: Tensor<2>,
    /// Entry `j`: the embeddings of the tokens `j + 1` places after each row, `[rows, d]`; anything where the text has
    /// ended.
    pub following: Vec<Tensor<2>>,
    /// Rows of each sequence.
    pub segments: Vec<Range<usize>>,
    /// The labels of each head.
    pub labels: Vec<HeadLabels>,
}

/// The rows `later` places after those of a head's labels, as an index.
pub(crate) fn rows_of(labels: &HeadLabels, later: usize, beside: &Tensor<2>) -> Tensor<1, Int> {
    row_index(labels.rows.iter().map(|&row| row as usize + later), &beside.device())
}

/// Rows as an index.
pub(crate) fn row_index(rows: impl Iterator<Item = usize>, device: &Device) -> Tensor<1, Int> {
    let rows: Vec<i32> = rows.map(|row| row as i32).collect();
    let n = rows.len();
    Tensor::from_data(TensorData::new(rows, [n]), device)
}

/// Frees what computing without gradients left behind: burn keeps every operation on a tensor of its `autodiff()` in a
/// graph, gradients wanted or not, until the next backward pass of any graph.
pub fn free_graphs() {
    Tensor::<1>::zeros([1], &Device::flex()).autodiff().require_grad().backward();
}

/// Carries gradients that were computed outside the graph on into it: `Σ y ∘ ∂L/∂y` is a scalar whose gradient with
/// respect to `y` is `∂L/∂y`.
#[derive(Debug, Default)]
pub struct GradientCarry(Option<Tensor<1>>);

impl GradientCarry {
    /// One output with the loss's gradient with respect to it, both `[rows, d]`.
    pub fn of(output: Tensor<2>, gradient: Tensor<2>) -> Self {
        let mut carry = Self::default();
        carry.add(output, gradient);
        carry
    }

    /// Adds an output with the loss's gradient with respect to it, both `[rows, d]`.
    pub fn add(&mut self, output: Tensor<2>, gradient: Tensor<2>) {
        let carried = (output * gradient.autodiff()).sum();
        self.0 = Some(match self.0.take() {
            Some(sum) => sum + carried,
            None => carried,
        });
    }

    /// The gradients of everything that the outputs were made of; `None` if there were none.
    pub fn backward(self) -> Option<CarriedGradients> {
        self.0.map(|sum| CarriedGradients(sum.backward()))
    }

    /// The gradients of leaves; zeros shaped like `weights` where a leaf had no part.
    pub fn of_leaves(self, leaves: &[Tensor<1>], weights: &[Tensor<1>]) -> Vec<Tensor<1>> {
        let zeros = || weights.iter().map(Tensor::zeros_like).collect();
        self.backward().map_or_else(zeros, |mut gradients| gradients.of_leaves(leaves, weights))
    }
}

/// The gradients of a graph.
pub struct CarriedGradients(Gradients);

impl CarriedGradients {
    /// Those of leaves; zeros shaped like `weights` where a leaf had no part.
    pub fn of_leaves(&mut self, leaves: &[Tensor<1>], weights: &[Tensor<1>]) -> Vec<Tensor<1>> {
        let of = |(leaf, w): (&Tensor<1>, &Tensor<1>)| leaf.grad_remove(&mut self.0).unwrap_or_else(|| w.zeros_like());
        leaves.iter().zip(weights).map(of).collect()
    }

    /// That of tracked rows.
    pub fn of_rows(&mut self, rows: &Tensor<2>) -> Option<Tensor<2>> {
        rows.grad_remove(&mut self.0)
    }
}
