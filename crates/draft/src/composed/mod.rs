//! The names of drafters that are made of other drafters.
//!
//! `specinfer:DIR1+DIR2` merges the trees of several draft models ([`crate::specinfer`]). `cascade:DIR,then=D` decodes
//! a draft model with the drafts of another drafter, and `ouroboros:DIR` one phrase by phrase; `partial:B,C,small=DIR`
//! is TriForce with all its levels. The loops that do it are in `gorgon-infer`.

mod cascade;
mod options;
mod ouroboros;
mod specinfer;
mod triforce;

pub use cascade::{CascadeName, Then};
pub use ouroboros::{Ouroboros, OuroborosName};
pub use specinfer::SpecInferName;
pub use triforce::TriForceName;

use crate::store::StoreFile;
use crate::training_free::{TrainingFree, TrainingFreeMethod};
use gorgon_core::tree::{TreeChoice, TreeKind};
use gorgon_model::config::ModelConfig;
use gorgon_model::device::Compute;
use std::fmt;
use std::path::{Path, PathBuf};

/// A drafter that is made of others, as it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Composed {
    /// `specinfer`
    SpecInfer(SpecInferName),
    /// `cascade`
    Cascade(CascadeName),
    /// `ouroboros`
    Ouroboros(OuroborosName),
    /// `partial` with a small model
    TriForce(TriForceName),
}

impl Composed {
    /// How each of them is written on the command line.
    pub const SYNTAX: [&'static str; 4] =
        [SpecInferName::SYNTAX, CascadeName::SYNTAX, OuroborosName::SYNTAX, TriForceName::SYNTAX];

    /// The drafter of a name, if there is one.
    ///
    /// # Errors
    /// When its arguments are wrong: one line with them.
    pub fn parse(name: &str, arguments: &str) -> Option<Result<Self, String>> {
        let parsed = match name {
            "specinfer" | "multi" => SpecInferName::parse(arguments).map(Self::SpecInfer),
            "cascade" => CascadeName::parse(arguments).map(Self::Cascade),
            "ouroboros" => OuroborosName::parse(arguments).map(Self::Ouroboros),
            "partial" if TriForceName::is_named(arguments) => TriForceName::parse(arguments).map(Self::TriForce),
            _ => return None,
        };
        Some(parsed.map_err(|reason| format!("{name}:{arguments}: {reason}")))
    }

    /// The tree that it drafts unless another one is named.
    pub fn default_tree(&self) -> TreeChoice {
        match self {
            Self::SpecInfer(name) => name.default_tree(),
            Self::Cascade(name) => name.default_tree(),
            Self::Ouroboros(name) => name.settings.default_tree(),
            Self::TriForce(name) => name.default_tree(),
        }
    }

    /// Fails if it cannot draft trees of this kind.
    ///
    /// # Errors
    /// One line with its name and the trees that it can draft.
    pub fn check_tree(&self, tree: &TreeKind) -> Result<(), String> {
        match self {
            Self::SpecInfer(name) => name.check_tree(tree),
            Self::Cascade(name) => name.check_tree(tree),
            Self::Ouroboros(name) => name.settings.check_tree(tree),
            Self::TriForce(name) => name.check_tree(tree),
        }
    }

    /// Trees that are merged: a proposal has at most so many times the drafts of the tree that is named.
    pub fn trees(&self) -> usize {
        match self {
            Self::SpecInfer(name) => name.models.len(),
            Self::Cascade(_) | Self::Ouroboros(_) | Self::TriForce(_) => 1,
        }
    }

    /// The folders of its models.
    pub fn models(&self) -> Vec<&PathBuf> {
        match self {
            Self::SpecInfer(name) => name.models.iter().collect(),
            Self::Cascade(CascadeName { model, then: Then::Model(then), .. }) => vec![model, then],
            Self::Cascade(CascadeName { model, .. })
            | Self::Ouroboros(OuroborosName { model, .. })
            | Self::TriForce(TriForceName { model, .. }) => vec![model],
        }
    }

    /// Copy with other folders for its models.
    ///
    /// # Errors
    /// That of `folder`.
    pub fn with_models<E>(&self, folder: impl Fn(&PathBuf) -> Result<PathBuf, E>) -> Result<Self, E> {
        let mut changed = self.clone();
        match &mut changed {
            Self::SpecInfer(name) => {
                for model in &mut name.models {
                    *model = folder(model)?;
                }
            }
            Self::Cascade(name) => {
                name.model = folder(&name.model)?;
                if let Then::Model(then) = &mut name.then {
                    *then = folder(then)?;
                }
            }
            Self::Ouroboros(name) => name.model = folder(&name.model)?,
            Self::TriForce(name) => name.model = folder(&name.model)?,
        }
        Ok(changed)
    }

    /// Opens the files that it names.
    ///
    /// # Errors
    /// One line with the path.
    pub fn opened(self) -> Result<Self, String> {
        match self {
            Self::Cascade(name) => {
                let then = match name.then {
                    Then::TrainingFree(method) => Then::TrainingFree(method.opened()?),
                    then @ (Then::None | Then::Model(_)) => then,
                };
                Ok(Self::Cascade(CascadeName { then, ..name }))
            }
            other @ (Self::SpecInfer(_) | Self::Ouroboros(_) | Self::TriForce(_)) => Ok(other),
        }
    }

    /// The drafter without weights that drafts for its first model, if there is one.
    pub fn then(&self) -> Option<&TrainingFree> {
        match self {
            Self::Cascade(CascadeName { then: Then::TrainingFree(method), .. }) => Some(method),
            Self::Cascade(_) | Self::SpecInfer(_) | Self::Ouroboros(_) | Self::TriForce(_) => None,
        }
    }

    /// Tokens of a text of `tokens` that its models keep in their caches at most, and bytes that are kept beside these.
    pub fn kept(&self, model: &ModelConfig, compute: &Compute, tokens: usize) -> (usize, u128) {
        match self {
            Self::TriForce(name) => (tokens.min(name.rows()), name.partial.bytes(model, compute, tokens)),
            Self::SpecInfer(_) | Self::Cascade(_) | Self::Ouroboros(_) => (tokens, 0),
        }
    }

    /// The drafter without weights that drafts for its first model, to be changed, and that model's folder.
    pub fn then_mut(&mut self) -> Option<(&mut TrainingFree, &Path)> {
        match self {
            Self::Cascade(CascadeName { model, then: Then::TrainingFree(method), .. }) => {
                Some((method, model.as_path()))
            }
            Self::Cascade(_) | Self::SpecInfer(_) | Self::Ouroboros(_) | Self::TriForce(_) => None,
        }
    }

    /// The store of past texts that it reads, if there is one.
    pub fn store(&self) -> Option<&StoreFile> {
        self.then().and_then(TrainingFree::store)
    }
}

impl fmt::Display for Composed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SpecInfer(name) => name.fmt(f),
            Self::Cascade(name) => name.fmt(f),
            Self::Ouroboros(name) => name.fmt(f),
            Self::TriForce(name) => name.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
