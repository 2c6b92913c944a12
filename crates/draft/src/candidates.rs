//! Candidates from what a network says.

use gorgon_core::Token;
use gorgon_core::tree::{Candidate, TreeBuilder};

/// Likeliest tokens, `counts[i]` of row `i`, row by row, as candidates of which nothing but the order is known.
pub(crate) fn ranked(likeliest: Vec<(Token, f32)>, counts: &[usize]) -> Vec<Vec<Candidate>> {
    let mut left = likeliest.into_iter().map(|(token, _)| Candidate { token, probability: 1.0 });
    counts.iter().map(|&count| left.by_ref().take(count).collect()).collect()
}

/// Rows of tokens with their probabilities as candidates. Networks are untrusted: a probability that is no number counts as 0 to a builder.
pub(crate) fn likely(rows: Vec<Vec<(Token, f32)>>) -> Vec<Vec<Candidate>> {
    let candidate = |(token, p): (Token, f32)| Candidate { token, probability: f64::from(p) };
    rows.into_iter().map(|row| row.into_iter().map(candidate).collect()).collect()
}

/// Whether a builder looks at nothing but the order of candidates, at any depth.
pub(crate) fn by_rank(builder: &dyn TreeBuilder) -> bool {
    (0..builder.max_depth()).all(|depth| builder.ranks_at(depth).is_some())
}
