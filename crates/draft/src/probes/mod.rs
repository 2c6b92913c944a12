//! Probes: trained embeddings behind every candidate, at which the frozen model names the tokens after it.
//!
//! Probe `P_k` stands `k` positions after the token `x_t` that it belongs to, sees `x_1..x_t` and the probes before it,
//! and predicts `x_{t+k+1}`: `p_k = softmax(LM((1/e) Σ_j h_{k,j}))` over the `e` members of an ensemble, which do not see
//! each other. A text's tokens never see probes. So their keys and values are constants in training, and one pass fits
//! any number of positions. In decoding the target reads probes behind every candidate of a tree; those of the last
//! accepted one name the next candidates.
//!
//! | kind | probes | loss | decoding |
//! |---|---|---|---|
//! | PPD (Chen et al., 2024, <https://arxiv.org/abs/2405.18628>) | `n · e` | `KL` to the model itself, `0.8^(k-1)` | trees, more probes behind likelier candidates |
//! | PaSS (Monea et al., 2023, <https://arxiv.org/abs/2311.13581>) | `L` | cross-entropy | chains, `L` probes behind every candidate |
//! | SPACE (Yi et al., 2024, <https://arxiv.org/abs/2402.11809>) | one for all places | cross-entropy | as PaSS |
//!
//! PaSS as published verifies in one pass and looks ahead in the next ([`ProbeShape::two_pass`]); probes behind every
//! candidate merge the two. SPACE as published fine-tunes the model too, which is left as it is here.

mod arrange;
mod config;
mod export;
mod loss;
mod model;
mod network;
mod propose;

pub use crate::format::ProbeKind;
pub use arrange::{Arrangement, arranged, gains};
pub use config::{PassConfig, PpdConfig, ProbeShape, ProbeTraining, SpaceConfig, default_tree, most_rows};
pub use export::export;
pub use loss::{ProbeBatch, ProbeCriterion, losses};
pub use model::ProbeModel;
pub use network::ProbeNetwork;
pub use propose::ProbeDrafter;
