//! Drafts against recorded answers: the tokens that a step emits where a target would write, greedily, what is recorded.
//!
//! No target runs. At every node the recorded text says which token follows, as far as the node's path is that text;
//! what a target would say elsewhere is unknown, so only drafters that read tokens alone can be replayed. Where times of
//! passes are known ([`StepCurve`]), a replay also says how fast a model with these times would decode.

mod heads;

use crate::BenchError;
use crate::pass_times::StepCurve;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::{TokenTree, TreeBuilder};
use gorgon_core::{PooledVec, Token};
use gorgon_draft::coupled::CoupledTree;
use gorgon_draft::drafter::{DraftContext, Drafter, Feedback, VerifiedPass, VerifiedTree};
use gorgon_infer::DecodeError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::{HookedStates, PassOutput};
use serde::Serialize;
use std::time::{Duration, Instant};

pub use heads::{SimulatedHeads, Simulation};

/// An answer that was written elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedAnswer {
    /// Its name.
    pub id: String,
    /// Its category.
    pub category: String,
    /// The tokens before it.
    pub prompt: Vec<Token>,
    /// Its tokens, the end token included where it was recorded.
    pub answer: Vec<Token>,
}

/// A replayed answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replay {
    /// The answer's name.
    pub id: String,
    /// The answer's category.
    pub category: String,
    /// Tokens of the answer after the first, which comes from prefill.
    pub tokens: usize,
    /// Steps that emit them.
    pub steps: usize,
    /// Nodes of all trees, roots included.
    pub nodes: usize,
    /// Steps by number of accepted drafts.
    pub accepted: Vec<usize>,
    /// Steps by number of nodes.
    pub sizes: Vec<usize>,
    /// Seconds of drafting.
    pub draft_seconds: f64,
}

/// Whether a drafter reads nothing of the target but tokens. Only such drafters can be replayed.
pub fn reads_tokens_alone(drafter: &dyn Drafter) -> bool {
    let needs = drafter.needs();
    needs.feedback == Feedback::None && !needs.lends_target && needs.hooks.layers().is_empty()
}

/// Decodes an answer that is known: a step emits the drafts on the answer's path and the token after them, and nothing
/// beyond the answer's end. Whatever the drafter keeps across [`reset`](Drafter::reset) stays. `passed` is told the
/// nodes of each pass when it would be over.
///
/// # Errors
/// When the drafter fails.
pub fn replay(
    drafter: &mut dyn Drafter,
    builder: &dyn TreeBuilder,
    recorded: &RecordedAnswer,
    passed: &mut dyn FnMut(usize),
) -> Result<Replay, BenchError> {
    let RecordedAnswer { id, category, prompt, answer } = recorded;
    let tokens = answer.len().saturating_sub(1);
    let mut replay = Replay {
        id: id.clone(),
        category: category.clone(),
        tokens,
        steps: 0,
        nodes: 0,
        accepted: vec![],
        sizes: vec![],
        draft_seconds: 0.0,
    };
    let output = nothing();
    drafter.reset();
    if !prompt.is_empty() {
        let rows: Vec<usize> = (0..prompt.len()).collect();
        drafter.observe(VerifiedPass::prompt(prompt, &output, &rows)).map_err(DecodeError::from)?;
    }
    let (mut random, mut drafting, mut root) = (SeededRandom::new(0), Duration::ZERO, 0);
    while root < tokens {
        let since = Instant::now();
        let mut context = DraftContext { tree: CoupledTree::plain(builder), random: &mut random, target: None };
        let proposal = drafter.draft(answer[root], &mut context).map_err(DecodeError::from)?;
        drafting += since.elapsed();
        let tree = proposal.draft.tree();
        let path = accepted_path(tree, &answer[root + 1..]);
        replay.step(tree.len(), path.len() - 1);
        passed(tree.len());
        // As many tokens are read as are emitted: the root instead of the last one.
        let path = &path[..path.len().min(tokens - root)];
        let read: PooledVec<Token> = path.iter().map(|&node| tree.token(node)).collect();
        root += path.len();
        let verified = Some(VerifiedTree { tree, path, next: answer[root], target: None });
        let since = Instant::now();
        let pass = VerifiedPass { tokens: &read, output: &output, rows: path, verified, is_source: false };
        drafter.observe(pass).map_err(DecodeError::from)?;
        drafting += since.elapsed();
    }
    Ok(Replay { draft_seconds: drafting.as_secs_f64(), ..replay })
}

impl Replay {
    fn step(&mut self, nodes: usize, accepted: usize) {
        self.steps += 1;
        self.nodes += nodes;
        for (counts, at) in [(&mut self.accepted, accepted), (&mut self.sizes, nodes)] {
            counts.resize(counts.len().max(at + 1), 0);
            counts[at] += 1;
        }
    }
}

/// The nodes of a tree whose tokens are the first of `text`, the root before them.
fn accepted_path(tree: &TokenTree, text: &[Token]) -> PooledVec<usize> {
    let mut path = PooledVec::of(0, 1);
    for &token in text {
        let last = path[path.len() - 1];
        let Some(child) = tree.children(last).find(|&child| tree.token(child) == token) else { break };
        path.push(child);
    }
    path
}

/// The output of a pass that nobody reads.
fn nothing() -> PassOutput {
    let hidden = HiddenStates::Host { values: vec![].into(), width: 1 };
    PassOutput { hidden, hooks: HookedStates::new(), stream: None }
}

/// Totals of some replays.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplaySummary {
    /// Answers.
    pub answers: usize,
    /// Their tokens after the first of each.
    pub tokens: usize,
    /// Steps.
    pub steps: usize,
    /// Tokens per step.
    pub tokens_per_step: f64,
    /// Mean nodes per step.
    pub nodes_per_step: f64,
    /// Share of steps in which at least `d` drafts were accepted, for `d = 1, 2, …`.
    pub acceptance_by_depth: Vec<f64>,
    /// Mean seconds of drafting per step.
    pub draft_seconds_per_step: f64,
    /// Speed over plain decoding with known times of passes: `tokens · T(1) / (Σ T(nodes) + drafting)`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup: Option<f64>,
}

/// Sums up replays; `None` where none took a step. `costs` are the times of passes, where they are known.
pub fn summarise<'a>(
    replays: impl IntoIterator<Item = &'a Replay>,
    costs: Option<&StepCurve>,
) -> Option<ReplaySummary> {
    let (mut answers, mut tokens, mut steps, mut nodes, mut seconds) = (0, 0, 0, 0, 0.0);
    let (mut accepted, mut sizes): (Vec<usize>, Vec<usize>) = (vec![], vec![]);
    for replay in replays {
        answers += 1;
        tokens += replay.tokens;
        steps += replay.steps;
        nodes += replay.nodes;
        seconds += replay.draft_seconds;
        add(&mut accepted, &replay.accepted);
        add(&mut sizes, &replay.sizes);
    }
    let share = |count: usize| count as f64 / steps as f64;
    let speedup = |costs: &StepCurve| {
        let passes = (0..).zip(&sizes).map(|(nodes, &steps)| costs.seconds(nodes) * steps as f64);
        tokens as f64 * costs.seconds(1) / (passes.skip(1).sum::<f64>() + seconds)
    };
    (steps > 0).then(|| ReplaySummary {
        answers,
        tokens,
        steps,
        tokens_per_step: share(tokens),
        nodes_per_step: share(nodes),
        acceptance_by_depth: (1..accepted.len()).map(|depth| share(accepted[depth..].iter().sum())).collect(),
        draft_seconds_per_step: seconds / steps as f64,
        speedup: costs.map(speedup),
    })
}

/// Adds counts to totals.
fn add(totals: &mut Vec<usize>, counts: &[usize]) {
    totals.resize(totals.len().max(counts.len()), 0);
    totals.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
}

#[cfg(test)]
mod tests;
