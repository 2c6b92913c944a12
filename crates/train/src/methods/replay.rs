//! Acceptance lengths without decoding: greedy tree decoding is replayed on known text.
//!
//! On text that the backbone would have written itself, a drafted token is accepted exactly when it is the text's. So
//! the ranks that heads give the true tokens determine the accepted length of each step. Stepping through the text by
//! these lengths gives the mean acceptance length of greedy decoding with a given tree.

use crate::evaluation::HeadRanks;
use gorgon_core::tree::PublishedTree;
use gorgon_draft::medusa::{HeadLabels, HeadOutput};
use std::collections::{BTreeMap, BTreeSet};

/// Mean tokens per step, the bonus included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lengths {
    /// With a chain of every head's first guess.
    pub chain: f64,
    /// With the tree `mc_sim_7b_63` of the Medusa authors, as deep as there are heads.
    pub tree: f64,
}

/// Losses and ranks of the heads in one conversation.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The position of each row of hidden states.
    pub positions: Vec<usize>,
    /// The labels of each head.
    pub labels: Vec<HeadLabels>,
    /// Losses and ranks of each head.
    pub outputs: Vec<HeadOutput>,
}

/// Replays measured conversations with `heads` heads.
pub fn replay(measured: &[Measured], heads: usize) -> Lengths {
    let tree: BTreeSet<Vec<u32>> = published();
    let chain = |path: &[u32]| path.iter().all(|&rank| rank == 0);
    let (mut in_chain, mut in_tree) = (Steps::default(), Steps::default());
    for conversation in measured {
        let ranks = by_position(conversation, heads);
        in_chain.run(&ranks, chain);
        in_tree.run(&ranks, |path| tree.contains(path));
    }
    Lengths { chain: in_chain.mean(), tree: in_tree.mean() }
}

/// Losses, ranks and replayed lengths of `heads` heads.
pub(super) fn head_ranks(measured: &[Measured], heads: usize) -> HeadRanks {
    let Lengths { chain, tree } = replay(measured, heads);
    let mut ranks = HeadRanks { length_chain: chain, length_tree: tree, ..HeadRanks::default() };
    for head in 0..heads {
        let outputs = || measured.iter().map(|conversation| &conversation.outputs[head]);
        let n = outputs().map(|o| o.ranks.len()).sum::<usize>().max(1) as f64;
        let within = |k: u32| outputs().flat_map(|o| &o.ranks).filter(|&&rank| rank < k).count() as f64 / n;
        ranks.head_loss.push(outputs().flat_map(|o| &o.losses).map(|&l| f64::from(l)).sum::<f64>() / n);
        ranks.top1.push(within(1));
        ranks.top5.push(within(5));
    }
    ranks
}

fn published() -> BTreeSet<Vec<u32>> {
    let tree = "mc_sim_7b_63".parse::<PublishedTree>().map(|tree| tree.shape().paths());
    // The empty path is the root.
    let paths = tree.into_iter().flatten().filter(|path| !path.is_empty());
    paths.map(|path| path.iter().map(|&rank| rank as u32).collect()).collect()
}

/// The ranks of the first heads at each position, as far as they are known without a gap.
fn by_position(of: &Measured, heads: usize) -> BTreeMap<usize, Vec<u32>> {
    let mut ranks: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for head in 0..heads {
        for (row, rank) in of.labels[head].rows.iter().zip(&of.outputs[head].ranks) {
            let known = ranks.entry(of.positions[*row as usize]).or_default();
            if known.len() == head {
                known.push(*rank);
            }
        }
    }
    ranks
}

#[derive(Default)]
struct Steps {
    steps: usize,
    tokens: usize,
}

impl Steps {
    /// From each position reached, on by the accepted path's length and one.
    fn run(&mut self, ranks: &BTreeMap<usize, Vec<u32>>, is_in_tree: impl Fn(&[u32]) -> bool) {
        let mut next = 0;
        for (&position, path) in ranks {
            if position < next {
                continue;
            }
            let accepted = (0..=path.len()).rev().find(|&n| n == 0 || is_in_tree(&path[..n])).unwrap_or(0);
            self.steps += 1;
            self.tokens += accepted + 1;
            next = position + accepted + 1;
        }
    }

    fn mean(&self) -> f64 {
        if self.steps == 0 { 0.0 } else { self.tokens as f64 / self.steps as f64 }
    }
}

#[cfg(test)]
mod tests;
