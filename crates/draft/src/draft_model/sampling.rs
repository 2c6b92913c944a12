//! How drafts are taken from a draft model's distributions.

use crate::levels::Children;
use gorgon_core::accept::{DraftScheme, RandomSource, RuleChoice, SamplingScheme};
use gorgon_core::dist::Transform;
use gorgon_core::tree::TreeBuilder;

/// How a draft model's distributions become drafts, and whether the acceptance rule gets to see them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DraftSampling {
    /// Transform applied to distributions before drafts are drawn: that of the target.
    pub transform: Transform,
    /// How children are taken.
    pub children: SamplingScheme,
    /// Whether the rule asks for the distributions.
    pub rows: bool,
    /// Drafting stops where `max q`, at temperature 1, falls below this: BiLD's fallback policy.
    pub stop: Option<f64>,
}

impl DraftSampling {
    /// The top-k tokens, without distributions, for greedy acceptance.
    pub const GREEDY: Self =
        Self { transform: Transform::GREEDY, children: SamplingScheme::Deterministic, rows: false, stop: None };

    /// Sampling that serves a rule best under a transform. Rules that compare `p` with `q` get draws from the
    /// transformed `q`, k-SEQ independent ones, the others draws without replacement; at temperature 0 these are the
    /// top-k tokens. Cascades always mix with the whole `q`. All other rules look at the drafted tokens only, which
    /// then are the top-k.
    pub fn of(rule: RuleChoice, transform: Transform) -> Self {
        let DraftScheme { scheme, rows, stop } = rule.draft_scheme(&transform);
        Self { transform, children: scheme, rows, stop }
    }

    /// True if the rule draws at random by the drafts' distributions.
    pub(crate) fn draws(&self) -> bool {
        self.rows || self.children != SamplingScheme::Deterministic
    }

    /// How the children of a tree's nodes are taken. A tree that keeps the best of its candidates keeps no draws.
    pub(crate) fn children_of<'a>(
        &self,
        tree: &dyn TreeBuilder,
        random: &'a mut dyn RandomSource,
    ) -> (SamplingScheme, Children<'a>) {
        match self.children {
            scheme if scheme != SamplingScheme::Deterministic && tree.takes_in_order() => {
                (scheme, Children::Drawn { scheme, transform: self.transform, random })
            }
            _ => (SamplingScheme::Deterministic, Children::MostLikely { stop: self.stop }),
        }
    }
}

#[cfg(test)]
mod tests;
