//! Candidates from what a network says.

use gorgon_core::Token;
use gorgon_core::tree::{Candidate, CandidateRows, TreeBuilder};
use gorgon_kernels::top_rows::TopRows;

/// Likeliest tokens, `counts[i]` of row `i`, row by row, as candidates of which nothing but the order is known.
pub(crate) fn ranked(top_tokens: &[(Token, f32)], counts: &[usize]) -> CandidateRows {
    let mut left = top_tokens.iter().map(|&(token, _)| Candidate { token, probability: 1.0 });
    let mut rows = CandidateRows::default();
    counts.iter().for_each(|&count| rows.push(left.by_ref().take(count)));
    rows
}

/// Rows of columns of logits with their probabilities as candidates: the tokens that `token` says the columns are.
/// Networks are untrusted: a probability that is no number counts as 0 to a builder.
pub(crate) fn likely(rows: &TopRows, token: impl Fn(u32) -> Token) -> CandidateRows {
    let candidate = |&(column, p): &(u32, f32)| Candidate { token: token(column), probability: f64::from(p) };
    rows.iter().map(|row| row.iter().map(candidate)).collect()
}

/// Whether a builder looks at nothing but the order of candidates, at any depth.
pub(crate) fn by_rank(builder: &dyn TreeBuilder) -> bool {
    (0..builder.max_depth()).all(|depth| builder.ranks_at(depth).is_some())
}
