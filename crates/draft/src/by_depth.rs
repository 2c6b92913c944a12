//! Candidates of drafters that guess all depths at once: a row per depth, whatever a node's ancestors are.

use gorgon_core::tree::{Candidate, CandidateRows, CandidateSource, SourceError, TokenTree};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::Isa;
use gorgon_kernels::top_rows::top_row;

/// How many candidates of each of `depths` depths a tree takes by their order alone, as [`TreeBuilder::ranks_at`]
/// says; `None` if it looks at their probabilities.
///
/// [`TreeBuilder::ranks_at`]: gorgon_core::tree::TreeBuilder::ranks_at
pub(crate) fn ranks(depths: usize, ranks_at: impl Fn(usize) -> Option<usize>) -> Option<PooledVec<usize>> {
    let counts: PooledVec<usize> = (0..depths).map_while(ranks_at).collect();
    (counts.len() == depths).then_some(counts)
}

/// The most likely tokens of each depth as candidates.
pub(crate) struct RankedByDepth(CandidateRows);

impl RankedByDepth {
    /// `counts[k]` tokens of depth `k`, depth by depth, of which nothing but the order is known.
    pub fn new(top_tokens: &[(Token, f32)], counts: &[usize]) -> Self {
        let mut left = top_tokens.iter().map(|&(token, _)| Candidate { token, probability: 1.0 });
        let mut rows = CandidateRows::default();
        counts.iter().for_each(|&count| rows.push(left.by_ref().take(count)));
        Self(rows)
    }
}

impl CandidateSource for RankedByDepth {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let depth = nodes.first().map_or(0, |&node| tree.depths()[node]);
        Ok(widths.iter().map(|&width| self.0.row(depth).iter().take(width).copied()).collect())
    }
}

/// The logits of each depth as candidates.
pub(crate) struct LogitsByDepth<'a> {
    /// `[depths, V]`, row-major.
    pub logits: &'a [f32],
    /// `V`.
    pub vocab: usize,
}

impl CandidateSource for LogitsByDepth<'_> {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let depth = nodes.first().map_or(0, |&node| tree.depths()[node]);
        let row = self.logits.chunks_exact(self.vocab).nth(depth).unwrap_or(&[]);
        let most = widths.iter().copied().max().unwrap_or(0);
        // Heads are untrusted: a probability that is no number counts as 0.
        let candidate = |&(token, p): &(u32, f32)| Candidate { token, probability: f64::from(p) };
        let mut top = PooledVec::new();
        top_row(Isa::detect(), row, most, &mut top);
        Ok(widths.iter().map(|&width| top.iter().take(width).map(candidate)).collect())
    }
}
