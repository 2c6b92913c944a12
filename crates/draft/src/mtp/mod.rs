//! Multi-token prediction (DeepSeek-V3, 2024): modules that each guess one token further, one decoder layer each.
//!
//! With `h^0_i = h_i`, the backbone's state after its final norm at token `x_i`, module `k = 1..D` is
//! `h^k_i = N_k(Layer_k(W_k [N(E(x_{i+k})); N(h^{k-1}_i)]))` with an RMS norm `N` of its own in each place, and the
//! backbone's LM head makes the distribution of `x_{i+k+1}` of it. So every module reads a chain of pairs
//! `(h^{k-1}_i, x_{i+k})`, and attends to the pairs before. The next module reads what the LM head reads, after the
//! last norm `N_k` (the report hands the state on in front of it; so a state is the same kind of thing in every module,
//! which lets the last one go on).
//!
//! In a tree, node `x` of depth `m` is read by modules `m + 1..D`, each at the pair that `x` completes; deeper than
//! there are modules, the last one reads its own output, as EAGLE does. Embedding and LM head are the
//! backbone's.

mod config;
mod export;
mod loss;
mod model;
mod propose;

pub use config::{MtpConfig, MtpShape};
pub use export::export;
pub use loss::MtpHeads;
pub use model::MtpModel;
pub use propose::MtpDrafter;
