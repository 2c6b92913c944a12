//! Medusa heads (Cai et al., 2024): `K` heads on the backbone's last hidden state, head `k` guessing `k` tokens beyond
//! the next one.
//!
//! `head_k(h) = W2_k · block_k(h)` with residual blocks `h ← h + SiLU(W1 h + b1)`, each with weights of its own. Read
//! at position `t`, head `k = 1..K` predicts `x_{t+k+1}`; the LM head itself predicts `x_{t+1}`. Blocks start at zero,
//! so that a head starts as the LM head, which it shares unless it is given one of its own.

mod config;
mod export;
mod loss;
mod model;
mod propose;

pub use crate::fitting::HeadLabels;
pub use config::{Init, LabelWeights, MAX_BLOCKS, MAX_HEADS, MedusaConfig, ParameterSpec};
pub use export::{Backbone, MedusaTarget, export};
pub use loss::{HeadOutput, HeadScale, Heads};
pub use model::MedusaModel;
pub use propose::MedusaDrafter;
