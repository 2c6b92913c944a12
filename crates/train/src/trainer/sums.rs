//! What a step's micro-batches, and the processes that fit together, add up to.

use super::Gradients;
use crate::checkpoint;
use crate::error::TrainError;
use crate::optimizer::Moments;
use crate::parameters::{Parameter, from_values};
use crate::world::World;
use burn::tensor::Tensor;

/// Where process 0 goes on from, in every process. Returns the step.
pub(super) fn from_root(world: World, step: u64, parameters: &mut [Parameter], moments: &mut [Moments]) -> u64 {
    if world.size() == 1 {
        return step;
    }
    let copy = |tensor: &mut Tensor<1>| {
        let mut values = checkpoint::values(tensor);
        world.copy_from_root(&mut values);
        *tensor = from_values(values, &tensor.device());
    };
    parameters.iter_mut().for_each(|p| copy(&mut p.value));
    for m in moments {
        copy(&mut m.first);
        copy(&mut m.second);
    }
    let mut step = [if world.is_root() { step as f64 } else { 0.0 }];
    world.sum_f64(&mut step);
    step[0] as u64
}

/// Sums over the micro-batches of a step.
pub(super) struct Sums {
    pub loss: f64,
    pub tokens: usize,
    pub counts: Vec<(String, f64, f64)>,
    pub gradients: Vec<Tensor<1>>,
}

impl Sums {
    /// Adds what the other processes have.
    pub fn exchange(&mut self, world: World, parameters: &[Parameter]) {
        if world.size() == 1 {
            return;
        }
        let gradients = std::mem::take(&mut self.gradients);
        let sum = |(i, p): (usize, &Parameter)| {
            let mut values = gradients.get(i).map_or_else(|| vec![0.0; p.len()], checkpoint::values);
            world.sum_f32(&mut values);
            from_values(values, &p.value.device())
        };
        self.gradients = parameters.iter().enumerate().map(sum).collect();
        // Process 0 always has a micro-batch, and so all names; one without any has nothing to count.
        let mut names = [if world.is_root() { self.counts.len() as f64 } else { 0.0 }];
        world.sum_f64(&mut names);
        let mut numbers = vec![self.loss, self.tokens as f64];
        numbers.extend(self.counts.iter().flat_map(|(_, sum, weight)| [*sum, *weight]));
        numbers.resize(2 + 2 * names[0] as usize, 0.0);
        world.sum_f64(&mut numbers);
        (self.loss, self.tokens) = (numbers[0], numbers[1] as usize);
        for (count, pair) in self.counts.iter_mut().zip(numbers[2..].chunks_exact(2)) {
            (count.1, count.2) = (pair[0], pair[1]);
        }
    }

    pub fn of(parts: Vec<Gradients>, step: u64) -> Result<Self, TrainError> {
        let Some(sums) = parts.into_iter().reduce(Gradients::plus) else {
            return Ok(Self { loss: 0.0, tokens: 0, counts: vec![], gradients: vec![] });
        };
        match sums.not_finite {
            Some(place) => Err(TrainError::NotFinite { step, place }),
            None => Ok(Self { loss: sums.loss, tokens: sums.tokens, counts: sums.counts, gradients: sums.gradients }),
        }
    }
}
