//! Backbone and heads, and their micro-batches.

use crate::config::{LanguageLoss, MedusaTwoConfig};
use crate::error::TrainError;
use crate::llama::{Llama, Packed};
use crate::lora::Lora;
use crate::methods::conversations::Conversations;
use burn::tensor::{Int, Tensor, TensorData};
use gorgon_data::render::Example;
use gorgon_draft::medusa::{HeadLabels, HeadOutput, Heads};
use gorgon_kernels::Table;
use gorgon_kernels::linear_cross_entropy::{Labels, linear_cross_entropy, soft_cross_entropy};
use gorgon_model::weights::Checkpoint;

/// Backbone and heads, and the conversations that they are fitted to.
pub struct MedusaTwoFitting {
    /// The heads.
    pub heads: Heads,
    /// The backbone's LM head, `[V, d]`.
    pub lm_head: Table,
    /// The backbone as a network with gradients.
    pub llama: Llama,
    /// Its parameters and their adapter.
    pub lora: Lora,
    /// The backbone's files.
    pub base: Checkpoint,
    /// How the two losses are balanced.
    pub config: MedusaTwoConfig,
    /// Steps of the whole run, which the balance depends on.
    pub steps: u64,
    /// The conversations; their features are the original's.
    pub data: Conversations,
}

/// A micro-batch and its step, which the balance depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balanced {
    pub(super) step: u64,
    pub(super) rows: Vec<usize>,
}

/// Some conversations, one after another.
pub(super) struct Gathered {
    pub packed: Packed,
    /// The original's states at the positions that count, `[rows, d]`.
    pub original: Tensor<2>,
    /// Where these are among all tokens.
    pub at: Vec<i32>,
    /// Labels of the heads.
    pub labels: Vec<HeadLabels>,
    /// Labels of the LM head; their rows count the positions in [`Self::at`].
    pub language: HeadLabels,
}

/// Positions at which the LM head or a head has a label.
pub(super) fn positions(example: &Example, heads: usize) -> Vec<usize> {
    let counts = |t: &usize| {
        example.assistant.get(t + 1).copied().unwrap_or(false) || (0..heads).any(|head| example.counts(head, *t))
    };
    (0..example.ids.len()).filter(counts).collect()
}

impl MedusaTwoFitting {
    pub(super) fn gather(&self, held_out: bool, rows: &[usize]) -> Result<Gathered, TrainError> {
        let heads = self.heads.config.heads;
        let mut labels = vec![HeadLabels::default(); heads];
        let (mut packed, mut at, mut language) = (Packed::default(), vec![], HeadLabels::default());
        let mut original = vec![];
        for &index in rows {
            let row = self.data.row(held_out, index);
            let (example, start) = (&row.example, packed.tokens.len());
            let positions = positions(example, heads);
            let Some(last) = positions.last() else { continue };
            for &t in &positions {
                let place = at.len() as u32;
                at.push((start + t) as i32);
                if example.assistant.get(t + 1) == Some(&true) {
                    language.rows.push(place);
                    language.tokens.push(example.ids[t + 1]);
                }
                for (head, labels) in labels.iter_mut().enumerate().filter(|(head, _)| example.counts(*head, t)) {
                    labels.rows.push(place);
                    labels.tokens.push(example.ids[t + head + 2]);
                }
            }
            packed.tokens.extend(&example.ids[..=*last]);
            packed.segments.push(start..packed.tokens.len());
            original.push(self.data.features.states(row, held_out, index, &positions)?);
        }
        let d = self.heads.hidden_size;
        let original = match original.is_empty() {
            true => Tensor::zeros([0, d], &self.lm_head.device()),
            false => Tensor::cat(original, 0),
        };
        Ok(Gathered { packed, original, at, labels, language })
    }

    /// Whether the backbone is fitted at a step.
    pub(super) fn moves(&self, step: u64) -> bool {
        self.config.balance(step, self.steps).1 > 0.0
    }

    pub(super) fn index(&self, rows: Vec<i32>) -> Tensor<1, Int> {
        let n = rows.len();
        Tensor::from_data(TensorData::new(rows, [n]), &self.lm_head.device())
    }

    /// Number of the heads' tensors, which come before the adapter's.
    pub(super) fn split(&self) -> usize {
        self.heads.config.parameters(self.heads.hidden_size, self.heads.vocab_size).len()
    }

    /// The language loss: its sum, how many labels agree with the first guess, and `∂L/∂h` at its rows.
    pub(super) fn language(&self, states: &Tensor<2>, gathered: &Gathered, scale: f32) -> (f64, usize, Tensor<2>) {
        let index = || self.index(gathered.language.rows.iter().map(|&row| row as i32).collect());
        let own = states.clone().select(0, index());
        let chunk = self.heads.chunk_rows;
        let (losses, ranks, gradient) = match self.config.language {
            LanguageLoss::Kl => {
                let original = gathered.original.clone().select(0, index());
                let found = soft_cross_entropy(&own, &original, &self.lm_head, scale, chunk);
                (found.losses, found.ranks, found.d_hidden)
            }
            LanguageLoss::CrossEntropy => {
                let scales = vec![scale; gathered.language.rows.len()];
                let labels = Labels { tokens: &gathered.language.tokens, scales: &scales };
                let found = linear_cross_entropy(&own, &self.lm_head, labels, chunk, false);
                (found.losses, found.ranks, found.d_hidden)
            }
        };
        let sum = losses.iter().map(|&loss| f64::from(loss)).sum();
        (sum, ranks.iter().filter(|&&rank| rank == 0).count(), gradient)
    }
}

/// Labels that are the first guess.
pub(super) fn right(output: &HeadOutput) -> usize {
    output.ranks.iter().filter(|&&rank| rank == 0).count()
}
