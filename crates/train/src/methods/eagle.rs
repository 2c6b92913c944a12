//! Fitting an EAGLE-1/2 draft layer to a frozen backbone.

use super::at_work;
use super::conversations::{Conversations, OnBackbone, on_conversations};
use super::initial::initial_all;
use crate::error::TrainError;
use crate::evaluation::{self, EagleMetrics, Metrics};
use crate::parameters::{Parameter, from_values};
use crate::trainer::{Evaluation, Gradients, Objective, Size};
use burn::tensor::{Int, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_data::render::Example;
use gorgon_draft::drafter::Drafter;
use gorgon_draft::eagle::{
    Criterion, EagleBatch, EagleConfig, EagleDrafter, EagleModel, EagleNetwork, EagleOutput, losses,
};
use gorgon_kernels::Table;
use serde_json::Value;

/// Separates the noise's random stream from others of the same seed.
const NOISE: u64 = 0x6e6f_6973_6521;

/// A draft layer, the backbone's states, and the conversations that it is fitted to.
pub struct EagleFitting {
    /// The network.
    pub network: EagleNetwork,
    /// How it is fitted.
    pub config: EagleConfig,
    /// The backbone's LM head, `[V, d]`.
    pub lm_head: Table,
    /// Rows of logits in memory at once.
    pub chunk_rows: usize,
    /// Seed of the noise.
    pub seed: u64,
    /// The conversations.
    pub data: Conversations,
}

/// A micro-batch: its conversations, and the step whose noise they get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noisy {
    step: u64,
    rows: Vec<usize>,
}

/// The pairs of a conversation that count. Pair `i`, `(f_i, x_{i+1})`, is about `x_{i+2}`: it counts if both tokens are
/// the assistant's, which is when it takes part in decoding. (The reference counts a pair if `x_i` is the assistant's.)
pub(super) fn counted(example: &Example) -> impl Iterator<Item = usize> + '_ {
    (0..example.ids.len()).filter(|&i| example.counts(0, i))
}

impl EagleFitting {
    /// The pairs of some conversations, one conversation after another.
    fn gather(&self, held_out: bool, rows: &[usize], noise: Option<u64>) -> Result<EagleBatch, TrainError> {
        let (d, device) = (self.network.shape().layer.hidden_size, self.lm_head.device());
        let (mut tokens, mut features, mut targets): (Vec<Token>, Vec<_>, Vec<_>) = (vec![], vec![], vec![]);
        let (mut segments, mut all) = (vec![], vec![]);
        for &index in rows {
            let row = self.data.row(held_out, index);
            let positions = self.positions(&row.example);
            let Some(feature_tokens) = positions.len().checked_sub(1) else { continue };
            let states = self.data.features.states(row, held_out, index, &positions)?;
            let first = tokens.len();
            tokens.extend_from_slice(&row.example.ids[1..=feature_tokens]);
            segments.push(first..first + feature_tokens);
            all.extend(counted(&row.example).map(|pair| (first + pair) as u32));
            let next: Vec<i32> = counted(&row.example).map(|pair| pair as i32 + 1).collect();
            let n = next.len();
            targets.push(states.clone().select(0, Tensor::<1, Int>::from_data(TensorData::new(next, [n]), &device)));
            let inputs = states.narrow(0, 0, feature_tokens);
            features.push(match noise {
                Some(step) => inputs + self.noise(step, index, feature_tokens).reshape([feature_tokens, d]),
                None => inputs,
            });
        }
        let zeros = || Tensor::zeros([0, d], &device);
        let join = |parts: Vec<Tensor<2>>| if parts.is_empty() { zeros() } else { Tensor::cat(parts, 0) };
        let embedded = self.data.embed(&tokens)?;
        Ok(EagleBatch { embedded, features: join(features), segments, counted: all, targets: join(targets) })
    }

    /// `U(-noise, noise)` for each value of a conversation's features: a function of step and conversation alone.
    fn noise(&self, step: u64, index: usize, feature_tokens: usize) -> Tensor<1> {
        let stream = step.wrapping_mul(self.data.rows.len() as u64).wrapping_add(index as u64);
        let mut random = SeededRandom::stream(self.seed ^ NOISE, stream);
        let width = 2.0 * self.config.noise;
        let n = feature_tokens * self.network.shape().layer.hidden_size;
        let values = (0..n).map(|_| ((random.uniform() - 0.5) * width) as f32).collect();
        from_values(values, &self.lm_head.device())
    }

    fn losses(&self, weights: &[Tensor<1>], batch: &EagleBatch, scale: Option<f32>) -> (EagleOutput, Vec<Tensor<1>>) {
        let Self { lm_head, chunk_rows, .. } = self;
        let criterion = Criterion { lm_head, cross_entropy: self.config.cross_entropy, chunk_rows: *chunk_rows };
        losses(&self.network, &criterion, weights, batch, scale)
    }

    /// The first conversation of a batch with a loss that is not finite.
    fn blame(&self, rows: &[usize], output: &EagleOutput) -> String {
        let bad = output.regression.iter().zip(&output.cross_entropy).position(|(r, c)| !(r + c).is_finite());
        let mut end = 0;
        for &index in rows {
            end += counted(&self.data.row(false, index).example).count();
            if bad.is_some_and(|bad| bad < end) {
                return self.data.place(false, index);
            }
        }
        "an unknown row".into()
    }

    fn shape_document(&self) -> Value {
        self.network.shape().document(&self.data.base)
    }
}

/// All positions up to the last feature to guess, since the layer attends to every pair before.
pub(super) fn read_positions(example: &Example) -> Vec<usize> {
    counted(example).last().map_or(vec![], |last| (0..=last + 1).collect())
}

pub(super) fn sum(values: &[f32]) -> f64 {
    values.iter().map(|&value| f64::from(value)).sum()
}

impl Objective for EagleFitting {
    type Batch = Noisy;

    fn parameters(&self, seed: u64) -> Vec<Parameter> {
        self.data.initialised(initial_all(self.network.shape().parameters(), &self.lm_head, seed))
    }

    fn batches(&self, step: u64) -> Result<Vec<Noisy>, TrainError> {
        Ok(self.data.packing.step(step).into_iter().map(|rows| Noisy { step, rows }).collect())
    }

    /// Pairs that count: the loss is a mean over them.
    fn weights(&self, batch: &Noisy) -> Vec<f64> {
        vec![batch.rows.iter().map(|&i| counted(&self.data.rows[i].example).count()).sum::<usize>() as f64]
    }

    fn gradients(&self, weights: &[Tensor<1>], batch: &Noisy, totals: &[f64]) -> Result<Gradients, TrainError> {
        let feature_tokens = self.gather(false, &batch.rows, Some(batch.step))?;
        let scale = 1.0 / totals[0].max(1.0);
        let (output, gradients) = self.losses(weights, &feature_tokens, Some(scale as f32));
        let (regression, cross_entropy) = (sum(&output.regression), sum(&output.cross_entropy));
        let loss = (regression + self.config.cross_entropy * cross_entropy) * scale;
        let n = output.ranks.len() as f64;
        let right = output.ranks.iter().filter(|&&rank| rank == 0).count() as f64;
        let counts = [("regression", regression), ("cross_entropy", cross_entropy), ("top1", right)]
            .map(|(k, v)| (k.into(), v, n));
        let tokens = batch.rows.iter().map(|&i| self.data.rows[i].example.ids.len()).sum();
        let not_finite = (!loss.is_finite()).then(|| self.blame(&batch.rows, &output));
        Ok(Gradients { loss, tokens, counts: counts.into(), gradients, not_finite })
    }

    fn size(&self, batch: &Noisy) -> Size {
        let tokens = self.data.packing.tokens_of(&batch.rows);
        Size { tokens, bytes: self.bytes_at_work(tokens) as u64 }
    }

    fn halves(&self, batch: &Noisy) -> Option<(Noisy, Noisy)> {
        let of = |rows| Noisy { step: batch.step, rows };
        self.data.packing.halves(&batch.rows).map(|(first, other)| (of(first), of(other)))
    }

    fn place(&self, batch: &Noisy) -> String {
        batch.rows.first().map_or_else(|| "no conversation".into(), |&index| self.data.place(false, index))
    }

    fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
        let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
        let one = |index: usize| Ok(self.losses(&weights, &self.gather(true, &[index], None)?, None).0);
        let outputs: Vec<EagleOutput> = evaluation::each(self.data.held_out.len(), one)?;
        let n = outputs.iter().map(|o| o.ranks.len()).sum::<usize>().max(1) as f64;
        let mean = |of: fn(&EagleOutput) -> &[f32]| outputs.iter().map(|o| sum(of(o))).sum::<f64>() / n;
        let (regression, cross_entropy) = (mean(|o| &o.regression), mean(|o| &o.cross_entropy));
        let within = |k: u32| outputs.iter().flat_map(|o| &o.ranks).filter(|&&rank| rank < k).count() as f64 / n;
        let loss = regression + self.config.cross_entropy * cross_entropy;
        let drafter = |folder: &_, decoder| {
            Ok(Box::new(EagleDrafter::new(EagleModel::load(folder, decoder)?)) as Box<dyn Drafter>)
        };
        let decoded = self.data.decode_layer(parameters, &[], &self.shape_document(), drafter)?;
        let (top1, top5) = (within(1), within(5));
        let metrics = EagleMetrics { loss, regression, cross_entropy, top1, top5, decoded };
        Ok(Evaluation { metrics: Metrics::Eagle(metrics), objective: loss })
    }

    fn document(&self) -> Option<Value> {
        Some(self.shape_document())
    }
}

impl OnBackbone for EagleFitting {
    on_conversations!();

    fn positions(&self, example: &Example) -> Vec<usize> {
        read_positions(example)
    }

    fn read(&self, batch: &Noisy) -> Result<(), TrainError> {
        self.gather(false, &batch.rows, Some(batch.step)).map(|_| ())
    }

    fn title(&self) -> String {
        "a draft layer".into()
    }

    fn bytes_at_work(&self, tokens: usize) -> usize {
        let at_once = self.lm_head.rows_at_once(self.chunk_rows);
        at_work::of_eagle(&self.network.shape().layer, at_once, tokens) + self.lm_head.scratch_bytes(tokens)
    }
}
