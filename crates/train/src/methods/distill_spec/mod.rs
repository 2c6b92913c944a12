//! DistillSpec: fitting a draft model to the distributions of a frozen target (Zhou et al. 2024).
//!
//! `L = mean D(p_t, q_t)` over the positions whose next token is the assistant's, with the divergences of
//! [`gorgon_kernels::linear_divergence`], all at temperature 1. All parameters of the draft model are fitted.

mod fitting;
mod objective;
mod round;
mod writer;

pub use fitting::{Answered, DistillSpecFitting, Distilled};
