//! The `[space_sft]` table.

use super::cllm::FittedWeights;
use crate::lora::LoraConfig;
use gorgon_core::Token;
use gorgon_draft::format::MAX_PLACES;
use gorgon_draft::settings::{SettingsCheck, SettingsErrors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// SPACE as published: the backbone and its mask token are fitted together.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpaceSftConfig {
    /// How the backbone is fitted.
    pub weights: FittedWeights,
    /// The backbone's adapter, for `weights = "lora"`.
    pub lora: LoraConfig,
    /// Masks behind every candidate, `k`, 1 to 16.
    pub masks: usize,
    /// The token whose embedding the mask starts from; the backbone's last one if it is not set.
    pub mask_token: Option<Token>,
    /// Share of the conversations, 0 to 1, that a step cuts at a random token of an answer and continues with masks.
    pub cut: f64,
    /// Bound on the mean KL divergence to the original on held-out answers, in nats per token. A run beyond it is
    /// reported as degraded.
    pub kl_bound: f64,
}

impl Default for SpaceSftConfig {
    /// The authors'.
    fn default() -> Self {
        Self {
            weights: FittedWeights::Full,
            lora: LoraConfig::default(),
            masks: 5,
            mask_token: None,
            cut: 0.5,
            kl_bound: 0.05,
        }
    }
}

impl SpaceSftConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("space_sft");
        check.within("masks", self.masks as u64, 1..=MAX_PLACES as u64);
        check.share("cut", self.cut);
        check.positive("kl_bound", self.kl_bound);
        check.include(self.lora.check("space_sft.lora"));
        let is_adapted = self.weights == FittedWeights::Lora;
        check.used(is_adapted, "lora", &self.lora, &Self::default().lora, "it is for weights = \"lora\"");
        check.finish()
    }
}
