//! Acceptance rules: given a verified tree, pick a path and a bonus token.
//!
//! | rule | file | lossless |
//! |---|---|---|
//! | [`Greedy`] | `greedy.rs` | yes, for the target's greedy text |
//! | [`Sampling`]: speculative sampling, and its multi-round form on trees | `sampling.rs` | yes |
//! | [`KSeq`]: SpecTr's k-SEQ | `k_seq.rs` | yes |
//! | [`Coupled`]: the plain sampler's own tokens | `coupled.rs` | yes |
//! | [`Block`], [`Traversal`]: whole paths are tested | `traversal.rs` | yes |
//! | [`Typical`]: Medusa's typical acceptance | `typical.rs` | no |
//! | [`Lossy`], [`LossyGreedy`]: speculative sampling with slack | `lossy.rs` | no |
//! | [`Cascade`]: speculative cascades | `cascade.rs` | no |
//! | [`Bild`]: the rollback of Big Little Decoder | `bild.rs` | no |
//! | [`TopBeta`]: SpecDec's relaxed verification | `top_beta.rs` | no |
//!
//! [`RuleChoice`] names them as configurations do. Every rule is an [`AcceptanceRule`] (`rule.rs`). It reads the
//! target's output ([`TargetRows`], `output.rs`) and the drafter's distributions ([`DraftRows`], `draft.rs`). Shared
//! parts are in `walk.rs` (how a tree is walked) and `rounds.rs` (how one node's entries are tried in turn).

mod bild;
mod cascade;
mod choice;
mod coupled;
mod draft;
mod greedy;
mod k_seq;
mod lossy;
pub mod noise;
mod output;
pub mod random;
mod rounds;
mod rows;
mod rule;
mod sampling;
mod scheme;
mod slack;
mod top_beta;
mod traversal;
mod typical;
mod walk;

pub use crate::tree::Entry;
pub use bild::Bild;
pub use cascade::{Cascade, Deferral};
pub use choice::{ChoiceError, DraftScheme, RuleChoice};
pub use coupled::Coupled;
pub use draft::{DraftRows, DraftSource};
pub use greedy::Greedy;
pub use k_seq::{KSeq, smallest_rho};
pub use lossy::{Lossy, LossyGreedy};
pub use noise::{Noise, NoiseAhead};
pub use output::{TargetError, TargetOutput, TargetRows};
pub use random::RandomSource;
pub use rows::Rows;
pub use rule::{AcceptanceRule, Verdict};
pub use sampling::Sampling;
pub use scheme::SamplingScheme;
pub use slack::{Beta, balanced_beta, lossy_distribution};
pub use top_beta::TopBeta;
pub use traversal::{Block, Traversal};
pub use typical::{Typical, TypicalCut};
pub use walk::longest;
