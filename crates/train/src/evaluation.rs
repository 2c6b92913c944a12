//! Results on held-out data: one record for each kind of method.
//!
//! The fields, in this order, are the keys of `evaluation` in `metrics.jsonl` and in the output of `--json`. Losses
//! are in nats per label unless their field says otherwise. A number that is not finite is written as `null`.

use serde::Serialize;

/// The record of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Metrics {
    /// Medusa, Hydra or MTP.
    Heads(HeadMetrics),
    /// Medusa-2.
    MedusaTwo(MedusaTwoMetrics),
    /// EAGLE-1 and EAGLE-2.
    Eagle(EagleMetrics),
    /// EAGLE-3.
    Eagle3(Eagle3Metrics),
    /// DistillSpec.
    DistillSpec(DistillSpecMetrics),
    /// Pretraining.
    Pretrain(PretrainMetrics),
}

impl Metrics {
    /// The loss on held-out data.
    pub fn loss(&self) -> f64 {
        match self {
            Self::Heads(metrics) => metrics.loss,
            Self::MedusaTwo(metrics) => metrics.loss,
            Self::Eagle(metrics) => metrics.loss,
            Self::Eagle3(metrics) => metrics.loss,
            Self::DistillSpec(metrics) => metrics.loss,
            Self::Pretrain(metrics) => metrics.answer_loss,
        }
    }

    /// Tokens per step when held-out prompts are decoded; `None` if none are.
    pub fn tau(&self) -> Option<f64> {
        let of = |decoded: &Option<Decoded>| decoded.as_ref().map(|decoded| decoded.tokens_per_step);
        match self {
            Self::Heads(metrics) => metrics.tau,
            Self::MedusaTwo(metrics) => metrics.tau,
            Self::Eagle(metrics) => of(&metrics.decoded),
            Self::Eagle3(metrics) => of(&metrics.decoded),
            Self::DistillSpec(metrics) => of(&metrics.decoded),
            Self::Pretrain(_) => None,
        }
    }
}

/// Losses and ranks of heads, each list with an entry per head.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeadRanks {
    /// Mean cross-entropy.
    pub head_loss: Vec<f64>,
    /// Share of labels that are the head's first guess.
    pub top1: Vec<f64>,
    /// Share of labels among the head's first five guesses.
    pub top5: Vec<f64>,
    /// Expected tokens per step with a chain of first guesses.
    pub length_chain: f64,
    /// Expected tokens per step with the tree `mc_sim_7b_63`.
    pub length_tree: f64,
}

/// Record of heads on a frozen backbone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeadMetrics {
    /// `Σ_k λ_k · loss_k`.
    pub loss: f64,
    /// By head.
    #[serde(flatten)]
    pub ranks: HeadRanks,
    /// Tokens per step when held-out prompts are decoded; `None` if none are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tau: Option<f64>,
}

/// Record of heads and backbone together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MedusaTwoMetrics {
    /// By head.
    #[serde(flatten)]
    pub ranks: HeadRanks,
    /// `kl + λ₀ · Σ_k λ_k · loss_k`.
    pub loss: f64,
    /// `KL(original || adapted)` in nats per token.
    pub kl: f64,
    /// Share of tokens at which the adapted and the original backbone have the same first guess.
    pub agreement: f64,
    /// Perplexity of the adapted backbone.
    pub perplexity: f64,
    /// Perplexity of the original.
    pub perplexity_before: f64,
    /// True if `kl` is above `medusa2.kl_bound`.
    pub degraded: bool,
    /// Tokens per step when held-out prompts are decoded; `None` if none are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tau: Option<f64>,
}

/// Greedy decoding of held-out prompts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Decoded {
    /// Mean tokens per step, the bonus token included.
    #[serde(rename = "tau")]
    pub tokens_per_step: f64,
    /// Entry `i`: the share of steps with at least `i + 1` accepted drafts.
    #[serde(rename = "accepted_by_depth")]
    pub by_depth: Vec<f64>,
}

/// Record of an EAGLE draft layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EagleMetrics {
    /// `regression + w · cross_entropy`.
    pub loss: f64,
    /// Smooth L1 distance of the features.
    pub regression: f64,
    /// Cross-entropy with the backbone's distribution.
    pub cross_entropy: f64,
    /// Share of pairs whose first guess is the backbone's.
    pub top1: f64,
    /// Share of pairs with the backbone's first guess among five.
    pub top5: f64,
    /// `None` if no prompt is decoded.
    #[serde(flatten)]
    pub decoded: Option<Decoded>,
}

/// Record of an EAGLE-3 draft layer; lists have an entry per unrolled step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Eagle3Metrics {
    /// `Σ_s decay^s · loss_s`.
    pub loss: f64,
    /// Mean cross-entropy.
    pub step_loss: Vec<f64>,
    /// Share of rows whose first guess is the backbone's.
    pub step_top1: Vec<f64>,
    /// That of the first step.
    pub top1: f64,
    /// Share of rows with the backbone's first guess among five, in the first step.
    pub top5: f64,
    /// Share of rows whose token is in the draft vocabulary.
    pub draftable: f64,
    /// `None` if no prompt is decoded.
    #[serde(flatten)]
    pub decoded: Option<Decoded>,
}

/// Record of a draft model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DistillSpecMetrics {
    /// Mean divergence from the target.
    pub loss: f64,
    /// Mean of `Σ_x min(p(x), q(x))`: the share of drafts that sampling accepts.
    pub acceptance: f64,
    /// Share of positions with the target's first guess.
    pub top1: f64,
    /// `None` if no prompt is decoded.
    #[serde(flatten)]
    pub decoded: Option<Decoded>,
}

/// Record of a training from scratch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PretrainMetrics {
    /// Mean cross-entropy of the assistant's tokens.
    pub answer_loss: f64,
    /// Share of them that are the first guess.
    pub answer_top1: f64,
}
