//! How backbone and heads are fitted together.

use crate::error::TrainError;
use crate::lora::LoraConfig;
use serde::{Deserialize, Serialize};

/// The config of Medusa-2.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct MedusaTwoConfig {
    /// The backbone's adapter.
    pub lora: LoraConfig,
    /// `λ₀`: what the heads' loss counts beside the language loss.
    pub heads_weight: f64,
    /// How the two are brought together.
    pub warmup: Warmup,
    /// Share of the steps that the warm-up takes.
    pub warmup_share: f64,
    /// The adapter's learning rate relative to the heads'.
    pub backbone_rate: f64,
    /// What keeps the backbone's language.
    pub language: LanguageLoss,
    /// Mean KL divergence to the original on held-out answers, in nats per token, beyond which a run is called
    /// degraded.
    pub kl_bound: f64,
}

/// How heads that know nothing yet are kept from spoiling the backbone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warmup {
    /// First the heads alone, then both, the adapter's rate rising over as many steps.
    TwoStage,
    /// `λ₀` rises from 0.
    Ramp,
}

/// The language loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
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
    /// Fails on settings that cannot be.
    ///
    /// # Errors
    /// With the key and the value.
    pub fn check(&self) -> Result<(), TrainError> {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let numbers = [
            ("heads_weight", self.heads_weight, positive(self.heads_weight), "above 0"),
            ("warmup_share", self.warmup_share, (0.0..=0.5).contains(&self.warmup_share), "between 0 and 0.5"),
            ("backbone_rate", self.backbone_rate, positive(self.backbone_rate), "above 0"),
            ("kl_bound", self.kl_bound, positive(self.kl_bound), "above 0"),
        ];
        if let Some((key, value, _, want)) = numbers.iter().find(|(_, _, fine, _)| !fine) {
            let reason = format!("it has to be {want}");
            return Err(TrainError::Setting { key: format!("medusa2.{key}"), value: value.to_string(), reason });
        }
        self.lora.check()
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
