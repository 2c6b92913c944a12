//! The distributions that a rule is given.

use crate::dist::Row;

/// How the children of a node were chosen from the drafter's distribution at that node.
///
/// A lossless rule is lossless only if this is the truth: a drafter that chooses among its draws afterwards (say, keeps
/// the likeliest ones) holds a [`SamplingScheme::Deterministic`] list, which is always safe to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingScheme {
    /// Independent draws (siblings may repeat a token).
    Independent,
    /// Draws without replacement, in the order of the children.
    WithoutReplacement,
    /// A deterministic list (the drafter's top k, or tokens that come with no distribution at all).
    Deterministic,
}

/// One distribution per tree node, over the vocabulary.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// Raw scores `[nodes, vocab]`; a softmax makes them probabilities.
    Logits {
        /// Row-major scores.
        data: &'a [f32],
        /// Row length.
        vocab: usize,
    },
    /// Probabilities `[nodes, vocab]`.
    Probabilities {
        /// Row-major probabilities.
        data: &'a [f64],
        /// Row length.
        vocab: usize,
    },
}

impl<'a> Rows<'a> {
    /// The row of `node`; `None` if the data end before it.
    ///
    /// # Shapes
    /// `[vocab]`.
    pub fn row(&self, node: usize) -> Option<Row<'a>> {
        let span = |vocab: usize| Some(node.checked_mul(vocab)?..node.checked_add(1)?.checked_mul(vocab)?);
        match *self {
            Self::Logits { data, vocab } => data.get(span(vocab)?).map(Row::Logits),
            Self::Probabilities { data, vocab } => data.get(span(vocab)?).map(Row::Probabilities),
        }
    }

    /// The target's row of `node`, which a verified tree always has.
    ///
    /// # Panics
    /// If the data end before it: the target then verified another tree.
    pub(super) fn verified(&self, node: usize) -> Row<'a> {
        self.row(node).unwrap_or_else(|| panic!("the target's rows end before node {node} of the verified tree"))
    }
}

/// What the drafter knows about its own tree.
///
/// Rows are the drafter's own law before any [`Transform`](crate::dist::Transform); the rule applies the transform, and
/// the drafter must have drawn from the transformed law. Rows are untrusted: one that is missing or not
/// [sound](Row::is_sound) is not used, and the node's children count as a deterministic list, which keeps a lossless
/// rule lossless whatever the tokens are. Rows of nodes without children are never read.
#[derive(Clone, Copy, Debug)]
pub struct DraftRows<'a> {
    /// The drafter's distribution *at* each node (the law its children were taken from); `None` if it has none.
    pub rows: Option<Rows<'a>>,
    /// How the children were taken.
    pub law: SamplingScheme,
}

impl<'a> DraftRows<'a> {
    /// A drafter without distributions: every node's children are a list.
    pub const NONE: DraftRows<'static> = DraftRows { rows: None, law: SamplingScheme::Deterministic };

    /// The row of `node`, if there is one and it is sound.
    pub(super) fn sound(&self, node: usize) -> Option<Row<'a>> {
        self.rows.and_then(|rows| rows.row(node)).filter(Row::is_sound)
    }
}
