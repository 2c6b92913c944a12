//! How many heads, and what their tensors are called.

pub use crate::parameter::{Init, ParameterSpec};
use crate::settings::{SettingsCheck, SettingsErrors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Most heads that can be trained.
pub const MAX_HEADS: usize = 8;
/// Most residual blocks of a head.
pub const MAX_BLOCKS: usize = 8;

/// Medusa heads on a frozen backbone.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MedusaConfig {
    /// Number of heads, `K`: the tokens drafted in a step, 1 to 8.
    pub heads: usize,
    /// Residual blocks of each head, 1 to 8.
    pub blocks: usize,
    /// Whether each head has an LM head of its own, which starts as the backbone's. Otherwise all share the backbone's.
    pub own_lm_heads: bool,
    /// Weight of head `k` in the loss: `decay^k`, from 0 to 1.
    pub decay: f64,
    /// Weights of single labels in the loss, beside the head's.
    pub label_weights: LabelWeights,
    /// D-PACE: share of a label's probability that counts as 1, from 0 to 1.
    pub alpha: f64,
}

/// Weights of a head's labels in its loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LabelWeights {
    /// All labels of a head count alike, as in the paper.
    #[default]
    Equal,
    /// How many more tokens are accepted if the head is right there, by the heads' present probabilities
    /// (arXiv 2605.18810).
    DPace,
}

impl Default for MedusaConfig {
    fn default() -> Self {
        Self { heads: 4, blocks: 1, own_lm_heads: false, decay: 0.8, label_weights: LabelWeights::Equal, alpha: 0.5 }
    }
}

impl MedusaConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("medusa");
        let heads = (1..=MAX_HEADS).contains(&self.heads);
        check.require(heads, "heads", self.heads, format_args!("1 to {MAX_HEADS} can be trained"));
        let blocks = (1..=MAX_BLOCKS).contains(&self.blocks);
        check.require(blocks, "blocks", self.blocks, format_args!("a head has 1 to {MAX_BLOCKS}"));
        check.decay("decay", self.decay);
        check.require((0.0..=1.0).contains(&self.alpha), "alpha", self.alpha, "it has to be from 0 to 1");
        let weighs = self.label_weights == LabelWeights::DPace;
        check.used(weighs, "alpha", &self.alpha, &Self::default().alpha, "it is for label_weights = \"d-pace\"");
        check.finish()
    }

    /// Weight of head `head` (from 0) in the loss: `decay^k`, `k = head + 1`.
    pub fn weight(&self, head: usize) -> f64 {
        self.decay.powi(head as i32 + 1)
    }

    /// All tensors, head by head: `{head}.{block}.linear.{weight,bias}`, and `{head}.{blocks}.weight` for an own LM
    /// head.
    pub fn parameters(&self, hidden_size: usize, vocab_size: usize) -> Vec<ParameterSpec> {
        let (d, mut all) = (hidden_size, vec![]);
        for head in 0..self.heads {
            for block in 0..self.blocks {
                let mut add = |part: &str, shape: Vec<usize>| {
                    let name = format!("{head}.{block}.linear.{part}");
                    all.push(ParameterSpec { name, shape, init: Init::Zero });
                };
                add("weight", vec![d, d]);
                add("bias", vec![d]);
            }
            if self.own_lm_heads {
                let name = format!("{head}.{}.weight", self.blocks);
                all.push(ParameterSpec { name, shape: vec![vocab_size, d], init: Init::LmHead });
            }
        }
        all
    }

    /// The `config.json` of a folder with these heads.
    pub fn document(&self, hidden_size: usize, vocab_size: usize, base: &str) -> Value {
        json!({
            "medusa_num_heads": self.heads, "medusa_num_layers": self.blocks,
            "base_model_name_or_path": base, "hidden_size": hidden_size, "vocab_size": vocab_size,
            "shares_lm_head": !self.own_lm_heads
        })
    }
}
