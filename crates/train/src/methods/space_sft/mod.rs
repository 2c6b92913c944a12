//! SPACE's semi-autoregressive fine-tuning (Yi et al., 2024, <https://arxiv.org/abs/2402.11809>): the backbone and the
//! embedding of its mask token are fitted together.
//!
//! A step reads each conversation `x` in one of two ways. With the share `cut` it ends at a random token `x_t` of an
//! answer, and masks `m_1 .. m_k` follow; mask `m_j` is about `x_{t+j+1}`, as far as these are the assistant's.
//! Otherwise it is read whole. The loss is the mean cross-entropy of all labels: those of the masks, and the
//! assistant's tokens in the text that was read. Which conversations are cut, and where, is a function of seed, step
//! and conversation.
//!
//! The backbone changes: decoding is lossless for the new one, which is published with its mask.

mod masked;

pub use masked::Masked;

use super::conversations::{Conversations, OnBackbone, on_conversations};
use super::decoding::probe_tree;
use super::language::Language;
use super::medusa_two::{Merged, merged_bytes, write_part};
use crate::checkpoint::{self, MODEL_FILE};
use crate::config::SpaceSftConfig;
use crate::error::TrainError;
use crate::evaluation::{self, Decoded, HeadRanks, MedusaTwoMetrics, Metrics};
use crate::llama::Llama;
use crate::lora::NetworkWeights;
use crate::parameters::{Parameter, Role};
use crate::trainer::{Evaluation, Gradients, Objective, Size};
use burn::tensor::{Int, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_core::accept::RandomSource;
use gorgon_core::accept::random::SeededRandom;
use gorgon_data::render::Example;
use gorgon_draft::fitting::GradientCarry;
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::probes::{ProbeDrafter, ProbeModel, ProbeShape};
use gorgon_kernels::Table;
use gorgon_kernels::linear_cross_entropy::{Labels, LinearCrossEntropy, linear_cross_entropy};
use gorgon_kernels::projected::Projected;
use gorgon_model::target::read;
use gorgon_model::weights::Checkpoint;
use masked::{counted, places};
use std::path::Path;

/// Separates the random stream of cuts from others of the same seed.
const CUTS: u64 = 0x7370_6163_6521;
/// Places of a held-out conversation that masks are measured behind, at most.
const MEASURED: usize = 8;
/// The folder of the fitted model in a run folder.
const MERGED: &str = "merged";

/// Place, loss and rank of a mask's label.
type MaskLabel = (usize, f32, u32);

/// A backbone with a mask token, and the conversations that both are fitted to.
pub struct SpaceSftFitting {
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
    /// How it is fitted.
    pub config: SpaceSftConfig,
    /// The mask as a drafter reads it.
    pub shape: ProbeShape,
    /// The token whose embedding the mask starts from.
    pub start: Token,
    /// Seed of the cuts.
    pub seed: u64,
    /// The conversations; their features are the original's.
    pub data: Conversations,
}

/// A micro-batch: its conversations, and the step whose cuts they get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    step: u64,
    rows: Vec<usize>,
}

fn sum(values: impl Iterator<Item = f32>) -> f64 {
    values.map(f64::from).sum()
}

impl SpaceSftFitting {
    /// Where a step cuts a conversation, if it does.
    fn cut(&self, step: u64, index: usize) -> Option<usize> {
        let stream = step.wrapping_mul(self.data.rows.len() as u64).wrapping_add(index as u64);
        let mut random = SeededRandom::stream(self.seed ^ CUTS, stream);
        let (cuts, at) = (random.flip(self.config.cut), random.uniform());
        let places = places(&self.data.rows[index].example);
        let chosen = ((at * places.len() as f64) as usize).min(places.len().saturating_sub(1));
        places.get(chosen).copied().filter(|_| cuts)
    }

    /// The conversations of a micro-batch, as its step reads them.
    pub fn masked(&self, batch: &Cut) -> Masked {
        let mut all = Masked::default();
        for &index in &batch.rows {
            all.push(&self.data.rows[index].example, self.cut(batch.step, index), self.config.masks, true);
        }
        all
    }

    fn lm_head_of(&self, parameters: &[Tensor<1>]) -> Table {
        if self.weights.is_full() { self.llama.lm_head_of(parameters) } else { self.lm_head.clone() }
    }

    /// The states of some conversations, the last of the parameters being the mask.
    fn hidden(&self, tracked: &[Tensor<1>], masked: &Masked) -> Tensor<2> {
        let (network, mask) = tracked.split_at(tracked.len() - 1);
        let applied = self.weights.applied(network, true);
        self.llama.hidden_masked(&applied, &masked.packed, (&mask[0], &masked.masks))
    }

    /// Losses of all labels, and where `scale` is given, gradients of `scale` times their sum with respect to `weights`:
    /// those of [`Objective::parameters`], the mask last.
    pub fn losses(
        &self,
        weights: &[Tensor<1>],
        masked: &Masked,
        scale: Option<f64>,
    ) -> (LinearCrossEntropy, Vec<Tensor<1>>) {
        let leaf = |w: &Tensor<1>| {
            let leaf = w.clone().autodiff();
            if scale.is_some() { leaf.require_grad() } else { leaf }
        };
        let leaves: Vec<Tensor<1>> = weights.iter().map(leaf).collect();
        let index = TensorData::new(masked.rows.clone(), [masked.rows.len()]);
        let index = Tensor::<1, Int>::from_data(index, &self.lm_head.device());
        let states = self.hidden(&leaves, masked).select(0, index);
        let scales = vec![scale.unwrap_or(0.0) as f32; masked.rows.len()];
        let labels = Labels { tokens: &masked.tokens, scales: &scales };
        let (table, fits) = (self.lm_head_of(weights), scale.is_some() && self.weights.is_full());
        let mut output = linear_cross_entropy(&states.clone().inner(), &table, labels, self.chunk_rows, fits);
        if scale.is_none() {
            return (output, vec![]);
        }
        let mut gradients = GradientCarry::of(states, output.d_hidden.clone()).of_leaves(&leaves, weights);
        if let Some(d_head) = output.d_weight.take() {
            // A table that is embedding and LM head at once has both gradients.
            let head = self.llama.lm_head();
            gradients[head] = gradients[head].clone() + d_head.reshape([-1]);
        }
        (output, gradients)
    }

    /// How far the backbone moved in a held-out conversation.
    fn language(&self, tracked: &[Tensor<1>], table: &Table, index: usize) -> Result<Language, TrainError> {
        let row = self.data.row(true, index);
        let positions = counted(&row.example);
        if positions.is_empty() {
            return Ok(Language::default());
        }
        let original = self.data.features.states(row, true, index, &positions)?;
        let mut whole = Masked::default();
        whole.push(&row.example, None, 0, true);
        let rows = TensorData::new(whole.rows.clone(), [whole.rows.len()]);
        let rows = Tensor::<1, Int>::from_data(rows, &self.lm_head.device());
        let own = self.hidden(tracked, &whole).inner().select(0, rows);
        let (own, original) = (Projected::new(&own, table), Projected::new(&original, &self.lm_head));
        Ok(Language::of(own, original, &whole.tokens, self.chunk_rows))
    }

    /// Losses and ranks behind some places of a held-out conversation, with the place of each.
    fn measured(&self, weights: &[Tensor<1>], index: usize) -> Vec<MaskLabel> {
        let example = &self.data.row(true, index).example;
        let all = places(example);
        let mut masked = Masked::default();
        for &cut in all.iter().step_by(all.len().div_ceil(MEASURED).max(1)) {
            masked.push(example, Some(cut), self.config.masks, false);
        }
        if masked.rows.is_empty() {
            return vec![];
        }
        let output = self.losses(weights, &masked, None).0;
        let found = masked.places.iter().zip(&output.losses).zip(&output.ranks);
        found.map(|((&place, &loss), &rank)| (place, loss, rank)).collect()
    }

    fn ranks(&self, measured: &[MaskLabel]) -> HeadRanks {
        let mut ranks = HeadRanks { length_tree: f64::NAN, ..HeadRanks::default() };
        let (mut reached, mut length) = (1.0, 1.0);
        for place in 1..=self.config.masks {
            let of = || measured.iter().filter(move |label| label.0 == place);
            let n = of().count().max(1) as f64;
            let within = |k: u32| of().filter(|label| label.2 < k).count() as f64 / n;
            ranks.head_loss.push(sum(of().map(|label| label.1)) / n);
            ranks.top1.push(within(1));
            ranks.top5.push(within(5));
            reached *= within(1);
            length += reached;
        }
        HeadRanks { length_chain: length, ..ranks }
    }

    /// Writes the fitted model and its mask to two folders.
    fn write(&self, parameters: &[Parameter], merged: &Path, heads: &Path) -> Result<(), TrainError> {
        let (network, mask) = parameters.split_at(parameters.len() - 1);
        let changed = self.weights.changed(network);
        Merged { base: &self.base, changed, heads: None }.write(merged)?;
        let document = self.shape.document(&merged.display().to_string());
        write_part(heads, MODEL_FILE, mask, "config.json", &document)
    }

    /// Greedy decoding of held-out prompts, with the model and its mask written and loaded as users load them.
    fn decode(&self, parameters: &[Parameter]) -> Result<Option<Decoded>, TrainError> {
        if self.data.decoded_prompts == 0 || self.data.decoded_tokens == 0 {
            return Ok(None);
        }
        let wrong = |error: &dyn std::fmt::Display| TrainError::Data(error.to_string());
        let folder = tempfile::tempdir().map_err(|error| wrong(&error))?;
        let (merged, heads) = (folder.path().join(MERGED), folder.path().join("heads"));
        self.write(parameters, &merged, &heads)?;
        let fitted = self.data.on_model(&merged)?;
        let heads = HeadsFolder::open(&heads).map_err(|error| wrong(&error))?;
        let model = ProbeModel::load(&heads, fitted.features.decoder.clone()).map_err(|error| wrong(&error))?;
        fitted.decode_with(&mut ProbeDrafter::new(model), probe_tree(&self.shape).as_ref())
    }
}

impl Objective for SpaceSftFitting {
    type Batch = Cut;

    fn parameters(&self, seed: u64) -> Vec<Parameter> {
        let spec = self.shape.parameters().remove(0);
        // The token is below the vocabulary's size, so its embedding is there.
        let values = self.data.embed(&[self.start]).map_or_else(|_| vec![0.0; self.shape.hidden_size], read);
        let mask = Parameter::new(&spec.name, &spec.shape, Role::Table, values, &self.lm_head.device());
        self.weights.parameters(seed).into_iter().chain([mask]).collect()
    }

    fn batches(&self, step: u64) -> Result<Vec<Cut>, TrainError> {
        Ok(self.data.packing.step(step).into_iter().map(|rows| Cut { step, rows }).collect())
    }

    /// Labels: the loss is a mean over them.
    fn weights(&self, batch: &Cut) -> Vec<f64> {
        vec![self.masked(batch).rows.len() as f64]
    }

    fn gradients(&self, weights: &[Tensor<1>], batch: &Cut, totals: &[f64]) -> Result<Gradients, TrainError> {
        let masked = self.masked(batch);
        let tokens = masked.packed.tokens.len();
        if masked.rows.is_empty() {
            let gradients = weights.iter().map(Tensor::zeros_like).collect();
            return Ok(Gradients { tokens, gradients, ..Gradients::default() });
        }
        let scale = 1.0 / totals[0].max(1.0);
        let (output, gradients) = self.losses(weights, &masked, Some(scale));
        let loss = sum(output.losses.iter().copied()) * scale;
        let part = |is_mask: bool| {
            let of = masked.places.iter().zip(output.losses.iter().zip(&output.ranks));
            let of: Vec<(f32, u32)> =
                of.filter(|(place, _)| (**place > 0) == is_mask).map(|(_, (&loss, &rank))| (loss, rank)).collect();
            let right = of.iter().filter(|label| label.1 == 0).count() as f64;
            (sum(of.iter().map(|label| label.0)), right, of.len() as f64)
        };
        let (text, mask) = (part(false), part(true));
        let counts = vec![
            ("text_loss".into(), text.0, text.2),
            ("mask_loss".into(), mask.0, mask.2),
            ("mask_top1".into(), mask.1, mask.2),
        ];
        let not_finite = (!loss.is_finite()).then(|| self.place(batch));
        Ok(Gradients { loss, tokens, counts, gradients, not_finite })
    }

    fn size(&self, batch: &Cut) -> Size {
        let tokens = self.data.packing.tokens_of(&batch.rows) + batch.rows.len() * self.config.masks;
        Size { tokens, bytes: self.bytes_at_work(tokens) as u64 }
    }

    fn halves(&self, batch: &Cut) -> Option<(Cut, Cut)> {
        let of = |rows| Cut { step: batch.step, rows };
        self.data.packing.halves(&batch.rows).map(|(first, other)| (of(first), of(other)))
    }

    fn place(&self, batch: &Cut) -> String {
        batch.rows.first().map_or_else(|| "no conversation".into(), |&index| self.data.place(false, index))
    }

    /// The text's cross-entropy and the mean of the masks', by place.
    fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
        let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
        let tracked: Vec<Tensor<1>> = weights.iter().map(|w| w.clone().autodiff()).collect();
        let (table, count) = (self.lm_head_of(&weights), self.data.held_out.len());
        let one = |index: usize| Ok((self.language(&tracked, &table, index)?, self.measured(&weights, index)));
        let found: Vec<(Language, Vec<MaskLabel>)> = evaluation::each(count, one)?;
        let (language, measured): (Vec<Language>, Vec<Vec<_>>) = found.into_iter().unzip();
        let (language, ranks) = (Language::means(&language), self.ranks(&measured.concat()));
        let masks = ranks.head_loss.iter().sum::<f64>() / self.config.masks as f64;
        let loss = language.perplexity[0].ln() + masks;
        let metrics = MedusaTwoMetrics {
            ranks,
            loss,
            kl: language.divergence,
            agreement: language.agreeing,
            perplexity: language.perplexity[0],
            perplexity_before: language.perplexity[1],
            degraded: language.divergence > self.config.kl_bound,
            tau: self.decode(parameters)?.map(|decoded| decoded.tokens_per_step),
        };
        Ok(Evaluation { metrics: Metrics::SpaceSft(metrics), objective: loss })
    }
}

impl OnBackbone for SpaceSftFitting {
    on_conversations!();

    /// Evaluations read the original's states there.
    fn positions(&self, example: &Example) -> Vec<usize> {
        counted(example)
    }

    /// Steps read no state of the original.
    fn read(&self, _: &Cut) -> Result<(), TrainError> {
        Ok(())
    }

    fn title(&self) -> String {
        let fitted = if self.weights.is_full() { "the backbone" } else { "an adapter of the backbone" };
        format!("{fitted} and a mask token in {} places", self.config.masks)
    }

    /// Weights and their gradients are at work beside the states.
    fn bytes_at_work(&self, tokens: usize) -> usize {
        let s = self.llama.shape();
        let layer = 8 * s.hidden_size + 4 * s.intermediate_size;
        let logits = 3 * self.lm_head.rows_at_once(self.chunk_rows).min(tokens) * s.vocab_size;
        let weights: usize = self.llama.sizes().iter().sum();
        4 * (logits + 2 * tokens * s.layers * layer + 2 * weights) + self.lm_head.scratch_bytes(tokens)
    }

    fn published_bytes(&self, parameters: usize) -> u64 {
        4 * parameters as u64 + merged_bytes(&self.base, 0)
    }

    /// Writes the fitted model as `merged/`, its mask as `heads/`, and an adapter as PEFT reads it.
    fn publish(&self, step: &Path, run: &Path) -> Result<(), TrainError> {
        let mut parameters = self.parameters(0);
        checkpoint::read_parameters(&step.join(MODEL_FILE), &mut parameters, &[])?;
        self.write(&parameters, &run.join(MERGED), &run.join("heads"))?;
        let NetworkWeights::Lora(lora) = &self.weights else { return Ok(()) };
        let (adapter, document) = (&parameters[..parameters.len() - 1], lora.document(&self.data.base));
        write_part(&run.join("adapter"), "adapter_model.safetensors", adapter, "adapter_config.json", &document)
    }

    fn served(&self, run: &Path) -> Result<Option<Conversations>, TrainError> {
        self.data.on_model(&run.join(MERGED)).map(Some)
    }
}
