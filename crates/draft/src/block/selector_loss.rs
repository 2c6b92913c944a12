//! The selector's loss with gradients: cross-entropy over the candidates of a slot, after the true predecessor.
//!
//! The label takes the place of the last candidate where it is none of them. Logits are numbers here: no gradient goes
//! through them, since the drafter's own loss fits them.

use super::selector::SelectorConfig;
use crate::layer::linear;
use burn::tensor::{Int, Tensor, TensorData, activation};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::top_rows::top_row;
use gorgon_kernels::{Isa, Table};
use gorgon_model::target::read;

/// The candidates of some labels, `K` of each.
pub(super) struct Candidates {
    /// Tokens, `[labels · K]`.
    tokens: Vec<Token>,
    /// Their logits.
    logits: Vec<f32>,
    /// One at the label, zero elsewhere.
    labelled: Vec<f32>,
}

impl Candidates {
    /// The candidates after states that the LM head reads, `[labels, d]`, `chunk` rows of logits at a time.
    pub fn of(k: usize, states: &Tensor<2>, lm_head: &Table, labels: &[Token], chunk: usize) -> Self {
        let [vocab, _] = lm_head.dims();
        let mut all = Self { tokens: vec![], logits: vec![], labelled: vec![] };
        let (chunk, mut top) = (lm_head.rows_at_once(chunk), PooledVec::new());
        for (number, labels) in labels.chunks(chunk).enumerate() {
            let rows = read(lm_head.logits(states.clone().narrow(0, number * chunk, labels.len())));
            for (row, &label) in rows.chunks_exact(vocab).zip(labels) {
                top_row(Isa::detect(), row, k, &mut top);
                let mut tokens: Vec<Token> = top.iter().map(|&(token, _)| token).collect();
                if !tokens.contains(&label)
                    && let Some(last) = tokens.last_mut()
                {
                    *last = label;
                }
                all.logits.extend(tokens.iter().map(|&token| row[token as usize]));
                all.labelled.extend(tokens.iter().map(|&token| f32::from(u8::from(token == label))));
                all.tokens.extend(tokens);
            }
        }
        all
    }
}

/// Cross-entropies of the labels among their candidates.
///
/// # Shapes
/// `weights` are `A`, `B` and `P`, flat; `states [labels, d]`, a predecessor per label; result `[labels]`.
pub(super) fn losses(
    config: SelectorConfig,
    weights: &[Tensor<1>],
    states: &Tensor<2>,
    predecessors: &[Token],
    candidates: Candidates,
) -> Tensor<1> {
    let ([labels, d], rank) = (states.dims(), config.rank);
    let k = candidates.tokens.len() / labels;
    let vocab = weights[0].dims()[0] / rank;
    let rows = |table: &Tensor<1>, tokens: &[Token]| {
        let ids: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
        let n = ids.len();
        let ids = Tensor::<1, Int>::from_data(TensorData::new(ids, [n]), &states.device());
        table.clone().reshape([vocab, rank]).select(0, ids)
    };
    let square = |values: Vec<f32>| {
        Tensor::<2>::from_data(TensorData::new(values, [labels, k]), &states.clone().inner().device()).autodiff()
    };
    let weighed = rows(&weights[0], predecessors) * linear(states, &weights[2], rank, d);
    let successors = rows(&weights[1], &candidates.tokens).reshape([labels, k, rank]);
    let edges = (weighed.reshape([labels, 1, rank]) * successors).sum_dim(2).reshape([labels, k]);
    let likely = activation::log_softmax(square(candidates.logits) + edges, 1);
    (likely * square(candidates.labelled)).sum_dim(1).reshape([labels]).neg()
}

#[cfg(test)]
mod tests;
