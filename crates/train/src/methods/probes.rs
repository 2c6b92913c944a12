//! Fitting probes to a frozen backbone: gradients go through the backbone and reach the probes' embeddings only.

use super::at_work;
use super::conversations::{Conversations, OnBackbone, on_conversations};
use super::decoding::probe_tree;
use super::drawn::Draw;
use super::replay::{Measured, head_ranks};
use crate::error::TrainError;
use crate::evaluation::{self, HeadMetrics, Metrics};
use crate::parameters::{Parameter, Role};
use crate::trainer::{Evaluation, Gradients, Objective, Size};
use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_data::render::Example;
use gorgon_draft::drafter::Drafter;
use gorgon_draft::layer::LayerShape;
use gorgon_draft::medusa::{HeadLabels, HeadOutput};
use gorgon_draft::probes::{ProbeBatch, ProbeCriterion, ProbeDrafter, ProbeModel, ProbeNetwork, ProbeTraining, losses};
use gorgon_kernels::Table;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::read;
use serde_json::Value;

/// Separates the random stream of positions from others of the same seed.
const POSITIONS: u64 = 0x7072_6f62_6573;

/// Probes, the backbone that they stand in, and the conversations that they are fitted to.
pub struct ProbeFitting {
    network: ProbeNetwork,
    training: ProbeTraining,
    layer: LayerShape,
    hooks: Hooks,
    /// The backbone's LM head, `[V, d]`.
    lm_head: Table,
    chunk_rows: usize,
    /// Seed of the positions.
    seed: u64,
    data: Conversations,
}

/// A micro-batch: its conversations, and the step whose positions they get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    step: u64,
    rows: Vec<usize>,
}

/// Probes behind positions of some conversations, with the conversation of each position.
struct Gathered {
    batch: ProbeBatch,
    /// The conversation and the text's position of each probed position.
    places: Vec<(usize, usize)>,
}

/// Where probes can stand: behind tokens after whose next one a token of the assistant follows.
fn places(example: &Example) -> impl Iterator<Item = usize> + '_ {
    (0..example.ids.len()).filter(|&t| example.counts(0, t))
}

impl ProbeFitting {
    /// Probes for the conversations' backbone. `weights` are the backbone's, flat, layer by layer as in
    /// [`LayerShape::parameters`], then its final norm.
    ///
    /// # Errors
    /// When the probes start from a token that the backbone does not have.
    pub fn new(
        training: ProbeTraining,
        weights: Vec<Tensor<1>>,
        data: Conversations,
        lm_head: Table,
        chunk_rows: usize,
        seed: u64,
    ) -> Result<Self, TrainError> {
        let backbone = data.features.decoder.config();
        if let Some(token) = training.start.filter(|&token| token as usize >= backbone.vocab_size) {
            let reason = format!("space.mask_token = {token}: the model has {} tokens", backbone.vocab_size);
            return Err(TrainError::Data(reason));
        }
        let wrong = |error: &dyn std::fmt::Display| TrainError::Data(error.to_string());
        let hooks = Hooks::new((0..backbone.layers).collect(), backbone.layers).map_err(|error| wrong(&error))?;
        let longest = data.rows.iter().chain(&data.held_out).map(|row| row.example.ids.len()).max().unwrap_or(0);
        let layer = LayerShape::of(backbone);
        let network = ProbeNetwork::new(training.shape, &layer, weights, longest);
        Ok(Self { network, training, layer, hooks, lm_head, chunk_rows, seed, data })
    }

    fn drawn(&self, held_out: bool, index: usize, step: Option<u64>) -> Vec<usize> {
        let places = places(&self.data.row(held_out, index).example).collect();
        let most = if step.is_some() { self.training.positions } else { usize::MAX };
        let conversations = self.data.rows.len();
        Draw { seed: self.seed ^ POSITIONS, step, index, conversations }.of(places, most)
    }

    /// The probes of some conversations, one conversation after another.
    fn gather(&self, held_out: bool, rows: &[usize], step: Option<u64>) -> Result<Gathered, TrainError> {
        let (d, layers) = (self.layer.hidden_size, self.network.layers());
        let (mut hooks, mut context, mut positions, mut found, mut first) = (vec![], vec![], vec![], vec![], 0);
        let mut labels = vec![HeadLabels::default(); self.training.shape.places];
        let mut originals: Vec<Vec<Tensor<2>>> = vec![vec![]; labels.len()];
        for &index in rows {
            let row = self.data.row(held_out, index);
            let drawn = self.drawn(held_out, index, step);
            let Some(&last) = drawn.last() else { continue };
            let read = self.positions(&row.example);
            let states = self.data.features.hooked(row, held_out, index, &read, &self.hooks)?;
            hooks.push(states.clone().narrow(0, 0, last + 1).narrow(1, 0, layers * d));
            context.push(first..first + last + 1);
            first += last + 1;
            let own = states.narrow(1, layers * d, d);
            for (place, labels) in labels.iter_mut().enumerate() {
                let at = label(&row.example, &drawn, place, found.len(), labels);
                if self.training.soft && !at.is_empty() {
                    originals[place].push(self.select(own.clone(), &at));
                }
            }
            found.extend(drawn.iter().map(|&t| (index, t)));
            positions.push(drawn);
        }
        let none = |width| Tensor::zeros([0, width], &self.lm_head.device());
        let together =
            |parts: Vec<Tensor<2>>, width| if parts.is_empty() { none(width) } else { Tensor::cat(parts, 0) };
        let originals = originals.into_iter().map(|parts| together(parts, d)).collect();
        let batch = ProbeBatch { hooks: together(hooks, layers * d), context, positions, labels, originals };
        Ok(Gathered { batch, places: found })
    }

    fn select(&self, states: Tensor<2>, rows: &[usize]) -> Tensor<2> {
        let rows: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
        let n = rows.len();
        let data = burn::tensor::TensorData::new(rows, [n]);
        states.select(0, Tensor::from_data(data, &self.lm_head.device()))
    }

    fn losses(
        &self,
        weights: &[Tensor<1>],
        batch: &ProbeBatch,
        (soft, scales): (bool, Option<&[f32]>),
    ) -> (Vec<HeadOutput>, Vec<Tensor<1>>) {
        let criterion = ProbeCriterion { lm_head: &self.lm_head, chunk_rows: self.chunk_rows, soft };
        losses(&self.network, &criterion, weights, batch, scales)
    }

    /// Positions of a conversation that a step probes.
    fn count(&self, index: usize) -> usize {
        places(&self.data.rows[index].example).count().min(self.training.positions)
    }

    fn bytes(&self, positions: usize, tokens: usize) -> usize {
        let backbone = (&self.layer, self.network.layers());
        at_work::of_probes(&self.training.shape, backbone, self.chunk_rows, positions, tokens)
    }

    /// `Σ_k weight_k Σ loss`, not yet divided by the number of positions.
    fn weighted(&self, outputs: &[HeadOutput]) -> f64 {
        let sum = |output: &HeadOutput| output.losses.iter().map(|&loss| f64::from(loss)).sum::<f64>();
        outputs.iter().enumerate().map(|(place, output)| self.training.weight(place) * sum(output)).sum()
    }

    fn shape_document(&self) -> Value {
        self.training.shape.document(&self.data.base)
    }
}

/// Adds the labels of a place at these positions; rows count from `first`. Returns where the backbone's own state in
/// front of each label is.
fn label(example: &Example, drawn: &[usize], place: usize, first: usize, labels: &mut HeadLabels) -> Vec<usize> {
    let mut at = vec![];
    for (i, &t) in drawn.iter().enumerate().filter(|(_, t)| example.counts(place, **t)) {
        labels.rows.push((first + i) as u32);
        labels.tokens.push(example.ids[t + place + 2]);
        at.push(t + place + 1);
    }
    at
}

impl Objective for ProbeFitting {
    type Batch = Probed;

    /// The embeddings of random tokens, or of the one that is named.
    fn parameters(&self, seed: u64) -> Vec<Parameter> {
        let (random, vocab) = (&mut SeededRandom::new(seed), self.layer.vocab_size);
        let any = |random: &mut SeededRandom| ((random.uniform() * vocab as f64) as usize).min(vocab - 1) as Token;
        let spec = self.training.shape.parameters().remove(0);
        let tokens: Vec<Token> =
            (0..spec.shape[0]).map(|_| self.training.start.unwrap_or_else(|| any(random))).collect();
        // Tokens are below the vocabulary's size, so their embeddings are there.
        let values = self.data.embed(&tokens).map_or_else(|_| vec![0.0; spec.shape.iter().product()], read);
        let device = self.lm_head.device();
        self.data.initialised(vec![Parameter::new(&spec.name, &spec.shape, Role::Table, values, &device)])
    }

    fn batches(&self, step: u64) -> Result<Vec<Probed>, TrainError> {
        Ok(self.data.packing.step(step).into_iter().map(|rows| Probed { step, rows }).collect())
    }

    /// Positions: the loss is a mean over them.
    fn weights(&self, batch: &Probed) -> Vec<f64> {
        vec![batch.rows.iter().map(|&index| self.count(index)).sum::<usize>() as f64]
    }

    fn gradients(&self, weights: &[Tensor<1>], batch: &Probed, totals: &[f64]) -> Result<Gradients, TrainError> {
        let Gathered { batch: probed, places } = self.gather(false, &batch.rows, Some(batch.step))?;
        let scale = 1.0 / totals[0].max(1.0);
        let scales: Vec<f32> =
            (0..self.training.shape.places).map(|place| (self.training.weight(place) * scale) as f32).collect();
        let (outputs, gradients) = self.losses(weights, &probed, (self.training.soft, Some(&scales)));
        let loss = self.weighted(&outputs) * scale;
        let mut counts = vec![];
        for (place, output) in outputs.iter().enumerate() {
            let sum = output.losses.iter().map(|&loss| f64::from(loss)).sum::<f64>();
            let right = output.ranks.iter().filter(|&&rank| rank == 0).count() as f64;
            let labels = output.losses.len() as f64;
            counts.push((format!("head{}_loss", place + 1), sum, labels));
            counts.push((format!("head{}_top1", place + 1), right, labels));
        }
        let bad = || {
            let first = |(labels, output): (&HeadLabels, &HeadOutput)| {
                let at = output.losses.iter().position(|loss| !loss.is_finite())?;
                labels.rows.get(at).copied()
            };
            let row = probed.labels.iter().zip(&outputs).filter_map(first).min()?;
            places.get(row as usize).map(|&(index, _)| self.data.place(false, index))
        };
        let not_finite = (!loss.is_finite()).then(|| bad().unwrap_or_else(|| "an unknown row".into()));
        let tokens = batch.rows.iter().map(|&index| self.data.rows[index].example.ids.len()).sum();
        Ok(Gradients { loss, tokens, counts, gradients, not_finite })
    }

    fn size(&self, batch: &Probed) -> Size {
        let tokens = self.data.packing.tokens_of(&batch.rows);
        let positions = batch.rows.iter().map(|&index| self.count(index)).sum();
        Size { tokens, bytes: self.bytes(positions, tokens) as u64 }
    }

    fn halves(&self, batch: &Probed) -> Option<(Probed, Probed)> {
        let of = |rows| Probed { step: batch.step, rows };
        self.data.packing.halves(&batch.rows).map(|(first, other)| (of(first), of(other)))
    }

    fn place(&self, batch: &Probed) -> String {
        batch.rows.first().map_or_else(|| "no conversation".into(), |&index| self.data.place(false, index))
    }

    /// The loss of the training, and losses and ranks of the text's tokens by place.
    fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
        let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
        let one = |index: usize| {
            let Gathered { batch, places } = self.gather(true, &[index], None)?;
            let outputs = self.losses(&weights, &batch, (false, None)).0;
            let loss = match self.training.soft {
                true => self.weighted(&self.losses(&weights, &batch, (true, None)).0),
                false => self.weighted(&outputs),
            };
            let positions: Vec<usize> = places.into_iter().map(|(_, t)| t).collect();
            Ok((loss, Measured { positions, labels: batch.labels, outputs }))
        };
        let count = self.data.held_out.len();
        let found: Vec<(f64, Measured)> = evaluation::each(count, one)?;
        let (losses, measured): (Vec<f64>, Vec<Measured>) = found.into_iter().unzip();
        let positions = measured.iter().map(|measured| measured.positions.len()).sum::<usize>().max(1) as f64;
        let loss = losses.iter().fold(0.0, |sum, loss| sum + loss) / positions;
        let drafter = |folder: &_, decoder| {
            Ok(Box::new(ProbeDrafter::new(ProbeModel::load(folder, decoder)?)) as Box<dyn Drafter>)
        };
        let tree = probe_tree(&self.training.shape);
        let decoded = self.data.decode(parameters, &[], &self.shape_document(), drafter, tree.as_ref())?;
        let ranks = head_ranks(&measured, self.training.shape.places);
        let tau = decoded.map(|decoded| decoded.tokens_per_step);
        Ok(Evaluation { metrics: Metrics::Heads(HeadMetrics { loss, ranks, tau }), objective: loss })
    }

    fn document(&self) -> Option<Value> {
        Some(self.shape_document())
    }
}

impl OnBackbone for ProbeFitting {
    on_conversations!();

    /// All positions up to the last one that probes stand behind, and those of the labels' own states.
    fn positions(&self, example: &Example) -> Vec<usize> {
        let last = places(example).last().map(|last| last + self.training.shape.places + 1);
        last.map_or(vec![], |end| (0..end.min(example.ids.len())).collect())
    }

    fn hooks(&self) -> Hooks {
        self.hooks.clone()
    }

    fn read(&self, batch: &Probed) -> Result<(), TrainError> {
        self.gather(false, &batch.rows, Some(batch.step)).map(|_| ())
    }

    fn title(&self) -> String {
        let shape = &self.training.shape;
        format!("{} embeddings in {} places", shape.rows(), shape.places)
    }

    /// Every token may be probed.
    fn bytes_at_work(&self, tokens: usize) -> usize {
        self.bytes(tokens, tokens)
    }
}
