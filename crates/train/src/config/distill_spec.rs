//! The `[distill_spec]` table.

use super::training::MOST_TOKENS;
use gorgon_draft::settings::{SettingsCheck, SettingsErrors};
use gorgon_kernels::linear_divergence::Divergence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// DistillSpec: a draft model fitted to a target (Zhou et al. 2024).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DistillSpecConfig {
    /// Folder of the draft model to start from. It has to be named.
    pub draft: PathBuf,
    /// Folders of draft models that were fitted before this one, or of the runs that fitted them. Tokens that one of them
    /// predicts have no weight (SpecInfer's boost-tuning).
    pub earlier: Vec<PathBuf>,
    /// With `earlier`: a token is predicted if it is one of so many most likely tokens.
    pub earlier_top_k: usize,
    /// Divergence to minimise.
    pub divergence: Measure,
    /// Weight β of `jsd`, between 0 and 1.
    pub beta: f32,
    /// Answers that the draft model is fitted on.
    pub answers: Answers,
    /// With `answers = "draft"`: optimizer steps between one writing of answers and the next.
    pub every: u64,
    /// With `answers = "draft"`: new tokens of an answer at most.
    pub max_new_tokens: usize,
    /// With `answers = "draft"`: sampling temperature of the draft model.
    pub temperature: f64,
}

impl Default for DistillSpecConfig {
    fn default() -> Self {
        Self {
            draft: PathBuf::new(),
            earlier: vec![],
            earlier_top_k: 1,
            divergence: Measure::Fkl,
            beta: 0.5,
            answers: Answers::Draft,
            every: 50,
            max_new_tokens: 128,
            temperature: 1.0,
        }
    }
}

/// A divergence by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Forward KL, `KL(p ‖ q)`.
    Fkl,
    /// Reverse KL, `KL(q ‖ p)`.
    Rkl,
    /// Jensen-Shannon, generalised by β.
    Jsd,
    /// Total variation: the share of drafts that is rejected.
    Tvd,
}

/// The answers that a draft model is fitted on. In both cases it is fitted to the target's distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Answers {
    /// Those of the shards: the target's own, or the data's, as they were distilled.
    Data,
    /// The draft model's own, written again every `every` steps.
    Draft,
}

impl DistillSpecConfig {
    /// The divergence.
    pub fn divergence(&self) -> Divergence {
        match self.divergence {
            Measure::Fkl => Divergence::ForwardKl,
            Measure::Rkl => Divergence::ReverseKl,
            Measure::Jsd => Divergence::JensenShannon(self.beta),
            Measure::Tvd => Divergence::TotalVariation,
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("distill_spec");
        let named = !self.draft.as_os_str().is_empty();
        check.require(named, "draft", "\"\"", "it has to name the folder of a draft model");
        check.require(self.earlier_top_k > 0, "earlier_top_k", self.earlier_top_k, "it has to be at least 1");
        check.require(self.beta > 0.0 && self.beta < 1.0, "beta", self.beta, "it has to be between 0 and 1");
        check.not_negative("temperature", self.temperature);
        check.require(self.every > 0, "every", self.every, "it has to be at least 1");
        check.within("max_new_tokens", self.max_new_tokens as u64, 1..=MOST_TOKENS);
        let (default, has_earlier) = (Self::default(), !self.earlier.is_empty());
        check.used(has_earlier, "earlier_top_k", &self.earlier_top_k, &default.earlier_top_k, "it is for earlier");
        let is_jsd = self.divergence == Measure::Jsd;
        check.used(is_jsd, "beta", &self.beta, &default.beta, "it is for divergence = \"jsd\"");
        let (writes, reason) = (self.answers == Answers::Draft, "it is for answers = \"draft\"");
        check.used(writes, "every", &self.every, &default.every, reason);
        check.used(writes, "max_new_tokens", &self.max_new_tokens, &default.max_new_tokens, reason);
        check.used(writes, "temperature", &self.temperature, &default.temperature, reason);
        check.finish()
    }
}
