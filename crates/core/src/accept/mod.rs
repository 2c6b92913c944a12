//! Acceptance rules: given a verified tree, pick a path and a bonus token.
//!
//! | rule | file | lossless |
//! |---|---|---|
//! | [`Greedy`] | `greedy.rs` | yes, for the target's greedy text |
//! | [`Sampling`]: speculative sampling, and its multi-round form on trees | `sampling.rs` | yes |
//! | [`KSeq`]: SpecTr's k-SEQ | `k_seq.rs` | yes |
//! | [`Nucleus`]: sample and match | `nucleus.rs` | yes |
//! | [`Typical`]: Medusa's typical acceptance | `typical.rs` | no |
//! | [`Lossy`], [`LossyGreedy`]: speculative sampling with slack | `lossy.rs` | no |
//! | [`Cascade`]: speculative cascades | `cascade.rs` | no |
//! | [`Bild`]: the rollback of Big Little Decoder | `bild.rs` | no |
//! | [`TopBeta`]: SpecDec's relaxed verification | `top_beta.rs` | no |
//!
//! [`RuleChoice`] names them as configurations do. What a rule is and what it is given is in `rule.rs`,
//! `rows.rs` and `verdict.rs`. What several rules share is in `walk.rs` (how a tree is walked), `rounds.rs` (how one
//! node's children are tried in turn) and `slack.rs` (how far acceptance may stray).

mod bild;
mod cascade;
mod choice;
mod greedy;
mod k_seq;
mod lossy;
mod nucleus;
pub mod random;
mod rounds;
mod rows;
mod rule;
mod sampling;
mod slack;
mod top_beta;
mod typical;
mod verdict;
mod walk;

pub use bild::Bild;
pub use cascade::{Cascade, Deferral};
pub use choice::{ChoiceError, RuleChoice};
pub use greedy::Greedy;
pub use k_seq::{KSeq, smallest_rho};
pub use lossy::{Lossy, LossyGreedy, lossy_law};
pub use nucleus::Nucleus;
pub use random::RandomSource;
pub use rows::{DraftRows, Rows, SamplingScheme};
pub use rule::AcceptanceRule;
pub use sampling::Sampling;
pub use slack::{Beta, balanced_beta};
pub use top_beta::TopBeta;
pub use typical::{Typical, TypicalCut};
pub use verdict::Verdict;
pub use walk::longest;
