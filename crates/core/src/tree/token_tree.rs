//! Token trees: the nodes of one verification pass.

use crate::{PooledVec, Token, pooled_vec::recycle};

recycle!(Probe, NodeInput);

/// A rooted tree of tokens, stored flat with parents before children. Node 0 is the root: the last emitted token, whose
/// key/value row is not yet in the target's cache. Every other node is a drafted token or a probe.
///
/// A probe is verified with the tree and never accepted: [`children`](Self::children), [`leaves`](Self::leaves) and
/// [`siblings`](Self::siblings) leave probes out. Slices by node, such as [`tokens`](Self::tokens), include them.
///
/// Sizes count the root everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenTree {
    tokens: PooledVec<Token>,
    /// `parents[0]` is 0 and is never read as a parent.
    parents: PooledVec<usize>,
    depths: PooledVec<usize>,
    /// In the order of their nodes.
    probes: PooledVec<Probe>,
}

/// Whether a node can be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// The root or a drafted token.
    Draft,
    /// Verified with the tree, never accepted.
    Probe,
}

/// The input of a node's row in a verification pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeInput {
    /// The embedding of a token.
    Token(Token),
    /// A row of a table of embeddings that comes with the tree.
    Embedding(usize),
}

/// A node that is no draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Probe {
    node: usize,
    input: NodeInput,
}

/// Why a list of tokens and parents is no tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// A tree has at least its root.
    #[error("a token tree needs a root, but no token was given")]
    Empty,
    /// The two lists describe different numbers of nodes.
    #[error("{tokens} tokens but {parents} parents: one parent per token is needed (the root's is ignored)")]
    LengthMismatch {
        /// Number of tokens given.
        tokens: usize,
        /// Number of parents given.
        parents: usize,
    },
    /// Parents must come before their children.
    #[error("node {node} names parent {parent}; a parent must come before its child")]
    ParentNotBefore {
        /// The offending node.
        node: usize,
        /// The parent it names.
        parent: usize,
    },
}

impl TokenTree {
    /// The entry of [`tokens`](Self::tokens) for a probe that reads an embedding: beyond every vocabulary.
    pub const NO_TOKEN: Token = Token::MAX;

    /// A tree of one node: plain decoding is the verification of a lone root.
    pub fn root(token: Token) -> Self {
        let (tokens, parents, depths) = (PooledVec::of(token, 1), PooledVec::of(0, 1), PooledVec::of(0, 1));
        Self { tokens, parents, depths, probes: PooledVec::new() }
    }

    /// A tree from its flat form. `parents[0]` is ignored.
    ///
    /// # Errors
    /// When the lists are empty or of different lengths, or a parent does not come before its child.
    pub fn from_parts(tokens: Vec<Token>, mut parents: Vec<usize>) -> Result<Self, TreeError> {
        if tokens.is_empty() {
            return Err(TreeError::Empty);
        }
        if tokens.len() != parents.len() {
            return Err(TreeError::LengthMismatch { tokens: tokens.len(), parents: parents.len() });
        }
        parents[0] = 0;
        let mut depths = PooledVec::of(0, tokens.len());
        for node in 1..tokens.len() {
            let parent = parents[node];
            if parent >= node {
                return Err(TreeError::ParentNotBefore { node, parent });
            }
            depths[node] = depths[parent] + 1;
        }
        Ok(Self { tokens: tokens.into(), parents: parents.into(), depths, probes: PooledVec::new() })
    }

    /// Adds a drafted token under `parent` and returns its node number.
    ///
    /// # Panics
    /// If `parent` is not a node of this tree, or is a probe: no draft below it could be accepted.
    pub fn push(&mut self, parent: usize, token: Token) -> usize {
        assert!(!self.is_probe(parent), "parent {parent} is a probe, and nothing is drafted below a probe");
        self.add(parent, token)
    }

    /// Adds a probe under `parent`, which may be a probe too, and returns its node number.
    ///
    /// # Panics
    /// If `parent` is not a node of this tree.
    pub fn push_probe(&mut self, parent: usize, input: NodeInput) -> usize {
        let node = self.add(parent, if let NodeInput::Token(token) = input { token } else { Self::NO_TOKEN });
        self.probes.push(Probe { node, input });
        node
    }

    fn add(&mut self, parent: usize, token: Token) -> usize {
        assert!(parent < self.len(), "parent {parent} is not a node of a tree of {} nodes", self.len());
        self.tokens.push(token);
        self.parents.push(parent);
        let depth = self.depths[parent] + 1;
        self.depths.push(depth);
        self.len() - 1
    }

    /// Whether `node` is a probe. A number that is no node is none.
    pub fn is_probe(&self, node: usize) -> bool {
        self.probe(node).is_some()
    }

    /// Whether `node` can be accepted.
    pub fn kind(&self, node: usize) -> NodeKind {
        if self.is_probe(node) { NodeKind::Probe } else { NodeKind::Draft }
    }

    /// The input of the target's row at `node`.
    ///
    /// # Panics
    /// If `node` is not a node of this tree.
    pub fn input(&self, node: usize) -> NodeInput {
        self.probe(node).unwrap_or(NodeInput::Token(self.tokens[node]))
    }

    /// The input of a probe; `None` for other nodes.
    fn probe(&self, node: usize) -> Option<NodeInput> {
        let index = self.probes.binary_search_by_key(&node, |probe| probe.node).ok()?;
        Some(self.probes[index].input)
    }

    /// The embedding that the first probe which reads one takes from the table that comes with the tree; `None` where
    /// all nodes read tokens.
    pub fn first_embedding(&self) -> Option<usize> {
        self.probes.iter().find_map(|probe| match probe.input {
            NodeInput::Embedding(embedding) => Some(embedding),
            NodeInput::Token(_) => None,
        })
    }

    /// Number of probes.
    pub fn probes(&self) -> usize {
        self.probes.len()
    }

    /// Number of nodes, the root included.
    #[allow(clippy::len_without_is_empty)] // a tree always has its root
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Tokens by node; [`Self::NO_TOKEN`] for a probe that reads an embedding.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The token at `node`.
    pub fn token(&self, node: usize) -> Token {
        self.tokens[node]
    }

    /// The parent of `node`; `None` for the root.
    pub fn parent(&self, node: usize) -> Option<usize> {
        (node > 0).then(|| self.parents[node])
    }

    /// Parents by node. The root's entry is 0, itself.
    pub fn parents(&self) -> &[usize] {
        &self.parents
    }

    /// Depths by node; the root has depth 0.
    pub fn depths(&self) -> &[usize] {
        &self.depths
    }

    /// The depth of the deepest node, probes included. One step accepts at most that many drafts.
    pub fn max_depth(&self) -> usize {
        self.depths.iter().copied().max().unwrap_or(0)
    }

    /// Position ids by node: `root_position + depth(node)`. Siblings share a position.
    pub fn positions(&self, root_position: usize) -> impl Iterator<Item = usize> + '_ {
        self.depths.iter().map(move |depth| root_position + depth)
    }

    /// Drafted children of `node`, in insertion order.
    pub fn children(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        (node + 1..self.len()).filter(move |&child| self.parents[child] == node && !self.is_probe(child))
    }

    /// The other drafted children of `node`'s parent, in insertion order. The root has none.
    pub fn siblings(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let parent = self.parents[node];
        let others = (1..self.len()).filter(move |&other| node > 0 && other != node && self.parents[other] == parent);
        others.filter(|&other| !self.is_probe(other))
    }

    /// The drafts (or the root) without drafted children, in increasing order. A lone root is a leaf.
    pub fn leaves(&self) -> Vec<usize> {
        let mut is_leaf: Vec<bool> = (0..self.len()).map(|node| !self.is_probe(node)).collect();
        for node in (1..self.len()).filter(|&node| !self.is_probe(node)) {
            is_leaf[self.parents[node]] = false;
        }
        (0..self.len()).filter(|&node| is_leaf[node]).collect()
    }

    /// The nodes from the root to `node`, both included.
    pub fn path(&self, node: usize) -> PooledVec<usize> {
        let mut path = PooledVec::of(0, self.depths[node] + 1);
        let mut at = node;
        for slot in path.iter_mut().rev() {
            *slot = at;
            at = self.parents[at];
        }
        path
    }

    /// The root-to-leaf paths, one per leaf, in the order of the leaves. Together they cover the tree's drafts.
    pub fn leaf_paths(&self) -> Vec<Vec<usize>> {
        self.leaves().into_iter().map(|leaf| self.path(leaf).to_vec()).collect()
    }
}

#[cfg(test)]
mod tests;
