//! Fitting a T5 from scratch to pairs of a task.

use super::T5;
use super::task::Task;
use crate::error::TrainError;
use crate::evaluation::{Metrics, PretrainMetrics};
use crate::parameters::Parameter;
use crate::trainer::{Evaluation, Gradients, Objective, Size};
use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_draft::fitting::{GradientCarry, free_graphs};
use gorgon_kernels::Table;
use gorgon_kernels::linear_cross_entropy::{Labels, linear_cross_entropy};

/// Rows of logits in memory at once, per micro-batch.
const CHUNK_ROWS: usize = 1024;

/// Micro-batches of a step, which run side by side.
const MICRO_BATCHES: u64 = 2;

/// Held-out pairs that are measured.
const HELD_OUT: u64 = 64;

/// A T5 and the task that it is fitted to.
#[derive(Clone, Debug)]
pub struct T5Fitting {
    /// The network.
    pub network: T5,
    /// The task.
    pub task: Task,
    /// Pairs of a step.
    pub pairs: usize,
    /// Tokens that texts begin and end with.
    pub tokens: [Token; 2],
}

/// Pairs of one length.
#[derive(Clone, Debug)]
pub struct PairBatch {
    sources: Vec<Vec<Token>>,
    inputs: Vec<Vec<Token>>,
    labels: Vec<Token>,
}

impl T5Fitting {
    fn batch(&self, pairs: impl Iterator<Item = super::Pair>) -> PairBatch {
        let [begin, end] = self.tokens;
        let mut batch = PairBatch { sources: vec![], inputs: vec![], labels: vec![] };
        for pair in pairs {
            let [inputs, labels] = pair.decoder_ids(begin, end);
            batch.sources.push(pair.source_ids(begin));
            batch.inputs.push(inputs);
            batch.labels.extend(labels);
        }
        batch
    }

    fn hidden(&self, leaves: &[Tensor<1>], batch: &PairBatch) -> Tensor<2> {
        self.network.hidden(leaves, &batch.sources, &batch.inputs)
    }

    fn head(&self, weights: &[Tensor<1>]) -> Table {
        let config = self.network.config();
        Table::from(weights[self.network.lm_head()].clone().reshape([config.vocab_size, config.hidden_size]))
    }
}

impl Objective for T5Fitting {
    type Batch = PairBatch;

    fn parameters(&self, seed: u64) -> Vec<Parameter> {
        self.network.parameters(seed)
    }

    fn batches(&self, step: u64) -> Result<Vec<PairBatch>, TrainError> {
        let each = (self.pairs as u64).div_ceil(MICRO_BATCHES);
        let made = |part: u64| {
            let number = step * MICRO_BATCHES + part;
            let letters = self.task.letters(number);
            self.batch((0..each).map(move |pair| self.task.pair(number * each + pair, letters)))
        };
        Ok((0..MICRO_BATCHES).map(made).collect())
    }

    fn weights(&self, batch: &PairBatch) -> Vec<f64> {
        vec![batch.labels.len() as f64]
    }

    /// Mean cross-entropy of the answers' tokens, given those before them.
    fn gradients(&self, weights: &[Tensor<1>], batch: &PairBatch, totals: &[f64]) -> Result<Gradients, TrainError> {
        let leaves: Vec<Tensor<1>> = weights.iter().map(|w| w.clone().autodiff().require_grad()).collect();
        let hidden = self.hidden(&leaves, batch);
        let scale = 1.0 / totals[0].max(1e-9);
        let scales = vec![scale as f32; batch.labels.len()];
        let labels = Labels { tokens: &batch.labels, scales: &scales };
        let output = linear_cross_entropy(&hidden.clone().inner(), &self.head(weights), labels, CHUNK_ROWS, true);
        let mut gradients = GradientCarry::of(hidden, output.d_hidden).of_leaves(&leaves, weights);
        // The LM head may be the embedding table too.
        if let Some(d_weight) = output.d_weight {
            let head = self.network.lm_head();
            gradients[head] = gradients[head].clone() + d_weight.reshape([-1]);
        }
        let loss: f64 = output.losses.iter().map(|&loss| f64::from(loss)).sum();
        let right = output.ranks.iter().filter(|&&rank| rank == 0).count() as f64;
        let count = batch.labels.len() as f64;
        let counts = vec![("answer_loss".into(), loss, count), ("answer_top1".into(), right, count)];
        let not_finite = (!loss.is_finite()).then(|| "a batch of the task".to_owned());
        let tokens = self.size(batch).tokens;
        Ok(Gradients { loss: loss * scale, tokens, counts, gradients, not_finite })
    }

    fn size(&self, batch: &PairBatch) -> Size {
        let of = |texts: &[Vec<Token>]| texts.iter().map(Vec::len).sum::<usize>();
        Size { tokens: of(&batch.sources) + of(&batch.inputs), bytes: 0 }
    }

    fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
        let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
        let leaves: Vec<Tensor<1>> = weights.iter().map(|w| w.clone().autodiff()).collect();
        let (mut loss, mut right, mut count) = (0.0, 0, 0);
        for number in 0..HELD_OUT {
            let batch = self.batch(std::iter::once(self.task.held_out(number)));
            let hidden = self.hidden(&leaves, &batch).inner();
            let scales = vec![0.0; batch.labels.len()];
            let labels = Labels { tokens: &batch.labels, scales: &scales };
            let output = linear_cross_entropy(&hidden, &self.head(&weights), labels, CHUNK_ROWS, false);
            loss += output.losses.iter().map(|&loss| f64::from(loss)).sum::<f64>();
            right += output.ranks.iter().filter(|&&rank| rank == 0).count();
            count += batch.labels.len();
            free_graphs();
        }
        let answer_loss = loss / f64::from(count.max(1) as u32);
        let metrics = PretrainMetrics { answer_loss, answer_top1: right as f64 / count.max(1) as f64 };
        Ok(Evaluation { metrics: Metrics::Pretrain(metrics), objective: answer_loss })
    }
}
