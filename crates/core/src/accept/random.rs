//! Random sources: a seed, given uniforms, or every outcome in turn.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::noise::{Noise, NoiseAhead, hash};
use crate::Token;

/// The source of all randomness in the project. A rule asks questions; an implementation answers from a seed, from
/// given uniforms, or, in tests, with every possible answer in turn.
pub trait RandomSource: Send {
    /// True with probability `probability` (clamped to `[0, 1]`; exactly 0 is never true, exactly 1 always).
    fn flip(&mut self, probability: f64) -> bool;
    /// An index drawn with probability proportional to `weights` (non-negative, with a positive sum).
    fn pick(&mut self, weights: &[f64]) -> usize;

    /// Says how many tokens come before the next emitted one, for sources that answer by position.
    fn set_position(&mut self, _: usize) {}

    /// The token that plain sampling emits `depth` tokens after the position, with probability proportional to
    /// `weights`. A source with noise answers by position, depth and weights alone, whatever was asked before.
    fn emit(&mut self, _depth: usize, weights: &[f64]) -> usize {
        self.pick(weights)
    }

    /// The noise `E` by which [`emit`](Self::emit) picks the token with the greatest `weight/E`; `None` without noise.
    fn noise(&self) -> Option<NoiseAhead> {
        None
    }
}

impl<R: RandomSource + ?Sized> RandomSource for &mut R {
    fn flip(&mut self, probability: f64) -> bool {
        (**self).flip(probability)
    }

    fn pick(&mut self, weights: &[f64]) -> usize {
        (**self).pick(weights)
    }

    fn set_position(&mut self, position: usize) {
        (**self).set_position(position);
    }

    fn emit(&mut self, depth: usize, weights: &[f64]) -> usize {
        (**self).emit(depth, weights)
    }

    fn noise(&self) -> Option<NoiseAhead> {
        (**self).noise()
    }
}

/// A seeded random source: ChaCha8, the same on every platform. Each flip or pick costs exactly one 64-bit word of the
/// stream. Plain sampling reads [`Noise`] instead, which is independent of the stream.
#[derive(Clone, Debug)]
pub struct SeededRandom {
    generator: ChaCha8Rng,
    noise: Noise,
    position: usize,
}

impl SeededRandom {
    /// The first sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self::stream(seed, 0)
    }

    /// One of many independent sequences under the same `seed`: a batch gives each of its rows its own `stream`, so
    /// that a row's text does not depend on its neighbours.
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream);
        Self { generator, noise: Noise::new(seed, stream), position: 0 }
    }

    /// The sequence of a record's turn, the `sample`th of several. All four numbers are hashed, so no two sequences of
    /// a run share their noise.
    pub fn sequence(seed: u64, record: u64, turn: u64, sample: u64) -> Self {
        Self::stream(seed, hash([record, turn, sample]))
    }

    /// The `sample`th sequence that continues a text under `seed`: the text's hash says which record it is.
    pub fn behind(seed: u64, text: &[Token], sample: u64) -> Self {
        Self::sequence(seed, hash(text.iter().map(|&token| token.into())), 0, sample)
    }

    /// Begins another sequence, which follows from this one.
    pub fn renew(&mut self) {
        self.noise = self.noise.following();
        self.generator.set_stream(hash([self.generator.get_stream(), 1]));
        self.generator.set_word_pos(0);
    }

    /// A number in `[0, 1)`, a multiple of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        (self.generator.next_u64() >> 11) as f64 * 2.0_f64.powi(-53)
    }
}

impl RandomSource for SeededRandom {
    fn flip(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    fn pick(&mut self, weights: &[f64]) -> usize {
        locate(weights, self.uniform())
    }

    fn set_position(&mut self, position: usize) {
        self.position = position;
    }

    fn emit(&mut self, depth: usize, weights: &[f64]) -> usize {
        self.noise.pick(self.position + depth, weights)
    }

    fn noise(&self) -> Option<NoiseAhead> {
        Some(self.noise.ahead(self.position))
    }
}

/// A random source of given numbers in `[0, 1)`, used in order: `flip(p)` is true when the next number `u <= p`, as in
/// EAGLE's reference implementation. Past the end every number is 1.
#[derive(Clone, Debug)]
pub struct Given {
    uniforms: Vec<f64>,
    asked: usize,
}

impl Given {
    /// A source that uses up `uniforms`.
    pub fn new(uniforms: Vec<f64>) -> Self {
        Self { uniforms, asked: 0 }
    }

    /// How many numbers were asked for, those past the end included.
    pub fn asked(&self) -> usize {
        self.asked
    }

    fn next(&mut self) -> f64 {
        let uniform = self.uniforms.get(self.asked).copied().unwrap_or(1.0);
        self.asked += 1;
        uniform
    }
}

impl RandomSource for Given {
    fn flip(&mut self, probability: f64) -> bool {
        let uniform = self.next();
        probability > 0.0 && uniform <= probability
    }

    fn pick(&mut self, weights: &[f64]) -> usize {
        let uniform = self.next();
        locate(weights, uniform)
    }
}

/// The index at which the running sum of `weights` passes `uniform` of their total. Never one of weight 0, unless all
/// are.
fn locate(weights: &[f64], uniform: f64) -> usize {
    let goal = uniform * weights.iter().sum::<f64>();
    let mut sum = 0.0;
    let mut last = 0;
    for (index, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
        sum += weight;
        last = index;
        if goal < sum {
            break;
        }
    }
    last
}

/// Runs `run` once for every sequence of answers its questions can have, and returns the outcome of each run with the
/// probability of its answers. The probabilities sum to 1, so `run`'s exact output distribution can be read off.
///
/// `run` must be a function of its random source alone. The number of runs is the number of outcomes; answers of
/// probability 0 are left out.
///
/// ```
/// use gorgon_core::accept::random::enumerate;
/// let runs = enumerate(|random| random.flip(0.25) || random.pick(&[1.0, 3.0]) == 0);
/// let p_true: f64 = runs.iter().filter(|(_, outcome)| *outcome).map(|(probability, _)| probability).sum();
/// assert_eq!(p_true, 0.25 + 0.75 * 0.25);
/// ```
pub fn enumerate<T>(mut run: impl FnMut(&mut dyn RandomSource) -> T) -> Vec<(f64, T)> {
    let mut outcomes = Vec::new();
    let mut branches = Branches::default();
    loop {
        branches.depth = 0;
        let outcome = run(&mut branches);
        outcomes.push((branches.probability(), outcome));
        if !branches.advance() {
            return outcomes;
        }
    }
}

/// The answers of the run under way: an odometer over the questions asked so far.
#[derive(Default)]
struct Branches {
    questions: Vec<Question>,
    /// How many questions the run under way has asked.
    depth: usize,
}

/// A question that has more than one possible answer.
struct Question {
    /// Possible answers with their probabilities.
    answers: Vec<(usize, f64)>,
    /// Which of them the run under way gets.
    current: usize,
}

impl Branches {
    /// The current answer to the next question; `answers` lists the possible answers to a new question.
    fn answer(&mut self, answers: impl FnOnce() -> Vec<(usize, f64)>) -> usize {
        if self.depth == self.questions.len() {
            self.questions.push(Question { answers: answers(), current: 0 });
        }
        let question = &self.questions[self.depth];
        self.depth += 1;
        question.answers[question.current].0
    }

    fn probability(&self) -> f64 {
        self.questions.iter().map(|question| question.answers[question.current].1).product()
    }

    /// Moves on to the next sequence of answers; false when all have been given.
    fn advance(&mut self) -> bool {
        while let Some(question) = self.questions.last_mut() {
            question.current += 1;
            if question.current < question.answers.len() {
                return true;
            }
            self.questions.pop();
        }
        false
    }
}

impl RandomSource for Branches {
    fn flip(&mut self, probability: f64) -> bool {
        if !(probability > 0.0 && probability < 1.0) {
            return probability >= 1.0;
        }
        self.answer(|| vec![(1, probability), (0, 1.0 - probability)]) == 1
    }

    fn pick(&mut self, weights: &[f64]) -> usize {
        let sum: f64 = weights.iter().sum();
        let possible = || weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
        match possible().count() {
            0 => 0,
            1 => possible().map(|(index, _)| index).next().unwrap_or(0),
            _ => self.answer(|| possible().map(|(index, weight)| (index, weight / sum)).collect()),
        }
    }
}

#[cfg(test)]
mod tests;
