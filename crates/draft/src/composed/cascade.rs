//! The name of a cascade.

use super::options::{Options, number};
use crate::training_free::TrainingFree;
use gorgon_core::tree::{ChainTree, TreeChoice, TreeKind};
use std::fmt;
use std::path::PathBuf;

/// Drafts unless another tree is named.
const CHAIN: usize = 8;
/// Drafts of a draft model that drafts for another one, unless told otherwise.
const MODEL_CHAIN: usize = 4;
/// Drafts of one kind at most.
const LONGEST: usize = 128;

/// A draft model that is decoded with the drafts of another drafter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CascadeName {
    /// The draft model's folder.
    pub model: PathBuf,
    /// The drafter that drafts for it.
    pub then: Then,
    /// Drafts in each of the draft model's steps, if their number is named.
    pub ahead: Option<usize>,
    /// The last drafts of every chain, which the inner drafter makes alone.
    pub tail: usize,
}

/// A drafter that drafts for a draft model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing: the draft model is decoded plainly.
    None,
    /// A smaller draft model in this folder.
    Model(PathBuf),
    /// A drafter without weights of its own.
    TrainingFree(TrainingFree),
}

impl Then {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, arguments) = text.split_once(':').unwrap_or((text, ""));
        if let Some(parsed) = TrainingFree::parse(name, arguments) {
            return parsed.map(Self::TrainingFree).map_err(|reason| format!("then={text}: {reason}"));
        }
        match name {
            "none" if text == name => Ok(Self::None),
            "model" if !arguments.is_empty() => Ok(Self::Model(arguments.into())),
            _ => Err(format!("then={text}: expected none, model:DIR, {}", TrainingFree::SYNTAX.join(", "))),
        }
    }
}

impl fmt::Display for Then {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Model(dir) => write!(f, "model:{}", dir.display()),
            Self::TrainingFree(method) => method.fmt(f),
        }
    }
}

impl CascadeName {
    /// How it is written on the command line.
    pub const SYNTAX: &'static str = "cascade:DIR,then=D[,ahead=N][,tail=N]";

    pub(super) fn parse(arguments: &str) -> Result<Self, String> {
        let options = Options::of(arguments, &["then", "ahead", "tail"])?;
        if options.first.is_empty() {
            return Err("expected the folder of a draft model".into());
        }
        let Some(then) = options.get("then") else {
            return Err("then= is missing: it names what drafts for the draft model".into());
        };
        let then = Then::parse(then)?;
        let count = |key, least| options.get(key).map(|text| number(key, text, (least, LONGEST))).transpose();
        let (ahead, tail) = (count("ahead", 1)?, count("tail", 0)?.unwrap_or(0));
        let name = Self { model: PathBuf::from(options.first.as_str()), then, ahead, tail };
        if name.then == Then::None && (name.ahead.is_some() || name.tail > 0) {
            return Err("then=none drafts nothing, so there is nothing ahead and no tail".into());
        }
        if let Then::TrainingFree(method) = &name.then {
            let chains = [name.ahead, Some(name.tail).filter(|&tail| tail > 0)];
            chains.into_iter().flatten().try_for_each(|drafts| method.check_tree(&TreeKind::Chain(drafts)))?;
        }
        Ok(name)
    }

    pub(super) fn default_tree(&self) -> TreeChoice {
        ChainTree::new(CHAIN + self.tail).map_or(TreeChoice::None, TreeChoice::Chain)
    }

    /// The tree of each of the draft model's own steps.
    pub fn inner_tree(&self) -> TreeChoice {
        let chain = |drafts| ChainTree::new(drafts).map_or(TreeChoice::None, TreeChoice::Chain);
        match (&self.then, self.ahead) {
            (Then::None, _) => TreeChoice::None,
            (_, Some(drafts)) => chain(drafts),
            (Then::Model(_), None) => chain(MODEL_CHAIN),
            (Then::TrainingFree(method), None) => method.default_tree(),
        }
    }

    pub(super) fn check_tree(&self, tree: &TreeKind) -> Result<(), String> {
        match *tree {
            TreeKind::Chain(drafts) if drafts > self.tail => Ok(()),
            _ => Err(format!("a cascade drafts chains: it takes chain:N from chain:{} on", self.tail + 1)),
        }
    }
}

impl fmt::Display for CascadeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cascade:{},then={}", self.model.display(), self.then)?;
        if let Some(ahead) = self.ahead {
            write!(f, ",ahead={ahead}")?;
        }
        if self.tail > 0 {
            write!(f, ",tail={}", self.tail)?;
        }
        Ok(())
    }
}
