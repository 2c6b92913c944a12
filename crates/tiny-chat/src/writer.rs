//! Random choices, with the two splits kept apart.

use crate::dialogue::Split;
use gorgon_core::accept::random::SeededRandom;
use std::fmt::Debug;

/// One in this many operand tuples is held out.
const HELD_OUT_SHARE: u64 = 8;

/// Writes a dialogue: a seeded source of randomness that knows which split it writes for.
pub struct Writer {
    random: SeededRandom,
    split: Split,
}

impl Writer {
    /// The writer of dialogue `index` of a split.
    pub fn new(seed: u64, split: Split, index: u64) -> Self {
        let half = match split {
            Split::Train => 0,
            Split::HeldOut => 1 << 63,
        };
        Self { random: SeededRandom::stream(seed, index | half), split }
    }

    /// The split written for.
    pub fn split(&self) -> Split {
        self.split
    }

    /// A number in `[0, 1)`.
    pub fn uniform(&mut self) -> f64 {
        self.random.uniform()
    }

    /// A number in `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.random.uniform() * n as f64) as usize).min(n.saturating_sub(1))
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.random.uniform() < p
    }

    /// Any element.
    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// `n` different elements, in random order.
    pub fn distinct<T: Clone>(&mut self, from: &[T], n: usize) -> Vec<T> {
        let mut left: Vec<T> = from.to_vec();
        (0..n.min(from.len())).map(|_| left.swap_remove(self.below(left.len()))).collect()
    }

    /// A wording of a user's turn. The last quarter of the list (at least one of it) is held out: training never sees
    /// it, and held-out prompts use nothing else.
    pub fn wording<'a>(&mut self, wordings: &[&'a str]) -> &'a str {
        let held_out = (wordings.len() / 4).max(1);
        let (train, held) = wordings.split_at(wordings.len() - held_out);
        match self.split {
            Split::Train if !train.is_empty() => self.pick(train),
            _ => self.pick(held),
        }
    }

    /// Operands of a task: drawn until their hash falls into this split, so that no operands of a kind are in both.
    /// There must be enough operands for both splits; kinds with few are held out by wording alone.
    pub fn operands<T: Debug>(&mut self, kind: &str, mut draw: impl FnMut(&mut Self) -> T) -> T {
        loop {
            let operands = draw(self);
            let held_out = hash(&format!("{kind}:{operands:?}")).is_multiple_of(HELD_OUT_SHARE);
            if held_out == (self.split == Split::HeldOut) {
                return operands;
            }
        }
    }
}

/// FNV-1a, finished with a mixer: the same on every machine and in every version of the language.
fn hash(text: &str) -> u64 {
    let fnv =
        text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, byte| (h ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mixed = (fnv ^ (fnv >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}
