//! What a step's micro-batches, and the replicas that fit together, add up to.

use super::Gradients;
use crate::checkpoint;
use crate::error::TrainError;
use crate::optimizer::Moments;
use crate::parameters::{Parameter, from_values};
use crate::world::{Processes, World};
use burn::tensor::{Device, Tensor};
use gorgon_kernels::host;
use std::sync::Arc;

/// Where replica 0 goes on from, in every replica. Returns the step.
pub(super) fn from_root(
    world: &World,
    step: u64,
    parameters: &mut [Parameter],
    moments: &mut [Moments],
) -> Result<u64, TrainError> {
    if world.size() == 1 {
        return Ok(step);
    }
    let copy = |tensor: &mut Tensor<1>| -> Result<(), TrainError> {
        let mut values = checkpoint::values(tensor);
        world.copy_from_root(&mut values)?;
        *tensor = from_values(values, &tensor.device());
        Ok(())
    };
    parameters.iter_mut().try_for_each(|p| copy(&mut p.value))?;
    for m in moments {
        copy(&mut m.first)?;
        copy(&mut m.second)?;
    }
    let mut step = [if world.is_root() { step as f64 } else { 0.0 }];
    world.sum_f64(&mut step)?;
    Ok(step[0] as u64)
}

/// The micro-batches' parts, if all their losses are numbers.
pub(super) fn finite(parts: Vec<Gradients>, step: u64) -> Result<Vec<Gradients>, TrainError> {
    match parts.iter().find_map(|part| part.not_finite.clone()) {
        Some(place) => Err(TrainError::NotFinite { step, place }),
        None => Ok(parts),
    }
}

/// Sums over the micro-batches of a step.
#[derive(Clone)]
pub(super) struct Sums {
    pub loss: f64,
    pub tokens: usize,
    pub counts: Vec<(String, f64, f64)>,
    pub gradients: Vec<Tensor<1>>,
}

impl Sums {
    /// Of what all replicas have; each brings its own micro-batches' parts.
    pub fn of_all(parts: Vec<Gradients>, world: &World, parameters: &[Parameter]) -> Result<Self, TrainError> {
        let Some(device) = parameters.first().map(|p| p.value.device()).filter(|_| world.size() > 1) else {
            return Ok(Self::of(parts));
        };
        if let Some(on_devices) = world.on_devices() {
            let own = Self::of(parts);
            let zeros = || parameters.iter().map(|p| Tensor::zeros([p.len()], &device)).collect();
            let own_gradients = if own.gradients.is_empty() { zeros() } else { own.gradients };
            let gradients = on_devices.sum(own_gradients)?;
            let numbers = Gradients {
                loss: own.loss,
                tokens: own.tokens,
                counts: own.counts,
                gradients: vec![],
                not_finite: None,
            };
            let sums = world.together(numbers, |all, _| Self::of(all))?;
            return Ok(Self { gradients, ..Arc::unwrap_or_clone(sums) });
        }
        // What comes from another device's memory is added up there.
        let parts = if host::is_host(&device) {
            parts
        } else {
            parts.into_iter().reduce(Gradients::plus).into_iter().collect()
        };
        let parts = parts.into_iter().map(|part| part.placed(&Device::flex())).collect();
        let lengths: Vec<usize> = parameters.iter().map(Parameter::len).collect();
        let sums = world.together(parts, |all, processes| {
            let mut sums = Self::of(in_turns(all));
            sums.exchange(processes, &lengths);
            sums
        })?;
        let mut sums = Arc::unwrap_or_clone(sums);
        sums.gradients = placed(sums.gradients, &device);
        Ok(sums)
    }

    /// Adds what the other processes have.
    fn exchange(&mut self, processes: Processes, lengths: &[usize]) {
        if processes.size == 1 {
            return;
        }
        let gradients = std::mem::take(&mut self.gradients);
        let sum = |(i, length): (usize, &usize)| {
            let mut values = gradients.get(i).map_or_else(|| vec![0.0; *length], checkpoint::values);
            processes.sum_f32(&mut values);
            from_values(values, &Device::flex())
        };
        self.gradients = lengths.iter().enumerate().map(sum).collect();
        // Process 0 always has a micro-batch, and so all names; one without any has nothing to count.
        let mut names = [if processes.rank == 0 { self.counts.len() as f64 } else { 0.0 }];
        processes.sum_f64(&mut names);
        let mut numbers = vec![self.loss, self.tokens as f64];
        numbers.extend(self.counts.iter().flat_map(|(_, sum, weight)| [*sum, *weight]));
        numbers.resize(2 + 2 * names[0] as usize, 0.0);
        processes.sum_f64(&mut numbers);
        (self.loss, self.tokens) = (numbers[0], numbers[1] as usize);
        for (count, pair) in self.counts.iter_mut().zip(numbers[2..].chunks_exact(2)) {
            (count.1, count.2) = (pair[0], pair[1]);
        }
    }

    /// Of some micro-batches, in their order.
    fn of(parts: Vec<Gradients>) -> Self {
        match parts.into_iter().reduce(Gradients::plus) {
            Some(Gradients { loss, tokens, counts, gradients, .. }) => Self { loss, tokens, counts, gradients },
            None => Self { loss: 0.0, tokens: 0, counts: vec![], gradients: vec![] },
        }
    }
}

/// The parts of replicas in the order of their micro-batches, which were dealt out one at a time.
fn in_turns<T>(all: Vec<Vec<T>>) -> Vec<T> {
    let mut replicas: Vec<_> = all.into_iter().map(Vec::into_iter).collect();
    let mut parts = vec![];
    loop {
        let before = parts.len();
        parts.extend(replicas.iter_mut().filter_map(Iterator::next));
        if parts.len() == before {
            return parts;
        }
    }
}

/// Tensors on a device.
fn placed(tensors: Vec<Tensor<1>>, device: &Device) -> Vec<Tensor<1>> {
    let place = |tensor: Tensor<1>| match host::is_host(&tensor.device()) && host::is_host(device) {
        true => tensor,
        false => from_values(checkpoint::values(&tensor), device),
    };
    tensors.into_iter().map(place).collect()
}

impl Gradients {
    fn placed(self, device: &Device) -> Self {
        Self { gradients: placed(self.gradients, device), ..self }
    }
}

#[cfg(test)]
mod tests;
