//! One training step.

use super::objective::{Gradients, Objective};
use super::report::Report;
use super::settings::FitSettings;
use crate::error::TrainError;
use crate::micro_batch::{Known, MicroBatchLimit, Step};
use crate::optimizer::{Moments, clip, global_norm, on_host};
use crate::parameters::Parameter;
use crate::process_group::ProcessGroup;
use burn::tensor::Tensor;
use gorgon_kernels::team;
use rayon::prelude::*;

/// Parameters and the optimizer's moments.
pub(super) struct Fitted {
    pub parameters: Vec<Parameter>,
    pub moments: Vec<Moments>,
    /// Memory limits found so far.
    pub memory: Known,
}

/// The result of a step.
pub(super) struct Done {
    /// Sums over all micro-batches; the gradients are applied.
    pub sums: Gradients,
    /// Norm of the gradients before they were clipped.
    pub norm: f64,
    /// Learning rate.
    pub rate: f64,
}

impl Fitted {
    /// Parameters and moments before the first step.
    pub fn new<O: Objective>(objective: &O, settings: &FitSettings) -> Self {
        let parameters = objective.parameters(settings.seed);
        let moments = settings.optimizer.start(&parameters);
        Self { parameters, moments, memory: Known::default() }
    }

    /// One training step: gradients of all micro-batches, summed in their order, clipped by their global norm, applied.
    /// [`Objective::prepare`] has been called for it.
    pub fn step<O: Objective>(
        &mut self,
        objective: &O,
        settings: &FitSettings,
        group: &ProcessGroup,
        step: u64,
        observe: &mut dyn FnMut(Report),
    ) -> Result<Done, TrainError> {
        let batches = objective.batches(step)?;
        let mut totals: Vec<f64> = vec![];
        for batch in &batches {
            let weights = objective.weights(batch);
            totals.resize(weights.len().max(totals.len()), 0.0);
            totals.iter_mut().zip(weights).for_each(|(total, weight)| *total += weight);
        }
        let share: Vec<&O::Batch> = group.share(batches.len()).map(|i| &batches[i]).collect();
        let parts = self.parts(objective, settings.memory_limit, (&share, &totals), step, observe);
        let mut sums = group.reduce(group.all_or_none(parts)?, &self.parameters)?;
        let norm = global_norm(&sums.gradients);
        if !norm.is_finite() {
            return Err(TrainError::Overflow { step });
        }
        let gradients = clip(std::mem::take(&mut sums.gradients), norm, settings.max_grad_norm);
        let rate = settings.schedule.rate(step);
        let rates: Vec<f64> = self.parameters.iter().map(|p| rate * objective.rate(p, step)).collect();
        settings.optimizer.apply_each(&mut self.parameters, &mut self.moments, gradients, &rates, step);
        Ok(Done { sums, norm, rate })
    }

    /// Gradients of a replica's micro-batches, side by side, or one after another where two at once do not fit and on
    /// devices other than the CPU.
    fn parts<O: Objective>(
        &mut self,
        objective: &O,
        limit: Option<u64>,
        (share, totals): (&[&O::Batch], &[f64]),
        number: u64,
        observe: &mut dyn FnMut(Report),
    ) -> Result<Vec<Gradients>, TrainError> {
        let weights: Vec<Tensor<1>> = self.parameters.iter().map(|p| p.value.clone()).collect();
        loop {
            let held = objective.held_bytes() * share.len() as u64;
            let micro_batch = MicroBatchLimit::new(limit, &self.parameters, (share.len(), held), self.memory)?;
            let step = Step::new(objective, &weights, totals, micro_batch);
            let one_by_one = self.memory.one_at_a_time || share.len() == 1 || !on_host(&self.parameters);
            let parts: Result<Vec<Gradients>, _> = match one_by_one {
                true => share.iter().map(|batch| step.gradients(batch)).collect(),
                false => share.par_iter().map(|batch| team::one_of(share.len(), || step.gradients(batch))).collect(),
            };
            if let Some(line) = self.memory.learn(step.found(), micro_batch, number) {
                observe(Report::Note(line));
            }
            match parts {
                Err(TrainError::Memory { .. }) if !one_by_one => {
                    self.memory.one_at_a_time = true;
                    let line = "two micro-batches at once do not fit: they are computed one after another from here on";
                    observe(Report::Note(format!("step {}: {line}", number + 1)));
                }
                parts => return parts.and_then(|parts| finite(parts, number)),
            }
        }
    }
}

/// The micro-batches' parts, if all their losses are finite.
fn finite(parts: Vec<Gradients>, step: u64) -> Result<Vec<Gradients>, TrainError> {
    match parts.iter().find_map(|part| part.not_finite.clone()) {
        Some(place) => Err(TrainError::NotFinite { step, place }),
        None => Ok(parts),
    }
}
