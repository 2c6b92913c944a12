//! REST (He et al., 2023, <https://arxiv.org/abs/2311.08252>): what follows the text's last tokens in a store.
//!
//! Of the last 16 tokens, 15, and so on to 2, the first sequence that occurs in the store is the match. Its continuations
//! of up to 10 tokens, merged into a trie, have as many occurrences at a node as begin with the node's path; the 63 nodes
//! of the most occurrences are drafted. Children are a list, so the text is lossless under any lossless rule.
//!
//! Differences from the authors' code: tokens have 24 bits and not 16, no match and no continuation runs over the
//! boundary of a document, counts are of all occurrences and not of the lexicographically first 5000 (a continuation of a
//! match with more than 256 occurrences is sure to be found if it follows one in 64), ties have an order, and nothing is
//! drafted without a match.

use crate::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
use crate::growth::{Growth, Limits};
use crate::method::TrainingFreeMethod;
use crate::store::{Match, Store, StoreFile};
use gorgon_core::Token;
use gorgon_core::tree::{OwnTree, TreeBuilder, TreeChoice};
use gorgon_model::config::ModelConfig;
use std::sync::Arc;

/// Tokens of the longest and of the shortest match.
const LONGEST: usize = 16;
const SHORTEST: usize = 2;
/// Nodes and depth of a tree unless another one is named.
const TREE: (usize, usize) = (64, 10);

/// REST, `rest:STORE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The store. One that was not opened drafts nothing.
    pub store: StoreFile,
    /// Tokens of the shortest match that is drafted for.
    pub least: usize,
}

impl TrainingFreeMethod for Rest {
    const SYNTAX: &'static str = "rest:STORE";

    fn parse(arguments: &str) -> Result<Self, String> {
        match arguments.is_empty() {
            true => Err("rest:STORE names a store that gorgon store build wrote".into()),
            false => Ok(Self { store: StoreFile::named(arguments)?, least: SHORTEST }),
        }
    }

    fn name(&self) -> String {
        format!("rest:{}", self.store)
    }

    fn default_tree(&self) -> TreeChoice {
        OwnTree::new(TREE.0, TREE.1).map_or(TreeChoice::None, TreeChoice::Own)
    }

    fn check(&self, model: &ModelConfig) -> Result<(), String> {
        self.store.check(model.vocab_size)
    }

    fn store(&self) -> Option<&StoreFile> {
        Some(&self.store)
    }

    fn store_mut(&mut self) -> Option<&mut StoreFile> {
        Some(&mut self.store)
    }

    fn opened(self) -> Result<Self, String> {
        Ok(Self { store: self.store.opened().map_err(|error| error.to_string())?, ..self })
    }

    fn declining_below(self, least: usize) -> Result<Self, String> {
        Ok(Self { least: least.max(SHORTEST), ..self })
    }

    fn drafter(&self) -> Box<dyn Drafter> {
        Box::new(RestDrafter::new(self))
    }
}

/// Drafts continuations from a store.
#[derive(Clone, Debug)]
pub struct RestDrafter {
    name: String,
    file: StoreFile,
    /// The store, as it was when the text was begun or went on.
    store: Option<Arc<Store>>,
    least: usize,
    text: Vec<Token>,
    growth: Growth<Match>,
}

impl RestDrafter {
    /// A drafter of an empty text.
    pub fn new(settings: &Rest) -> Self {
        let (file, store) = (settings.store.clone(), settings.store.store());
        Self { name: settings.name(), file, store, least: settings.least, text: vec![], growth: Growth::default() }
    }
}

impl Drafter for RestDrafter {
    fn name(&self) -> &str {
        &self.name
    }

    fn reset(&mut self) {
        self.text.clear();
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.text.truncate(length);
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if pass.verified.is_none() {
            self.store = self.file.store();
        }
        self.text.extend_from_slice(pass.tokens);
        Ok(())
    }

    fn finished(&mut self, answer: &[Token]) {
        if self.file.is_live() {
            // The old snapshot is not held until the next text.
            self.store = None;
            self.file.add(answer);
        }
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let Some(mut store) = self.store.as_deref() else { return Ok(Proposal::root(root)) };
        self.text.push(root);
        let found = store.longest(&self.text[self.text.len().saturating_sub(LONGEST)..]);
        self.text.pop();
        if found.length < self.least {
            return Ok(Proposal::root(root));
        }
        let tree = &context.tree;
        let nodes = tree.max_nodes();
        let children = tree.ranks_at(0).unwrap_or(nodes);
        let limits = Limits { nodes, depth: tree.max_depth(), level: nodes, children };
        let mut trie = self.growth.grow(&mut store, found, root, limits);
        Ok(Proposal { matched: found.length, ..Proposal::list(tree.build(root, &mut trie)?) })
    }
}

#[cfg(test)]
mod tests;
