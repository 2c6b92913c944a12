//! The consistency loss as an objective.

use super::evaluate;
use super::fitting::{CllmFitting, Drawn, State};
use super::loss::{ConsistencyLoss, Sample};
use crate::checkpoint::{self, MODEL_FILE};
use crate::error::TrainError;
use crate::methods::conversations::{Conversations, OnBackbone, on_conversations};
use crate::methods::medusa_two::merged_bytes;
use crate::parameters::Parameter;
use crate::trainer::{Evaluation, Gradients, Objective, Size};
use burn::tensor::Tensor;
use gorgon_data::render::Example;
use gorgon_draft::choice::DrafterChoice;
use gorgon_draft::jacobi::Jacobi;
use gorgon_draft::training_free::TrainingFree;
use gorgon_kernels::Table;
use std::path::Path;

/// The folder of the fitted model in a run folder.
pub(super) const MERGED: &str = "merged";

impl Objective for CllmFitting {
    type Batch = Drawn;

    fn parameters(&self, seed: u64) -> Vec<Parameter> {
        self.weights.parameters(seed)
    }

    fn batches(&self, step: u64) -> Result<Vec<Drawn>, TrainError> {
        Ok(self.data.packing.step(step).into_iter().map(|rows| Drawn { step, rows }).collect())
    }

    /// Samples: the loss is a mean over them.
    fn weights(&self, batch: &Drawn) -> Vec<f64> {
        vec![batch.rows.iter().filter(|&&index| self.sample(false, index, Some(batch.step)).is_some()).count() as f64]
    }

    fn gradients(&self, weights: &[Tensor<1>], batch: &Drawn, totals: &[f64]) -> Result<Gradients, TrainError> {
        let states: Vec<State<'_>> =
            batch.rows.iter().filter_map(|&index| self.sample(false, index, Some(batch.step))).collect();
        let samples: Vec<Sample<'_>> = states.iter().map(State::sample).collect();
        let tokens = self.data.packing.tokens_of(&batch.rows);
        if samples.is_empty() {
            let gradients = weights.iter().map(Tensor::zeros_like).collect();
            return Ok(Gradients { tokens, gradients, ..Gradients::default() });
        }
        let scale = 1.0 / totals[0].max(1.0);
        let leaves: Vec<Tensor<1>> = weights.iter().map(|w| w.clone().autodiff().require_grad()).collect();
        let lm_head = self.lm_head_of(weights);
        let with = ConsistencyLoss { consistency: scale, text: scale * self.config.omega, ..self.loss(&lm_head) };
        let found = with.of(&self.weights.applied(&leaves, true), &samples);
        let mut gradients = found.carry.of_leaves(&leaves, weights);
        if let Some(d_lm_head) = found.d_lm_head {
            // A table that is embedding and LM head at once has both gradients.
            let head = self.llama.lm_head();
            gradients[head] = gradients[head].clone() + d_lm_head.reshape([-1]);
        }
        let (consistency, text) = (found.consistency.iter().sum::<f64>(), found.text.iter().sum::<f64>());
        let loss = (consistency + self.config.omega * text) * scale;
        let n = samples.len() as f64;
        let counts = vec![("consistency".into(), consistency, n), ("text_loss".into(), text, n)];
        let not_finite = (!loss.is_finite()).then(|| match batch.rows.first() {
            Some(&index) => format!("one of {} conversations from {}", batch.rows.len(), self.data.place(false, index)),
            None => "no conversation".into(),
        });
        Ok(Gradients { loss, tokens, counts, gradients, not_finite })
    }

    fn size(&self, batch: &Drawn) -> Size {
        let tokens = self.data.packing.tokens_of(&batch.rows);
        Size { tokens, bytes: self.bytes_at_work(tokens) as u64 }
    }

    fn halves(&self, batch: &Drawn) -> Option<(Drawn, Drawn)> {
        let of = |rows| Drawn { step: batch.step, rows };
        self.data.packing.halves(&batch.rows).map(|(first, other)| (of(first), of(other)))
    }

    fn place(&self, batch: &Drawn) -> String {
        batch.rows.first().map_or_else(|| "no conversation".into(), |&index| self.data.place(false, index))
    }

    fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
        evaluate::evaluate(self, parameters)
    }
}

impl CllmFitting {
    /// The loss with this LM head, its parts without weights.
    pub(super) fn loss<'a>(&'a self, lm_head: &'a Table) -> ConsistencyLoss<'a> {
        ConsistencyLoss {
            llama: &self.llama,
            lm_head,
            fits_lm_head: self.weights.is_full(),
            chunk_rows: self.chunk_rows,
            consistency: 0.0,
            text: 0.0,
            smoothing: self.config.label_smoothing,
        }
    }
}

impl OnBackbone for CllmFitting {
    on_conversations!();

    /// Positions whose next token is the assistant's: evaluations read the original's states there.
    fn positions(&self, example: &Example) -> Vec<usize> {
        (1..example.ids.len()).filter(|&t| example.assistant[t]).map(|t| t - 1).collect()
    }

    /// Steps read no state of the original.
    fn read(&self, _: &Drawn) -> Result<(), TrainError> {
        Ok(())
    }

    fn title(&self) -> String {
        match self.weights.is_full() {
            true => "the backbone".into(),
            false => "an adapter of the backbone".into(),
        }
    }

    /// Both sequences of a sample are in the graph, beside the weights and their gradients.
    fn bytes_at_work(&self, tokens: usize) -> usize {
        let s = self.llama.shape();
        let layer = 8 * s.hidden_size + 4 * s.intermediate_size;
        let logits = 4 * self.lm_head.rows_at_once(self.chunk_rows).min(tokens) * s.vocab_size;
        let weights: usize = self.llama.sizes().iter().sum();
        4 * (logits + 4 * tokens * s.layers * layer + 2 * weights) + self.lm_head.scratch_bytes(tokens)
    }

    fn published_bytes(&self, parameters: usize) -> u64 {
        4 * parameters as u64 + merged_bytes(&self.base, 0)
    }

    /// Writes the fitted model as `merged/`, and an adapter as PEFT reads it.
    fn publish(&self, step: &Path, run: &Path) -> Result<(), TrainError> {
        let mut parameters = self.parameters(0);
        checkpoint::read_parameters(&step.join(MODEL_FILE), &mut parameters, &[])?;
        evaluate::write_adapter(self, &parameters, &run.join("adapter"))?;
        evaluate::write_merged(self, &parameters, &run.join(MERGED))
    }

    fn served(&self, run: &Path) -> Result<Option<Conversations>, TrainError> {
        self.data.on_model(&run.join(MERGED)).map(Some)
    }

    fn drafter(&self) -> Option<DrafterChoice> {
        Some(DrafterChoice::TrainingFree(TrainingFree::Jacobi(Jacobi { m: self.block })))
    }
}
