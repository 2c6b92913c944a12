//! Consistency large language models (Kou et al., 2024, <https://arxiv.org/abs/2403.00835>): a backbone that is fitted so
//! that Jacobi decoding reaches its fixed point in few iterations.
//!
//! For a state `y` of the trajectory behind a prefix `x`, whose fixed point is `y*`:
//! `L = Σ_i KL(p_θ⁻(·|x, y*_{<i}) ‖ p_θ(·|x, y_{<i})) + ω · L_AR`, with `θ⁻` the current weights without a gradient and
//! `L_AR` the mean cross-entropy of `x, y*` with label smoothing. Rows up to the first difference of `y` and `y*` have
//! one context in both and add nothing. The local loss compares a state with the next one instead. States can be
//! [`augmented`] while training.
//!
//! The model changes: decoding is lossless for the new one, which is published whole.

mod evaluate;
mod fitting;
mod loss;
mod objective;

pub use fitting::{CllmFitting, Drawn, augmented};
pub use loss::{ConsistencyFound, ConsistencyLoss, Sample};
