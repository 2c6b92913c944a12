//! A backbone, its trajectories, and their micro-batches.

use super::loss::Sample;
use crate::config::{CllmConfig, Consistency};
use crate::llama::Llama;
use crate::lora::NetworkWeights;
use crate::methods::conversations::Conversations;
use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_data::trajectory::Trajectory;
use gorgon_kernels::Table;
use gorgon_model::weights::Checkpoint;
use std::collections::HashMap;

/// Separates the random stream of states from others of the same seed.
const STATES: u64 = 0x7374_6174_6573;

/// A backbone, the trajectories of its answers, and the conversations that they are of.
pub struct CllmFitting {
    /// The backbone as a network with gradients.
    pub llama: Llama,
    /// The fitted part of it.
    pub weights: NetworkWeights,
    /// Its files.
    pub base: Checkpoint,
    /// The original's LM head, `[V, d]`.
    pub lm_head: Table,
    /// Rows of logits in memory at once.
    pub chunk_rows: usize,
    /// The loss.
    pub config: CllmConfig,
    /// Seed of the states.
    pub seed: u64,
    /// Tokens of a block.
    pub block: usize,
    /// Trajectories by conversation.
    pub trajectories: Vec<Vec<Trajectory>>,
    /// Trajectories of the held-out conversations; the key is [`Row::row`](gorgon_data::shard::Row::row).
    pub held_out: HashMap<u64, Vec<Trajectory>>,
    /// The conversations; their features are the original's.
    pub data: Conversations,
}

/// A micro-batch: its conversations, and the step whose states they get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    pub(super) step: u64,
    pub(super) rows: Vec<usize>,
}

/// A state of a trajectory that may have been augmented, and what it is compared with.
pub(super) struct State<'a> {
    /// With the state as it was drawn.
    drawn: Sample<'a>,
    augmented: Option<Vec<Token>>,
}

impl State<'_> {
    /// As the loss takes it.
    pub fn sample(&self) -> Sample<'_> {
        Sample { state: self.augmented.as_deref().unwrap_or(self.drawn.state), ..self.drawn }
    }
}

/// A state of which half of the tokens that differ from the fixed point, drawn at random, are the fixed point's. The
/// first one that differs stays, so that the state agrees with the fixed point as far as before.
pub fn augmented(state: &[Token], fixed_point: &[Token], random: &mut SeededRandom) -> Vec<Token> {
    let mut state = state.to_vec();
    let mut wrong: Vec<usize> = (0..state.len()).filter(|&at| state[at] != fixed_point[at]).collect();
    let half = wrong.len() / 2;
    for i in 1..=half {
        let left = wrong.len() - i;
        let other = i + ((random.uniform() * left as f64) as usize).min(left.saturating_sub(1));
        wrong.swap(i, other);
        state[wrong[i]] = fixed_point[wrong[i]];
    }
    state
}

impl CllmFitting {
    /// A random state of a random block of a conversation: a function of step and conversation. `None` without blocks.
    /// Held-out states are never augmented.
    pub(super) fn sample(&self, held_out: bool, index: usize, step: Option<u64>) -> Option<State<'_>> {
        let row = self.data.row(held_out, index);
        let all = if held_out { self.held_out.get(&row.row)? } else { &self.trajectories[index] };
        let stream = step.map_or(u64::MAX, |step| step.wrapping_mul(self.data.rows.len() as u64));
        let mut random = SeededRandom::stream(self.seed ^ STATES, stream.wrapping_add(index as u64));
        let draw =
            |n: usize, random: &mut SeededRandom| ((random.uniform() * n as f64) as usize).min(n.saturating_sub(1));
        let ids = &row.example.ids;
        let cut: Vec<&Trajectory> =
            all.iter().filter(|one| one.prefix + one.fixed_point().len() <= ids.len()).collect();
        let one = *cut.get(draw(cut.len(), &mut random))?;
        let state = draw(one.states.len(), &mut random);
        let target = match self.config.consistency {
            Consistency::Global => one.states.len() - 1,
            Consistency::Local => (state + 1).min(one.states.len() - 1),
        };
        let augments = self.config.augmented && !held_out && state + 2 < one.states.len();
        let augmented = augments.then(|| augmented(&one.states[state], one.fixed_point(), &mut random));
        let (target, state) = (&one.states[target], &one.states[state]);
        let (prefix, labelled) = (&ids[..one.prefix], Some(&row.example.assistant[..one.prefix]));
        let drawn = Sample { prefix, text: one.fixed_point(), labelled, target, state };
        Some(State { drawn, augmented })
    }

    /// The LM head of the network with these parameters.
    pub(super) fn lm_head_of(&self, parameters: &[Tensor<1>]) -> Table {
        match &self.weights {
            NetworkWeights::Lora(_) => self.lm_head.clone(),
            NetworkWeights::Full(_) => self.llama.lm_head_of(parameters),
        }
    }
}
