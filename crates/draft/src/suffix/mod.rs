//! Suffix drafts: what followed the longest suffix of the text the last times it was said.
//!
//! The longest suffix that occurred before is found in a suffix automaton of the text itself, in amortised constant time
//! per token (SAM-Decoding, Hu et al., 2024, <https://arxiv.org/abs/2411.10666>), and in a store of past answers or
//! documents by one binary search. The store's match counts if it is more than 5 tokens longer, or if it has 2 tokens
//! and the text has no match. Of what followed the match, a tree is grown best first (SuffixDecoding, Oliaro et al.,
//! 2024, <https://arxiv.org/abs/2411.04975>): the value of a node is `Π count(child)/count(parent)`, and a match of `n`
//! tokens drafts a tree of at most `1 + 4 n` nodes, 8 of each depth. Children are a list, so the text is lossless under
//! any lossless rule.
//!
//! Differences from the authors' code: counts are exact, a store serves where the text has no match, the root is part of
//! the text, and a draft that runs into the end of the text goes on with its longest suffix that was followed by
//! something, if that has half of its tokens: so in a text that repeats itself, but not on the strength of one word.

pub mod automaton;
mod edges;
mod text;

use crate::coupled::CoupledTree;
use crate::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
use crate::growth::{Growth, Limits};
use crate::method::TrainingFreeMethod;
use crate::store::{Match, Store, StoreFile};
use gorgon_core::Token;
use gorgon_core::tree::{OwnTree, TreeBuilder, TreeChoice};
use gorgon_model::config::ModelConfig;
use std::sync::Arc;
use text::{OwnText, Reached};

/// Nodes of a tree for each token of the match.
const NODES: usize = 4;
/// Nodes of a tree however short the match is: in a short text, short matches are all there is.
const LEAST: usize = 8;
/// Nodes of one depth.
const LEVEL: usize = 8;
/// By so many tokens a match in the store must exceed the text's own.
const BIAS: usize = 5;
/// Tokens of the shortest match in the store where the text has none.
const STORED: usize = 2;
/// Nodes and depth of a tree unless another one is named.
const TREE: (usize, usize) = (60, 59);

/// Suffix drafts, `suffix` or `suffix:STORE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suffix {
    /// Texts beside that which is decoded. One that was not opened is left out.
    pub store: Option<StoreFile>,
    /// Tokens of the shortest match that is drafted for.
    pub least: usize,
}

impl TrainingFreeMethod for Suffix {
    const SYNTAX: &'static str = "suffix[:STORE]";

    fn parse(arguments: &str) -> Result<Self, String> {
        let store = (!arguments.is_empty()).then(|| StoreFile::named(arguments)).transpose()?;
        Ok(Self { store, least: 1 })
    }

    fn name(&self) -> String {
        self.store.as_ref().map_or_else(|| "suffix".into(), |store| format!("suffix:{store}"))
    }

    fn default_tree(&self) -> TreeChoice {
        OwnTree::new(TREE.0, TREE.1).map_or(TreeChoice::None, TreeChoice::Own)
    }

    fn check(&self, model: &ModelConfig) -> Result<(), String> {
        self.store.as_ref().map_or(Ok(()), |store| store.check(model.vocab_size))
    }

    fn store(&self) -> Option<&StoreFile> {
        self.store.as_ref()
    }

    fn store_mut(&mut self) -> Option<&mut StoreFile> {
        self.store.as_mut()
    }

    fn opened(self) -> Result<Self, String> {
        let store = self.store.map(StoreFile::opened).transpose().map_err(|error| error.to_string())?;
        Ok(Self { store, ..self })
    }

    fn declining_below(self, least: usize) -> Result<Self, String> {
        Ok(Self { least, ..self })
    }

    fn drafter(&self) -> Box<dyn Drafter> {
        Box::new(SuffixDrafter::new(self.clone()))
    }
}

/// Drafts what followed a match.
#[derive(Clone, Debug)]
pub struct SuffixDrafter {
    settings: Suffix,
    name: String,
    text: OwnText,
    growth: Growth<Reached>,
    stored_growth: Growth<Match>,
    /// The store, as it was when the text was begun or went on.
    store: Option<Arc<Store>>,
}

impl SuffixDrafter {
    /// A drafter of an empty text.
    pub fn new(settings: Suffix) -> Self {
        let name = settings.name();
        let (growth, stored_growth) = (Growth::default(), Growth::default());
        let store = settings.store.as_ref().and_then(StoreFile::store);
        Self { settings, name, text: OwnText::default(), growth, stored_growth, store }
    }

    /// Tokens of the longest suffix of the text with a root that occurred in it before.
    pub(crate) fn matched(&mut self, root: Token) -> usize {
        self.text.read_ahead(root);
        self.text.automaton().matched().1
    }
}

impl Drafter for SuffixDrafter {
    fn name(&self) -> &str {
        &self.name
    }

    fn reset(&mut self) {
        self.text.truncate(0);
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.text.truncate(length);
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if let (None, Some(file)) = (pass.verified, &self.settings.store) {
            self.store = file.store();
        }
        self.text.extend(pass.tokens);
        Ok(())
    }

    fn finished(&mut self, answer: &[Token]) {
        if let Some(file) = self.settings.store.as_ref().filter(|file| file.is_live()) {
            // The old snapshot is not held until the next text.
            self.store = None;
            file.add(answer);
        }
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let CoupledTree { tree, .. } = context.tree;
        if tree.max_depth() == 0 {
            return Ok(Proposal::root(root));
        }
        self.text.read_ahead(root);
        let (state, own) = self.text.automaton().matched();
        let stored = self.store.as_deref().map(|store| (store, store.longest(self.text.tokens())));
        let is_better = |found: &Match| found.length > own + BIAS || own == 0 && found.length >= STORED;
        let stored = stored.filter(|(_, found)| is_better(found));
        let length = stored.map_or(own, |(_, found)| found.length);
        if length < self.settings.least {
            return Ok(Proposal::root(root));
        }
        let limits = Limits {
            nodes: tree.max_nodes().min(1 + LEAST.max(NODES * length)),
            depth: tree.max_depth(),
            level: LEVEL,
            // Of a chain, no node has a sibling.
            children: context.tree.ranks_at(0).unwrap_or(LEVEL).min(LEVEL),
        };
        let mut trie = match stored {
            Some((mut store, found)) => self.stored_growth.grow(&mut store, found, root, limits),
            None => self.growth.grow(self.text.automaton(), Reached { state, length: own }, root, limits),
        };
        Ok(Proposal { matched: length, ..Proposal::list(context.tree.build(root, &mut trie)?) })
    }
}

#[cfg(test)]
mod tests;
