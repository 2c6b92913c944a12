//! Properties of a builder's trees that are known before anything is drafted.

use super::{DynamicTree, OwnTree, TreeShape};

/// Properties of a builder's trees that are known before anything is drafted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeKind {
    /// They have this shape, as far as a drafter has candidates for it.
    Fixed(TreeShape),
    /// They are chains of so many drafts.
    Chain(usize),
    /// They go where paths are likely.
    Dynamic(DynamicTree),
    /// The drafter makes them, within this budget.
    Own(OwnTree),
}

impl TreeKind {
    /// The shape, if it is always the same; chains may be too deep for one.
    pub fn shape(&self) -> Option<TreeShape> {
        match self {
            Self::Fixed(shape) => Some(shape.clone()),
            Self::Chain(drafts) => TreeShape::cartesian(&vec![1; *drafts]).ok(),
            Self::Dynamic(_) | Self::Own(_) => None,
        }
    }

    /// The dynamic tree that drafts the same: itself, or for a chain one that expands a single node, unless it is too
    /// deep.
    pub fn as_dynamic(&self) -> Option<DynamicTree> {
        match *self {
            Self::Fixed(_) | Self::Own(_) => None,
            Self::Chain(drafts) => DynamicTree::new(drafts + 1, drafts.saturating_sub(1), 1).ok(),
            Self::Dynamic(tree) => Some(tree),
        }
    }
}
