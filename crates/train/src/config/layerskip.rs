//! The `[layerskip]` table, and the schedules that it sets (LayerSkip, Elhoushi et al., 2024,
//! <https://arxiv.org/abs/2404.16710>, section 4.1).

use super::cllm::FittedWeights;
use crate::lora::LoraConfig;
use gorgon_draft::settings::{SettingsCheck, SettingsErrors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::f64::consts::LN_2;

/// The greatest weight of early exits: beyond it the last layer has none to speak of.
const MOST_SCALE: f64 = 1000.0;

/// LayerSkip: a whole model fitted so that its early layers draft.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LayerSkipConfig {
    /// How the model is fitted.
    pub weights: FittedWeights,
    /// The model's adapter, for `weights = "lora"`.
    pub lora: LoraConfig,
    /// The rate `p_max`, 0 to 1, at which the last layer is left out of a conversation. Layer `l` of `L` has the rate
    /// `D(l) p_max` with `D(l) = e^{l ln 2 / (L - 1)} - 1`.
    pub dropout: f64,
    /// Whether the rates rise from 0 over the training, by `e^{t ln 2 / (T - 1)} - 1`: for models from scratch.
    pub rising: bool,
    /// Weight of the early exits' losses, `e_scale`.
    pub exit_scale: f64,
    /// The exits that have a loss at a step.
    pub curriculum: Curriculum,
    /// With `curriculum = "rotational"`: every so many layers have an exit, shifted by one at each step.
    pub every: usize,
    /// Layers that draft when an evaluation decodes; a quarter of them, at least one, unless named.
    pub exit_layer: Option<usize>,
}

/// The exits that have a loss at a step. The last layer always has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Curriculum {
    /// Every `R`-th layer, shifted by one at each step.
    Rotational,
    /// From the last layer down to the first over the first half of the training.
    Gradual,
    /// All layers.
    All,
}

impl Default for LayerSkipConfig {
    /// Those of the published fine-tuning.
    fn default() -> Self {
        Self {
            weights: FittedWeights::Full,
            lora: LoraConfig::default(),
            dropout: 0.2,
            rising: false,
            exit_scale: 1.0,
            curriculum: Curriculum::Gradual,
            every: 4,
            exit_layer: None,
        }
    }
}

impl LayerSkipConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("layerskip");
        check.share("dropout", self.dropout);
        let scale = (0.0..=MOST_SCALE).contains(&self.exit_scale);
        let reason = format_args!("it has to be from 0 to {MOST_SCALE}");
        check.require(scale, "exit_scale", self.exit_scale, reason);
        check.at_least("every", self.every, 1);
        check.at_least("exit_layer", self.exit_layer.unwrap_or(1), 1);
        check.include(self.lora.check("layerskip.lora"));
        let (default, rotates) = (Self::default(), self.curriculum == Curriculum::Rotational);
        check.used(rotates, "every", &self.every, &default.every, "it is for curriculum = \"rotational\"");
        check.used(
            self.weights == FittedWeights::Lora,
            "lora",
            &self.lora,
            &default.lora,
            "it is for weights = \"lora\"",
        );
        check.finish()
    }

    /// Layers that draft in evaluations of a model with `layers` layers.
    ///
    /// # Errors
    /// One line, when it has too few.
    pub fn drafting(&self, layers: usize) -> Result<usize, String> {
        let exit = self.exit_layer.unwrap_or((layers / 4).max(1));
        match exit < layers {
            true => Ok(exit),
            false => Err(format!("layerskip.exit_layer = {exit}: the model has {layers} layers, and fewer draft")),
        }
    }

    /// The rate at which each layer is left out at step `t` of `steps`.
    pub fn rates(&self, layers: usize, t: u64, steps: u64) -> Vec<f64> {
        let rising = if self.rising { doubling(t, steps) } else { 1.0 };
        (0..layers as u64).map(|l| rising * doubling(l, layers as u64) * self.dropout).collect()
    }

    /// The exits that have a loss at step `t` of `steps`.
    pub fn exits(&self, layers: usize, t: u64, steps: u64) -> Vec<bool> {
        let every = self.every.max(1) as u64;
        let counts = |l: u64| match self.curriculum {
            Curriculum::All => true,
            Curriculum::Rotational => l % every == t % every,
            // 2 t / T ≥ (L - l) / L, in whole numbers.
            Curriculum::Gradual => {
                2 * u128::from(t) * layers as u128 >= u128::from(steps) * (layers as u128 - u128::from(l))
            }
        };
        (0..layers as u64).map(|l| l + 1 == layers as u64 || counts(l)).collect()
    }

    /// The weight of each exit's loss where these exits have one: `C(l) e(l) / Σ C e`, with
    /// `e(l) = e_scale (0 + 1 + … + l)` and, for the last layer, `L - 1 + e_scale (0 + 1 + … + (L - 2))`.
    pub fn weights(&self, exits: &[bool]) -> Vec<f64> {
        let layers = exits.len();
        let sum_to = |l: usize| (l * (l + 1) / 2) as f64;
        let of = |l: usize| match l + 1 == layers {
            true => l as f64 + self.exit_scale * sum_to(l.saturating_sub(1)),
            false => self.exit_scale * sum_to(l),
        };
        let all: Vec<f64> = (0..layers).map(|l| if exits[l] { of(l) } else { 0.0 }).collect();
        let total: f64 = all.iter().sum();
        // A single layer has no weight of its own to speak of: it is all there is.
        match total > 0.0 {
            true => all.into_iter().map(|weight| weight / total).collect(),
            false => (0..layers).map(|l| f64::from(u8::from(l + 1 == layers))).collect(),
        }
    }
}

/// `e^{i ln 2 / (n - 1)} - 1`: from 0 at the first of `n` to 1 at the last.
fn doubling(i: u64, n: u64) -> f64 {
    (i as f64 * LN_2 / n.saturating_sub(1).max(1) as f64).exp() - 1.0
}

#[cfg(test)]
mod tests;
