//! A path of most likely tokens with siblings at each place.

use crate::levels::{LevelNetwork, Levels};
use gorgon_core::tree::{CandidateRows, CandidateSource, SourceError, TokenTree};

/// The path ends after a token less likely than this.
const STOP: f64 = 0.8;
/// Tokens at a place whose first token is more likely than the bound.
pub(super) const GREEDY: Widths = [(0.95, 3), (0.8, 5), (0.5, 8)];
/// Tokens at such a place at temperatures above 0.
pub(super) const SAMPLED: Widths = [(0.95, 1), (0.8, 3), (0.5, 5)];
/// Tokens at any other place.
const WIDEST: usize = 10;

/// Bounds and numbers of tokens, the greatest bound first.
pub(super) type Widths = [(f64, usize); 3];

/// A network as a source of candidates: only the first child of the last node asked about has children.
pub(super) struct Spine<'a, N> {
    levels: Levels<'a, N>,
    /// The last node of the path that was asked about, and whether the path ends after its child.
    last: Option<(usize, bool)>,
    widths: Widths,
}

impl<'a, N: LevelNetwork> Spine<'a, N> {
    /// `levels` has to know probabilities ([`Levels::with_probabilities`]).
    pub fn new(levels: Levels<'a, N>, widths: Widths) -> Self {
        Self { levels, last: None, widths }
    }

    /// The node of the path among these of one level.
    fn next(&self, tree: &TokenTree, nodes: &[usize]) -> Option<usize> {
        match self.last {
            None => (!nodes.is_empty()).then_some(0),
            Some((_, true)) => None,
            Some((last, false)) => nodes.iter().position(|&node| tree.parent(node) == Some(last)),
        }
    }
}

/// Tokens at a place.
pub(super) fn width(widths: &Widths, first: f64) -> usize {
    widths.iter().find(|(bound, _)| first > *bound).map_or(WIDEST, |(_, width)| *width)
}

impl<N: LevelNetwork> CandidateSource for Spine<'_, N> {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let mut rows = CandidateRows::default();
        let Some(at) = self.next(tree, nodes) else { return Ok(nodes.iter().map(|_| []).collect()) };
        let found = self.levels.expand(tree, &nodes[at..=at], &[widths[at].min(WIDEST)])?;
        let row = found.row(0);
        let first = row.first().map_or(0.0, |first| first.probability);
        self.last = Some((nodes[at], first < STOP || first.is_nan()));
        for i in 0..nodes.len() {
            let own = if i == at { width(&self.widths, first) } else { 0 };
            rows.push(row.iter().take(own).copied());
        }
        Ok(rows)
    }
}
