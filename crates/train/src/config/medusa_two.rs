//! The `[medusa2]` table.

use crate::lora::LoraConfig;
use gorgon_draft::settings::{SettingsCheck, SettingsErrors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Medusa-2: backbone and heads together.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MedusaTwoConfig {
    /// The backbone's adapter.
    pub lora: LoraConfig,
    /// Weight `λ₀` of the heads' loss relative to the language loss.
    pub heads_weight: f64,
    /// How the backbone joins the heads.
    pub warmup: Warmup,
    /// Share of the steps that the warm-up takes, from 0 to 0.5.
    pub warmup_share: f64,
    /// The adapter's learning rate relative to the heads'.
    pub backbone_rate: f64,
    /// The language loss, which keeps the backbone's outputs.
    pub language: LanguageLoss,
    /// Bound on the mean KL divergence to the original on held-out answers, in nats per token. A run beyond it is
    /// reported as degraded.
    pub kl_bound: f64,
}

/// How untrained heads are kept from changing the backbone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Warmup {
    /// First the heads alone, then both, the adapter's rate rising over as many steps.
    TwoStage,
    /// `λ₀` rises from 0.
    Ramp,
}

/// The language loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LanguageLoss {
    /// `KL(original || adapted)`: for answers that the backbone gave itself.
    Kl,
    /// Cross-entropy of the labels: for data that the backbone was fitted to.
    CrossEntropy,
}

impl Default for MedusaTwoConfig {
    fn default() -> Self {
        Self {
            lora: LoraConfig::default(),
            heads_weight: 0.2,
            warmup: Warmup::TwoStage,
            warmup_share: 0.25,
            backbone_rate: 0.25,
            language: LanguageLoss::Kl,
            kl_bound: 0.05,
        }
    }
}

impl MedusaTwoConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("medusa2");
        check.positive("heads_weight", self.heads_weight);
        let warmup = (0.0..=0.5).contains(&self.warmup_share);
        check.require(warmup, "warmup_share", self.warmup_share, "it has to be between 0 and 0.5");
        check.rate("backbone_rate", self.backbone_rate);
        check.positive("kl_bound", self.kl_bound);
        check.include(self.lora.check("medusa2.lora"));
        check.finish()
    }

    /// `λ₀` at `step` of `steps`, and the adapter's learning rate relative to the heads'.
    pub fn balance(&self, step: u64, steps: u64) -> (f64, f64) {
        let warm = self.warmup_share * steps as f64;
        let (at, full) = (step as f64, (self.heads_weight, self.backbone_rate));
        match self.warmup {
            Warmup::TwoStage if at < warm => (self.heads_weight, 0.0),
            // The rate rises once the heads are warm, over as many steps again.
            Warmup::TwoStage => (full.0, full.1 * ((at - warm + 1.0) / warm.max(1.0)).min(1.0)),
            Warmup::Ramp => (full.0 * ((at + 1.0) / warm.max(1.0)).min(1.0), full.1),
        }
    }
}

#[cfg(test)]
mod tests;
