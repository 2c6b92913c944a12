//! DistillSpec: fitting a draft model to the distributions of a frozen target (Zhou et al. 2024).
//!
//! `L = mean D(p_t, q_t)` over the positions whose next token is the assistant's, with the divergences of
//! [`gorgon_kernels::linear_divergence`], all at temperature 1. All parameters of the draft model are fitted.

mod round;

use super::{Conversations, OnBackbone};
use crate::checkpoint;
use crate::config::{Answers, DistillSpecConfig};
use crate::error::{TrainError, io};
use crate::llama::{Llama, Packed};
use crate::micro_batch::Size;
use crate::parameters::Parameter;
use crate::trainer::{Evaluation, Gradients, Objective, Purpose};
use burn::tensor::{Int, Tensor, TensorData};
use gorgon_core::tree::ChainTree;
use gorgon_data::render::Example;
use gorgon_draft::draft_model::{DraftModel, DraftModelDrafter, DraftSampling};
use gorgon_kernels::linear_divergence::{LinearDivergence, linear_divergence};
use gorgon_kernels::projected::Projected;
use gorgon_kernels::{Table, team};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use rayon::prelude::*;
use round::{Length, Round, Writer};
use serde_json::{Map, Value, json};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Drafts of the chain that evaluations decode with: what decoding takes unless told otherwise.
const CHAIN: usize = 4;

/// A draft model, the target's states, and the conversations that it is fitted on.
pub struct DistillSpecFitting {
    llama: Llama,
    /// What the draft model begins as.
    start: Vec<Parameter>,
    /// Its `config.json`.
    document: Value,
    config: DistillSpecConfig,
    /// The target's LM head, `[V, d]`.
    lm_head: Table,
    chunk_rows: usize,
    seed: u64,
    longest: usize,
    data: Conversations,
    /// The run folder, where written answers are kept.
    run: Option<PathBuf>,
    /// What the draft model wrote last.
    round: Mutex<Option<Round>>,
}

/// What is the same for every draft model.
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
    /// The conversations.
    pub data: Conversations,
}

/// A micro-batch: its conversations, and what the draft model wrote in them.
#[derive(Clone, Debug)]
pub struct Answered {
    rows: Vec<usize>,
    written: Option<Vec<Arc<Example>>>,
}

/// The positions whose next token is the assistant's.
fn counted(example: &Example) -> Vec<usize> {
    (1..example.ids.len()).filter(|&t| example.assistant[t]).map(|t| t - 1).collect()
}

impl DistillSpecFitting {
    /// Fits a draft model, which begins as `start` and whose `config.json` is `document`.
    pub fn new(llama: Llama, start: Vec<Parameter>, document: Value, with: Distilled) -> Self {
        let Distilled { config, lm_head, chunk_rows, seed, longest, data } = with;
        let (run, round) = (None, Mutex::new(None));
        Self { llama, start, document, config, lm_head, chunk_rows, seed, longest, data, run, round }
    }

    fn example<'a>(&'a self, batch: &'a Answered, i: usize) -> &'a Example {
        match &batch.written {
            Some(written) => &written[i],
            None => &self.data.rows[batch.rows[i]].example,
        }
    }

    /// The target's states at the positions of a micro-batch that count, `[positions, d]`.
    fn states(&self, batch: &Answered) -> Result<Tensor<2>, TrainError> {
        let features = &self.data.features;
        let mut parts = vec![];
        for (i, &index) in batch.rows.iter().enumerate() {
            let example = self.example(batch, i);
            let positions = counted(example);
            if positions.is_empty() {
                continue;
            }
            parts.push(match batch.written {
                Some(_) => features.compute(&example.ids, &positions, &Hooks::none())?,
                None => features.states(self.data.row(false, index), false, index, &positions)?,
            });
        }
        Ok(match parts.len() {
            0 => Tensor::zeros([0, self.lm_head.dims()[1]], &self.lm_head.device()),
            1 => parts.remove(0),
            _ => Tensor::cat(parts, 0),
        })
    }

    /// The draft model's states at the positions that count, `[positions, d]`.
    fn hidden(&self, weights: &[Tensor<1>], examples: &[&Example]) -> Tensor<2> {
        let (mut packed, mut index) = (Packed::default(), vec![]);
        for example in examples {
            let start = packed.tokens.len();
            packed.tokens.extend(&example.ids);
            packed.segments.push(start..packed.tokens.len());
            index.extend(counted(example).into_iter().map(|t| (start + t) as i32));
        }
        let n = index.len();
        let index = Tensor::<1, Int>::from_data(TensorData::new(index, [n]), &self.lm_head.device());
        self.llama.hidden(weights, &packed).select(0, index)
    }

    fn divergence(
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

    /// The draft model with these parameters, written to a folder and loaded as a user's is.
    fn loaded(&self, parameters: &[Parameter], folder: &Path) -> Result<DraftModel, TrainError> {
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

    /// Lets a draft model write.
    fn writer<'a>(&'a self, model: &'a DraftModel) -> Writer<'a> {
        let (config, seed, longest) = (&self.config, self.seed, self.longest);
        Writer { decoder: model.decoder(), config, seed, longest, length: Length::Own }
    }

    /// The conversations of the micro-batches of some steps, each once.
    fn rows_of(&self, steps: impl Iterator<Item = u64>) -> Vec<usize> {
        let mut rows: Vec<usize> = steps.flat_map(|step| self.data.packing.step(step)).flatten().collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// The first conversation of a batch with a loss that is no number.
    fn blame(&self, batch: &Answered, losses: &[f32]) -> String {
        let bad = losses.iter().position(|loss| !loss.is_finite());
        let mut end = 0;
        for (i, &index) in batch.rows.iter().enumerate() {
            end += counted(self.example(batch, i)).len();
            if bad.is_some_and(|bad| bad < end) {
                return self.data.place(false, index);
            }
        }
        "an unknown row".into()
    }
}

impl Objective for DistillSpecFitting {
    type Batch = Answered;

    fn parameters(&self, _: u64) -> Vec<Parameter> {
        self.start.clone()
    }

    /// At the first step of a round the draft model, as it is by then, writes answers to the prompts of all its steps.
    /// They are kept in the run folder, so that a run that is resumed in the midst of a round goes on with the same.
    fn prepare(&self, step: u64, parameters: &[Parameter]) -> Result<(), TrainError> {
        if self.config.answers == Answers::Data {
            return Ok(());
        }
        let number = step / self.config.every;
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        if round.as_ref().is_some_and(|round| round.number == number) {
            return Ok(());
        }
        let first = number * self.config.every;
        let folder = tempfile::tempdir().map_err(|error| TrainError::Data(error.to_string()))?;
        let writer = || {
            let rows = self.rows_of(first..first + self.config.every);
            let model = self.loaded(parameters, folder.path())?;
            let write = self.writer(&model);
            let hash = gorgon_runs::provenance::hash_file(&folder.path().join(checkpoint::MODEL_FILE));
            let hash = hash.map_err(io(folder.path()))?;
            Round::at_first_step(number, hash, self.run.as_deref(), |number| {
                write.answers(number, &self.data.rows, &rows)
            })
        };
        *round = Some(if step == first { writer()? } else { Round::kept(number, self.run.as_deref())? });
        Ok(())
    }

    /// A draft model that is fitted comes to end its answers where the target does, whose answers the data has. So
    /// after the first round the time is that of answers as long as those; what it writes before it is fitted may be
    /// much longer.
    fn rehearse(&self, steps: &[u64], purpose: Purpose, parameters: &[Parameter]) -> Result<f64, TrainError> {
        if self.config.answers == Answers::Data {
            return Ok(0.0);
        }
        let started = Instant::now();
        let folder = tempfile::tempdir().map_err(|error| TrainError::Data(error.to_string()))?;
        let model = self.loaded(parameters, folder.path())?;
        // A model is loaded once for a round, however few of its steps are rehearsed.
        let loading = started.elapsed().as_secs_f64();
        let is_fitted = |step: &u64| purpose == Purpose::Time && *step >= self.config.every;
        let (later, first): (Vec<u64>, Vec<u64>) = steps.iter().partition(|step| is_fitted(step));
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        for (steps, length) in [(first, Length::Own), (later, Length::Data)] {
            let (rows, writer) = (self.rows_of(steps.into_iter()), Writer { length, ..self.writer(&model) });
            let answers = writer.answers(Round::REHEARSED, &self.data.rows, &rows)?;
            *round = Some(Round::rehearsed(round.take(), answers));
        }
        let answering = started.elapsed().as_secs_f64() - loading;
        Ok(answering / steps.len().max(1) as f64 + loading / self.config.every as f64)
    }

    /// The first round, and those after it.
    fn phases(&self, steps: u64) -> Vec<Range<u64>> {
        let first = if self.config.answers == Answers::Data { steps } else { self.config.every.min(steps) };
        [0..first, first..steps].into_iter().filter(|phase| !phase.is_empty()).collect()
    }

    fn forget(&self) {
        *self.round.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn batches(&self, step: u64) -> Result<Vec<Answered>, TrainError> {
        let batches = self.data.packing.step(step).into_iter();
        let round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the first step, when it is only planned, there is no round.
        let Some(round) = round.as_ref() else {
            return Ok(batches.map(|rows| Answered { rows, written: None }).collect());
        };
        batches.map(|rows| Ok(Answered { written: Some(round.of(&rows, step)?), rows })).collect()
    }

    /// Positions that count: the loss is a mean over them.
    fn weights(&self, batch: &Answered) -> Vec<f64> {
        vec![(0..batch.rows.len()).map(|i| counted(self.example(batch, i)).len()).sum::<usize>() as f64]
    }

    /// As in pretraining, the states' gradient is carried on through the network by a scalar of which it is the
    /// gradient.
    fn gradients(&self, weights: &[Tensor<1>], batch: &Answered, totals: &[f64]) -> Result<Gradients, TrainError> {
        let examples: Vec<&Example> = (0..batch.rows.len()).map(|i| self.example(batch, i)).collect();
        let tokens = examples.iter().map(|example| example.ids.len()).sum();
        let states = self.states(batch)?;
        if states.dims()[0] == 0 {
            let gradients = weights.iter().map(Tensor::zeros_like).collect();
            return Ok(Gradients { loss: 0.0, tokens, counts: vec![], gradients, not_finite: None });
        }
        let leaves: Vec<Tensor<1>> = weights.iter().map(|w| w.clone().autodiff().require_grad()).collect();
        let hidden = self.hidden(&leaves, &examples);
        let scale = 1.0 / totals[0].max(1.0);
        let found = self.divergence(&hidden.clone().inner(), &states, weights, Some(scale as f32));
        let mut gradients: Vec<Tensor<1>> = vec![];
        if let Some((d_hidden, d_weight)) = found.gradients {
            let mut grads = (hidden * d_hidden.autodiff()).sum().backward();
            let of =
                |(leaf, w): (&Tensor<1>, &Tensor<1>)| leaf.grad_remove(&mut grads).unwrap_or_else(|| w.zeros_like());
            gradients = leaves.iter().zip(weights).map(of).collect();
            // A table that is embedding and LM head at once has both gradients.
            let head = self.llama.lm_head();
            gradients[head] = gradients[head].clone() + d_weight.reshape([-1]);
        }
        let n = found.losses.len() as f64;
        let loss = sum(&found.losses) * scale;
        let right = found.agrees.iter().filter(|same| **same).count() as f64;
        let counts = vec![("acceptance".into(), sum(&found.overlaps), n), ("top1".into(), right, n)];
        let not_finite = (!loss.is_finite()).then(|| self.blame(batch, &found.losses));
        Ok(Gradients { loss, tokens, counts, gradients, not_finite })
    }

    fn size(&self, batch: &Answered) -> Size {
        let tokens = (0..batch.rows.len()).map(|i| self.example(batch, i).ids.len()).sum();
        Size { tokens, bytes: self.bytes_at_work(tokens) as u64 }
    }

    fn halves(&self, batch: &Answered) -> Option<(Answered, Answered)> {
        let (first, rest) = self.data.packing.halves(&batch.rows)?;
        let written = |part: Range<usize>| batch.written.as_ref().map(|written| written[part].to_vec());
        let (early, late) = (written(0..first.len()), written(first.len()..batch.rows.len()));
        Some((Answered { rows: first, written: early }, Answered { rows: rest, written: late }))
    }

    fn place(&self, batch: &Answered) -> String {
        batch.rows.first().map_or_else(|| "no conversation".into(), |&index| self.data.place(false, index))
    }

    fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
        let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
        let leaves: Vec<Tensor<1>> = weights.iter().map(|w| w.clone().autodiff()).collect();
        let one = |index: usize| {
            let row = self.data.row(true, index);
            let positions = counted(&row.example);
            if positions.is_empty() {
                return Ok((0.0, 0.0, 0, 0));
            }
            let states = self.data.features.states(row, true, index, &positions)?;
            let hidden = self.hidden(&leaves, &[&row.example]).inner();
            let found = self.divergence(&hidden, &states, &weights, None);
            let right = found.agrees.iter().filter(|same| **same).count();
            Ok((sum(&found.losses), sum(&found.overlaps), right, found.losses.len()))
        };
        let held_out = (0..self.data.held_out.len()).into_par_iter();
        let found: Vec<(f64, f64, usize, usize)> =
            held_out.map(|i| team::one_of(self.data.held_out.len(), || one(i))).collect::<Result<_, TrainError>>()?;
        let n = found.iter().map(|f| f.3).sum::<usize>().max(1) as f64;
        let loss = found.iter().map(|f| f.0).sum::<f64>() / n;
        let mut metrics = Map::new();
        metrics.insert("loss".into(), json!(loss));
        metrics.insert("acceptance".into(), json!(found.iter().map(|f| f.1).sum::<f64>() / n));
        metrics.insert("top1".into(), json!(found.iter().map(|f| f.2).sum::<usize>() as f64 / n));
        let folder = tempfile::tempdir().map_err(|error| TrainError::Data(error.to_string()))?;
        let mut drafter = DraftModelDrafter::new(self.loaded(parameters, folder.path())?, DraftSampling::LIKELIEST);
        let chain = ChainTree::new(CHAIN).map_err(|error| TrainError::Data(error.to_string()))?;
        if let Some(decoded) = self.data.decode_with(&mut drafter, &chain)? {
            metrics.insert("tau".into(), json!(decoded.tokens_per_step));
            metrics.insert("accepted_by_depth".into(), json!(decoded.by_depth));
        }
        Ok(Evaluation { metrics, objective: loss })
    }

    fn document(&self) -> Option<Value> {
        Some(self.document.clone())
    }
}

fn sum(values: &[f32]) -> f64 {
    values.iter().map(|&value| f64::from(value)).sum()
}

impl OnBackbone for DistillSpecFitting {
    fn lm_head(&self) -> &Table {
        &self.lm_head
    }

    fn data(&self) -> &Conversations {
        &self.data
    }

    fn data_mut(&mut self) -> &mut Conversations {
        &mut self.data
    }

    fn publish(&self, checkpoint: &Path, run: &Path) -> Result<(), TrainError> {
        super::conversations::copy_fitted(checkpoint, &run.join("model"))
    }

    fn attach(&mut self, run: &Path) {
        self.run = Some(run.into());
    }

    fn positions(&self, example: &Example) -> Vec<usize> {
        counted(example)
    }

    fn read(&self, batch: &Answered) -> Result<(), TrainError> {
        self.states(batch).map(|_| ())
    }

    fn title(&self) -> String {
        "a draft model".into()
    }

    fn bytes_at_work(&self, tokens: usize) -> usize {
        let s = self.llama.shape();
        let layers = s.layers * (8 * s.hidden_size + 4 * s.intermediate_size);
        // Values and their gradients; logits of draft model and target, and the gradient of the LM head.
        4 * (2 * tokens * layers + (2 * self.chunk_rows.min(tokens) + s.hidden_size) * s.vocab_size)
    }
}
