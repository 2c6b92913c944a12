//! Heads with a loss each on a frozen backbone: the objective of Medusa, Hydra and MTP.

use super::at_work;
use super::conversations::{Conversations, OnBackbone};
use super::head_stack::HeadStack;
use super::initial::initial_all;
use super::replay::{Measured, head_ranks};
use crate::error::TrainError;
use crate::evaluation::{Decoded, HeadMetrics, Metrics};
use crate::parameters::Parameter;
use crate::trainer::{Evaluation, Gradients, Objective, Size};
use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_data::render::Example;
use gorgon_draft::fitting::HeadBatch;
use gorgon_draft::medusa::{HeadLabels, HeadOutput, Heads};
use gorgon_kernels::{Table, host, team};
use rayon::prelude::*;
use serde_json::Value;

/// Draft heads with a loss each, the backbone's states, and the conversations that they are fitted to.
pub struct HeadFitting<S = Heads> {
    /// The heads.
    pub heads: S,
    /// The backbone's LM head, `[V, d]`.
    pub lm_head: Table,
    /// The conversations.
    pub data: Conversations,
}

/// The positions of a conversation at which some head has a label. The last prompt position is one, since the token
/// that it guesses is the assistant's.
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

impl<S: HeadStack> HeadFitting<S> {
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
        let (mut states, mut segments, mut first) = (vec![], vec![], 0);
        let mut tokens: Vec<Vec<Token>> = vec![vec![]; self.heads.following()];
        for &(held_out, index) in rows {
            let row = self.data.row(held_out, index);
            let positions = self.read_positions(&row.example);
            labels(&row.example, &positions, first, &mut all);
            for (later, tokens) in tokens.iter_mut().enumerate() {
                // Where the text has ended no head has a label, so that any token will do.
                let at = |&t: &usize| row.example.ids.get(t + later + 1).or(row.example.ids.last()).copied();
                tokens.extend(positions.iter().filter_map(at));
            }
            if !positions.is_empty() {
                segments.push(first..first + positions.len());
                states.push(self.data.features.states(row, held_out, index, &positions)?);
            }
            first += positions.len();
        }
        let d = self.lm_head.dims()[1];
        let states = match states.len() {
            0 => Tensor::zeros([0, d], &self.lm_head.device()),
            1 => states.remove(0),
            _ => Tensor::cat(states, 0),
        };
        let following = tokens.iter().map(|tokens| self.data.embed(tokens)).collect::<Result<_, _>>()?;
        Ok(HeadBatch { states, following, segments, labels: all })
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
        (0..self.data.held_out.len())
            .into_par_iter()
            .map(|i| team::one_of(self.data.held_out.len(), || one(i)))
            .collect()
    }
}

impl<S: HeadStack> Objective for HeadFitting<S> {
    type Batch = Vec<usize>;

    fn parameters(&self, seed: u64) -> Vec<Parameter> {
        self.data.initialised(initial_all(self.heads.parameters(), &self.lm_head, seed))
    }

    fn batches(&self, step: u64) -> Result<Vec<Self::Batch>, TrainError> {
        Ok(self.data.packing.step(step))
    }

    /// Labels of each head: every head's loss is a mean over its own.
    fn weights(&self, batch: &Self::Batch) -> Vec<f64> {
        let count = |head: usize| {
            let of = |example: &Example| (0..example.ids.len()).filter(|&t| example.counts(head, t)).count();
            batch.iter().map(|&i| of(&self.data.rows[i].example)).sum::<usize>() as f64
        };
        (0..self.heads()).map(count).collect()
    }

    /// `Σ_k λ_k · mean CE of head k`, over the labels of the step.
    fn gradients(&self, weights: &[Tensor<1>], batch: &Self::Batch, totals: &[f64]) -> Result<Gradients, TrainError> {
        let rows: Vec<(bool, usize)> = batch.iter().map(|&i| (false, i)).collect();
        let micro = self.gather(&rows)?;
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
        let tokens = batch.iter().map(|&i| self.data.rows[i].example.ids.len()).sum();
        let not_finite = (!loss.is_finite()).then(|| self.blame(&rows, &micro.labels, &outputs));
        Ok(Gradients { loss, tokens, counts, gradients, not_finite })
    }

    fn size(&self, batch: &Self::Batch) -> Size {
        let tokens = self.data.packing.tokens_of(batch);
        let rows = batch.iter().map(|&i| self.read_positions(&self.data.rows[i].example).len()).sum();
        Size { tokens, bytes: self.bytes_at_work(rows) as u64 }
    }

    fn halves(&self, batch: &Self::Batch) -> Option<(Self::Batch, Self::Batch)> {
        self.data.packing.halves(batch)
    }

    fn place(&self, batch: &Self::Batch) -> String {
        batch.first().map_or_else(|| "no conversation".into(), |&index| self.data.place(false, index))
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
    fn lm_head(&self) -> &Table {
        &self.lm_head
    }

    fn data(&self) -> &Conversations {
        &self.data
    }

    fn data_mut(&mut self) -> &mut Conversations {
        &mut self.data
    }

    fn positions(&self, example: &Example) -> Vec<usize> {
        self.read_positions(example)
    }

    fn read(&self, batch: &Vec<usize>) -> Result<(), TrainError> {
        let rows: Vec<(bool, usize)> = batch.iter().map(|&i| (false, i)).collect();
        self.gather(&rows).map(|_| ())
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
    fn blame(&self, rows: &[(bool, usize)], labels: &[HeadLabels], outputs: &[HeadOutput]) -> String {
        let bad = |(labels, output): (&HeadLabels, &HeadOutput)| {
            let at = output.losses.iter().position(|loss| !loss.is_finite())?;
            labels.rows.get(at).copied()
        };
        let first = labels.iter().zip(outputs).filter_map(bad).min().unwrap_or_default() as usize;
        let mut end = 0;
        for &(held_out, index) in rows {
            end += self.read_positions(&self.data.row(held_out, index).example).len();
            if first < end {
                return self.data.place(held_out, index);
            }
        }
        "an unknown row".into()
    }
}
