//! The `[cllm]` table.

use crate::lora::LoraConfig;
use gorgon_draft::settings::{SettingsCheck, SettingsErrors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// CLLM: the backbone is fitted so that Jacobi decoding converges in few steps.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CllmConfig {
    /// How the backbone is fitted.
    pub weights: FittedWeights,
    /// The backbone's adapter, for `weights = "lora"`.
    pub lora: LoraConfig,
    /// The side that a state is compared with.
    pub consistency: Consistency,
    /// Whether half of a state's wrong tokens, drawn at random, are corrected where at least two iterations are left. The
    /// first wrong one stays.
    pub augmented: bool,
    /// Weight `ω` of the cross-entropy of the answers relative to the consistency loss.
    pub omega: f64,
    /// Share of each label's weight that all tokens of the vocabulary share in the cross-entropy, from 0 to 1.
    pub label_smoothing: f64,
    /// Bound on the mean KL divergence to the original on held-out answers, in nats per token. A run beyond it is
    /// reported as degraded.
    pub kl_bound: f64,
}

/// How the backbone is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FittedWeights {
    /// Through a low-rank adapter.
    Lora,
    /// All of its weights.
    Full,
}

/// The side that a state of a trajectory is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Consistency {
    /// The fixed point.
    Global,
    /// The next state.
    Local,
}

impl Default for CllmConfig {
    /// The authors'.
    fn default() -> Self {
        Self {
            weights: FittedWeights::Lora,
            lora: LoraConfig::default(),
            consistency: Consistency::Global,
            augmented: false,
            omega: 10.0,
            label_smoothing: 0.1,
            kl_bound: 0.05,
        }
    }
}

impl CllmConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("cllm");
        check.not_negative("omega", self.omega);
        check.share("label_smoothing", self.label_smoothing);
        check.positive("kl_bound", self.kl_bound);
        check.include(self.lora.check("cllm.lora"));
        let is_adapted = self.weights == FittedWeights::Lora;
        check.used(is_adapted, "lora", &self.lora, &Self::default().lora, "it is for weights = \"lora\"");
        check.finish()
    }
}
