//! Whether sampled drafted text has the distribution of plain sampling.

use crate::BenchError;
use crate::measure::{BenchPrompt, Comparison};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::{Row, Transform};
use gorgon_model::target::{DecoderTarget, Target};
use serde::Serialize;
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Equally likely cells of each stratum.
const CELLS: usize = 20;
/// Strata: first, second, and later tokens of a step.
const STRATA: usize = 3;
/// A stratum with fewer tokens per cell is left out: Pearson's statistic is not yet chi-square distributed.
const PER_CELL: usize = 5;

/// Pearson's test of drafted tokens against the plain distribution of each.
///
/// For a token `x` after a text, with plain distribution `p` (transformed, tokens by falling probability), let
/// `u = P(tokens before x) + v·p(x)` with `v` uniform. If the token has the distribution `p`, whatever the text, these `u` are
/// independent and uniform on `[0, 1)` (Rosenblatt 1952), so their counts in equal cells are multinomial, and
/// `Σ (count - n/cells)² / (n/cells)` is chi-square distributed with `cells - 1` degrees of freedom. Tokens are counted
/// by their place in the step, as the first comes from another row of the target than those after accepted drafts.
#[derive(Clone, Debug, Serialize)]
pub struct DistributionTest {
    /// Sampled tokens that were counted.
    pub tokens: usize,
    /// Generations.
    pub generations: usize,
    /// Drafts accepted in them: without any, the test shows nothing.
    pub accepted: usize,
    /// Counts by stratum and cell.
    pub counts: Vec<Vec<usize>>,
    /// The statistic.
    pub chi_square: f64,
    /// Degrees of freedom.
    pub degrees: usize,
    /// The probability of a statistic at least as great if the distribution is the plain one.
    pub p_value: f64,
}

impl DistributionTest {
    /// False if the distribution was found to be another one: one true distribution in a thousand is taken for a wrong one.
    pub fn passes(&self) -> bool {
        self.p_value >= 1e-3
    }
}

/// Tokens by stratum and cell.
#[derive(Default)]
struct Tally {
    counts: [[usize; CELLS]; STRATA],
    generations: usize,
    accepted: usize,
}

impl Comparison<'_> {
    /// Samples `samples` drafted answers to every prompt, each with its own noise, and tests their tokens against the
    /// plain distribution.
    ///
    /// # Errors
    /// When a prompt does not fit, the model or the drafter fails, or there are too few tokens for a test.
    pub fn test_distribution(
        &mut self,
        prompts: &[BenchPrompt],
        samples: usize,
        transform: &Transform,
        observe: &mut dyn FnMut(),
    ) -> Result<DistributionTest, BenchError> {
        let longest = prompts.iter().map(|p| p.ids.len()).max().unwrap_or(0);
        let mut target = self.target(longest);
        let mut tally = Tally::default();
        let mut v = SeededRandom::stream(self.seed, u64::MAX);
        for prompt in prompts {
            for sample in 0..samples as u64 {
                let generation = self.sample(&mut target, &prompt.ids, sample)?;
                tally.generations += 1;
                tally.accepted += generation.accepted.iter().sum::<usize>();
                let places = generation.accepted.iter().flat_map(|&accepted| 0..=accepted);
                let distributions = distributions(&mut target, &prompt.ids, &generation.ids, transform)?;
                // The first token came from prefill, without drafts.
                for ((&token, distribution), place) in generation.ids.iter().zip(&distributions).skip(1).zip(places) {
                    let u = before(distribution, token) + v.uniform() * distribution[token as usize];
                    tally.counts[place.min(STRATA - 1)][((u * CELLS as f64) as usize).min(CELLS - 1)] += 1;
                }
                observe();
            }
        }
        tally.test()
    }
}

/// The plain distributions of the answer's tokens, each given those before it.
fn distributions(
    target: &mut DecoderTarget,
    prompt: &[Token],
    answer: &[Token],
    transform: &Transform,
) -> Result<Vec<Vec<f64>>, BenchError> {
    target.reset();
    let context = [prompt, &answer[..answer.len() - 1]].concat();
    let output = target.prefill_behind(prompt.len() - 1, &context)?;
    let logits = target.logits(&output.hidden.narrow(output.hidden.rows() - answer.len(), answer.len()));
    Ok(logits
        .chunks_exact(logits.len() / answer.len())
        .map(|row| transform.apply(Row::Logits(row)).into_vec())
        .collect())
}

/// The probability of the tokens that come before one: likelier ones, and of equally likely ones the lower.
fn before(distribution: &[f64], token: Token) -> f64 {
    let (own, at) = (distribution[token as usize], token as usize);
    distribution.iter().enumerate().filter(|&(i, &p)| p > own || (p == own && i < at)).map(|(_, &p)| p).sum()
}

impl Tally {
    fn test(&self) -> Result<DistributionTest, BenchError> {
        let (mut chi_square, mut degrees) = (0.0, 0);
        for counts in &self.counts {
            let n: usize = counts.iter().sum();
            if n < PER_CELL * CELLS {
                continue;
            }
            let expected = n as f64 / CELLS as f64;
            chi_square += counts.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum::<f64>();
            degrees += CELLS - 1;
        }
        let chi_squared = ChiSquared::new(degrees as f64);
        let chi_squared = chi_squared
            .map_err(|_| BenchError::Empty("too few sampled tokens for a test: more samples are needed".into()))?;
        Ok(DistributionTest {
            tokens: self.counts.iter().flatten().sum(),
            generations: self.generations,
            accepted: self.accepted,
            counts: self.counts.iter().map(|counts| counts.to_vec()).collect(),
            chi_square,
            degrees,
            p_value: chi_squared.sf(chi_square),
        })
    }
}
