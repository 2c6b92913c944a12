//! Acceptance rules by name, as the command line and configurations spell them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{
    AcceptanceRule, Beta, Bild, Block, Cascade, Coupled, Deferral, Greedy, KSeq, Lossy, LossyGreedy, Sampling,
    SamplingScheme, TopBeta, Traversal, Typical,
};
use crate::dist::Transform;
use crate::suggest::did_you_mean;

/// A rule as it is named: `auto`, `greedy`, `coupled`, `sampling`, `block`, `traversal`, `typical[:EPSILON,DELTA]`,
/// `lossy:ALPHA[,BETA]`, `chow:A`, `diff:A`, `opt:A`, `token-v1:A`, `token-v2:A`, `token-v3:A`, `bild:FB,RB`,
/// `top-beta:B,TAU` or `k-seq`.
///
/// Parsing checks ranges; `Display` writes every parameter out, and parses back to the same choice. In configurations
/// it is that string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RuleChoice {
    /// Greedy at temperature 0, coupled above.
    #[default]
    Auto,
    /// [`Greedy`], whatever the temperature.
    Greedy,
    /// [`Sampling`].
    Sampling,
    /// [`Coupled`].
    Coupled,
    /// [`Block`].
    Block,
    /// [`Traversal`].
    Traversal,
    /// [`Typical`].
    Typical {
        /// ε in `[0, 1]`; 0.09 if not given.
        epsilon: f64,
        /// δ, at least 0; 0.3 if not given.
        delta: f64,
    },
    /// [`Lossy`], at temperature 0 [`LossyGreedy`] (which has no β).
    Lossy {
        /// α in `[0, 1)`.
        alpha: f64,
        /// β, at least `1-α` or `balanced`; 1 if not given.
        beta: Beta,
    },
    /// [`Cascade`].
    Cascade {
        /// Which of the six rules.
        deferral: Deferral,
        /// α in `[0, 1]`; for `opt`, whose α multiplies a distance, at least 0.
        alpha: f64,
    },
    /// [`Bild`].
    Bild {
        /// `α_FB` in `[0, 1]`: the drafter stops where `max q` falls below it.
        fallback: f64,
        /// `α_RB` in nats, at least 0: the rule rolls back where the distance exceeds it.
        rollback: f64,
    },
    /// [`TopBeta`].
    TopBeta {
        /// β, at least 1.
        beta: usize,
        /// τ in nats, at least 0.
        gap: f64,
    },
    /// [`KSeq`].
    KSeq,
}

/// How drafts are to be taken from a drafter's distributions so that they serve a rule best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DraftScheme {
    /// How the children of a node are taken, from the distribution under the target's transform.
    pub scheme: SamplingScheme,
    /// Whether the rule reads the distributions.
    pub rows: bool,
    /// Drafting stops where `max q`, at temperature 1, falls below this: BiLD's fallback policy.
    pub stop: Option<f64>,
}

impl DraftScheme {
    /// The top-k tokens, without distributions.
    pub const TOP_K: Self = Self { scheme: SamplingScheme::Deterministic, rows: false, stop: None };
}

/// Why a text names no acceptance rule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChoiceError {
    /// No rule has this name.
    #[error(
        "unknown acceptance rule '{name}'; {}known are {}",
        did_you_mean(.name, RuleChoice::FORMS),
        RuleChoice::FORMS.join(", ")
    )]
    Unknown {
        /// The name given.
        name: String,
    },
    /// The rule has another name now.
    #[error("acceptance rule '{old}' is now called '{new}'")]
    Renamed {
        /// The old name.
        old: &'static str,
        /// The name to write.
        new: &'static str,
    },
    /// The rule takes other parameters.
    #[error("acceptance rule '{given}' has the wrong number of parameters; it is written {expected}")]
    Parameters {
        /// The text given.
        given: String,
        /// How the rule is written.
        expected: &'static str,
    },
    /// A parameter is no number of the right kind.
    #[error("'{value}' in acceptance rule '{given}' is not {expected}")]
    Number {
        /// The text given.
        given: String,
        /// The parameter as given.
        value: String,
        /// The kind of number expected.
        expected: &'static str,
    },
    /// A parameter is out of range.
    #[error("{parameter} = {value} in acceptance rule '{given}' is out of range; it must be {allowed}")]
    Range {
        /// The text given.
        given: String,
        /// The parameter's name.
        parameter: &'static str,
        /// Its value.
        value: f64,
        /// The allowed range.
        allowed: &'static str,
    },
}

impl RuleChoice {
    /// All names and their parameters.
    pub const FORMS: [&'static str; 17] = [
        "auto",
        "greedy",
        "coupled",
        "sampling",
        "block",
        "traversal",
        "typical[:EPSILON,DELTA]",
        "lossy:ALPHA[,BETA]",
        "chow:A",
        "diff:A",
        "opt:A",
        "token-v1:A",
        "token-v2:A",
        "token-v3:A",
        "bild:FB,RB",
        "top-beta:B,TAU",
        "k-seq",
    ];

    /// The meaning of `auto` under `transform`; every other choice is itself.
    pub fn resolve(self, transform: &Transform) -> Self {
        match self {
            Self::Auto if transform.is_greedy() => Self::Greedy,
            Self::Auto => Self::Coupled,
            named => named,
        }
    }

    /// The rule itself. At temperature 0 the rules that emit the target's distribution emit its greedy text, and so are
    /// [`Greedy`], which reads less.
    pub fn rule(self, transform: Transform) -> Box<dyn AcceptanceRule + Send + Sync> {
        match self.resolve(&transform) {
            Self::Coupled | Self::Sampling | Self::Block | Self::Traversal | Self::KSeq if transform.is_greedy() => {
                Box::new(Greedy)
            }
            Self::Auto | Self::Greedy => Box::new(Greedy),
            Self::Sampling => Box::new(Sampling { transform }),
            Self::Coupled => Box::new(Coupled { transform }),
            Self::Block => Box::new(Block { transform }),
            Self::Traversal => Box::new(Traversal { transform }),
            Self::Typical { epsilon, delta } => Box::new(Typical { epsilon, delta, transform }),
            Self::Lossy { alpha, .. } if transform.is_greedy() => Box::new(LossyGreedy { alpha }),
            Self::Lossy { alpha, beta } => Box::new(Lossy { alpha, beta, transform }),
            Self::Cascade { deferral, alpha } => Box::new(Cascade { deferral, alpha, transform }),
            Self::Bild { rollback, .. } => Box::new(Bild { rollback }),
            Self::TopBeta { beta, gap } => Box::new(TopBeta { beta, gap }),
            Self::KSeq => Box::new(KSeq { transform }),
        }
    }

    /// How drafts are best taken for the rule. Rules that compare `p` with `q` get samples from the transformed `q`:
    /// k-SEQ independent ones, the others samples without replacement; at temperature 0 these are the top-k tokens.
    /// Cascades always mix with the whole `q`. All other rules read the drafted tokens only, which then are the top k.
    pub fn draft_scheme(self, transform: &Transform) -> DraftScheme {
        let drawn = |scheme| match transform.is_greedy() {
            true => DraftScheme::TOP_K,
            false => DraftScheme { scheme, rows: true, stop: None },
        };
        match self.resolve(transform) {
            Self::Sampling | Self::Block | Self::Traversal | Self::Lossy { .. } => {
                drawn(SamplingScheme::WithoutReplacement)
            }
            Self::KSeq => drawn(SamplingScheme::Independent),
            Self::Cascade { .. } => DraftScheme { rows: true, ..drawn(SamplingScheme::WithoutReplacement) },
            Self::Bild { fallback, .. } => DraftScheme { stop: Some(fallback), ..DraftScheme::TOP_K },
            Self::Auto | Self::Greedy | Self::Coupled | Self::Typical { .. } | Self::TopBeta { .. } => {
                DraftScheme::TOP_K
            }
        }
    }

    /// The drafter's stopping threshold `α_FB`, which only `bild` has: a block ends where `max q` falls below it.
    pub fn fallback(&self) -> Option<f64> {
        match self {
            Self::Bild { fallback, .. } => Some(*fallback),
            _ => None,
        }
    }
}

impl FromStr for RuleChoice {
    type Err = ChoiceError;

    fn from_str(given: &str) -> Result<Self, ChoiceError> {
        let (name, parameters) = given.split_once(':').map_or((given, None), |(name, rest)| (name, Some(rest)));
        let spec = Spec { given, parameters: parameters.map_or_else(Vec::new, |rest| rest.split(',').collect()) };
        match name {
            "auto" => spec.bare("auto", Self::Auto),
            "greedy" => spec.bare("greedy", Self::Greedy),
            "sampling" => spec.bare("sampling", Self::Sampling),
            "coupled" => spec.bare("coupled", Self::Coupled),
            "block" => spec.bare("block", Self::Block),
            "traversal" => spec.bare("traversal", Self::Traversal),
            "nucleus" => Err(ChoiceError::Renamed { old: "nucleus", new: "coupled" }),
            "k-seq" => spec.bare("k-seq", Self::KSeq),
            "typical" => spec.typical(),
            "lossy" => spec.lossy(),
            "chow" => spec.cascade("chow:A", Deferral::Chow),
            "diff" => spec.cascade("diff:A", Deferral::Diff),
            "opt" => spec.cascade("opt:A", Deferral::Opt),
            "token-v1" => spec.cascade("token-v1:A", Deferral::TokenV1),
            "token-v2" => spec.cascade("token-v2:A", Deferral::TokenV2),
            "token-v3" => spec.cascade("token-v3:A", Deferral::TokenV3),
            "bild" => spec.bild(),
            "top-beta" => spec.top_beta(),
            _ => Err(ChoiceError::Unknown { name: name.to_owned() }),
        }
    }
}

/// A text under parse, split into its comma-separated parameters.
struct Spec<'a> {
    given: &'a str,
    parameters: Vec<&'a str>,
}

impl Spec<'_> {
    fn bare(&self, expected: &'static str, choice: RuleChoice) -> Result<RuleChoice, ChoiceError> {
        // The text itself tells `greedy:` (with an empty parameter) from `greedy`.
        if self.given == expected { Ok(choice) } else { Err(self.miscounted(expected)) }
    }

    fn typical(&self) -> Result<RuleChoice, ChoiceError> {
        let (epsilon, delta) = match self.parameters[..] {
            [] => (Typical::EPSILON, Typical::DELTA),
            [epsilon, delta] => (self.number(epsilon)?, self.number(delta)?),
            _ => return Err(self.miscounted("typical or typical:EPSILON,DELTA")),
        };
        self.within("epsilon", epsilon, (0.0..=1.0).contains(&epsilon), "between 0 and 1")?;
        self.within("delta", delta, delta >= 0.0, "at least 0")?;
        Ok(RuleChoice::Typical { epsilon, delta })
    }

    fn lossy(&self) -> Result<RuleChoice, ChoiceError> {
        let (alpha, beta) = match self.parameters[..] {
            [alpha] => (self.number(alpha)?, Beta::Fixed(1.0)),
            [alpha, "balanced"] => (self.number(alpha)?, Beta::Balanced),
            [alpha, beta] => (self.number(alpha)?, Beta::Fixed(self.number(beta)?)),
            _ => return Err(self.miscounted("lossy:ALPHA or lossy:ALPHA,BETA")),
        };
        self.within("alpha", alpha, (0.0..1.0).contains(&alpha), "at least 0 and below 1")?;
        if let Beta::Fixed(beta) = beta {
            self.within("beta", beta, beta >= 1.0 - alpha, "at least 1 - alpha")?;
        }
        Ok(RuleChoice::Lossy { alpha, beta })
    }

    fn cascade(&self, expected: &'static str, deferral: Deferral) -> Result<RuleChoice, ChoiceError> {
        let [alpha] = self.parameters[..] else { return Err(self.miscounted(expected)) };
        let alpha = self.number(alpha)?;
        if deferral == Deferral::Opt {
            self.within("alpha", alpha, alpha >= 0.0, "at least 0")?;
        } else {
            self.within("alpha", alpha, (0.0..=1.0).contains(&alpha), "between 0 and 1")?;
        }
        Ok(RuleChoice::Cascade { deferral, alpha })
    }

    fn bild(&self) -> Result<RuleChoice, ChoiceError> {
        let [fallback, rollback] = self.parameters[..] else { return Err(self.miscounted("bild:FB,RB")) };
        let (fallback, rollback) = (self.number(fallback)?, self.number(rollback)?);
        self.within("the fallback threshold", fallback, (0.0..=1.0).contains(&fallback), "between 0 and 1")?;
        self.within("the rollback threshold", rollback, rollback >= 0.0, "at least 0")?;
        Ok(RuleChoice::Bild { fallback, rollback })
    }

    fn top_beta(&self) -> Result<RuleChoice, ChoiceError> {
        let [beta, gap] = self.parameters[..] else { return Err(self.miscounted("top-beta:B,TAU")) };
        let beta: usize = beta.trim().parse().map_err(|_| self.misread(beta, "a whole number"))?;
        let gap = self.number(gap)?;
        self.within("beta", beta as f64, beta >= 1, "at least 1")?;
        self.within("tau", gap, gap >= 0.0, "at least 0")?;
        Ok(RuleChoice::TopBeta { beta, gap })
    }

    fn number(&self, value: &str) -> Result<f64, ChoiceError> {
        let number = value.trim().parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| self.misread(value, "a finite number"))
    }

    fn within(&self, parameter: &'static str, value: f64, is_allowed: bool, allowed: &'static str) -> Checked {
        let error = || ChoiceError::Range { given: self.given.to_owned(), parameter, value, allowed };
        if is_allowed { Ok(()) } else { Err(error()) }
    }

    fn miscounted(&self, expected: &'static str) -> ChoiceError {
        ChoiceError::Parameters { given: self.given.to_owned(), expected }
    }

    fn misread(&self, value: &str, expected: &'static str) -> ChoiceError {
        ChoiceError::Number { given: self.given.to_owned(), value: value.to_owned(), expected }
    }
}

/// The outcome of a range check.
type Checked = Result<(), ChoiceError>;

impl fmt::Display for RuleChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Greedy => f.write_str("greedy"),
            Self::Sampling => f.write_str("sampling"),
            Self::Coupled => f.write_str("coupled"),
            Self::Block => f.write_str("block"),
            Self::Traversal => f.write_str("traversal"),
            Self::Typical { epsilon, delta } => write!(f, "typical:{epsilon},{delta}"),
            Self::Lossy { alpha, beta: Beta::Fixed(beta) } => write!(f, "lossy:{alpha},{beta}"),
            Self::Lossy { alpha, beta: Beta::Balanced } => write!(f, "lossy:{alpha},balanced"),
            Self::Cascade { deferral: Deferral::Chow, alpha } => write!(f, "chow:{alpha}"),
            Self::Cascade { deferral: Deferral::Diff, alpha } => write!(f, "diff:{alpha}"),
            Self::Cascade { deferral: Deferral::Opt, alpha } => write!(f, "opt:{alpha}"),
            Self::Cascade { deferral: Deferral::TokenV1, alpha } => write!(f, "token-v1:{alpha}"),
            Self::Cascade { deferral: Deferral::TokenV2, alpha } => write!(f, "token-v2:{alpha}"),
            Self::Cascade { deferral: Deferral::TokenV3, alpha } => write!(f, "token-v3:{alpha}"),
            Self::Bild { fallback, rollback } => write!(f, "bild:{fallback},{rollback}"),
            Self::TopBeta { beta, gap } => write!(f, "top-beta:{beta},{gap}"),
            Self::KSeq => f.write_str("k-seq"),
        }
    }
}

impl TryFrom<String> for RuleChoice {
    type Error = ChoiceError;

    fn try_from(given: String) -> Result<Self, ChoiceError> {
        given.parse()
    }
}

impl From<RuleChoice> for String {
    fn from(choice: RuleChoice) -> Self {
        choice.to_string()
    }
}

#[cfg(test)]
mod tests;
