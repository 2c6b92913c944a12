//! Lossy rules but for their α.

use gorgon_core::accept::{ChoiceError, Deferral, RuleChoice};
use gorgon_core::dist::Transform;
use std::fmt;
use std::str::FromStr;

/// A lossy acceptance rule whose α is open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Family {
    /// A speculative cascade.
    Cascade(Deferral),
    /// Lossy speculative sampling with β = 1.
    Lossy,
    /// Leviathan's lossy greedy decoding: [`Self::Lossy`] at temperature 0, whatever the temperature of the others.
    LossyGreedy,
    /// BiLD: drafting stops where `max q` falls below the fallback threshold, and the target rolls back where
    /// `p(x) < 1 − α`, which is `α_RB = −ln(1 − α)`.
    Bild {
        /// `α_FB`; 0 if not given.
        fallback: f64,
    },
    /// SpecDec's: a draft is among the target's `beta` top tokens, with at least `1 − α` of the top-1 token's
    /// probability, which is `τ = −ln(1 − α)`.
    TopBeta {
        /// How many tokens; 3 if not given, as in SpecDec.
        beta: usize,
    },
}

/// SpecDec's number of top tokens.
const TOP_BETA: usize = 3;

impl Family {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Cascade(Deferral::Chow),
        Self::Cascade(Deferral::Diff),
        Self::Cascade(Deferral::Opt),
        Self::Cascade(Deferral::TokenV1),
        Self::Cascade(Deferral::TokenV2),
        Self::Cascade(Deferral::TokenV3),
        Self::Lossy,
        Self::LossyGreedy,
        Self::Bild { fallback: 0.0 },
        Self::TopBeta { beta: TOP_BETA },
    ];

    /// Its name, as in a list of rules.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cascade(Deferral::Chow) => "chow",
            Self::Cascade(Deferral::Diff) => "diff",
            Self::Cascade(Deferral::Opt) => "opt",
            Self::Cascade(Deferral::TokenV1) => "token-v1",
            Self::Cascade(Deferral::TokenV2) => "token-v2",
            Self::Cascade(Deferral::TokenV3) => "token-v3",
            Self::Lossy => "lossy",
            Self::LossyGreedy => "lossy-greedy",
            Self::Bild { .. } => "bild",
            Self::TopBeta { .. } => "top-beta",
        }
    }

    /// The rule with an α.
    ///
    /// # Errors
    /// When the α is out of the rule's range.
    pub fn rule(self, alpha: f64) -> Result<RuleChoice, ChoiceError> {
        match self {
            Self::Cascade(_) => format!("{}:{alpha}", self.name()).parse(),
            Self::Lossy | Self::LossyGreedy => format!("lossy:{alpha}").parse(),
            // `-ln 1` is a negative zero.
            Self::Bild { fallback } => format!("bild:{fallback},{}", (1.0 - alpha).ln().abs()).parse(),
            Self::TopBeta { beta } => format!("top-beta:{beta},{}", (1.0 - alpha).ln().abs()).parse(),
        }
    }

    /// Transform of this family where the other families use `transform`.
    pub fn transform(self, transform: Transform) -> Transform {
        match self {
            Self::LossyGreedy => Transform::GREEDY,
            _ => transform,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bild { fallback } if *fallback > 0.0 => write!(f, "bild:{fallback}"),
            Self::TopBeta { beta } if *beta != TOP_BETA => write!(f, "top-beta:{beta}"),
            family => f.write_str(family.name()),
        }
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|family| family.name() == text);
        let unknown = || {
            let known: Vec<&str> = Self::ALL.map(Self::name).to_vec();
            format!(
                "no rule is swept as {text:?}: expected names without their parameters: {} bild:FB or top-beta:B",
                known.join(", ")
            )
        };
        match (named, text.split_once(':')) {
            (Some(family), _) => Ok(family),
            (None, Some(("bild", fallback))) => match fallback.parse::<f64>() {
                Ok(fallback) if (0.0..=1.0).contains(&fallback) => Ok(Self::Bild { fallback }),
                _ => Err(format!("{text:?}: the fallback threshold is between 0 and 1")),
            },
            (None, Some(("top-beta", beta))) => match beta.parse::<usize>() {
                Ok(beta) if beta > 0 => Ok(Self::TopBeta { beta }),
                _ => Err(format!("{text:?}: the number of top tokens is at least 1")),
            },
            (None, _) => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests;
