//! Tests of `trellis`.

use super::*;
use crate::tree::{Candidate, CandidateRows, SourceError, TokenTree};

/// Rows of pseudo-random probabilities that depend on the path, or on its depth alone.
struct Drawn {
    seed: u64,
    /// The number of tokens, all of which are candidates.
    vocab: u32,
    marginal: bool,
}

impl Drawn {
    fn row(&self, path: &[Token]) -> Vec<Candidate> {
        let mix = |state: u64, word: u64| {
            let state = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            state ^ (state >> 29)
        };
        let state = match self.marginal {
            true => mix(self.seed, path.len() as u64),
            false => path.iter().fold(self.seed, |state, &token| mix(state, u64::from(token))),
        };
        let weights: Vec<f64> = (0..self.vocab).map(|token| (mix(state, u64::from(token)) % 97 + 1) as f64).collect();
        let sum: f64 = weights.iter().sum::<f64>() * 1.25;
        let candidate = |(token, weight): (u32, f64)| Candidate { token, probability: weight / sum };
        let mut row: Vec<Candidate> = (0..).zip(weights).map(candidate).collect();
        row.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        row
    }
}

impl CandidateSource for Drawn {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let path = |node: usize| tree.path(node)[1..].iter().map(|&at| tree.token(at)).collect::<Vec<_>>();
        Ok(nodes.iter().zip(widths).map(|(&node, &width)| self.row(&path(node)).into_iter().take(width)).collect())
    }
}

fn value(tree: &DraftTree) -> f64 {
    let path = |node: usize| tree.tree().path(node).iter().map(|&at| tree.probabilities()[at]).product::<f64>();
    (1..tree.tree().len()).map(path).sum()
}

/// The greatest sum of values among all trees of `drafts` drafts, by trying every one.
fn best_of_all(source: &Drawn, depth: usize, drafts: usize) -> f64 {
    fn grow(source: &Drawn, open: &[(f64, Vec<Token>)], depth: usize, drafts: usize) -> f64 {
        if drafts == 0 {
            return 0.0;
        }
        // A tree either has the first open path, or none of its descendants.
        let Some(((value, path), rest)) = open.split_first() else { return 0.0 };
        let without = grow(source, rest, depth, drafts);
        let mut wider = rest.to_vec();
        if path.len() < depth {
            let children = source.row(path);
            wider
                .extend(children.iter().map(|child| (value * child.probability, [&path[..], &[child.token]].concat())));
        }
        without.max(value + grow(source, &wider, depth, drafts - 1))
    }
    let open: Vec<_> = source.row(&[]).iter().map(|c| (c.probability, vec![c.token])).collect();
    grow(source, &open, depth, drafts)
}

#[test]
fn no_tree_of_as_many_nodes_has_a_greater_value() {
    for seed in 0..12 {
        for (vocab, depth, most) in [(3, 3, 5), (2, 4, 6), (4, 2, 6)] {
            for marginal in [false, true] {
                let mut source = Drawn { seed, vocab, marginal };
                for drafts in 1..=most {
                    let tree = TrellisTree::new(drafts + 1, depth).unwrap().build(9, &mut source).unwrap();
                    let (found, best) = (value(&tree), best_of_all(&source, depth, drafts));
                    assert!((found - best).abs() < 1e-12, "seed {seed}, {drafts} drafts: {found} of {best}");
                    assert_eq!(tree.tree().len(), drafts + 1);
                }
            }
        }
    }
}

#[test]
fn trees_of_growing_budgets_hold_each_other() {
    let mut source = Drawn { seed: 5, vocab: 20, marginal: false };
    let paths = |tree: &DraftTree| -> std::collections::BTreeSet<Vec<Token>> {
        (0..tree.tree().len())
            .map(|node| tree.tree().path(node).iter().map(|&at| tree.tree().token(at)).collect())
            .collect()
    };
    let mut smaller = paths(&TrellisTree::new(2, 8).unwrap().build(1, &mut source).unwrap());
    for nodes in 3..80 {
        let larger = paths(&TrellisTree::new(nodes, 8).unwrap().build(1, &mut source).unwrap());
        assert!(larger.is_superset(&smaller) && larger.len() == nodes);
        smaller = larger;
    }
}

#[test]
fn the_number_of_nodes_is_the_one_that_pays_most() {
    let mut source = Drawn { seed: 3, vocab: 8, marginal: false };
    let fixed = TrellisTree::new(40, 8).unwrap();
    // A staircase: a node more is free up to the next multiple of 8.
    let stairs = |nodes: usize| 1.0 + 0.3 * (nodes.div_ceil(8) - 1) as f64;
    for cost in [&stairs as &dyn Fn(usize) -> f64, &|nodes| nodes as f64, &|_| 1.0, &|nodes| 1.0 + 0.02 * nodes as f64]
    {
        let tree = fixed.clone().with_costs(cost).build(1, &mut source).unwrap();
        let gain = |nodes: usize| {
            let drafted = if nodes == 1 {
                0.0
            } else {
                value(&TrellisTree::new(nodes, 8).unwrap().build(1, &mut Drawn { ..source }).unwrap())
            };
            (1.0 + drafted) / cost(nodes)
        };
        let best = (1..=40).map(gain).fold(0.0, f64::max);
        assert!((gain(tree.tree().len()) - best).abs() < 1e-12);
    }
    assert_eq!(fixed.clone().with_costs(|nodes| nodes as f64).build(1, &mut source).unwrap().tree().len(), 1);
    assert_eq!(fixed.with_costs(|_| 1.0).build(1, &mut source).unwrap().tree().len(), 40);
}

#[test]
fn sizes_are_checked() {
    assert_eq!(TrellisTree::new(1, 3), Err(TrellisError::Nodes(1)));
    assert_eq!(TrellisTree::new(MAX_NODES + 1, 3), Err(TrellisError::Nodes(MAX_NODES + 1)));
    assert_eq!(TrellisTree::new(4, 0), Err(TrellisError::Depth(0)));
    let tree = TrellisTree::new(4, 9).unwrap();
    assert_eq!((tree.max_nodes(), tree.max_depth(), tree.ranks_at(0)), (4, 3, None));
}
