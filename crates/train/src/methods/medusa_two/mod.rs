//! Medusa-2: heads and backbone fitted together, the backbone through a low-rank adapter.
//!
//! `L = L_LM + λ₀ · Σ_k λ_k CE(head_k(h_t), x_{t+k+1})`, where `h` are the states of the backbone with the adapter on
//! and `L_LM = KL(p_original || p)` on the model's own answers. The original is the same backbone with the adapter off.
//! (Cai et al., 2024.) The LM head and the embedding stay frozen, so that the heads keep sharing the first.

mod evaluate;
mod fitting;
mod merged;
mod objective;
mod publish;

pub use fitting::{Balanced, MedusaTwoFitting};
pub(super) use merged::bytes as merged_bytes;
pub use merged::{Merged, MergedHeads};
pub(super) use publish::write_part;
