//! Plain and drafted decoding of the same prompts, in alternating order.

use crate::{BenchError, median};
use gorgon_core::Token;
use gorgon_core::accept::AcceptanceRule;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::TreeBuilder;
use gorgon_draft::drafter::Drafter;
use gorgon_infer::{Generation, Limits, Method, Recorded, RecordedPair, Request, Session, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::target::DecoderTarget;
use serde::Serialize;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A prompt to measure on.
#[derive(Clone, Debug)]
pub struct BenchPrompt {
    /// Its name.
    pub id: String,
    /// Its category, if it has one.
    pub category: Option<String>,
    /// Its tokens.
    pub ids: Vec<Token>,
}

/// Decoders and settings that are compared on the same prompts.
pub struct Comparison<'a> {
    /// The model.
    pub decoder: &'a Arc<Decoder>,
    /// Proposes.
    pub drafter: &'a mut dyn Drafter,
    /// Arranges the proposals.
    pub builder: &'a dyn TreeBuilder,
    /// Accepts.
    pub rule: &'a dyn AcceptanceRule,
    /// When answers end.
    pub limits: Limits,
    /// Recorded steps that are taken in place of the host's, where there are any: recorded ones on a GPU.
    pub recorded: Option<&'a mut RecordedPair>,
    /// Seed of all chance; plain and drafted runs of a prompt have the same noise, and no two prompts do.
    pub seed: u64,
}

/// One run of one prompt.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The prompt.
    pub id: String,
    /// Its category.
    pub category: Option<String>,
    /// The round, from 0.
    pub round: usize,
    /// Whether it was drafted.
    pub drafted: bool,
    /// New tokens after the first, which comes from prefill.
    pub tokens: usize,
    /// Seconds they took.
    pub seconds: f64,
    /// Steps.
    pub steps: usize,
    /// Nodes verified.
    pub nodes: usize,
    /// Steps by number of accepted drafts.
    pub accepted: Vec<usize>,
    /// Seconds of drafting, verifying, accepting and committing.
    pub parts: [f64; 4],
    /// Whether the text was that of the plain run of this round.
    pub same: bool,
}

impl Comparison<'_> {
    /// A target with room for a prompt, its answer and a tree.
    pub fn target(&self, longest_prompt: usize) -> DecoderTarget {
        let tokens = longest_prompt + self.limits.max_new_tokens;
        DecoderTarget::new(self.decoder.clone(), tokens, self.drafter.needs().hooks)
    }

    /// Decodes a prompt plainly.
    ///
    /// # Errors
    /// When it does not fit, or the model fails.
    pub fn plain(&mut self, target: &mut DecoderTarget, prompt: &[Token]) -> Result<Generation, BenchError> {
        if let Some(pair) = &mut self.recorded {
            return recorded(pair.of(false), prompt, &self.limits, SeededRandom::behind(self.seed, prompt, 0));
        }
        let mut random = SeededRandom::behind(self.seed, prompt, 0);
        Ok(decode(target, prompt, self.rule, &mut random, &self.limits, &mut |_| ControlFlow::Continue(()))?)
    }

    /// Decodes a prompt with drafts.
    ///
    /// # Errors
    /// When it does not fit, or the model or the drafter fails.
    pub fn drafted(&mut self, target: &mut DecoderTarget, prompt: &[Token]) -> Result<Generation, BenchError> {
        self.sample(target, prompt, 0)
    }

    /// Answer number `sample` to a prompt, with drafts.
    ///
    /// # Errors
    /// When it does not fit, or the model or the drafter fails.
    pub(crate) fn sample(
        &mut self,
        target: &mut DecoderTarget,
        prompt: &[Token],
        sample: u64,
    ) -> Result<Generation, BenchError> {
        if let Some(pair) = &mut self.recorded {
            return recorded(pair.of(true), prompt, &self.limits, SeededRandom::behind(self.seed, prompt, sample));
        }
        let random = &mut SeededRandom::behind(self.seed, prompt, sample);
        Ok(Session::new(target, &mut *self.drafter).generate(
            Method { tree: self.builder, rule: self.rule },
            Request::new(prompt, &self.limits, random),
            &mut |_| ControlFlow::Continue(()),
        )?)
    }

    /// Runs every prompt plainly and drafted, `rounds` times, in alternating order; `observe` gets each pair.
    ///
    /// # Errors
    /// As of a single run.
    pub fn run(
        &mut self,
        prompts: &[BenchPrompt],
        rounds: usize,
        observe: &mut dyn FnMut(),
    ) -> Result<Vec<Run>, BenchError> {
        let mut runs = vec![];
        for round in 0..rounds {
            let mut target = self.warmed_up(prompts)?;
            runs.extend(self.run_round(&mut target, prompts, round, observe)?);
        }
        Ok(runs)
    }

    /// A target for a round, on which a prompt was decoded: what runs first pays for pages and caches that later runs
    /// find warm, and a recorded step is recorded for a length.
    ///
    /// # Errors
    /// As of a single run.
    pub fn warmed_up(&mut self, prompts: &[BenchPrompt]) -> Result<DecoderTarget, BenchError> {
        let longest = prompts.iter().max_by_key(|prompt| prompt.ids.len());
        let mut target = self.target(longest.map_or(0, |prompt| prompt.ids.len()));
        if let Some(first) = if self.recorded.is_some() { longest } else { prompts.first() } {
            self.plain(&mut target, &first.ids)?;
            self.drafted(&mut target, &first.ids)?;
        }
        Ok(target)
    }

    /// One round of [`Self::run`], on a target of [`Self::warmed_up`].
    ///
    /// # Errors
    /// As of a single run.
    pub fn run_round(
        &mut self,
        target: &mut DecoderTarget,
        prompts: &[BenchPrompt],
        round: usize,
        observe: &mut dyn FnMut(),
    ) -> Result<Vec<Run>, BenchError> {
        let mut runs = vec![];
        for (i, prompt) in prompts.iter().enumerate() {
            let drafted_first = (round + i) % 2 == 1;
            let early = if drafted_first { Some(self.drafted(target, &prompt.ids)?) } else { None };
            let plain = self.plain(target, &prompt.ids)?;
            let drafted = match early {
                Some(drafted) => drafted,
                None => self.drafted(target, &prompt.ids)?,
            };
            let same = plain.ids == drafted.ids;
            runs.push(record(prompt, round, false, &plain, true));
            runs.push(record(prompt, round, true, &drafted, same));
            observe();
        }
        Ok(runs)
    }
}

/// Decodes a prompt that is read whole, as all runs read theirs.
fn recorded(
    steps: &mut Recorded,
    prompt: &[Token],
    limits: &Limits,
    random: SeededRandom,
) -> Result<Generation, BenchError> {
    steps.reset();
    Ok(steps.decode(prompt, limits, random, &mut |_| ControlFlow::Continue(()))?)
}

fn record(prompt: &BenchPrompt, round: usize, drafted: bool, generation: &Generation, same: bool) -> Run {
    let most = generation.accepted.iter().copied().max().unwrap_or(0);
    let mut accepted = vec![0; most + 1];
    generation.accepted.iter().for_each(|&n| accepted[n] += 1);
    let times = &generation.times;
    let parts = [times.draft, times.verify, times.accept, times.commit].map(|part| part.0.as_secs_f64());
    Run {
        id: prompt.id.clone(),
        category: prompt.category.clone(),
        round,
        drafted,
        tokens: generation.ids.len() - 1,
        seconds: generation.decode_time.as_secs_f64(),
        steps: generation.accepted.len(),
        nodes: generation.nodes,
        accepted,
        parts,
        same,
    }
}

/// Totals and spreads over several runs.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Pairs of runs.
    pub pairs: usize,
    /// Tokens a second of plain decoding: the median over rounds.
    pub plain_tokens_per_second: f64,
    /// Tokens a second with drafts: the median over rounds.
    pub drafted_tokens_per_second: f64,
    /// The median over rounds of each round's ratio.
    pub speedup: f64,
    /// The lowest and highest of these ratios.
    pub speedup_range: (f64, f64),
    /// Mean tokens per step, the bonus included.
    pub tokens_per_step: f64,
    /// Speed-up over tokens per step.
    pub eta: f64,
    /// Share of steps in which at least `d` drafts were accepted, for `d = 1, 2, …`.
    pub acceptance_by_depth: Vec<f64>,
    /// Mean nodes per step.
    pub nodes_per_step: f64,
    /// Shares of drafting, verifying, accepting, committing and the rest in the time of drafted decoding.
    pub time_shares: [f64; 5],
    /// Drafted runs whose text was the plain run's.
    pub same_text: usize,
}

/// Sums up runs; `None` if there are none that took a step.
pub fn summarise(runs: &[Run]) -> Option<Summary> {
    let rounds = runs.iter().map(|run| run.round).max()? + 1;
    let speed = |round: usize, drafted: bool| {
        let of = runs.iter().filter(|run| run.round == round && run.drafted == drafted);
        let (tokens, seconds) = of.fold((0, 0.0), |sum, run| (sum.0 + run.tokens, sum.1 + run.seconds));
        tokens as f64 / seconds.max(1e-12)
    };
    let pairs: Vec<(f64, f64)> = (0..rounds).map(|round| (speed(round, false), speed(round, true))).collect();
    let ratios: Vec<f64> = pairs.iter().map(|(plain, drafted)| drafted / plain).collect();
    let drafted: Vec<&Run> = runs.iter().filter(|run| run.drafted).collect();
    let steps: usize = drafted.iter().map(|run| run.steps).sum();
    let by =
        |n: usize| drafted.iter().map(|run| run.accepted.get(n..).map_or(0, |rest| rest.iter().sum())).sum::<usize>();
    let deepest = drafted.iter().map(|run| run.accepted.len()).max()?;
    if steps == 0 {
        return None;
    }
    let accepted: usize = (1..deepest).map(by).sum();
    let seconds: f64 = drafted.iter().map(|run| run.seconds).sum();
    let part = |i: usize| drafted.iter().map(|run| run.parts[i]).sum::<f64>() / seconds;
    let [draft, verify, accept, commit] = [0, 1, 2, 3].map(part);
    let tokens_per_step = (accepted + steps) as f64 / steps as f64;
    let speedup = median(ratios.clone())?;
    Some(Summary {
        pairs: drafted.len(),
        plain_tokens_per_second: median(pairs.iter().map(|p| p.0).collect())?,
        drafted_tokens_per_second: median(pairs.iter().map(|p| p.1).collect())?,
        speedup,
        speedup_range: (ratios.iter().copied().fold(f64::MAX, f64::min), ratios.iter().copied().fold(0.0, f64::max)),
        tokens_per_step,
        eta: speedup / tokens_per_step,
        acceptance_by_depth: (1..deepest).map(|d| by(d) as f64 / steps as f64).collect(),
        nodes_per_step: drafted.iter().map(|run| run.nodes).sum::<usize>() as f64 / steps as f64,
        time_shares: [draft, verify, accept, commit, (1.0 - draft - verify - accept - commit).max(0.0)],
        same_text: drafted.iter().filter(|run| run.same).count(),
    })
}
