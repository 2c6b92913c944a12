//! Rows of two networks over one vocabulary, whose logits exist for a chunk of rows at a time.

use crate::{Table, tall_matmul};
use burn::tensor::Tensor;
use std::ops::Range;

/// Hidden states and the LM head that makes them logits.
#[derive(Clone, Copy, Debug)]
pub struct Projected<'a> {
    /// `[rows, d]`.
    pub hidden: &'a Tensor<2>,
    /// `[V, d]`.
    pub weight: &'a Table,
    /// Logits become `cap · tanh(logits / cap)`.
    pub soft_cap: Option<f32>,
}

impl<'a> Projected<'a> {
    /// Without a soft cap.
    pub fn new(hidden: &'a Tensor<2>, weight: &'a Table) -> Self {
        Self { hidden, weight, soft_cap: None }
    }

    fn logits(&self, rows: &Range<usize>) -> Tensor<2> {
        let hidden = self.hidden.clone().narrow(0, rows.start, rows.len());
        match self.soft_cap {
            Some(cap) => (self.weight.logits(hidden) / cap).tanh() * cap,
            None => self.weight.scores(hidden),
        }
    }
}

/// Which gradients of a network are wanted: those of its states, and those of its LM head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub hidden: bool,
    pub weight: bool,
}

/// Shows `each` the logits of both, `chunk` rows at a time, and takes from it the gradient of a loss with respect to
/// the first ones. Returns `∂L/∂h [rows, d]` and `∂L/∂W [V, d]` where they are wanted.
///
/// # Panics
/// If rows or vocabularies differ, or the first network has a soft cap, which has no gradient here.
pub(crate) fn in_chunks(
    of: Projected<'_>,
    target: Projected<'_>,
    chunk: usize,
    wanted: Wanted,
    mut each: impl FnMut(Range<usize>, Tensor<2>, Tensor<2>) -> Tensor<2>,
) -> (Option<Tensor<2>>, Option<Tensor<2>>) {
    let ([rows, d], [vocab, _]) = (of.hidden.dims(), of.weight.dims());
    assert_eq!((rows, vocab), (target.hidden.dims()[0], target.weight.dims()[0]), "rows and vocabulary of both");
    assert_eq!(of.soft_cap, None, "logits that are differentiated are not capped");
    let device = of.weight.device();
    let mut parts = vec![];
    let mut d_weight = wanted.weight.then(|| Tensor::zeros([vocab, d], &device));
    let chunk = of.weight.rows_at_once(chunk);
    for start in (0..rows).step_by(chunk) {
        let part = start..rows.min(start + chunk);
        let (logits, targets) = (of.logits(&part), target.logits(&part));
        let gradient = each(part.clone(), logits, targets);
        let hidden = || of.hidden.clone().narrow(0, part.start, part.len());
        d_weight = d_weight.map(|sum: Tensor<2>| {
            sum + tall_matmul::matmul(gradient.clone().cast(of.hidden.dtype()).transpose(), hidden())
        });
        if wanted.hidden {
            parts.push(of.weight.back(gradient));
        }
    }
    let d_hidden = match parts.len() {
        0 => Tensor::zeros([0, d], &device),
        1 => parts.remove(0),
        _ => Tensor::cat(parts, 0),
    };
    (wanted.hidden.then_some(d_hidden), d_weight)
}
