//! A linear layer followed by cross-entropy, with its gradients, in chunks of rows.
//!
//! For rows `h_i` with labels `y_i` and scales `s_i`: `L = Σ_i s_i · (logsumexp(W h_i) − (W h_i)[y_i])`,
//! `∂L/∂h_i = s_i · (softmax(W h_i) − e_{y_i}) W` and `∂L/∂W = Σ_i s_i · (softmax(W h_i) − e_{y_i}) h_iᵀ`. Logits exist
//! for one chunk of rows at a time: the whole `rows × V` matrix is never in memory. [`soft_cross_entropy`] has another
//! network's distribution in place of labels.

#[cfg(feature = "gpu")]
mod cube;
#[cfg(all(test, feature = "gpu"))]
mod device_tests;
mod kernel;
mod launch;
pub mod reference;
mod soft;

pub use kernel::cross_entropy_rows;
pub use launch::{LinearCrossEntropy, linear_cross_entropy};
pub use soft::{SoftCrossEntropy, soft_cross_entropy, soft_cross_entropy_between};

/// Labels of the rows.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// The label of each row, below `V`.
    pub tokens: &'a [u32],
    /// Weight of each row's loss in the gradients.
    pub scales: &'a [f32],
}
