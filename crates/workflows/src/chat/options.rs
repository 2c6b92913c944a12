//! How a chat answers, and how `/set` changes it.

use super::command::Setting;
use gorgon_core::accept::RuleChoice;
use gorgon_core::dist::{Transform, TransformError};
use gorgon_core::tree::TreeChoice;
use gorgon_draft::choice::DrafterChoice;
use std::path::PathBuf;

/// The options of a chat.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// A folder of draft heads.
    pub heads: Option<PathBuf>,
    /// The drafter.
    pub drafter: DrafterChoice,
    /// The tree; none takes the drafter's default.
    pub tree: Option<TreeChoice>,
    /// The acceptance rule.
    pub accept: RuleChoice,
    /// 0 takes the top-1 token.
    pub temperature: f64,
    /// Probability of the tokens that are sampled from.
    pub top_p: Option<f64>,
    /// Number of tokens that are sampled from.
    pub top_k: Option<usize>,
    /// New tokens of an answer at most.
    pub max_new_tokens: usize,
    /// Seed of the random source.
    pub seed: u64,
}

impl Options {
    /// Transform of the model's distribution before a token is sampled.
    ///
    /// # Errors
    /// When a number is out of range.
    pub fn transform(&self) -> Result<Transform, TransformError> {
        Transform::new(self.temperature, self.top_k, self.top_p)
    }

    /// With one setting changed.
    pub fn with(&self, setting: Setting) -> Self {
        let mut changed = self.clone();
        match setting {
            Setting::Temperature(temperature) => changed.temperature = temperature,
            Setting::TopP(top_p) => changed.top_p = top_p,
            Setting::TopK(top_k) => changed.top_k = top_k,
            Setting::MaxNewTokens(tokens) => changed.max_new_tokens = tokens,
            Setting::Seed(seed) => changed.seed = seed,
            Setting::Drafter(drafter) => changed.drafter = drafter,
            Setting::Tree(tree) => changed.tree = tree,
            Setting::Accept(accept) => changed.accept = accept,
        }
        changed
    }
}
