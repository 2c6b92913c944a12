//! The divergence of a draft model from its target, and its gradients.

use super::fitting::{Answered, DistillSpecFitting, counted};
use super::round::Round;
use super::writer::{Length, Writer};
use crate::checkpoint;
use crate::config::Answers;
use crate::error::{TrainError, io};
use crate::evaluation::{self, DistillSpecMetrics, Metrics};
use crate::methods::conversations::{OnBackbone, copy_fitted, on_conversations};
use crate::parameters::Parameter;
use crate::trainer::{Evaluation, Gradients, Objective, Purpose, Size};
use burn::tensor::Tensor;
use gorgon_core::tree::ChainTree;
use gorgon_data::render::Example;
use gorgon_draft::draft_model::{DraftModelDrafter, DraftSampling};
use gorgon_draft::fitting::GradientCarry;
use serde_json::Value;
use std::ops::Range;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Instant;

/// Drafts of the chain that evaluations decode with: the default of decoding.
const CHAIN: usize = 4;

impl Objective for DistillSpecFitting {
    type Batch = Answered;

    fn parameters(&self, _: u64) -> Vec<Parameter> {
        self.start.clone()
    }

    /// At the first step of a round, the draft model writes answers to the prompts of all its steps. They are kept in
    /// the run folder, so a run that resumes within a round reads the same answers.
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

    /// A fitted draft model ends its answers where the target does. So after the first round, time is measured on
    /// answers as long as the data's. Before it is fitted, the draft model may write much longer ones.
    fn prepare_dry_run(&self, steps: &[u64], purpose: Purpose, parameters: &[Parameter]) -> Result<f64, TrainError> {
        if self.config.answers == Answers::Data {
            return Ok(0.0);
        }
        let started = Instant::now();
        let folder = tempfile::tempdir().map_err(|error| TrainError::Data(error.to_string()))?;
        let model = self.loaded(parameters, folder.path())?;
        // A model is loaded once for a round, however few of its steps are run.
        let loading = started.elapsed().as_secs_f64();
        let is_fitted = |step: &u64| purpose == Purpose::Time && *step >= self.config.every;
        let (later, first): (Vec<u64>, Vec<u64>) = steps.iter().partition(|step| is_fitted(step));
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        for (steps, length) in [(first, Length::Own), (later, Length::Data)] {
            let (rows, writer) = (self.rows_of(steps.into_iter()), Writer { length, ..self.writer(&model) });
            let answers = writer.answers(Round::DRY_RUN, &self.data.rows, &rows)?;
            *round = Some(Round::dry_run(round.take(), answers));
        }
        let answering = started.elapsed().as_secs_f64() - loading;
        Ok(answering / steps.len().max(1) as f64 + loading / self.config.every as f64)
    }

    /// The first round, and those after it.
    fn phases(&self, steps: u64) -> Vec<Range<u64>> {
        let first = if self.config.answers == Answers::Data { steps } else { self.config.every.min(steps) };
        [0..first, first..steps].into_iter().filter(|phase| !phase.is_empty()).collect()
    }

    fn end_dry_run(&self) {
        *self.round.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn batches(&self, step: u64) -> Result<Vec<Answered>, TrainError> {
        let batches = self.data.packing.step(step).into_iter();
        let round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the first step, when it is only planned, there is no round.
        let Some(round) = round.as_ref() else {
            return Ok(batches.map(|rows| Answered::new(rows, None)).collect());
        };
        batches
            .map(|rows| {
                let written = round.of(&rows, step)?;
                Ok(Answered::new(rows, Some(written)))
            })
            .collect()
    }

    /// Positions that have weight: the loss is a mean over them. If an earlier draft model fails, the gradients say so.
    fn weights(&self, batch: &Answered) -> Vec<f64> {
        let weighted = self.weighted(batch).unwrap_or_default();
        vec![weighted.iter().map(Vec::len).sum::<usize>() as f64]
    }

    fn gradients(&self, weights: &[Tensor<1>], batch: &Answered, totals: &[f64]) -> Result<Gradients, TrainError> {
        let weighted = self.weighted(batch)?;
        let examples: Vec<(&Example, &[usize])> =
            weighted.iter().enumerate().map(|(i, positions)| (self.example(batch, i), &positions[..])).collect();
        let tokens = examples.iter().map(|(example, _)| example.ids.len()).sum();
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
            gradients = GradientCarry::of(hidden, d_hidden).of_leaves(&leaves, weights);
            // A table that is embedding and LM head at once has both gradients.
            let head = self.llama.lm_head();
            gradients[head] = gradients[head].clone() + d_weight.reshape([-1]);
        }
        let n = found.losses.len() as f64;
        let loss = sum(&found.losses) * scale;
        let right = found.agrees.iter().filter(|same| **same).count() as f64;
        let counts = vec![("acceptance".into(), sum(&found.overlaps), n), ("top1".into(), right, n)];
        let not_finite = (!loss.is_finite()).then(|| self.blame(batch, weighted, &found.losses));
        Ok(Gradients { loss, tokens, counts, gradients, not_finite })
    }

    fn size(&self, batch: &Answered) -> Size {
        let tokens = (0..batch.rows.len()).map(|i| self.example(batch, i).ids.len()).sum();
        Size { tokens, bytes: self.bytes_at_work(tokens) as u64 }
    }

    fn halves(&self, batch: &Answered) -> Option<(Answered, Answered)> {
        let (first, other) = self.data.packing.halves(&batch.rows)?;
        let written = |part: Range<usize>| batch.written.as_ref().map(|written| written[part].to_vec());
        let (early, late) = (written(0..first.len()), written(first.len()..batch.rows.len()));
        Some((Answered::new(first, early), Answered::new(other, late)))
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
            let hidden = self.hidden(&leaves, &[(&row.example, &positions)]).inner();
            let found = self.divergence(&hidden, &states, &weights, None);
            let right = found.agrees.iter().filter(|same| **same).count();
            Ok((sum(&found.losses), sum(&found.overlaps), right, found.losses.len()))
        };
        let found: Vec<(f64, f64, usize, usize)> = evaluation::each(self.data.held_out.len(), one)?;
        let n = found.iter().map(|f| f.3).sum::<usize>().max(1) as f64;
        let loss = found.iter().map(|f| f.0).sum::<f64>() / n;
        let folder = tempfile::tempdir().map_err(|error| TrainError::Data(error.to_string()))?;
        let mut drafter = DraftModelDrafter::new(self.loaded(parameters, folder.path())?, DraftSampling::GREEDY);
        let chain = ChainTree::new(CHAIN).map_err(|error| TrainError::Data(error.to_string()))?;
        let metrics = DistillSpecMetrics {
            loss,
            acceptance: found.iter().map(|f| f.1).sum::<f64>() / n,
            top1: found.iter().map(|f| f.2).sum::<usize>() as f64 / n,
            decoded: self.data.decode_with(&mut drafter, &chain)?,
        };
        Ok(Evaluation { metrics: Metrics::DistillSpec(metrics), objective: loss })
    }

    fn document(&self) -> Option<Value> {
        Some(self.document.clone())
    }
}

fn sum(values: &[f32]) -> f64 {
    values.iter().map(|&value| f64::from(value)).sum()
}

impl OnBackbone for DistillSpecFitting {
    on_conversations!();

    fn publish(&self, checkpoint: &Path, run: &Path) -> Result<(), TrainError> {
        copy_fitted(checkpoint, &run.join("model"))
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
