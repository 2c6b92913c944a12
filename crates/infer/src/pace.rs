//! Which tree pays for a number of sequences, by what steps took so far.

use gorgon_core::mean_speed::MeanSpeed;
use gorgon_core::tree::{ChainTree, TreeBuilder};
use std::time::Duration;

/// Steps of a kind that are taken before their speed counts.
const TRIALS: u32 = 4;
/// A step in so many is taken another way, so that its speed stays known.
const REVISIT: u32 = 64;

/// A way to draft a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The tree that was asked for.
    Tree,
    /// A short chain.
    Chain,
    /// Nothing.
    Plain,
}

impl Choice {
    const ALL: [Self; 3] = [Self::Tree, Self::Chain, Self::Plain];
}

/// Steps of about as many sequences: a power of two at most.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    ways: [MeanSpeed; 3],
    steps: u32,
}

/// Speeds of drafted and plain steps by the number of sequences, and the choice that follows from them.
///
/// A step of `n` sequences is drafted the way whose moving means of tokens and seconds have the greatest ratio. Every
/// way is tried for a few steps first, and once in 64 steps again. Choices depend on clocks; a lossless text does not
/// depend on the choice.
pub struct Pace {
    chain: Option<ChainTree>,
    sizes: Vec<Size>,
}

impl Pace {
    /// Nothing measured yet. The short chain, if there is one, is tried too.
    pub fn new(chain: Option<ChainTree>) -> Self {
        Self { chain, sizes: vec![] }
    }

    /// How to draft a step of so many sequences.
    pub fn choose(&mut self, sequences: usize) -> Choice {
        let size = size(sequences);
        if self.sizes.len() <= size {
            self.sizes.resize(size + 1, Size::default());
        }
        let (chain, size) = (self.chain.is_some(), &mut self.sizes[size]);
        size.steps = size.steps.wrapping_add(1);
        let ways = Choice::ALL.into_iter().filter(|&way| way != Choice::Chain || chain);
        let untried = ways.clone().find(|&way| size.ways[way as usize].steps() < TRIALS);
        let revisited = (size.steps % REVISIT == 0).then(|| (size.steps / REVISIT) as usize % ways.clone().count());
        if let Some(way) = untried.or_else(|| ways.clone().nth(revisited?)) {
            return way;
        }
        let rate = |way: &Choice| size.ways[*way as usize].rate(TRIALS).unwrap_or(0.0);
        ways.max_by(|a, b| rate(a).total_cmp(&rate(b))).unwrap_or(Choice::Tree)
    }

    /// The tree of a choice; `None` for the one that was asked for.
    pub fn tree(&self, choice: Choice) -> Option<&dyn TreeBuilder> {
        match choice {
            Choice::Tree => None,
            Choice::Chain => self.chain.as_ref().map(|chain| chain as &dyn TreeBuilder),
            Choice::Plain => Some(&ChainTree::ROOT),
        }
    }

    /// Notes what a step took and how many tokens it emitted.
    pub fn record(&mut self, sequences: usize, choice: Choice, time: Duration, tokens: usize) {
        if let Some(size) = self.sizes.get_mut(size(sequences)) {
            // Steps of fewer sequences count for as many tokens as they had.
            size.ways[choice as usize].add(time.as_secs_f64(), tokens as f64);
        }
    }

    /// For each number of sequences that was measured, as the power of two it lies below: tokens per second of the
    /// fastest way, over those of plain steps.
    pub fn speedups(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.sizes.iter().enumerate().filter_map(|(power, size)| {
            let plain = size.ways[Choice::Plain as usize].rate(TRIALS)?;
            let best = size.ways.iter().filter_map(|way| way.rate(TRIALS)).fold(plain, f64::max);
            Some((1 << power, best / plain))
        })
    }
}

/// The least `p` with `sequences <= 2^p`.
fn size(sequences: usize) -> usize {
    sequences.max(1).next_power_of_two().trailing_zeros() as usize
}

#[cfg(test)]
mod tests;
