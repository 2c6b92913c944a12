//! A recorded step's decisions as burn tensors.

use super::{Guide, NoisePositions, NoiseTable, Outcome, Trail, TreeTable};
#[cfg(feature = "gpu")]
use super::{cube, gumbel, path};
use crate::tree_attention::PassTable;
use burn::tensor::{Int, Tensor};

/// The index of each row's greatest logit, the lowest on ties; -1 where a row is no row of scores: one holds NaN or +∞,
/// or has nothing finite.
///
/// # Shapes
/// `logits [1, rows, V]`, result `[rows]`.
///
/// # Panics
/// If the tensor is not on a GPU.
pub fn argmax_rows(logits: &Tensor<3>) -> Tensor<1, Int> {
    #[cfg(feature = "gpu")]
    {
        cube::argmax_rows(logits)
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ = logits;
        crate::device::absent()
    }
}

/// Rows of logits with the noise of a sequence: `s·x - ln E` for a logit `x` and the sharpness `s`, by token and
/// position. With `s = 1/T` its argmax is the token that the host picks by this noise at the temperature `T`, up to
/// rounding in `f32`.
///
/// # Shapes
/// `logits [1, rows, V]`; the result likewise, in `f32`.
///
/// # Panics
/// If the tensors are not on a GPU.
pub fn perturb(logits: &Tensor<3>, noise: &NoiseTable, positions: &NoisePositions, sharpness: f32) -> Tensor<3> {
    #[cfg(feature = "gpu")]
    {
        gumbel::perturb(logits, noise, positions, sharpness)
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ =
            (logits, noise.key(), &positions.table, (positions.offset, positions.stride, positions.step), sharpness);
        crate::device::absent()
    }
}

/// The indices of each row's `width` greatest logits, greatest first, the lowest index first on ties. NaN counts as
/// negative infinity.
///
/// # Shapes
/// `logits [1, rows, V]` with `width ≤ V`, result `[rows, width]`.
///
/// # Panics
/// If the tensor is not on a GPU.
pub fn top_rows(logits: &Tensor<3>, width: usize) -> Tensor<2, Int> {
    #[cfg(feature = "gpu")]
    {
        cube::top_rows(logits, width)
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ = (logits, width);
        crate::device::absent()
    }
}

/// Greedy acceptance: the deepest node all of whose path are their parents' argmaxes, the first of the deepest. Writes
/// the outcome, and the table of the next pass: its prefix, positions and starts, and the bonus token as its root.
///
/// # Shapes
/// `argmax [R]` as [`argmax_rows`] gives it.
///
/// # Panics
/// If the tensors are not on a GPU.
pub fn accept(argmax: &Tensor<1, Int>, tree: &TreeTable, pass_table: &PassTable, outcome: &Outcome) {
    #[cfg(feature = "gpu")]
    {
        path::accept(argmax, tree, pass_table, outcome);
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ = (argmax, tree, pass_table, outcome);
        crate::device::absent()
    }
}

/// Writes the next tree's drafted tokens: node `i` gets guess `ranks[i]` of the head for its depth.
///
/// # Shapes
/// `guesses [heads, width]` as [`top_rows`] gives it, with a head for every depth and a guess for every rank.
///
/// # Panics
/// If the tensors are not on a GPU.
pub fn fill(guesses: &Tensor<2, Int>, tree: &TreeTable, pass_table: &PassTable) {
    #[cfg(feature = "gpu")]
    {
        cube::fill(guesses, tree, pass_table);
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ = (guesses, tree, pass_table);
        crate::device::absent()
    }
}

/// Overrides the tree's drafted tokens as a [`Guide`] for trees as deep says; below roots beyond its positions they
/// stay.
///
/// # Panics
/// If the tensors are not on a GPU, or the guide is for trees of another depth.
pub fn guide(guide: &Guide, tree: &TreeTable, pass_table: &PassTable) {
    assert_eq!(guide.depths, tree.longest - 1, "a guide for another tree");
    #[cfg(feature = "gpu")]
    {
        cube::guide(guide, tree, pass_table);
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ = (guide.positions, guide.vocab, pass_table);
        crate::device::absent()
    }
}

/// Copies a table over another one of its size, in place.
///
/// # Panics
/// If the tensors are not on a GPU.
pub fn overwrite(to: &Tensor<1, Int>, from: &Tensor<1, Int>) {
    #[cfg(feature = "gpu")]
    {
        cube::overwrite(to, from);
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ = (to, from);
        crate::device::absent()
    }
}

/// Writes the trail of an outcome: row `i` is the `i`-th emitted token behind the committed ones, its state that of the
/// `i`-th accepted node.
///
/// # Panics
/// If the tensors are not on a GPU, or an outcome may be longer than the trail.
pub fn follow(outcome: &Outcome, trail: &Trail) {
    assert_eq!(outcome.longest, trail.pass.rows(), "a trail for other trees");
    #[cfg(feature = "gpu")]
    {
        cube::follow(outcome, trail);
    }
    #[cfg(not(feature = "gpu"))]
    {
        crate::device::absent()
    }
}
