//! The names of drafters.

use gorgon_draft::ngram;
use std::path::PathBuf;
use std::str::FromStr;

/// What `--drafter` names.
#[derive(Clone, Debug, PartialEq)]
pub enum DrafterChoice {
    /// What `--heads` holds, or nothing.
    Auto,
    /// Plain decoding.
    None,
    /// Medusa heads.
    Medusa,
    /// An EAGLE draft layer of any generation.
    Eagle,
    /// Hydra or Hydra++ heads.
    Hydra,
    /// Multi-token-prediction modules.
    Mtp,
    /// Prompt lookup: what followed the last tokens before, compared up to this many.
    Ngram(usize),
    /// A separate draft model in this folder.
    Model(PathBuf),
    /// Heads at full cost whose tokens are overridden to be right at these rates.
    Oracle(Vec<f64>),
}

impl FromStr for DrafterChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None => match text {
                "auto" => Ok(Self::Auto),
                "none" => Ok(Self::None),
                "medusa" => Ok(Self::Medusa),
                "eagle" => Ok(Self::Eagle),
                "hydra" => Ok(Self::Hydra),
                "mtp" => Ok(Self::Mtp),
                other => Err(format!(
                    "no drafter is called {other:?}: expected auto, none, medusa, hydra, eagle, mtp, model:DIR, ngram:N or \
                     oracle:R1,R2,…"
                )),
            },
            Some(("oracle", rates)) => {
                let rate = |text: &str| match text.trim().parse::<f64>() {
                    Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(rate),
                    _ => Err(format!("{text:?} is no rate between 0 and 1")),
                };
                rates.split(',').map(rate).collect::<Result<_, _>>().map(Self::Oracle)
            }
            Some(("model", "")) => Err("model:DIR names a folder with a draft model".into()),
            Some(("model", dir)) => Ok(Self::Model(dir.into())),
            Some(("ngram", n)) => match n.trim().parse() {
                Ok(n) if (1..=ngram::LONGEST).contains(&n) => Ok(Self::Ngram(n)),
                _ => Err(format!("{n:?} is no length from 1 to {}", ngram::LONGEST)),
            },
            Some((other, _)) => Err(format!("no drafter is called {other:?}")),
        }
    }
}

impl DrafterChoice {
    /// Whether it drafts with heads.
    pub fn needs_heads(&self) -> bool {
        !matches!(self, Self::Auto | Self::None | Self::Ngram(_) | Self::Model(_))
    }
}
