//! The ancestor mask: who sees whom in one verification pass.

use super::TokenTree;

const BITS: usize = u64::BITS as usize;

/// Which nodes of a tree each node attends to: itself and its ancestors, nothing else. (Every node also sees the whole
/// committed prefix, which is not part of this mask.)
///
/// `row(i) = row(parent(i)) ∪ {i}`, stored as one bit set per row, so that a path is judged by exactly the scores that
/// plain decoding along that path would give (the tree attention of SpecInfer and Medusa).
///
/// # Shapes
/// `[nodes, nodes]`, row = the node that looks, column = the node looked at. Lower triangular, as parents come first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AncestorMask {
    nodes: usize,
    words_per_row: usize,
    /// Bit `j % 64` of word `j / 64` of row `i` says whether `i` sees `j`.
    words: Vec<u64>,
}

impl AncestorMask {
    /// The mask of a tree.
    pub fn new(tree: &TokenTree) -> Self {
        Self::from_parents(tree.parents())
    }

    /// The mask of a tree given by parents that come before their children (the root's is not read).
    pub(super) fn from_parents(parents: &[usize]) -> Self {
        let nodes = parents.len();
        let words_per_row = nodes.div_ceil(BITS);
        let mut words = vec![0; nodes * words_per_row];
        for node in 0..nodes {
            let start = node * words_per_row;
            if node > 0 {
                let parent = parents[node] * words_per_row;
                words.copy_within(parent..parent + words_per_row, start);
            }
            words[start + node / BITS] |= 1 << (node % BITS);
        }
        Self { nodes, words_per_row, words }
    }

    /// Number of nodes, the root included.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Number of 64-bit words per row: `⌈nodes / 64⌉`.
    pub fn words_per_row(&self) -> usize {
        self.words_per_row
    }

    /// All rows, `[nodes, words_per_row]` row-major. Bits beyond the last node are 0.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The bit set of one row.
    ///
    /// # Panics
    /// If `node` is not a node of the tree.
    pub fn row(&self, node: usize) -> &[u64] {
        &self.words[node * self.words_per_row..(node + 1) * self.words_per_row]
    }

    /// Whether `node` attends to `other`. Nothing sees, or is seen by, a number that is no node.
    pub fn sees(&self, node: usize, other: usize) -> bool {
        node < self.nodes && other < self.nodes && self.row(node)[other / BITS] >> (other % BITS) & 1 == 1
    }

    /// The nodes that `node` sees, in increasing order, which is the order from the root down to `node` itself.
    ///
    /// # Panics
    /// If `node` is not a node of the tree.
    pub fn visible(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        self.row(node).iter().enumerate().flat_map(|(word, &bits)| {
            let mut rest = bits;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(word * BITS + bit)
            })
        })
    }

    /// The mask as booleans, `[nodes, nodes]` row-major; true = visible.
    pub fn to_bools(&self) -> Vec<bool> {
        let mut cells = vec![false; self.nodes * self.nodes];
        for (node, row) in cells.chunks_exact_mut(self.nodes.max(1)).enumerate() {
            self.visible(node).for_each(|other| row[other] = true);
        }
        cells
    }

    /// The mask to be added to attention scores, `[nodes, nodes]` row-major: 0 where visible, `hidden` elsewhere
    /// (usually `f32::NEG_INFINITY`, or the most negative number of a narrower type). No row is hidden entirely, so a
    /// softmax over it is defined.
    pub fn to_additive(&self, hidden: f32) -> Vec<f32> {
        self.to_bools().into_iter().map(|seen| if seen { 0.0 } else { hidden }).collect()
    }
}
