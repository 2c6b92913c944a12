//! EAGLE-3 (Li et al., 2025): one decoder layer on the backbone's hidden states of three depths.
//!
//! At committed token `x_i` the layer starts from `g_i = W [l_i; m_i; h_i]`, the backbone's residual stream entering
//! three of its layers ([`gorgon_model::hooks::Hooks`]). With the token after it,
//! `g_{i+1} = Layer(g_i, [norm(E(x_{i+1})); norm(g_i)])`: the attention reads embedding and state side by side, each
//! behind a norm of its own, and the residual stream starts from the state as it is. `softmax(U norm(g_{i+1}))` guesses
//! `x_{i+2}`, over a part of the vocabulary; deeper guesses start from `g_{i+1}`, not normed, in place of the
//! backbone's. Trees are drafted as by EAGLE-1 ([`super::EagleDrafter`]).

mod config;
mod export;
mod loss;
mod model;
mod network;
mod vocabulary;

pub use config::{Eagle3Config, Eagle3Shape, default_hooks};
pub use export::{Layout, export};
pub use loss::{Criterion, Eagle3Batch, Eagle3Output, Eagle3Step, losses};
pub(crate) use model::stored_vocabulary;
pub use model::{Eagle3Model, vocabulary_of};
pub use network::{Eagle3Network, Unrolled};
pub use vocabulary::DraftVocabulary;

/// EAGLE-3 as a drafter.
pub type Eagle3Drafter = super::EagleDrafter<Eagle3Model>;
