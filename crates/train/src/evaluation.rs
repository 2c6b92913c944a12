//! Results on held-out data: one record for each kind of method.
//!
//! `method` and the fields, in this order, are the keys of `evaluation` in `metrics.jsonl` and in the output of
//! `--json`. Losses are in nats per label unless their field says otherwise. A number that is not finite is written as
//! `null`, and read back as NaN.

mod each;
mod nullable;

pub(crate) use self::each::each;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The record of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "kebab-case")]
pub enum Metrics {
    /// Medusa, Hydra or MTP.
    Heads(HeadMetrics),
    /// Medusa-2.
    #[serde(rename = "medusa-2")]
    MedusaTwo(MedusaTwoMetrics),
    /// SPACE with its backbone; the masks are its heads, and nothing is expected of trees.
    SpaceSft(MedusaTwoMetrics),
    /// EAGLE-1 and EAGLE-2.
    Eagle(EagleMetrics),
    /// EAGLE-3.
    Eagle3(Eagle3Metrics),
    /// A block drafter.
    Block(BlockMetrics),
    /// CLLM.
    Cllm(CllmMetrics),
    /// Kangaroo.
    Kangaroo(KangarooMetrics),
    /// LayerSkip.
    #[serde(rename = "layerskip")]
    LayerSkip(LayerSkipMetrics),
    /// DistillSpec.
    DistillSpec(DistillSpecMetrics),
    /// Pretraining.
    Pretrain(PretrainMetrics),
}

/// Fields that tell the method of a record which does not name it; the first that is there decides.
const TELLING: [(&str, &str); 7] = [
    ("kl", "medusa-2"),
    ("head_loss", "heads"),
    ("step_loss", "eagle3"),
    ("slot_loss", "block"),
    ("acceptance", "distill-spec"),
    ("regression", "eagle"),
    ("answer_loss", "pretrain"),
];

impl Metrics {
    /// Reads a record. Records of earlier versions name no method; their fields tell it.
    ///
    /// # Errors
    /// When a field is missing or of another type, or nothing tells the method.
    pub fn read(record: &Value) -> serde_json::Result<Self> {
        let mut record = record.clone();
        if let Some(fields) = record.as_object_mut()
            && !fields.contains_key("method")
            && let Some((_, method)) = TELLING.iter().find(|(field, _)| fields.contains_key(*field))
        {
            fields.insert("method".into(), (*method).into());
        }
        serde_json::from_value(record)
    }

    /// The loss on held-out data.
    pub fn loss(&self) -> f64 {
        match self {
            Self::Heads(metrics) => metrics.loss,
            Self::MedusaTwo(metrics) | Self::SpaceSft(metrics) => metrics.loss,
            Self::Eagle(metrics) => metrics.loss,
            Self::Eagle3(metrics) => metrics.loss,
            Self::Block(metrics) => metrics.loss,
            Self::Cllm(metrics) => metrics.loss,
            Self::Kangaroo(metrics) => metrics.loss,
            Self::LayerSkip(metrics) => metrics.loss,
            Self::DistillSpec(metrics) => metrics.loss,
            Self::Pretrain(metrics) => metrics.answer_loss,
        }
    }

    /// How many drafts are accepted, as predictions of held-out text tell it: those that a step with a chain of first
    /// guesses is expected to accept, `Σ_i Π_{j<=i} top1_j`, or the share of first drafts where later ones were not
    /// measured. `None` of what does not draft for an unchanged model.
    pub fn acceptance(&self) -> Option<f64> {
        let chain = |shares: &[f64]| {
            let reached = shares.iter().scan(1.0, |reached, share| {
                *reached *= share;
                Some(*reached)
            });
            Some(reached.fold(0.0, |sum, reached| sum + reached))
        };
        match self {
            Self::Heads(metrics) => Some(metrics.ranks.length_chain - 1.0),
            Self::Eagle(metrics) => Some(metrics.top1),
            Self::Eagle3(metrics) => chain(&metrics.step_top1),
            Self::Block(metrics) => chain(&metrics.slot_top1),
            Self::Kangaroo(metrics) => Some(metrics.top1),
            Self::DistillSpec(metrics) => Some(metrics.acceptance),
            Self::MedusaTwo(_) | Self::SpaceSft(_) | Self::Cllm(_) | Self::LayerSkip(_) | Self::Pretrain(_) => None,
        }
    }

    /// Tokens per step when held-out prompts are decoded; `None` if none are.
    pub fn tau(&self) -> Option<f64> {
        let of = |decoded: &Option<Decoded>| decoded.as_ref().map(|decoded| decoded.tokens_per_step);
        match self {
            Self::Heads(metrics) => metrics.tau,
            Self::MedusaTwo(metrics) | Self::SpaceSft(metrics) => metrics.tau,
            Self::Eagle(metrics) => of(&metrics.decoded),
            Self::Eagle3(metrics) => of(&metrics.decoded),
            Self::Block(metrics) => of(&metrics.decoded),
            Self::Cllm(metrics) => of(&metrics.decoded),
            Self::Kangaroo(metrics) => of(&metrics.decoded),
            Self::LayerSkip(metrics) => of(&metrics.decoded),
            Self::DistillSpec(metrics) => of(&metrics.decoded),
            Self::Pretrain(_) => None,
        }
    }
}

/// Losses and ranks of heads, each list with an entry per head.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeadRanks {
    /// Mean cross-entropy.
    #[serde(deserialize_with = "nullable::numbers")]
    pub head_loss: Vec<f64>,
    /// Share of labels that are the head's first guess.
    #[serde(deserialize_with = "nullable::numbers")]
    pub top1: Vec<f64>,
    /// Share of labels among the head's first five guesses.
    #[serde(deserialize_with = "nullable::numbers")]
    pub top5: Vec<f64>,
    /// Expected tokens per step with a chain of first guesses.
    #[serde(deserialize_with = "nullable::number")]
    pub length_chain: f64,
    /// Expected tokens per step with the tree `mc_sim_7b_63`.
    #[serde(deserialize_with = "nullable::number")]
    pub length_tree: f64,
}

/// Record of heads on a frozen backbone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeadMetrics {
    /// `Σ_k λ_k · loss_k`.
    #[serde(deserialize_with = "nullable::number")]
    pub loss: f64,
    /// By head.
    #[serde(flatten)]
    pub ranks: HeadRanks,
    /// Tokens per step when held-out prompts are decoded; `None` if none are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tau: Option<f64>,
}

/// Record of heads and backbone together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MedusaTwoMetrics {
    /// By head.
    #[serde(flatten)]
    pub ranks: HeadRanks,
    /// `kl + λ₀ · Σ_k λ_k · loss_k`.
    #[serde(deserialize_with = "nullable::number")]
    pub loss: f64,
    /// `KL(original || adapted)` in nats per token.
    #[serde(deserialize_with = "nullable::number")]
    pub kl: f64,
    /// Share of tokens at which the adapted and the original backbone have the same first guess.
    #[serde(deserialize_with = "nullable::number")]
    pub agreement: f64,
    /// Perplexity of the adapted backbone.
    #[serde(deserialize_with = "nullable::number")]
    pub perplexity: f64,
    /// Perplexity of the original.
    #[serde(deserialize_with = "nullable::number")]
    pub perplexity_before: f64,
    /// True if `kl` is above `medusa2.kl_bound`.
    pub degraded: bool,
    /// Tokens per step when held-out prompts are decoded; `None` if none are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tau: Option<f64>,
}

/// Greedy decoding of held-out prompts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Decoded {
    /// Mean tokens per step, the bonus token included.
    #[serde(rename = "tau", deserialize_with = "nullable::number")]
    pub tokens_per_step: f64,
    /// Entry `i`: the share of steps with at least `i + 1` accepted drafts.
    #[serde(rename = "accepted_by_depth", default, deserialize_with = "nullable::numbers")]
    pub by_depth: Vec<f64>,
}

/// Record of an EAGLE draft layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EagleMetrics {
    /// `regression + w · cross_entropy`.
    #[serde(deserialize_with = "nullable::number")]
    pub loss: f64,
    /// Smooth L1 distance of the features.
    #[serde(deserialize_with = "nullable::number")]
    pub regression: f64,
    /// Cross-entropy with the backbone's distribution.
    #[serde(deserialize_with = "nullable::number")]
    pub cross_entropy: f64,
    /// Share of pairs whose first guess is the backbone's.
    #[serde(deserialize_with = "nullable::number")]
    pub top1: f64,
    /// Share of pairs with the backbone's first guess among five.
    #[serde(deserialize_with = "nullable::number")]
    pub top5: f64,
    /// `None` if no prompt is decoded.
    #[serde(flatten)]
    pub decoded: Option<Decoded>,
}

/// Record of an EAGLE-3 draft layer; lists have an entry per unrolled step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Eagle3Metrics {
    /// `Σ_s decay^s · loss_s`.
    #[serde(deserialize_with = "nullable::number")]
    pub loss: f64,
    /// Mean cross-entropy.
    #[serde(deserialize_with = "nullable::numbers")]
    pub step_loss: Vec<f64>,
    /// Share of rows whose first guess is the backbone's.
    #[serde(deserialize_with = "nullable::numbers")]
    pub step_top1: Vec<f64>,
    /// That of the first step.
    #[serde(deserialize_with = "nullable::number")]
    pub top1: f64,
    /// Share of rows with the backbone's first guess among five, in the first step.
    #[serde(deserialize_with = "nullable::number")]
    pub top5: f64,
    /// Share of rows whose token is in the draft vocabulary.
    #[serde(deserialize_with = "nullable::number")]
    pub draftable: f64,
    /// `None` if no prompt is decoded.
    #[serde(flatten)]
    pub decoded: Option<Decoded>,
}

/// Record of a block drafter; lists have an entry per drafted slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockMetrics {
    /// Mean over blocks of `Σ_k w_k · loss_k`.
    #[serde(deserialize_with = "nullable::number")]
    pub loss: f64,
    /// Mean cross-entropy.
    #[serde(deserialize_with = "nullable::numbers")]
    pub slot_loss: Vec<f64>,
    /// Mean cross-entropy of the selector among a slot's candidates; empty without a selector.
    #[serde(default, deserialize_with = "nullable::numbers", skip_serializing_if = "Vec::is_empty")]
    pub selector_loss: Vec<f64>,
    /// Share of labels that are the slot's first guess.
    #[serde(deserialize_with = "nullable::numbers")]
    pub slot_top1: Vec<f64>,
    /// That of the first slot.
    #[serde(deserialize_with = "nullable::number")]
    pub top1: f64,
    /// `None` if no prompt is decoded.
    #[serde(flatten)]
    pub decoded: Option<Decoded>,
}

/// Record of a backbone that is fitted for Jacobi decoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CllmMetrics {
    /// `consistency + ω · text_loss`.
    #[serde(deserialize_with = "nullable::number")]
    pub loss: f64,
    /// Mean over states of `Σ_i KL`.
    #[serde(deserialize_with = "nullable::number")]
    pub consistency: f64,
    /// Mean cross-entropy of the text.
    #[serde(deserialize_with = "nullable::number")]
    pub text_loss: f64,
    /// `KL(original || fitted)` in nats per token.
    #[serde(deserialize_with = "nullable::number")]
    pub kl: f64,
    /// Share of tokens at which the fitted and the original backbone have the same first guess.
    #[serde(deserialize_with = "nullable::number")]
    pub agreement: f64,
    /// Perplexity of the fitted backbone.
    #[serde(deserialize_with = "nullable::number")]
    pub perplexity: f64,
    /// Perplexity of the original.
    #[serde(deserialize_with = "nullable::number")]
    pub perplexity_before: f64,
    /// True if `kl` is above `cllm.kl_bound`.
    pub degraded: bool,
    /// Jacobi decoding of held-out prompts; `None` if no prompt is decoded.
    #[serde(flatten)]
    pub decoded: Option<Decoded>,
}

/// Record of an adapter on an early exit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KangarooMetrics {
    /// Mean cross-entropy with the backbone's distribution.
    #[serde(deserialize_with = "nullable::number")]
    pub loss: f64,
    /// Share of tokens whose first guess is the backbone's.
    #[serde(deserialize_with = "nullable::number")]
    pub top1: f64,
    /// Share of tokens with the backbone's first guess among five.
    #[serde(deserialize_with = "nullable::number")]
    pub top5: f64,
    /// `None` if no prompt is decoded.
    #[serde(flatten)]
    pub decoded: Option<Decoded>,
}

/// Record of a model whose early layers draft; lists have an entry per layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerSkipMetrics {
    /// Weighted mean of the exits' losses, as at the end of a curriculum.
    #[serde(deserialize_with = "nullable::number")]
    pub loss: f64,
    /// Mean cross-entropy of answers at the exit behind each layer, the last one being the model's own.
    #[serde(deserialize_with = "nullable::numbers")]
    pub exit_loss: Vec<f64>,
    /// Share of answers' tokens that are the exit's first guess.
    #[serde(deserialize_with = "nullable::numbers")]
    pub exit_top1: Vec<f64>,
    /// That of the whole model.
    #[serde(deserialize_with = "nullable::number")]
    pub top1: f64,
    /// `None` if no prompt is decoded.
    #[serde(flatten)]
    pub decoded: Option<Decoded>,
}

/// Record of a draft model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DistillSpecMetrics {
    /// Mean divergence from the target.
    #[serde(deserialize_with = "nullable::number")]
    pub loss: f64,
    /// Mean of `Σ_x min(p(x), q(x))`: the share of drafts that sampling accepts.
    #[serde(deserialize_with = "nullable::number")]
    pub acceptance: f64,
    /// Share of positions with the target's first guess.
    #[serde(deserialize_with = "nullable::number")]
    pub top1: f64,
    /// `None` if no prompt is decoded.
    #[serde(flatten)]
    pub decoded: Option<Decoded>,
}

/// Record of a training from scratch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PretrainMetrics {
    /// Mean cross-entropy of the assistant's tokens.
    #[serde(deserialize_with = "nullable::number")]
    pub answer_loss: f64,
    /// Share of them that are the first guess.
    #[serde(deserialize_with = "nullable::number")]
    pub answer_top1: f64,
}

#[cfg(test)]
mod tests;
