//! A backbone, its trajectories, and their micro-batches.

use super::loss::Sample;
use crate::config::{CllmConfig, Consistency};
use crate::llama::Llama;
use crate::lora::Lora;
use crate::methods::conversations::Conversations;
use crate::parameters::Parameter;
use burn::tensor::Tensor;
use gorgon_core::accept::random::SeededRandom;
use gorgon_data::trajectory::Trajectory;
use gorgon_kernels::Table;
use gorgon_model::weights::Checkpoint;

/// Separates the random stream of states from others of the same seed.
const STATES: u64 = 0x7374_6174_6573;

/// The fitted part of a backbone.
#[derive(Clone, Debug)]
pub enum NetworkWeights {
    /// An adapter.
    Lora(Lora),
    /// All weights, which start so.
    Full(Vec<Parameter>),
}

impl NetworkWeights {
    /// The parameters before the first step.
    pub fn parameters(&self, seed: u64) -> Vec<Parameter> {
        match self {
            Self::Lora(lora) => lora.parameters(seed),
            Self::Full(start) => start.clone(),
        }
    }

    /// The network's weights with these parameters; tracked ones give tracked ones.
    pub fn applied(&self, parameters: &[Tensor<1>], tracked: bool) -> Vec<Tensor<1>> {
        match self {
            Self::Lora(lora) => lora.applied(parameters, tracked),
            Self::Full(_) => parameters.to_vec(),
        }
    }

    /// Whether embedding and LM head are fitted too.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }
}

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
    /// Those of the held-out conversations.
    pub held_out: Vec<Vec<Trajectory>>,
    /// The conversations; their features are the original's.
    pub data: Conversations,
}

/// A micro-batch: its conversations, and the step whose states they get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    pub(super) step: u64,
    pub(super) rows: Vec<usize>,
}

impl CllmFitting {
    /// A random state of a random block of a conversation: a function of step and conversation. `None` without blocks.
    pub(super) fn sample(&self, held_out: bool, index: usize, step: Option<u64>) -> Option<Sample<'_>> {
        let all = if held_out { &self.held_out[index] } else { &self.trajectories[index] };
        let stream = step.map_or(u64::MAX, |step| step.wrapping_mul(self.data.rows.len() as u64));
        let mut random = SeededRandom::stream(self.seed ^ STATES, stream.wrapping_add(index as u64));
        let mut draw = |n: usize| ((random.uniform() * n as f64) as usize).min(n.saturating_sub(1));
        let ids = &self.data.row(held_out, index).example.ids;
        let cut: Vec<&Trajectory> =
            all.iter().filter(|one| one.prefix + one.fixed_point().len() <= ids.len()).collect();
        let one = *cut.get(draw(cut.len()))?;
        let state = draw(one.states.len());
        let target = match self.config.consistency {
            Consistency::Global => one.states.len() - 1,
            Consistency::Local => (state + 1).min(one.states.len() - 1),
        };
        let (target, state) = (&one.states[target], &one.states[state]);
        Some(Sample { prefix: &ids[..one.prefix], text: one.fixed_point(), target, state })
    }

    /// The LM head of the network with these parameters.
    pub(super) fn lm_head_of(&self, parameters: &[Tensor<1>]) -> Table {
        match &self.weights {
            NetworkWeights::Lora(_) => self.lm_head.clone(),
            NetworkWeights::Full(_) => {
                let s = self.llama.shape();
                Table::from(parameters[self.llama.lm_head()].clone().reshape([s.vocab_size, s.hidden_size]))
            }
        }
    }
}
