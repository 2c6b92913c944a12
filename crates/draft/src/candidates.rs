//! Candidates from what a network says.

use gorgon_core::Token;
use gorgon_core::tree::{Candidate, CandidateRows, TreeBuilder};

/// Likeliest tokens, `counts[i]` of row `i`, row by row, as candidates of which nothing but the order is known.
pub(crate) fn ranked(likeliest: &[(Token, f32)], counts: &[usize]) -> CandidateRows {
    let mut left = likeliest.iter().map(|&(token, _)| Candidate { token, probability: 1.0 });
    let mut rows = CandidateRows::default();
    counts.iter().for_each(|&count| rows.push(left.by_ref().take(count)));
    rows
}

/// Rows of tokens with their probabilities as candidates. Networks are untrusted: a probability that is no number
/// counts as 0 to a builder.
pub(crate) fn likely(rows: Vec<Vec<(Token, f32)>>) -> CandidateRows {
    let candidate = |(token, p): (Token, f32)| Candidate { token, probability: f64::from(p) };
    rows.into_iter().map(|row| row.into_iter().map(candidate)).collect()
}

/// Whether a builder looks at nothing but the order of candidates, at any depth.
pub(crate) fn by_rank(builder: &dyn TreeBuilder) -> bool {
    (0..builder.max_depth()).all(|depth| builder.ranks_at(depth).is_some())
}
