//! Tests of `reference`.

use super::*;
use crate::top_rows::top_rows;
use gorgon_core::tree::{Candidate, CandidateRows, CandidateSource, DynamicTree, SourceError, TokenTree, TreeBuilder};

const VOCAB: usize = 40;

/// Logits that depend on the whole path: there are ties within rows, tokens without any chance, and damaged rows.
pub fn logits(path: &[i32], vocab: usize, salt: usize) -> Vec<f32> {
    let start = path.iter().fold(salt * 31 + 7, |state, &token| state * 131 + token as usize * 17 + 3);
    let value = |i: usize| (((start + i * 2_654_435_761) >> 7) % 97) as f32;
    let mut row: Vec<f32> = (0..vocab).map(|i| value(i) / 9.0).collect();
    match (salt % 5, start % 7) {
        (1, _) => (0..vocab).for_each(|i| row[i] = row[i - i % 3]),
        (2, _) => (0..vocab).for_each(|i| row[i] = row[i] * 40.0 + ((start + i * i * 7) % 1009) as f32 / 337.0),
        (3, 0) => row[start % vocab] = f32::NAN,
        (3, 1) => row[start % vocab] = f32::INFINITY,
        (3, 2) => row.fill(f32::NEG_INFINITY),
        (3, 3) => row[..vocab - 1].fill(f32::NEG_INFINITY),
        _ => {}
    }
    row
}

pub const SIZES: [(usize, usize, usize); 8] =
    [(60, 5, 10), (16, 3, 4), (5, 1, 2), (8, 0, 6), (6, 4, 1), (31, 4, 4), (2, 2, 3), (100, 2, 5)];

struct Source(usize);

impl CandidateSource for Source {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let path = |&node: &usize| -> Vec<i32> {
            tree.path(node).iter().skip(1).map(|&node| tree.token(node) as i32).collect()
        };
        let rows: Vec<f32> = nodes.iter().flat_map(|node| logits(&path(node), VOCAB, self.0)).collect();
        let candidate = |&(token, p): &(u32, f32)| Candidate { token, probability: f64::from(p) };
        let rows = top_rows(&rows, VOCAB, widths);
        Ok(rows.iter().map(|row| row.iter().map(candidate)).collect())
    }
}

/// The definition is the host's dynamic tree, for all kinds of rows.
#[test]
fn trees_are_the_hosts() {
    for (nodes, depth, top_k) in SIZES {
        let tree = DynamicTree::new(nodes, depth, top_k).unwrap();
        let growth = Growth { top_k, depth, nodes: tree.max_nodes() };
        assert_eq!(growth.longest(), tree.max_depth() + 1);
        for salt in 0..20 {
            let draft = tree.build(9, &mut Source(salt)).unwrap();
            let want: Vec<i32> = draft.tree().tokens().iter().map(|&token| token as i32).collect();
            let (tokens, parents) = grow(growth, 9, &|path| logits(path, VOCAB, salt));
            assert_eq!((&tokens[..], &parents[..]), (&want[..], draft.tree().parents()), "{growth:?} {salt}");
        }
    }
}
