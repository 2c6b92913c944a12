//! Held-out conversations, side by side.

use crate::error::TrainError;
use gorgon_draft::fitting::free_graphs;
use gorgon_kernels::team;
use rayon::prelude::*;

/// Evaluates `count` held-out conversations side by side. Results are in their order. Memory does not grow with `count`
/// beyond the results: what each one leaves in the graph of gradients is freed.
///
/// # Errors
/// The first error of `one`.
pub(crate) fn each<R: Send>(
    count: usize,
    one: impl Fn(usize) -> Result<R, TrainError> + Sync,
) -> Result<Vec<R>, TrainError> {
    let evaluated = |index: usize| {
        let found = team::one_of(count, || one(index));
        free_graphs();
        found
    };
    (0..count).into_par_iter().map(evaluated).collect()
}
