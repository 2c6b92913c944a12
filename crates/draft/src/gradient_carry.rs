//! Gradients that are computed outside the graph, carried on into it.

use burn::tensor::{Gradients, Tensor};

/// `Σ output ∘ slope`: a scalar whose gradient with respect to `output` is `slope`.
///
/// It carries a gradient that was computed outside the graph, `slope = ∂L/∂output`, on into what `output` was computed
/// from.
///
/// # Shapes
/// `output` and `slope` `[rows, d]`; the result `[1]`.
pub(crate) fn carried(output: Tensor<2>, slope: Tensor<2>) -> Tensor<1> {
    (output * slope.autodiff()).sum()
}

/// The gradient of each leaf; zero, in the shape of its weight, for one that the scalar does not depend on.
pub(crate) fn of_leaves(grads: &mut Gradients, leaves: &[Tensor<1>], weights: &[Tensor<1>]) -> Vec<Tensor<1>> {
    let of = |(leaf, w): (&Tensor<1>, &Tensor<1>)| leaf.grad_remove(grads).unwrap_or_else(|| w.zeros_like());
    leaves.iter().zip(weights).map(of).collect()
}

/// Gradients of the leaves that `output` was computed from, given `slope`, the loss's gradient with respect to it.
///
/// # Shapes
/// `output` and `slope` `[rows, d]`; a gradient for each of `weights`, zero where `output` does not depend on its leaf.
pub fn pulled_back(output: Tensor<2>, slope: Tensor<2>, leaves: &[Tensor<1>], weights: &[Tensor<1>]) -> Vec<Tensor<1>> {
    of_leaves(&mut carried(output, slope).backward(), leaves, weights)
}
