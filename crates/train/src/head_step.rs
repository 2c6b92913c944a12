//! The training step of Medusa heads on made-up states, to be timed beside other programs.

use crate::error::TrainError;
use crate::methods::Features;
use crate::optimizer::{Moments, Optimizer, clip, global_norm};
use crate::parameters::{Parameter, Role};
use burn::tensor::{Device, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_draft::medusa::{HeadLabels, Heads, MedusaConfig};
use gorgon_draft::parameter::ParameterSpec;
use gorgon_kernels::{Frozen, Table, TableError, TableFormat, team};
use rayon::prelude::*;

/// Sizes of a step.
#[derive(Clone, Debug)]
pub struct HeadStepOptions {
    /// Width of a hidden state.
    pub hidden: usize,
    /// Size of the vocabulary.
    pub vocab: usize,
    /// Heads.
    pub heads: usize,
    /// Positions of a step, each with a label for every head.
    pub positions: usize,
    /// Micro-batches that they are cut into.
    pub parts: usize,
    /// Rows of logits in memory at once.
    pub chunk_rows: usize,
    /// Number format of matmuls with the LM head.
    pub format: TableFormat,
    /// The device.
    pub device: Device,
}

/// Heads that are fitted to made-up labels of made-up states. Other programs make the same numbers by the same rule, so
/// losses can be compared.
pub struct HeadStep {
    heads: Heads,
    lm_head: Table,
    /// Hidden states and labels of each micro-batch.
    batches: Vec<(Tensor<2>, Vec<HeadLabels>)>,
    scales: Vec<f32>,
    parameters: Vec<Parameter>,
    moments: Vec<Moments>,
    optimizer: Optimizer,
    step: u64,
}

/// Values between `-scale` and `scale` without a pattern that matters.
fn values(n: usize, seed: usize, scale: f32) -> Vec<f32> {
    let value = |i: usize| (((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0) * scale;
    (0..n).into_par_iter().map(value).collect()
}

impl HeadStep {
    /// Untrained heads, a table and states.
    ///
    /// # Errors
    /// When the device has no matmuls of the format.
    pub fn new(options: &HeadStepOptions) -> Result<Self, TableError> {
        let (d, vocab, k) = (options.hidden, options.vocab, options.heads);
        let config = MedusaConfig { heads: k, ..MedusaConfig::default() };
        let heads = Heads { config, hidden_size: d, vocab_size: vocab, chunk_rows: options.chunk_rows };
        let tensor = |values: Vec<f32>, shape| Tensor::from_data(TensorData::new(values, shape), &options.device);
        let rows = options.positions / options.parts.max(1);
        let batch = |part: usize| {
            let of = |head: usize| HeadLabels {
                rows: (0..rows as u32).collect(),
                tokens: (0..rows).map(|i| ((i * 31 + head * 17 + part) % vocab) as u32).collect(),
            };
            (tensor(values(rows * d, 7 + part, 1.0), [rows, d]), (0..k).map(of).collect())
        };
        let scales = (0..k).map(|head| (config.weight(head) / options.positions as f64) as f32).collect();
        let held = Frozen { format: options.format, ..Frozen::default() };
        let lm_head = Table::frozen(tensor(values(vocab * d, 1, 0.05), [vocab, d]), held)?;
        let zeros = |spec: ParameterSpec| {
            let role = if spec.shape.len() == 2 { Role::Matrix } else { Role::Vector };
            Parameter::new(spec.name, &spec.shape, role, vec![0.0; spec.shape.iter().product()], &options.device)
        };
        let parameters: Vec<Parameter> = config.parameters(d, vocab).into_iter().map(zeros).collect();
        let optimizer = Optimizer::default();
        let moments = optimizer.start(&parameters);
        let batches = (0..options.parts.max(1)).map(batch).collect();
        Ok(Self { heads, lm_head, batches, scales, parameters, moments, optimizer, step: 0 })
    }

    /// Gradients of all micro-batches, summed, clipped and applied. Returns the loss.
    pub fn step(&mut self) -> f64 {
        let weights: Vec<Tensor<1>> = self.parameters.iter().map(|p| p.value.clone()).collect();
        let parts: Vec<_> = self
            .batches
            .par_iter()
            .map(|(hidden, labels)| {
                let losses = || self.heads.losses(&weights, &self.lm_head, hidden, labels, Some(&self.scales));
                team::one_of(self.batches.len(), losses)
            })
            .collect();
        let loss = parts
            .iter()
            .flat_map(|(outputs, _)| outputs.iter().zip(&self.scales))
            .fold(0.0, |sum, (o, s)| sum + o.losses.iter().map(|&l| f64::from(l)).sum::<f64>() * f64::from(*s));
        let sums = parts.into_iter().map(|(_, gradients)| gradients);
        let sum = sums.reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| a + b).collect());
        let gradients = sum.unwrap_or_default();
        let norm = global_norm(&gradients);
        let clipped = clip(gradients, norm, 1.0);
        self.optimizer.apply(&mut self.parameters, &mut self.moments, clipped, 1e-3, self.step);
        self.step += 1;
        loss
    }

    /// [`Self::step`] on the states of a backbone, which first reads conversations of `length` tokens.
    ///
    /// # Errors
    /// When the backbone fails.
    pub fn step_after(&mut self, backbone: &Features, length: usize) -> Result<f64, TrainError> {
        let vocab = self.heads.vocab_size;
        for (hidden, _) in &mut self.batches {
            let rows = hidden.dims()[0];
            let tokens: Vec<Token> = (0..rows).map(|i| ((i * 97 + 11) % vocab) as Token).collect();
            let positions: Vec<usize> = (0..rows).collect();
            let wanted = tokens.chunks(length.max(1)).map(|ids| (ids, &positions[..ids.len()]));
            let states = backbone.compute_all(&wanted.collect::<Vec<_>>())?;
            if !states.is_empty() {
                *hidden = Tensor::cat(states, 0);
            }
        }
        Ok(self.step())
    }
}
