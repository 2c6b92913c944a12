//! The search for sub-layers to leave out.

use super::gaussian;
use super::stored::{Stored, left_out};
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::Row;
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::ModelError;
use gorgon_model::pass::{PassPlan, SkippedSublayers};
use gorgon_model::target::Target;

/// Tokens that a score is taken over.
pub(super) const CONTEXT: usize = 32;
/// A score at which the search ends.
const GOOD: f64 = 0.95;
/// Tries without a better set after which the search ends.
const PATIENCE: usize = 300;
/// Tries after which it ends in any case.
const MOST_TRIES: usize = 1000;
/// Every so many tries, the set comes from the Gaussian process.
const MODELLED: usize = 25;
/// Scores that the process is fitted to: the last ones, so that a step stays cheap.
const REMEMBERED: usize = 128;
/// Random sets of which the process picks one.
const CANDIDATES: usize = 256;

/// An answer that sets are tried on.
pub(super) struct Answer<'a> {
    /// The target with what is in front of the answer.
    pub before: &'a mut dyn Target,
    /// The answer's first tokens, [`CONTEXT`] and one.
    pub tokens: &'a [Token],
}

impl Answer<'_> {
    /// The share of tokens that are most likely in one pass over those before them without some sub-layers.
    pub fn score(&mut self, set: &SkippedSublayers) -> Result<f64, ModelError> {
        let read = &self.tokens[..self.tokens.len() - 1];
        let mask = AttentionMask::Causal { rows: read.len() };
        let plan = PassPlan { skipped: Some(set), ..PassPlan::of_tokens(read, &mask) };
        let output = self.before.verify(&plan);
        self.before.roll_back();
        let hidden = output?.hidden;
        let guessed: PooledVec<Token> = match self.before.top_tokens(&hidden, &PooledVec::of(1, read.len())) {
            Some(top) => top.iter().map(|&(token, _)| token).collect(),
            None => {
                let logits = self.before.logits(&hidden);
                let rows = logits.chunks_exact(self.before.vocab_size());
                rows.map(|row| Row::Logits(row).argmax() as Token).collect()
            }
        };
        let right = guessed.iter().zip(&self.tokens[1..]).filter(|(guess, token)| guess == token).count();
        Ok(right as f64 / read.len() as f64)
    }
}

/// The best set of sub-layers found so far, and where the search stands.
///
/// A step tries a random set, every 25th step the one of 256 random sets that has the greatest upper bound `μ + 2.5 σ`
/// under a Gaussian process of the scores so far. The better set is kept. The search ends at a score of 0.95, after 300
/// tries without a better set, or after 1,000 tries.
#[derive(Clone, Debug)]
pub struct Search {
    count: usize,
    random: SeededRandom,
    best: SkippedSublayers,
    /// The best set's score on the present answer.
    score: Option<f64>,
    tries: usize,
    since_better: usize,
    /// Sets that were tried on the present answer, with their scores.
    tried: Vec<(SkippedSublayers, f64)>,
    ended: bool,
}

impl Search {
    /// A search for a model with `layers` layers, of which the first and the last are kept; `percent` of the other
    /// sub-layers are left out. It starts with those of every second layer.
    pub fn new(layers: usize, percent: u8, seed: u64) -> Self {
        let count = left_out(layers, percent);
        let inner = 1..layers.saturating_sub(1);
        let order: Vec<usize> = inner.clone().step_by(2).chain(inner.skip(1).step_by(2)).collect();
        let attention: Vec<usize> = order.iter().copied().take(count.div_ceil(2)).collect();
        let mlp: Vec<usize> = order.iter().copied().take(count / 2).collect();
        Self {
            count,
            random: SeededRandom::new(seed),
            best: SkippedSublayers::new(layers, &attention, &mlp).unwrap_or_else(|_| SkippedSublayers::none(layers)),
            score: None,
            tries: 0,
            since_better: 0,
            tried: vec![],
            ended: count == 0,
        }
    }

    /// A search that goes on where another one stood, with other random sets. A set that is none of such a search is
    /// not taken.
    pub(super) fn resumed(stored: &Stored, seed: u64) -> Self {
        let mut search = Self::new(stored.layers, stored.share, seed);
        if let Ok(best) = stored.set() {
            search.random = SeededRandom::stream(seed, stored.tries as u64);
            (search.best, search.tries, search.since_better) = (best, stored.tries, stored.since_better);
            search.ended |= stored.ended;
        }
        search
    }

    /// Where it stands, to be [`resumed`](Self::resumed).
    pub(super) fn stored(&self, vocab_size: usize, share: u8) -> Stored {
        let [attention, mlp] = self.best.lists();
        let (layers, tries, since_better, ended) = (self.best.layers(), self.tries, self.since_better, self.ended);
        Stored { weights_sha256: None, layers, vocab_size, share, attention, mlp, tries, since_better, ended }
    }

    /// The best set so far.
    pub fn left_out(&self) -> &SkippedSublayers {
        &self.best
    }

    /// Sets that were tried.
    pub fn tries(&self) -> usize {
        self.tries
    }

    /// The best set's score on the answer that it was tried on last; `None` before the first.
    pub fn score(&self) -> Option<f64> {
        self.score
    }

    /// Whether no more sets are tried.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The answer is over: its scores say nothing of another one.
    pub(super) fn leave_answer(&mut self) {
        if !self.ended {
            self.score = None;
            self.tried.clear();
        }
    }

    /// Tries one set on an answer: the best one first, where the answer is new.
    pub(super) fn step(&mut self, answer: &mut Answer<'_>) -> Result<(), ModelError> {
        let Some(best) = self.score else {
            let score = answer.score(&self.best)?;
            self.remember(self.best.clone(), score);
            self.score = Some(score);
            self.ended = score >= GOOD;
            return Ok(());
        };
        let set = self.candidate();
        let score = answer.score(&set)?;
        self.tries += 1;
        self.since_better += 1;
        self.remember(set.clone(), score);
        if score > best {
            (self.best, self.score, self.since_better) = (set, Some(score), 0);
        }
        self.ended = score >= GOOD || self.since_better >= PATIENCE || self.tries >= MOST_TRIES;
        if self.ended {
            self.tried = vec![];
        }
        Ok(())
    }

    fn remember(&mut self, set: SkippedSublayers, score: f64) {
        if self.tried.len() == REMEMBERED {
            self.tried.remove(0);
        }
        self.tried.push((set, score));
    }

    fn candidate(&mut self) -> SkippedSublayers {
        if !(self.tries + 1).is_multiple_of(MODELLED) {
            return self.random_set();
        }
        let sets: Vec<SkippedSublayers> = (0..CANDIDATES).map(|_| self.random_set()).collect();
        let bounds = gaussian::upper_bounds(&self.tried, &sets, self.count);
        // Of equals, the first.
        let better = |a: &(SkippedSublayers, f64), b: &(SkippedSublayers, f64)| a.1.total_cmp(&b.1).is_ge();
        let best = sets.into_iter().zip(bounds).reduce(|a, b| if better(&a, &b) { a } else { b });
        best.map_or_else(|| self.best.clone(), |(set, _)| set)
    }

    /// As many sub-layers as always, all choices equally likely.
    fn random_set(&mut self) -> SkippedSublayers {
        let layers = self.best.layers();
        let inner = layers.saturating_sub(2);
        let mut order: Vec<usize> = (0..2 * inner).collect();
        for at in 0..self.count.min(order.len()) {
            let left = order.len() - at;
            let drawn = (self.random.uniform() * left as f64) as usize;
            order.swap(at, at + drawn.min(left - 1));
        }
        let (attention, mlp): (Vec<usize>, Vec<usize>) = order.iter().take(self.count).partition(|&&at| at < inner);
        let attention: Vec<usize> = attention.into_iter().map(|at| at + 1).collect();
        let mlp: Vec<usize> = mlp.into_iter().map(|at| at - inner + 1).collect();
        SkippedSublayers::new(layers, &attention, &mlp).unwrap_or_else(|_| SkippedSublayers::none(layers))
    }
}
