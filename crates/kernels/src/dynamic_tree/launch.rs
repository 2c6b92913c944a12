//! The steps of a growing tree as burn tensors.

use super::GrowingTree;
#[cfg(feature = "gpu")]
use super::{cube, top_tokens};
use crate::recorded_step::TreeTable;
use crate::tree_attention::PassTable;
use burn::tensor::{Int, Tensor};

/// Makes the candidates of `level`: the top tokens of each row of logits, the lower token first on ties. Rows
/// that hold NaN or an infinity, or nothing finite, give candidates that are never likely, as those are whose
/// probability is below `e⁻⁸⁷` times that of the top one.
///
/// # Shapes
/// `logits [1, rows, V]`: a row after the root for level 0, `top_k` of them (and any padding) below.
/// `V ≥ top_k`. `tokens [V]` are the tokens of the columns, where those are not their numbers.
///
/// # Panics
/// If the tensors are not on a GPU.
pub fn expand(growing: &GrowingTree, level: usize, logits: &Tensor<3>, tokens: Option<&Tensor<1, Int>>) {
    #[cfg(feature = "gpu")]
    {
        top_tokens::expand(growing, level, logits, tokens);
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ = (&growing.values, &growing.pool, level, logits, tokens);
        crate::device::absent()
    }
}

/// Chooses the `top_k` most valuable candidates of `level`, the earlier ones on ties, and writes the table of the pass
/// over them, behind as many committed rows as `pass_table`, the next verification, has.
///
/// # Panics
/// If the tensors are not on a GPU.
pub fn descend(growing: &GrowingTree, level: usize, pass_table: &PassTable) {
    #[cfg(feature = "gpu")]
    {
        cube::descend(growing, level, pass_table);
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ = (&growing.frontier, level, pass_table);
        crate::device::absent()
    }
}

/// Keeps the most valuable candidates of all levels, the earlier ones on ties, in their order, and writes them into
/// `tree` and into the table of the pass that verifies them, whose root and committed rows are there.
///
/// # Panics
/// If the tensors are not on a GPU, or the tree or the pass has another size.
pub fn finish(growing: &GrowingTree, tree: &TreeTable, pass_table: &PassTable) {
    assert_eq!(
        (growing.growth.nodes, growing.growth.nodes),
        (tree.nodes(), pass_table.rows()),
        "a tree of another size"
    );
    #[cfg(feature = "gpu")]
    {
        cube::finish(growing, tree, pass_table);
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ = &growing.kept;
        crate::device::absent()
    }
}
