//! Drafting a tree level by level with a network.

use crate::drafter::DraftError;
use crate::trace::Guess;
use gorgon_core::accept::{RandomSource, SamplingScheme};
use gorgon_core::dist::{Row, Transform};
use gorgon_core::tree::{
    BuildError, Candidate, CandidateRows, CandidateSource, DraftTree, SourceError, TokenTree, TreeBuilder,
};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::top_rows::top_rows;
use gorgon_model::hidden_states::HiddenStates;

/// A network that guesses the tokens after nodes of a tree, one level at a time.
pub(crate) trait LevelNetwork {
    /// Reads nodes of one level, whose ancestors it has read, and yields one state per node. `None` beyond the last
    /// level that it can guess.
    fn read(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<Option<HiddenStates>, SourceError>;

    /// Logits of states over the tokens that can be drafted.
    ///
    /// # Shapes
    /// Result `[rows · D]`, row-major.
    fn logits(&self, states: &HiddenStates) -> PooledVec<f32>;

    /// Number of tokens that can be drafted, D.
    fn columns(&self) -> usize;

    /// The token of a column of logits.
    fn token(&self, column: u32) -> Token {
        column
    }

    /// The `widths[i]` tokens with the greatest logits of state `i`, greatest first, if they can be found without all
    /// logits.
    fn top_tokens(&self, states: &HiddenStates, widths: &[usize]) -> Option<PooledVec<(Token, f32)>>;
}

/// How children are taken from a network's logits.
pub(crate) enum Children<'a> {
    /// The most likely tokens; none where even the most likely one is less likely than `stop`.
    MostLikely {
        /// A probability at temperature 1.
        stop: Option<f64>,
    },
    /// Draws from the transformed distribution.
    Drawn {
        /// With or without replacement.
        scheme: SamplingScheme,
        /// Transform applied to the distribution first.
        transform: Transform,
        /// Where the draws come from.
        random: &'a mut dyn RandomSource,
    },
}

/// A network as a source of candidates.
pub(crate) struct Levels<'a, N> {
    network: N,
    children: Children<'a>,
    /// Whether the tree looks at nothing but the order of candidates.
    ranked: bool,
    /// The distributions at expanded nodes, if the acceptance rule asks for them.
    distributions: Option<Distributions>,
}

impl<'a, N: LevelNetwork> Levels<'a, N> {
    /// Most likely tokens as children.
    pub fn most_likely(network: N, tree: &dyn TreeBuilder) -> Self {
        Self::new(network, tree, Children::MostLikely { stop: None }, false)
    }

    /// Most likely tokens as children, each with its probability, whatever the tree looks at.
    pub fn with_probabilities(network: N) -> Self {
        Self { network, children: Children::MostLikely { stop: None }, ranked: false, distributions: None }
    }

    /// Children taken in some way. With `keep`, the distributions are kept ([`Self::distributions`]).
    pub fn new(network: N, tree: &dyn TreeBuilder, children: Children<'a>, keep: bool) -> Self {
        let by_rank = (0..tree.max_depth()).all(|depth| tree.ranks_at(depth).is_some());
        let ranked = by_rank && !keep && matches!(children, Children::MostLikely { stop: None });
        Self { network, children, ranked, distributions: keep.then(Distributions::default) }
    }

    /// The network, once the tree is built.
    pub fn into_network(self) -> N {
        self.network
    }

    /// The drafter's distribution at each node of a tree that was built from this source, as logits `[nodes · D]`.
    /// Nodes without children were not asked about: their rows are zeros, which no rule reads.
    pub fn distributions(&self, draft: &DraftTree) -> Option<PooledVec<f32>> {
        self.distributions.as_ref().map(|all| all.of(draft, self.network.columns()))
    }

    /// Candidates of which nothing but the order is known.
    fn by_rank(&self, states: &HiddenStates, widths: &[usize]) -> Option<CandidateRows> {
        let top = if self.ranked { self.network.top_tokens(states, widths) } else { None }?;
        let mut left = top.iter().map(|&(token, _)| Candidate { token, probability: 1.0 });
        let mut rows = CandidateRows::default();
        widths.iter().for_each(|&width| rows.push(left.by_ref().take(width)));
        Some(rows)
    }

    /// Candidates from all logits `[widths.len() · D]`.
    fn by_logits(&mut self, logits: &[f32], widths: &[usize]) -> CandidateRows {
        let (network, columns) = (&self.network, self.network.columns());
        match &mut self.children {
            Children::MostLikely { stop } => {
                let candidate = |&(column, p): &(u32, f32)| {
                    // Networks are untrusted: to a builder, a probability that is no number counts as 0.
                    Candidate { token: network.token(column), probability: f64::from(p) }
                };
                let likely_enough = |row: &[(u32, f32)]| {
                    stop.is_none_or(|stop| row.first().is_some_and(|&(_, most)| f64::from(most) >= stop))
                };
                let rows = top_rows(logits, columns, widths);
                rows.iter().map(|row| if likely_enough(row) { row } else { &[] }.iter().map(candidate)).collect()
            }
            Children::Drawn { scheme, transform, random } => {
                let mut all = CandidateRows::default();
                for (row, &width) in logits.chunks_exact(columns).zip(widths) {
                    let q = transform.apply(Row::Logits(row));
                    let drawn = scheme.children(&q, width, &mut **random);
                    all.push(
                        drawn
                            .iter()
                            .map(|&column| Candidate { token: network.token(column), probability: q[column as usize] }),
                    );
                }
                all
            }
        }
    }
}

impl<N: LevelNetwork> CandidateSource for Levels<'_, N> {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let Some(states) = self.network.read(tree, nodes)? else { return Ok(nodes.iter().map(|_| []).collect()) };
        if let Some(rows) = self.by_rank(&states, widths) {
            return Ok(rows);
        }
        let logits = self.network.logits(&states);
        if let Some(distributions) = &mut self.distributions {
            distributions.nodes.extend_from_slice(nodes);
            distributions.rows.extend_from_slice(&logits);
        }
        Ok(self.by_logits(&logits, widths))
    }
}

/// The distributions at the nodes that were expanded.
#[derive(Default)]
struct Distributions {
    nodes: PooledVec<usize>,
    /// Logits, `[nodes · D]`.
    rows: PooledVec<f32>,
}

impl Distributions {
    fn of(&self, draft: &DraftTree, columns: usize) -> PooledVec<f32> {
        let mut rows = PooledVec::of(0.0, draft.tree().len() * columns);
        for (row, source) in rows.chunks_exact_mut(columns).zip(draft.source_nodes()) {
            if let Some(at) = self.nodes.iter().position(|node| node == source) {
                row.copy_from_slice(&self.rows[at * columns..(at + 1) * columns]);
            }
        }
        rows
    }
}

/// The nodes of the level that was read last, by their rows.
#[derive(Debug)]
pub(crate) struct Level {
    /// Row of each node of the tree, `None` where it is not of this level.
    row_of: PooledVec<Option<usize>>,
}

impl Level {
    /// The root's level.
    pub fn root() -> Self {
        Self { row_of: PooledVec::of(Some(0), 1) }
    }

    /// A level of these nodes of a tree.
    pub fn of(tree: &TokenTree, nodes: &[usize]) -> Self {
        let mut row_of = PooledVec::of(None, tree.len());
        nodes.iter().enumerate().for_each(|(row, &node)| row_of[node] = Some(row));
        Self { row_of }
    }

    /// The rows of the parents of some nodes of the next level.
    ///
    /// # Errors
    /// When a parent is not of this level.
    pub fn parents(&self, tree: &TokenTree, nodes: &[usize]) -> Result<PooledVec<usize>, SourceError> {
        let row = |&node: &usize| self.row_of.get(tree.parents()[node]).copied().flatten();
        let rows: Option<PooledVec<usize>> = nodes.iter().map(row).collect();
        rows.ok_or_else(|| "a tree is drafted level by level".into())
    }
}

/// The tokens of some nodes.
pub(crate) fn tokens_of(tree: &TokenTree, nodes: &[usize]) -> PooledVec<Token> {
    nodes.iter().map(|&node| tree.token(node)).collect()
}

/// Reads a root and each of the given drafts after it, as far as the network goes.
pub(crate) fn follow(network: &mut impl LevelNetwork, root: Token, drafts: &[Token]) -> Result<Vec<Guess>, DraftError> {
    let mut tree = TokenTree::root(root);
    let mut guesses = vec![];
    for node in 0..=drafts.len() {
        let Some(states) = network.read(&tree, &[node]).map_err(BuildError::Source)? else { break };
        let logits = network.logits(&states).into_vec();
        guesses.push(Guess { state: states.into_values().into_vec(), logits });
        if let Some(&draft) = drafts.get(node) {
            tree.push(node, draft);
        }
    }
    Ok(guesses)
}
