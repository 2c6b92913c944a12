//! How drafts are taken from a draft model's distributions.

use gorgon_core::accept::{ChildLaw, RuleChoice};
use gorgon_core::dist::Transform;

/// How a draft model's distributions become drafts, and whether the acceptance rule gets to see them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DraftLaw {
    /// What the distributions go through before drafts are drawn: the same as the target's.
    pub transform: Transform,
    /// How children are taken.
    pub children: ChildLaw,
    /// Whether the rule asks for the distributions.
    pub rows: bool,
    /// Drafting stops where `max q`, at temperature 1, falls below this: BiLD's fallback policy.
    pub stop: Option<f64>,
}

impl DraftLaw {
    /// The likeliest tokens, without distributions: what greedy acceptance needs.
    pub const LIKELIEST: Self =
        Self { transform: Transform::GREEDY, children: ChildLaw::Deterministic, rows: false, stop: None };

    /// What serves a rule best under a transform. Rules that compare `p` with `q` get draws from the transformed `q`,
    /// k-SEQ independent ones, the others draws without replacement; at temperature 0 these are the likeliest tokens.
    /// Cascades always mix with the whole `q`. All other rules look at the drafted tokens only, which then are the
    /// likeliest.
    pub fn of(rule: RuleChoice, transform: Transform) -> Self {
        let likeliest = Self { transform, ..Self::LIKELIEST };
        let drawn = |children| match transform.is_greedy() {
            true => likeliest,
            false => Self { children, rows: true, ..likeliest },
        };
        match rule.resolve(&transform) {
            RuleChoice::Sampling | RuleChoice::Lossy { .. } => drawn(ChildLaw::WithoutReplacement),
            RuleChoice::KSeq => drawn(ChildLaw::Independent),
            RuleChoice::Cascade { .. } => Self { rows: true, ..drawn(ChildLaw::WithoutReplacement) },
            rule @ RuleChoice::Bild { .. } => Self { stop: rule.fallback(), ..likeliest },
            RuleChoice::Auto
            | RuleChoice::Greedy
            | RuleChoice::Nucleus
            | RuleChoice::Typical { .. }
            | RuleChoice::TopBeta { .. } => likeliest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_get_what_they_compare_with() {
        let law = |rule: &str, temperature: f64| {
            DraftLaw::of(rule.parse().unwrap(), Transform::new(temperature, None, None).unwrap())
        };
        for rule in ["auto", "sampling", "lossy:0.1"] {
            assert_eq!((law(rule, 0.7).children, law(rule, 0.7).rows), (ChildLaw::WithoutReplacement, true));
            assert_eq!((law(rule, 0.0).children, law(rule, 0.0).rows), (ChildLaw::Deterministic, false));
        }
        assert_eq!((law("k-seq", 1.0).children, law("k-seq", 1.0).rows), (ChildLaw::Independent, true));
        assert_eq!((law("chow:0.1", 1.0).children, law("chow:0.1", 1.0).rows), (ChildLaw::WithoutReplacement, true));
        assert_eq!((law("chow:0.1", 0.0).children, law("chow:0.1", 0.0).rows), (ChildLaw::Deterministic, true));
        for rule in ["greedy", "nucleus", "typical", "top-beta:2,1", "bild:0.4,2"] {
            assert_eq!((law(rule, 0.7).children, law(rule, 0.7).rows), (ChildLaw::Deterministic, false), "{rule}");
        }
        assert_eq!((law("bild:0.4,2", 0.0).stop, law("greedy", 0.0).stop), (Some(0.4), None));
    }
}
