//! Heads with a loss each on a frozen backbone: the objective of Medusa, Hydra and MTP.

use super::at_work;
use super::conversations::{Conversations, OnBackbone, on_conversations};
use super::head_stack::HeadStack;
use super::initial::initial_all;
use super::replay::{Measured, head_ranks};
use super::shuffle_buffer::{DrawnRows, ShuffleBuffer};
use crate::error::TrainError;
use crate::evaluation::{self, Decoded, HeadMetrics, Metrics};
use crate::parameters::{Parameter, from_values};
use crate::trainer::{Evaluation, Gradients, Objective, Purpose, Size};
use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_data::render::Example;
use gorgon_draft::fitting::HeadBatch;
use gorgon_draft::medusa::{HeadLabels, HeadOutput, Heads};
use gorgon_kernels::{Table, host};
use gorgon_model::target::read;
use serde_json::Value;

/// Draft heads with a loss each, the backbone's states, and the conversations that they are fitted to.
pub struct HeadFitting<S = Heads> {
    /// The heads.
    pub heads: S,
    /// The backbone's LM head, `[V, d]`.
    pub lm_head: Table,
    /// The conversations.
    pub data: Conversations,
    /// Where steps draw single positions from; `None` for steps of whole conversations.
    pub shuffle: Option<ShuffleBuffer>,
}

/// A micro-batch of heads.
#[derive(Clone, Debug)]
pub enum HeadRows {
    /// Whole conversations.
    Conversations(Vec<usize>),
    /// Single positions of many conversations.
    Positions(DrawnRows),
}

/// The positions of a conversation at which some head has a label. The first is the last one of the prompt.
pub fn positions(example: &Example, heads: usize) -> Vec<usize> {
    (0..example.ids.len()).filter(|&t| (0..heads).any(|head| example.counts(head, t))).collect()
}

/// The labels of every head at these positions; rows count from `first`.
fn labels(example: &Example, positions: &[usize], first: usize, labels: &mut [HeadLabels]) {
    for (i, &t) in positions.iter().enumerate() {
        for (head, labels) in labels.iter_mut().enumerate() {
            if example.counts(head, t) {
                labels.rows.push((first + i) as u32);
                labels.tokens.push(example.ids[t + head + 2]);
            }
        }
    }
}

/// The token `later + 1` places after a position. Where the text has ended no head has a label, so any token will do.
fn following(example: &Example, position: usize, later: usize) -> Option<Token> {
    example.ids.get(position + later + 1).or(example.ids.last()).copied()
}

impl<S: HeadStack> HeadFitting<S> {
    /// Steps of single positions, drawn from `buffer` positions in memory: for heads that read no others. A step has as
    /// many micro-batches as `streams`, and as many positions as one of whole conversations has on average.
    #[must_use]
    pub fn shuffled(self, buffer: usize, streams: usize, seed: u64) -> Self {
        let positions = self.data.rows.iter().map(|row| self.read_positions(&row.example)).collect();
        let steps = self.data.packing.steps_per_epoch();
        Self { shuffle: Some(ShuffleBuffer::new(positions, buffer, streams, steps, seed)), ..self }
    }

    fn heads(&self) -> usize {
        self.heads.count()
    }

    /// The positions of a conversation that are read: those with a label, or all up to the last one whose state counts.
    fn read_positions(&self, example: &Example) -> Vec<usize> {
        let labelled = positions(example, self.heads());
        match example.assistant.iter().rposition(|own| *own) {
            Some(last) if self.heads.reads_everything() && !labelled.is_empty() => (0..last).collect(),
            _ => labelled,
        }
    }

    /// States and labels of some conversations, one after another.
    fn gather(&self, rows: &[(bool, usize)]) -> Result<HeadBatch, TrainError> {
        let mut all = vec![HeadLabels::default(); self.heads()];
        let (mut wanted, mut segments, mut first) = (vec![], vec![], 0);
        let mut tokens: Vec<Vec<Token>> = vec![vec![]; self.heads.following()];
        for &(held_out, index) in rows {
            let row = self.data.row(held_out, index);
            let positions = self.read_positions(&row.example);
            labels(&row.example, &positions, first, &mut all);
            for (later, tokens) in tokens.iter_mut().enumerate() {
                tokens.extend(positions.iter().filter_map(|&t| following(&row.example, t, later)));
            }
            let next = first + positions.len();
            if !positions.is_empty() {
                segments.push(first..next);
                wanted.push((row, held_out, index, positions));
            }
            first = next;
        }
        let mut states = self.data.features.states_of(&wanted)?;
        let d = self.lm_head.dims()[1];
        let states = match states.len() {
            0 => Tensor::zeros([0, d], &self.lm_head.device()),
            1 => states.remove(0),
            _ => Tensor::cat(states, 0),
        };
        let following = tokens.iter().map(|tokens| self.data.embed(tokens)).collect::<Result<_, _>>()?;
        Ok(HeadBatch { states, following, segments, labels: all })
    }

    /// States and labels of drawn positions.
    fn gather_drawn(&self, buffer: &ShuffleBuffer, rows: &DrawnRows) -> Result<HeadBatch, TrainError> {
        let places = buffer.places(rows);
        let example = |conversation: usize| &self.data.rows[conversation].example;
        let mut all = vec![HeadLabels::default(); self.heads()];
        for (i, &(conversation, t)) in places.iter().enumerate() {
            labels(example(conversation), &[t], i, &mut all);
        }
        let embed = |later: usize| {
            let token = |&(conversation, t): &(usize, usize)| following(example(conversation), t, later);
            self.data.embed(&places.iter().filter_map(token).collect::<Vec<_>>())
        };
        let following = (0..self.heads.following()).map(embed).collect::<Result<_, _>>()?;
        let width = self.data.features.width();
        let values = match buffer.is_dry_run() {
            true => {
                let packed = self.read_packed(rows)?;
                packed.into_iter().chain([0.0]).cycle().take(rows.len() * width).collect()
            }
            false => buffer.states(rows, width, |index, states| self.append_states(index, states))?,
        };
        let states = from_values(values, &self.lm_head.device()).reshape([rows.len(), width]);
        let segments = std::iter::once(0..rows.len()).filter(|segment| !segment.is_empty()).collect();
        Ok(HeadBatch { states, following, segments, labels: all })
    }

    /// Appends the states of a conversation, on the host.
    fn append_states(&self, index: usize, states: &mut Vec<f32>) -> Result<(), TrainError> {
        let row = self.data.row(false, index);
        let positions = self.read_positions(&row.example);
        if !positions.is_empty() {
            states.extend(read(self.data.features.states(row, false, index, &positions)?));
        }
        Ok(())
    }

    /// The states of whole conversations, as many as fill a micro-batch on average: for a dry run, which computes no
    /// buffer, they take the place and the time of the drawn ones.
    fn read_packed(&self, rows: &DrawnRows) -> Result<Vec<f32>, TrainError> {
        let (step, stream) = rows.place();
        let (batches, mut states) = (self.data.packing.step(step), vec![]);
        for &index in batches.get(stream).into_iter().flatten() {
            self.append_states(index, &mut states)?;
        }
        Ok(states)
    }

    /// States and labels of a micro-batch.
    fn gather_batch(&self, batch: &HeadRows) -> Result<HeadBatch, TrainError> {
        match (batch, &self.shuffle) {
            (HeadRows::Positions(rows), Some(buffer)) => self.gather_drawn(buffer, rows),
            (HeadRows::Positions(_), None) => Err(TrainError::Data("positions are drawn without a buffer".into())),
            (HeadRows::Conversations(indices), _) => {
                self.gather(&indices.iter().map(|&i| (false, i)).collect::<Vec<_>>())
            }
        }
    }

    /// Conversation and position of every row that a micro-batch reads.
    fn places(&self, batch: &HeadRows) -> Vec<(usize, usize)> {
        match (batch, &self.shuffle) {
            (HeadRows::Positions(rows), Some(buffer)) => buffer.places(rows),
            (HeadRows::Positions(_), None) => vec![],
            (HeadRows::Conversations(indices), _) => {
                let of = |&i: &usize| self.read_positions(&self.data.rows[i].example).into_iter().map(move |t| (i, t));
                indices.iter().flat_map(of).collect()
            }
        }
    }

    /// Ranks of the true tokens at every position of the held-out conversations, by head.
    fn measure(&self, parameters: &[Parameter]) -> Result<Vec<Measured>, TrainError> {
        let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
        let one = |index: usize| {
            let batch = self.gather(&[(true, index)])?;
            let (outputs, _) = self.heads.losses(&weights, &self.lm_head, &batch, None);
            let positions = self.read_positions(&self.data.held_out[index].example);
            Ok(Measured { positions, labels: batch.labels, outputs })
        };
        evaluation::each(self.data.held_out.len(), one)
    }
}

impl<S: HeadStack> Objective for HeadFitting<S> {
    type Batch = HeadRows;

    fn parameters(&self, seed: u64) -> Vec<Parameter> {
        self.data.initialised(initial_all(self.heads.parameters(), &self.lm_head, seed))
    }

    fn prepare_dry_run(&self, _steps: &[u64], _purpose: Purpose, _parameters: &[Parameter]) -> Result<f64, TrainError> {
        self.shuffle.iter().for_each(|buffer| buffer.set_dry_run(true));
        Ok(0.0)
    }

    fn end_dry_run(&self) {
        self.shuffle.iter().for_each(|buffer| buffer.set_dry_run(false));
    }

    fn batches(&self, step: u64) -> Result<Vec<HeadRows>, TrainError> {
        Ok(match &self.shuffle {
            Some(buffer) => buffer.batches(step).into_iter().map(HeadRows::Positions).collect(),
            None => self.data.packing.step(step).into_iter().map(HeadRows::Conversations).collect(),
        })
    }

    /// Labels of each head: every head's loss is a mean over its own.
    fn weights(&self, batch: &HeadRows) -> Vec<f64> {
        let places = self.places(batch);
        let has_label = |head: usize| move |&&(i, t): &&(usize, usize)| self.data.rows[i].example.counts(head, t);
        (0..self.heads()).map(|head| places.iter().filter(has_label(head)).count() as f64).collect()
    }

    /// `Σ_k λ_k · mean CE of head k`, over the labels of the step.
    fn gradients(&self, weights: &[Tensor<1>], batch: &HeadRows, totals: &[f64]) -> Result<Gradients, TrainError> {
        let micro = self.gather_batch(batch)?;
        let scales: Vec<f64> = (0..self.heads()).map(|k| self.heads.weight(k) / totals[k].max(1.0)).collect();
        let narrow: Vec<f32> = scales.iter().map(|&scale| scale as f32).collect();
        let (outputs, gradients) = self.heads.losses(weights, &self.lm_head, &micro, Some(&narrow));
        let (mut loss, mut counts) = (0.0, vec![]);
        for (head, output) in outputs.iter().enumerate() {
            let sum: f64 = output.losses.iter().map(|&l| f64::from(l)).sum();
            loss += sum * scales[head];
            let right = output.ranks.iter().filter(|&&rank| rank == 0).count();
            let labels = output.ranks.len() as f64;
            counts.push((format!("head{}_loss", head + 1), sum, labels));
            counts.push((format!("head{}_top1", head + 1), right as f64, labels));
        }
        let not_finite = (!loss.is_finite()).then(|| self.blame(batch, &micro.labels, &outputs));
        Ok(Gradients { loss, tokens: self.size(batch).tokens, counts, gradients, not_finite })
    }

    /// Tokens of whole conversations, or drawn positions.
    fn size(&self, batch: &HeadRows) -> Size {
        let (tokens, rows) = match batch {
            HeadRows::Positions(rows) => (rows.len(), rows.len()),
            HeadRows::Conversations(indices) => (self.data.packing.tokens_of(indices), self.places(batch).len()),
        };
        Size { tokens, bytes: self.bytes_at_work(rows) as u64 }
    }

    fn held_bytes(&self) -> u64 {
        self.shuffle.as_ref().map_or(0, |buffer| buffer.bytes(self.data.features.width()))
    }

    fn halves(&self, batch: &HeadRows) -> Option<(HeadRows, HeadRows)> {
        Some(match batch {
            HeadRows::Positions(rows) => {
                let (first, other) = rows.halves()?;
                (HeadRows::Positions(first), HeadRows::Positions(other))
            }
            HeadRows::Conversations(indices) => {
                let (first, other) = self.data.packing.halves(indices)?;
                (HeadRows::Conversations(first), HeadRows::Conversations(other))
            }
        })
    }

    fn place(&self, batch: &HeadRows) -> String {
        let first = match batch {
            HeadRows::Positions(_) => self.places(batch).first().map(|(index, _)| *index),
            HeadRows::Conversations(indices) => indices.first().copied(),
        };
        first.map_or_else(|| "no conversation".into(), |index| self.data.place(false, index))
    }

    fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
        let ranks = head_ranks(&self.measure(parameters)?, self.heads());
        let weighted = ranks.head_loss.iter().enumerate().map(|(head, loss)| self.heads.weight(head) * loss);
        let loss = weighted.fold(0.0, |sum, loss| sum + loss);
        let tau = self.decode(parameters)?.map(|decoded| decoded.tokens_per_step);
        Ok(Evaluation { metrics: Metrics::Heads(HeadMetrics { loss, ranks, tau }), objective: loss })
    }

    fn document(&self) -> Option<Value> {
        Some(self.shape_document())
    }
}

impl<S: HeadStack> OnBackbone for HeadFitting<S> {
    on_conversations!();

    fn positions(&self, example: &Example) -> Vec<usize> {
        self.read_positions(example)
    }

    fn read(&self, batch: &HeadRows) -> Result<(), TrainError> {
        match batch {
            HeadRows::Positions(rows) => self.read_packed(rows).map(|_| ()),
            HeadRows::Conversations(_) => self.gather_batch(batch).map(|_| ()),
        }
    }

    fn reads_once(&self) -> bool {
        self.shuffle.as_ref().is_some_and(ShuffleBuffer::is_whole)
    }

    fn title(&self) -> String {
        format!("{} heads", self.heads())
    }

    fn bytes_at_work(&self, rows: usize) -> usize {
        let (vocab_size, on_host) = (self.lm_head.dims()[0], host::is_host(&self.lm_head.device()));
        let at_once = self.lm_head.rows_at_once(self.heads.chunk_rows());
        at_work::of_heads(&self.heads, vocab_size, at_once, rows, on_host) + self.lm_head.scratch_bytes(rows)
    }
}

impl<S: HeadStack> HeadFitting<S> {
    fn shape_document(&self) -> Value {
        self.heads.document(&self.data.base)
    }

    /// Greedy decoding of held-out prompts.
    fn decode(&self, parameters: &[Parameter]) -> Result<Option<Decoded>, TrainError> {
        self.data.decode(parameters, &[], &self.shape_document(), S::load(), S::tree()?.as_ref())
    }

    /// The first conversation of a batch with a loss that is not finite.
    fn blame(&self, batch: &HeadRows, labels: &[HeadLabels], outputs: &[HeadOutput]) -> String {
        let bad = |(labels, output): (&HeadLabels, &HeadOutput)| {
            let at = output.losses.iter().position(|loss| !loss.is_finite())?;
            labels.rows.get(at).copied()
        };
        let first = labels.iter().zip(outputs).filter_map(bad).min().unwrap_or_default() as usize;
        let place = self.places(batch).get(first).map(|(index, _)| self.data.place(false, *index));
        place.unwrap_or_else(|| "an unknown row".into())
    }
}
