//! Drafted trees: tokens with the drafter's probabilities and its entries.

use super::{Candidate, Entry, NodeInput, NodeKind, TokenTree};
use crate::{PooledVec, Token};

/// A drafted tree: tokens, and the drafter's probability of each given its parent. Optionally it lists entries: which
/// source proposed which child, in the order in which a rule tries them.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftTree {
    tree: TokenTree,
    probabilities: PooledVec<f64>,
    source_nodes: PooledVec<usize>,
    entries: Option<PooledVec<Entry>>,
}

impl DraftTree {
    /// A lone root.
    pub fn root(token: Token) -> Self {
        let (probabilities, source_nodes) = (PooledVec::of(1.0, 1), PooledVec::of(0, 1));
        Self { tree: TokenTree::root(token), probabilities, source_nodes, entries: None }
    }

    /// The tokens and their arrangement.
    pub fn tree(&self) -> &TokenTree {
        &self.tree
    }

    /// The tree alone.
    pub fn into_tree(self) -> TokenTree {
        self.tree
    }

    /// The drafter's probability `q(node | parent)` by node, in `[0, 1]`; 1 for the root, and where it was not
    /// computed; 0 for probes.
    pub fn probabilities(&self) -> &[f64] {
        &self.probabilities
    }

    /// For each node, the number it had in the tree that the drafter saw while it was being built. A builder that drops
    /// nodes afterwards renumbers them; a drafter finds its own rows (states, distributions) by these numbers.
    pub fn source_nodes(&self) -> &[usize] {
        &self.source_nodes
    }

    /// The entries in the order in which a rule tries them; `None` if every child is one entry of source 0.
    pub fn entries(&self) -> Option<&[Entry]> {
        self.entries.as_ref().map(|entries| &entries[..])
    }

    /// Adds a candidate under `parent` and returns its node number. Its entries, if the tree lists any, are added
    /// apart.
    ///
    /// # Panics
    /// If `parent` is not a node of the tree, or is a probe.
    pub fn push(&mut self, parent: usize, candidate: Candidate) -> usize {
        let node = self.tree.push(parent, candidate.token);
        self.probabilities.push(candidate.probability);
        self.source_nodes.push(node);
        node
    }

    /// Adds a probe under `parent` and returns its node number.
    ///
    /// # Panics
    /// If `parent` is not a node of the tree.
    pub fn push_probe(&mut self, parent: usize, input: NodeInput) -> usize {
        let node = self.tree.push_probe(parent, input);
        self.probabilities.push(0.0);
        self.source_nodes.push(node);
        node
    }

    /// Adds a try of `child` by `source`, after all earlier entries. Once a tree has an entry, a rule that tries
    /// entries tries no child without one.
    ///
    /// # Panics
    /// If `child` is not a drafted node.
    pub fn push_entry(&mut self, child: usize, source: usize) {
        let is_drafted = (1..self.tree.len()).contains(&child) && !self.tree.is_probe(child);
        assert!(is_drafted, "node {child} is not a drafted node, so it has no entries");
        self.entries.get_or_insert_default().push(Entry { child, source });
    }

    /// Adds an entry of `source` for `candidate` under `parent`, and a node unless a child has that token already.
    /// Returns the child's number. A known child keeps its probability.
    ///
    /// # Panics
    /// If `parent` is not a node of the tree, or is a probe.
    pub fn merge(&mut self, parent: usize, candidate: Candidate, source: usize) -> usize {
        let known = self.tree.children(parent).find(|&child| self.tree.token(child) == candidate.token);
        let child = known.unwrap_or_else(|| self.push(parent, candidate));
        self.push_entry(child, source);
        child
    }

    /// Copy with this arrangement and these entries, but other tokens; the root keeps its own, and probes keep their
    /// inputs.
    ///
    /// # Panics
    /// If there is not one token per node.
    pub fn with_tokens(&self, tokens: &[Token]) -> Self {
        assert_eq!(tokens.len(), self.tree.len(), "one token per node");
        let mut changed = Self::root(self.tree.token(0));
        for (node, &token) in tokens.iter().enumerate().skip(1) {
            changed.copy(self, node, self.tree.parents()[node], token);
        }
        changed.entries.clone_from(&self.entries);
        changed
    }

    /// The tree of the root and `kept`, which is increasing and holds the parent of each of its nodes (unless that is
    /// the root).
    pub(super) fn keep(&self, kept: &[usize]) -> Self {
        let mut smaller = Self::root(self.tree.token(0));
        let mut renumbered = PooledVec::of(0, self.tree.len());
        for &node in kept {
            let parent = renumbered[self.tree.parents()[node]];
            renumbered[node] = smaller.copy(self, node, parent, self.tree.token(node));
        }
        // No child is renumbered to the root's 0.
        let is_kept = |entry: &&Entry| renumbered[entry.child] > 0;
        smaller.entries = self.entries.as_ref().map(|entries| {
            let kept = entries.iter().filter(is_kept);
            kept.map(|entry| Entry { child: renumbered[entry.child], ..*entry }).collect()
        });
        smaller
    }

    /// Adds `other`'s `node` under `parent`, with `token` if it is a draft.
    fn copy(&mut self, other: &Self, node: usize, parent: usize, token: Token) -> usize {
        let copied = match other.tree.kind(node) {
            NodeKind::Draft => self.push(parent, Candidate { token, probability: other.probabilities[node] }),
            NodeKind::Probe => self.push_probe(parent, other.tree.input(node)),
        };
        self.source_nodes[copied] = other.source_nodes[node];
        copied
    }
}

#[cfg(test)]
mod tests;
