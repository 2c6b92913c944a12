//! LayerSkip: fitting a whole model so that its early layers draft for it.
//!
//! `L = Σ_l ẽ(t, l) · mean CE(LM(norm(h_{l+1})), x)` over the tokens of answers, where each conversation is left out of
//! layer `l` with the rate `p_l(t)` and its residual stream passes the layer unchanged ([`LayerSkipConfig`]). Which
//! layers are left out is a function of seed, step and conversation. All weights are fitted, or an adapter of the layers
//! (LoRA), which is in the published model.

use super::conversations::{Conversations, OnBackbone, copy_fitted, on_conversations};
use super::decoding::adapter_tree;
use super::medusa_two::write_part;
use crate::checkpoint::{self, MODEL_FILE};
use crate::config::LayerSkipConfig;
use crate::error::TrainError;
use crate::evaluation::{self, Decoded, LayerSkipMetrics, Metrics};
use crate::llama::{Llama, Packed};
use crate::lora::NetworkWeights;
use crate::parameters::Parameter;
use crate::trainer::{Evaluation, Gradients, Objective, Size};
use burn::tensor::{Int, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_core::accept::RandomSource;
use gorgon_core::accept::random::SeededRandom;
use gorgon_data::render::Example;
use gorgon_draft::choice::DrafterChoice;
use gorgon_draft::early_exit::{EarlyExit, EarlyExitDrafter};
use gorgon_draft::fitting::GradientCarry;
use gorgon_draft::training_free::TrainingFree;
use gorgon_kernels::Table;
use gorgon_kernels::linear_cross_entropy::{Labels, LinearCrossEntropy, linear_cross_entropy};
use serde_json::Value;
use std::ops::Range;
use std::path::Path;

/// Separates the random stream of left-out layers from others of the same seed.
const DROPOUT: u64 = 0x6c61_7965_7273;

/// A model, and the conversations that it is fitted to.
pub struct LayerSkipFitting {
    llama: Llama,
    weights: NetworkWeights,
    /// The model's `config.json`.
    document: Value,
    config: LayerSkipConfig,
    /// Layers that draft in evaluations.
    drafting: usize,
    /// The LM head before the first step.
    lm_head: Table,
    chunk_rows: usize,
    seed: u64,
    /// Steps of the training.
    steps: u64,
    data: Conversations,
}

/// Settings of a fitting, whatever the model.
#[derive(Clone, Debug)]
pub struct Skipping {
    /// How it is fitted.
    pub config: LayerSkipConfig,
    /// Rows of logits in memory at once.
    pub chunk_rows: usize,
    /// Seed of the layers that are left out.
    pub seed: u64,
    /// Steps of the training.
    pub steps: u64,
}

/// A micro-batch: its conversations, and the step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    step: u64,
    rows: Vec<usize>,
}

/// Some conversations with their labels.
#[derive(Clone, Debug, Default)]
pub struct Labelled {
    /// Their tokens.
    pub packed: Packed,
    /// The rows that have a label, increasing.
    pub rows: Vec<i32>,
    /// The token after each of those rows.
    pub tokens: Vec<Token>,
}

impl Labelled {
    fn of<'a>(examples: impl Iterator<Item = &'a Example>) -> Self {
        let mut all = Self::default();
        for example in examples {
            let start = all.packed.tokens.len();
            all.packed.tokens.extend(&example.ids);
            all.packed.segments.push(start..all.packed.tokens.len());
            for position in counted(example) {
                all.rows.push((start + position) as i32);
                all.tokens.push(example.ids[position + 1]);
            }
        }
        all
    }
}

/// The positions whose next token is the assistant's.
fn counted(example: &Example) -> Vec<usize> {
    (1..example.ids.len()).filter(|&t| example.assistant[t]).map(|t| t - 1).collect()
}

/// A network, which of it is fitted, and the LM head that it has where that is not fitted.
#[derive(Clone, Copy, Debug)]
pub struct Network<'a> {
    /// The network.
    pub llama: &'a Llama,
    /// The fitted part.
    pub weights: &'a NetworkWeights,
    /// The LM head before the first step, `[V, d]`.
    pub lm_head: &'a Table,
}

impl Network<'_> {
    /// The LM head with these parameters.
    fn lm_head_of(&self, parameters: &[Tensor<1>]) -> Table {
        if self.weights.is_full() { self.llama.lm_head_of(parameters) } else { self.lm_head.clone() }
    }
}

/// The losses of every exit that has a weight, in the order of the layers, and, where `scale` is given, the gradients of
/// `scale · Σ_l weights[l] · Σ CE` with respect to every parameter. `dropped[i][l]` leaves layer `l` out for dialogue
/// `i`.
///
/// # Shapes
/// `parameters` flat, as in [`NetworkWeights::parameters`]; `weights` an entry per layer.
pub fn losses(
    network: Network<'_>,
    parameters: &[Tensor<1>],
    batch: &Labelled,
    (weights, dropped): (&[f64], &[Vec<bool>]),
    (scale, chunk_rows): (Option<f64>, usize),
) -> (Vec<LinearCrossEntropy>, Vec<Tensor<1>>) {
    let leaf = |w: &Tensor<1>| if scale.is_some() { w.clone().autodiff().require_grad() } else { w.clone().autodiff() };
    let leaves: Vec<Tensor<1>> = parameters.iter().map(leaf).collect();
    let exits: Vec<bool> = weights.iter().map(|&weight| weight > 0.0).collect();
    let (table, applied) = (network.lm_head_of(parameters), network.weights.applied(&leaves, true));
    let fits_head = scale.is_some() && network.weights.is_full();
    let (n, mut carry, mut d_head) = (batch.rows.len(), GradientCarry::default(), None::<Tensor<2>>);
    let mut found = vec![];
    let own = weights.iter().filter(|&&weight| weight > 0.0);
    for (states, weight) in network.llama.exits(&applied, &batch.packed, &exits, dropped).into_iter().zip(own) {
        let index = TensorData::new(batch.rows.clone(), [n]);
        let labelled = states.select(0, Tensor::<1, Int>::from_data(index, &parameters[0].device()));
        let scales = vec![(weight * scale.unwrap_or(0.0)) as f32; n];
        let labels = Labels { tokens: &batch.tokens, scales: &scales };
        let mut output = linear_cross_entropy(&labelled.clone().inner(), &table, labels, chunk_rows, fits_head);
        if let Some(part) = output.d_weight.take() {
            d_head = Some(match d_head.take() {
                Some(sum) => sum + part,
                None => part,
            });
        }
        if scale.is_some() {
            carry.add(labelled, output.d_hidden.clone());
        }
        found.push(output);
    }
    if scale.is_none() {
        return (found, vec![]);
    }
    let mut gradients = carry.of_leaves(&leaves, parameters);
    // A table that is embedding and LM head at once has both gradients.
    if let Some(d_head) = d_head {
        let head = network.llama.lm_head();
        gradients[head] = gradients[head].clone() + d_head.reshape([-1]);
    }
    (found, gradients)
}

fn sum(values: &[f32]) -> f64 {
    values.iter().map(|&value| f64::from(value)).sum()
}

impl LayerSkipFitting {
    /// Fits a model or an adapter of it. Its `config.json` is `document`.
    ///
    /// # Errors
    /// When it has too few layers.
    pub fn new(
        llama: Llama,
        weights: NetworkWeights,
        document: Value,
        data: Conversations,
        with: Skipping,
    ) -> Result<Self, TrainError> {
        let Skipping { config, chunk_rows, seed, steps } = with;
        let drafting = config.drafting(llama.shape().layers).map_err(TrainError::Data)?;
        let shape = llama.shape();
        let start = weights.whole(&weights.parameters(seed));
        let lm_head = start[llama.lm_head()].value.clone().reshape([shape.vocab_size, shape.hidden_size]).into();
        Ok(Self { llama, weights, document, config, drafting, lm_head, chunk_rows, seed, steps, data })
    }

    /// Layers of the model.
    fn layers(&self) -> usize {
        self.llama.shape().layers
    }

    /// The layers that a conversation leaves out at a step.
    fn dropped(&self, step: u64, index: usize) -> Vec<bool> {
        let stream = step.wrapping_mul(self.data.rows.len() as u64).wrapping_add(index as u64);
        let mut random = SeededRandom::stream(self.seed ^ DROPOUT, stream);
        self.config.rates(self.layers(), step, self.steps).into_iter().map(|rate| random.flip(rate)).collect()
    }

    fn network(&self) -> Network<'_> {
        Network { llama: &self.llama, weights: &self.weights, lm_head: &self.lm_head }
    }

    /// Writes the whole model with these parameters in it.
    fn write_model(&self, parameters: &[Parameter], folder: &Path) -> Result<(), TrainError> {
        let whole = self.weights.whole(parameters);
        write_part(folder, MODEL_FILE, &whole, "config.json", &self.document)
    }

    fn labelled(&self, held_out: bool, rows: &[usize]) -> Labelled {
        Labelled::of(rows.iter().map(|&index| &self.data.row(held_out, index).example))
    }

    /// Greedy decoding of held-out prompts with the model itself, written and loaded as users load it.
    fn decode(&self, parameters: &[Parameter]) -> Result<Option<Decoded>, TrainError> {
        if self.data.decoded_prompts == 0 || self.data.decoded_tokens == 0 {
            return Ok(None);
        }
        let folder = tempfile::tempdir().map_err(|error| TrainError::Data(error.to_string()))?;
        self.write_model(parameters, folder.path())?;
        let fitted = self.data.on_model(folder.path())?;
        fitted.decode_with(&mut EarlyExitDrafter::new(self.drafting), &adapter_tree()?)
    }
}

impl Objective for LayerSkipFitting {
    type Batch = Skipped;

    fn parameters(&self, seed: u64) -> Vec<Parameter> {
        self.weights.parameters(seed)
    }

    fn batches(&self, step: u64) -> Result<Vec<Skipped>, TrainError> {
        Ok(self.data.packing.step(step).into_iter().map(|rows| Skipped { step, rows }).collect())
    }

    /// Tokens of answers: the loss is a mean over them.
    fn weights(&self, batch: &Skipped) -> Vec<f64> {
        vec![batch.rows.iter().map(|&i| counted(&self.data.rows[i].example).len()).sum::<usize>() as f64]
    }

    fn gradients(&self, weights: &[Tensor<1>], batch: &Skipped, totals: &[f64]) -> Result<Gradients, TrainError> {
        let labelled = self.labelled(false, &batch.rows);
        let tokens = labelled.packed.tokens.len();
        if labelled.rows.is_empty() {
            let gradients = weights.iter().map(Tensor::zeros_like).collect();
            return Ok(Gradients { loss: 0.0, tokens, counts: vec![], gradients, not_finite: None });
        }
        let exits = self.config.weights(&self.config.exits(self.layers(), batch.step, self.steps));
        let dropped: Vec<Vec<bool>> = batch.rows.iter().map(|&index| self.dropped(batch.step, index)).collect();
        let scale = 1.0 / totals[0].max(1.0);
        let how = (exits.as_slice(), dropped.as_slice());
        let (found, gradients) = losses(self.network(), weights, &labelled, how, (Some(scale), self.chunk_rows));
        let own = exits.iter().filter(|&&weight| weight > 0.0);
        let loss = found.iter().zip(own).map(|(exit, weight)| weight * sum(&exit.losses)).sum::<f64>() * scale;
        let mut counts = vec![];
        if let Some(last) = found.last() {
            let right = last.ranks.iter().filter(|&&rank| rank == 0).count() as f64;
            let n = last.ranks.len() as f64;
            counts = vec![("last_loss".into(), sum(&last.losses), n), ("top1".into(), right, n)];
        }
        let not_finite = (!loss.is_finite()).then(|| self.place(batch));
        Ok(Gradients { loss, tokens, counts, gradients, not_finite })
    }

    /// Exits are added over the first half of a gradual curriculum, and each takes time.
    fn phases(&self, steps: u64) -> Vec<Range<u64>> {
        [0..steps / 2, steps / 2..steps].into_iter().filter(|phase| !phase.is_empty()).collect()
    }

    fn size(&self, batch: &Skipped) -> Size {
        let tokens = self.data.packing.tokens_of(&batch.rows);
        Size { tokens, bytes: self.bytes_at_work(tokens) as u64 }
    }

    fn halves(&self, batch: &Skipped) -> Option<(Skipped, Skipped)> {
        let of = |rows| Skipped { step: batch.step, rows };
        self.data.packing.halves(&batch.rows).map(|(first, other)| (of(first), of(other)))
    }

    fn place(&self, batch: &Skipped) -> String {
        batch.rows.first().map_or_else(|| "no conversation".into(), |&index| self.data.place(false, index))
    }

    /// Every exit of the whole model.
    fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
        let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
        let (layers, count) = (self.layers(), self.data.held_out.len());
        let one = |index: usize| {
            let labelled = self.labelled(true, &[index]);
            if labelled.rows.is_empty() {
                return Ok(vec![]);
            }
            let kept = vec![vec![false; layers]];
            Ok(losses(self.network(), &weights, &labelled, (&vec![1.0; layers], &kept), (None, self.chunk_rows)).0)
        };
        let found: Vec<Vec<LinearCrossEntropy>> = evaluation::each(count, one)?;
        let n = found.iter().filter_map(|exits| exits.first()).map(|exit| exit.ranks.len()).sum::<usize>().max(1);
        let mean = |l: usize, of: &dyn Fn(&LinearCrossEntropy) -> f64| {
            found.iter().filter_map(|exits| exits.get(l)).map(of).sum::<f64>() / n as f64
        };
        let right = |exit: &LinearCrossEntropy| exit.ranks.iter().filter(|&&rank| rank == 0).count() as f64;
        let exit_loss: Vec<f64> = (0..layers).map(|l| mean(l, &|exit| sum(&exit.losses))).collect();
        let exit_top1: Vec<f64> = (0..layers).map(|l| mean(l, &right)).collect();
        let all = self.config.weights(&vec![true; layers]);
        let loss = exit_loss.iter().zip(all).map(|(loss, weight)| weight * loss).sum();
        let top1 = exit_top1.last().copied().unwrap_or(0.0);
        let metrics = LayerSkipMetrics { loss, exit_loss, exit_top1, top1, decoded: self.decode(parameters)? };
        Ok(Evaluation { metrics: Metrics::LayerSkip(metrics), objective: loss })
    }

    /// An adapter's checkpoint is no model.
    fn document(&self) -> Option<Value> {
        self.weights.is_full().then(|| self.document.clone())
    }
}

impl OnBackbone for LayerSkipFitting {
    on_conversations!();

    fn published_bytes(&self, _: usize) -> u64 {
        4 * self.llama.sizes().iter().sum::<usize>() as u64
    }

    /// Writes the whole model as `model/`, and an adapter as PEFT reads it.
    fn publish(&self, checkpoint: &Path, run: &Path) -> Result<(), TrainError> {
        let NetworkWeights::Lora(lora) = &self.weights else { return copy_fitted(checkpoint, &run.join("model")) };
        let mut parameters = self.parameters(0);
        checkpoint::read_parameters(&checkpoint.join(MODEL_FILE), &mut parameters, &[])?;
        let document = lora.document(&self.data.base);
        write_part(&run.join("adapter"), "adapter_model.safetensors", &parameters, "adapter_config.json", &document)?;
        self.write_model(&parameters, &run.join("model"))
    }

    fn served(&self, run: &Path) -> Result<Option<Conversations>, TrainError> {
        self.data.on_model(&run.join("model")).map(Some)
    }

    fn drafter(&self) -> Option<DrafterChoice> {
        let layers = self.drafting;
        Some(DrafterChoice::TrainingFree(TrainingFree::EarlyExit(EarlyExit { layers })))
    }

    fn positions(&self, example: &Example) -> Vec<usize> {
        counted(example)
    }

    /// The model is fitted itself; no other one's states are read.
    fn read(&self, _: &Skipped) -> Result<(), TrainError> {
        Ok(())
    }

    fn title(&self) -> String {
        let fitted = if self.weights.is_full() { "a model" } else { "an adapter of a model" };
        format!("{fitted} of {} layers, of which {} draft", self.layers(), self.drafting)
    }

    fn bytes_at_work(&self, tokens: usize) -> usize {
        let s = self.llama.shape();
        let layers = s.layers * (10 * s.hidden_size + 4 * s.intermediate_size);
        // Weights with the adapter in them, and their gradients.
        let adapted: usize = if self.weights.is_full() { 0 } else { 2 * self.llama.sizes().iter().sum::<usize>() };
        // Values and their gradients; logits, and the gradient of the LM head, which is summed over the exits.
        4 * (adapted + 2 * tokens * layers + (2 * self.chunk_rows.min(tokens) + 2 * s.hidden_size) * s.vocab_size)
    }
}
