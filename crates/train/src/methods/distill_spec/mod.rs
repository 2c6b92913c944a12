//! DistillSpec: fitting a draft model to the distributions of a frozen target (Zhou et al. 2024).
//!
//! `L = mean D(p_t, q_t)` over the positions whose next token is the assistant's, with the divergences of
//! [`gorgon_kernels::linear_divergence`], all at temperature 1. All parameters of the draft model are fitted.
//!
//! With [`Earlier`] draft models the mean is over the positions that none of them predicts: collective boost-tuning.

mod earlier;
mod fitting;
mod objective;
mod round;
mod writer;

pub use earlier::Earlier;
pub use fitting::{Answered, DistillSpecFitting, Distilled};
