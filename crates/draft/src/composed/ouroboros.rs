//! The name of an Ouroboros drafter.

use super::options::{Options, number};
use crate::lookahead::Lookahead;
use crate::method::TrainingFreeMethod;
use gorgon_core::tree::{MAX_DEPTH, MAX_NODES, OwnTree, TreeChoice, TreeKind};
use std::fmt;
use std::path::PathBuf;

/// Numbers of one kind at most.
const MOST: usize = 128;

/// A draft model that drafts phrase by phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OuroborosName {
    /// The draft model's folder.
    pub model: PathBuf,
    /// How it drafts.
    pub settings: Ouroboros,
}

/// Settings of Ouroboros, by the paper's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ouroboros {
    /// Tokens that the draft model drafts, γ.
    pub gamma: usize,
    /// Phrases that are tried after the draft, K.
    pub k: usize,
    /// Window W, n-gram size N and guesses G with which the draft model itself is decoded. A phrase has `N - 1` tokens,
    /// and a token at most G phrases.
    pub lookahead: Lookahead,
}

impl Default for Ouroboros {
    /// The values of the authors' code.
    fn default() -> Self {
        Self { gamma: 12, k: 3, lookahead: Lookahead { columns: 20, n: 7, guesses: 20, window: false } }
    }
}

impl Ouroboros {
    /// Tokens of a phrase, β.
    pub fn phrase(&self) -> usize {
        self.lookahead.n - 1
    }

    /// Nodes and depth of a tree, at most.
    fn size(&self) -> (usize, usize) {
        (1 + self.gamma + self.k * self.phrase(), self.gamma + self.phrase())
    }

    pub(super) fn default_tree(&self) -> TreeChoice {
        let (nodes, depth) = self.size();
        OwnTree::new(nodes, depth).map_or(TreeChoice::None, TreeChoice::Own)
    }

    /// Fails if the tree is none that the drafter can make.
    ///
    /// # Errors
    /// One line with the trees that it can make.
    pub fn check_tree(&self, tree: &TreeKind) -> Result<(), String> {
        let (nodes, depth) = self.size();
        match tree {
            TreeKind::Own(own) if own.nodes() >= nodes && own.depth() >= depth => Ok(()),
            _ => Err(format!("ouroboros makes its own tree: it takes own:NODES,DEPTH from own:{nodes},{depth} on")),
        }
    }
}

impl OuroborosName {
    /// How it is written on the command line.
    pub const SYNTAX: &'static str = "ouroboros:DIR[,gamma=N][,k=N][,w=N][,n=N][,g=N]";

    pub(super) fn parse(arguments: &str) -> Result<Self, String> {
        let options = Options::of(arguments, &["gamma", "k", "w", "n", "g"])?;
        if options.first.is_empty() {
            return Err("expected the folder of a draft model".into());
        }
        let count = |key, least, default| match options.get(key) {
            Some(text) => number(key, text, (least, MOST)),
            None => Ok(default),
        };
        let Ouroboros { gamma, k, lookahead } = Ouroboros::default();
        let (gamma, k) = (count("gamma", 1, gamma)?, count("k", 0, k)?);
        let [w, n, g] = [("w", 1, lookahead.columns), ("n", 2, lookahead.n), ("g", 0, lookahead.guesses)]
            .map(|(key, least, default)| count(key, least, default));
        let lookahead = Lookahead::parse(&format!("{},{},{}", w?, n?, g?))?;
        let settings = Ouroboros { gamma, k, lookahead };
        let (nodes, depth) = settings.size();
        if nodes > MAX_NODES || depth > MAX_DEPTH {
            return Err(format!(
                "a tree of {nodes} nodes, {depth} drafts deep; at most {MAX_NODES} and {MAX_DEPTH} are drafted"
            ));
        }
        Ok(Self { model: options.first.into(), settings })
    }
}

impl fmt::Display for OuroborosName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ouroboros:{}", self.model.display())?;
        let numbers = |of: &Ouroboros| {
            let Lookahead { columns, n, guesses, .. } = of.lookahead;
            [("gamma", of.gamma), ("k", of.k), ("w", columns), ("n", n), ("g", guesses)]
        };
        let default = numbers(&Ouroboros::default());
        let mut named = numbers(&self.settings).into_iter().filter(|number| !default.contains(number));
        named.try_for_each(|(key, number)| write!(f, ",{key}={number}"))
    }
}
