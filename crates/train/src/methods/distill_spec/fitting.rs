//! A draft model and its target, and their micro-batches.

use super::earlier::Earlier;
use super::round::Round;
use super::writer::{Length, Writer};
use crate::checkpoint;
use crate::config::DistillSpecConfig;
use crate::error::{TrainError, io};
use crate::llama::{Llama, Packed};
use crate::methods::conversations::Conversations;
use crate::parameters::Parameter;
use burn::tensor::{Int, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_data::render::Example;
use gorgon_draft::draft_model::DraftModel;
use gorgon_kernels::Table;
use gorgon_kernels::linear_divergence::{LinearDivergence, linear_divergence};
use gorgon_kernels::projected::Projected;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

/// A draft model, the target's states, and the conversations that it is fitted on.
pub struct DistillSpecFitting {
    pub(super) llama: Llama,
    /// Initial parameters of the draft model.
    pub(super) start: Vec<Parameter>,
    /// Its `config.json`.
    pub(super) document: Value,
    pub(super) config: DistillSpecConfig,
    /// The target's LM head, `[V, d]`.
    pub(super) lm_head: Table,
    pub(super) chunk_rows: usize,
    pub(super) seed: u64,
    pub(super) longest: usize,
    pub(super) earlier: Earlier,
    pub(super) data: Conversations,
    /// The run folder, where written answers are kept.
    pub(super) run: Option<PathBuf>,
    /// The latest answers of the draft model.
    pub(super) round: Mutex<Option<Round>>,
}

/// Settings and data of a distillation, whatever the draft model.
pub struct Distilled {
    /// How it is fitted.
    pub config: DistillSpecConfig,
    /// The target's LM head, `[V, d]`.
    pub lm_head: Table,
    /// Rows of logits in memory at once.
    pub chunk_rows: usize,
    /// Seed of the answers that the draft model writes.
    pub seed: u64,
    /// Longest conversation.
    pub longest: usize,
    /// Draft models whose right predictions have no weight.
    pub earlier: Earlier,
    /// The conversations.
    pub data: Conversations,
}

/// A micro-batch: its conversations, and the draft model's answers in them.
#[derive(Clone, Debug)]
pub struct Answered {
    pub(super) rows: Vec<usize>,
    pub(super) written: Option<Vec<Arc<Example>>>,
    /// The positions that have weight, by conversation, once they are known.
    weighted: OnceLock<Vec<Vec<usize>>>,
}

impl Answered {
    pub(super) fn new(rows: Vec<usize>, written: Option<Vec<Arc<Example>>>) -> Self {
        Self { rows, written, weighted: OnceLock::new() }
    }
}

/// The positions whose next token is a label: the assistant's, and corrected where that is told.
pub(super) fn counted(example: &Example) -> Vec<usize> {
    (1..example.ids.len()).filter(|&t| example.is_label(t)).map(|t| t - 1).collect()
}

/// The rows of `some` positions among those of `all`, both increasing.
fn select(states: Tensor<2>, all: &[usize], some: &[usize]) -> Tensor<2> {
    let index: Vec<i32> = (0..).zip(all).filter(|(_, t)| some.binary_search(t).is_ok()).map(|(row, _)| row).collect();
    let (n, device) = (index.len(), states.device());
    states.select(0, Tensor::<1, Int>::from_data(TensorData::new(index, [n]), &device))
}

impl DistillSpecFitting {
    /// Fits a draft model, which begins as `start` and whose `config.json` is `document`.
    pub fn new(llama: Llama, start: Vec<Parameter>, document: Value, with: Distilled) -> Self {
        let Distilled { config, lm_head, chunk_rows, seed, longest, earlier, data } = with;
        let (run, round) = (None, Mutex::new(None));
        Self { llama, start, document, config, lm_head, chunk_rows, seed, longest, earlier, data, run, round }
    }

    pub(super) fn example<'a>(&'a self, batch: &'a Answered, i: usize) -> &'a Example {
        match &batch.written {
            Some(written) => &written[i],
            None => &self.data.rows[batch.rows[i]].example,
        }
    }

    /// The positions of each conversation of a micro-batch that the loss is a mean over.
    ///
    /// # Errors
    /// When an earlier draft model fails.
    pub fn weighted<'a>(&self, batch: &'a Answered) -> Result<&'a [Vec<usize>], TrainError> {
        if let Some(known) = batch.weighted.get() {
            return Ok(known);
        }
        let examples = (0..batch.rows.len()).map(|i| self.example(batch, i));
        let positions = examples.map(|one| self.earlier.weighted(&one.ids, counted(one), self.chunk_rows.max(1)));
        let found = positions.collect::<Result<_, TrainError>>()?;
        Ok(batch.weighted.get_or_init(|| found))
    }

    /// The tokens of each conversation of a micro-batch.
    pub fn texts<'a>(&'a self, batch: &'a Answered) -> impl Iterator<Item = &'a [Token]> {
        (0..batch.rows.len()).map(|i| &self.example(batch, i).ids[..])
    }

    /// The target's states at the positions of a micro-batch that have weight, `[positions, d]`.
    pub(super) fn states(&self, batch: &Answered) -> Result<Tensor<2>, TrainError> {
        let features = &self.data.features;
        let mut parts = vec![];
        for (i, (&index, positions)) in batch.rows.iter().zip(self.weighted(batch)?).enumerate() {
            let example = self.example(batch, i);
            if positions.is_empty() {
                continue;
            }
            parts.push(match batch.written {
                Some(_) => features.compute(&example.ids, positions, &Hooks::none())?,
                None => {
                    // A cache on the disk has the states at all positions that count.
                    let all = counted(example);
                    let states = features.states(self.data.row(false, index), false, index, &all)?;
                    if all.len() == positions.len() { states } else { select(states, &all, positions) }
                }
            });
        }
        Ok(match parts.len() {
            0 => Tensor::zeros([0, self.lm_head.dims()[1]], &self.lm_head.device()),
            1 => parts.remove(0),
            _ => Tensor::cat(parts, 0),
        })
    }

    /// The draft model's states at positions of some conversations, `[positions, d]`.
    pub(super) fn hidden(&self, weights: &[Tensor<1>], examples: &[(&Example, &[usize])]) -> Tensor<2> {
        let (mut packed, mut index) = (Packed::default(), vec![]);
        for (example, positions) in examples {
            let start = packed.tokens.len();
            packed.tokens.extend(&example.ids);
            packed.segments.push(start..packed.tokens.len());
            index.extend(positions.iter().map(|t| (start + t) as i32));
        }
        let n = index.len();
        let index = Tensor::<1, Int>::from_data(TensorData::new(index, [n]), &self.lm_head.device());
        self.llama.hidden(weights, &packed).select(0, index)
    }

    pub(super) fn divergence(
        &self,
        hidden: &Tensor<2>,
        states: &Tensor<2>,
        weights: &[Tensor<1>],
        scale: Option<f32>,
    ) -> LinearDivergence {
        let head = self.llama.lm_head();
        let weight = weights[head].clone().reshape([self.llama.shape().vocab_size, self.llama.shape().hidden_size]);
        let soft_cap = self.data.features.decoder.config().final_soft_cap;
        let weight = Table::from(weight);
        let draft = Projected::new(hidden, &weight);
        let target = Projected { hidden: states, weight: &self.lm_head, soft_cap };
        linear_divergence(draft, target, self.config.divergence(), scale, self.chunk_rows)
    }

    /// The draft model with these parameters, written to a folder and loaded as users load it.
    pub(super) fn loaded(&self, parameters: &[Parameter], folder: &Path) -> Result<DraftModel, TrainError> {
        checkpoint::write_parameters(folder, parameters, &[])?;
        let path = folder.join("config.json");
        std::fs::write(&path, self.document.to_string()).map_err(io(&path))?;
        let wrong = |error: &dyn std::fmt::Display| TrainError::Data(error.to_string());
        let target = &self.data.features.decoder;
        let compute =
            if target.compute().is_host() { Compute::cpu(FloatFormat::F32) } else { target.compute().clone() };
        let decoder = Decoder::load(folder, &compute).map_err(|error| wrong(&error))?;
        Ok(DraftModel::new("draft".into(), Arc::new(decoder), target.config()))
    }

    /// A writer of answers.
    pub(super) fn writer<'a>(&'a self, model: &'a DraftModel) -> Writer<'a> {
        let (config, seed, longest) = (&self.config, self.seed, self.longest);
        Writer { decoder: model.decoder(), config, seed, longest, length: Length::Own }
    }

    /// The conversations of the micro-batches of some steps, each once.
    pub(super) fn rows_of(&self, steps: impl Iterator<Item = u64>) -> Vec<usize> {
        let mut rows: Vec<usize> = steps.flat_map(|step| self.data.packing.step(step)).flatten().collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// The first conversation of a batch with a loss that is not finite.
    pub(super) fn blame(&self, batch: &Answered, weighted: &[Vec<usize>], losses: &[f32]) -> String {
        let bad = losses.iter().position(|loss| !loss.is_finite());
        let mut end = 0;
        for (&index, positions) in batch.rows.iter().zip(weighted) {
            end += positions.len();
            if bad.is_some_and(|bad| bad < end) {
                return self.data.place(false, index);
            }
        }
        "an unknown row".into()
    }
}
