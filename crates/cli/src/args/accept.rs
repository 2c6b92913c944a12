//! `--accept` and `--sweep` of the verbs that measure.

use gorgon_bench::sweep::Family;
use gorgon_core::accept::RuleChoice;
use gorgon_workflows::failure::Failure;
use std::str::FromStr;

/// What `--accept` says: a rule, or names of rules without their α.
#[derive(Clone, Debug, Default)]
pub enum Accept {
    /// The rule that suits the temperature; in a sweep, all.
    #[default]
    Auto,
    /// A rule.
    Rule(RuleChoice),
    /// Rules but for their α, and the text that names them.
    Families(Vec<Family>, String),
}

impl FromStr for Accept {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let families: Result<Vec<Family>, String> = text.split(',').map(Family::from_str).collect();
        match (text.parse::<RuleChoice>(), families) {
            (Ok(RuleChoice::Auto), _) => Ok(Self::Auto),
            (Ok(rule), _) => Ok(Self::Rule(rule)),
            (Err(_), Ok(families)) => Ok(Self::Families(families, text.into())),
            (Err(error), Err(_)) => Err(error.to_string()),
        }
    }
}

impl Accept {
    /// The rule.
    ///
    /// # Errors
    /// When names of a sweep were given.
    pub fn rule(&self) -> Result<RuleChoice, Failure> {
        match self {
            Self::Auto => Ok(RuleChoice::Auto),
            Self::Rule(rule) => Ok(*rule),
            Self::Families(_, text) => {
                let error = text.parse::<RuleChoice>().err().map_or_else(|| text.clone(), |error| error.to_string());
                Err(Failure::input(error).hint("rules without parameters are for bench --sweep alpha=…"))
            }
        }
    }

    /// The rules to sweep over.
    ///
    /// # Errors
    /// When a rule was given with its parameters.
    pub fn families(&self) -> Result<Vec<Family>, Failure> {
        match self {
            Self::Auto => Ok(Family::ALL.to_vec()),
            Self::Families(families, _) => Ok(families.clone()),
            Self::Rule(rule) => {
                let names: Vec<&str> = Family::ALL.map(Family::name).to_vec();
                let message = format!("--accept {rule}: a sweep takes names of lossy rules without their parameters");
                Err(Failure::input(message).hint(names.join(", ")))
            }
        }
    }
}

/// `alpha=A1,A2,…`.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepRange {
    /// The values of α.
    pub alphas: Vec<f64>,
}

impl FromStr for SweepRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let values = text.strip_prefix("alpha=").ok_or("expected alpha=A1,A2,…")?;
        let alpha = |text: &str| match text.trim().parse::<f64>() {
            Ok(alpha) if alpha.is_finite() && alpha >= 0.0 => Ok(alpha),
            _ => Err(format!("{text:?} is no number of at least 0")),
        };
        Ok(Self { alphas: values.split(',').map(alpha).collect::<Result<_, _>>()? })
    }
}
