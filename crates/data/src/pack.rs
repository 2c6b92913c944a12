//! Which examples go into which batch.

use gorgon_core::accept::random::SeededRandom;
use std::sync::{Arc, Mutex};

/// Batches of whole examples, shuffled anew in every epoch. What is in a step is a function of its number alone.
#[derive(Debug)]
pub struct Packing {
    lengths: Vec<usize>,
    budget_tokens: usize,
    batches_per_step: usize,
    seed: u64,
    /// The epoch looked at last: laying one out takes a moment.
    last: Mutex<Option<(u64, Batches)>>,
}

/// The examples of each micro-batch of an epoch.
type Batches = Arc<Vec<Vec<usize>>>;

/// Puts items into a random order (Fisher and Yates).
pub(crate) fn shuffle<T>(items: &mut [T], random: &mut SeededRandom) {
    for i in (1..items.len()).rev() {
        items.swap(i, ((random.uniform() * (i + 1) as f64) as usize).min(i));
    }
}

impl Packing {
    /// Packs examples of these lengths into micro-batches of at most `budget_tokens` (longer examples get one of their
    /// own), `batches_per_step` to a step.
    pub fn new(lengths: Vec<usize>, budget_tokens: usize, batches_per_step: usize, seed: u64) -> Self {
        Self { lengths, budget_tokens, batches_per_step: batches_per_step.max(1), seed, last: Mutex::new(None) }
    }

    /// Packs examples of other lengths into batches of these sizes.
    #[must_use]
    pub fn of_lengths(self, lengths: Vec<usize>) -> Self {
        Self { lengths, last: Mutex::new(None), ..self }
    }

    /// Number of examples.
    pub fn examples(&self) -> usize {
        self.lengths.len()
    }

    /// Tokens of all examples.
    pub fn tokens(&self) -> usize {
        self.lengths.iter().sum()
    }

    /// Steps that one pass over the examples takes, roughly: packing differs a little between epochs.
    pub fn steps_per_epoch(&self) -> u64 {
        let batches = self.epoch(0).len().div_ceil(self.batches_per_step);
        batches.max(1) as u64
    }

    /// The examples of each micro-batch of step `step`.
    pub fn step(&self, step: u64) -> Vec<Vec<usize>> {
        if self.lengths.is_empty() {
            return vec![];
        }
        // Every epoch counts as many steps as the first, so that a step's place does not depend on the ones before. A
        // batch beyond an epoch's last is taken from its start.
        let per_epoch = self.steps_per_epoch();
        let batches = self.epoch(step / per_epoch);
        let first = (step % per_epoch) as usize * self.batches_per_step;
        (first..first + self.batches_per_step).map(|i| batches[i % batches.len()].clone()).collect()
    }

    /// Tokens of some examples.
    pub fn tokens_of(&self, examples: &[usize]) -> usize {
        examples.iter().map(|&i| self.lengths[i]).sum()
    }

    /// Some examples in two parts, in their order, of as many tokens each as can be; `None` for less than two.
    pub fn halves(&self, examples: &[usize]) -> Option<(Vec<usize>, Vec<usize>)> {
        let (all, mut before) = (self.tokens_of(examples), 0);
        let uneven = |at: &usize| {
            before += self.lengths[examples[at - 1]];
            all.abs_diff(2 * before)
        };
        let (first, rest) = examples.split_at((1..examples.len()).min_by_key(uneven)?);
        Some((first.to_vec(), rest.to_vec()))
    }

    fn epoch(&self, epoch: u64) -> Batches {
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((known, batches)) = &*last
            && *known == epoch
        {
            return batches.clone();
        }
        let batches = Arc::new(self.lay_out(epoch));
        *last = Some((epoch, batches.clone()));
        batches
    }

    fn lay_out(&self, epoch: u64) -> Vec<Vec<usize>> {
        let mut random = SeededRandom::stream(self.seed, epoch);
        let mut order: Vec<usize> = (0..self.lengths.len()).collect();
        shuffle(&mut order, &mut random);
        let (mut batches, mut batch, mut tokens) = (vec![], vec![], 0);
        for example in order {
            let length = self.lengths[example];
            if tokens + length > self.budget_tokens && !batch.is_empty() {
                batches.push(std::mem::take(&mut batch));
                tokens = 0;
            }
            batch.push(example);
            tokens += length;
        }
        if !batch.is_empty() {
            batches.push(batch);
        }
        batches
    }
}

#[cfg(test)]
mod tests;
