//! Sums of gradients over all replicas, and copies of rank 0's state.
//!
//! Sums are taken within each process first: on the devices where burn can, else in memory and in the order of the
//! micro-batches. Then they are taken over processes.

use super::ProcessGroup;
use super::device_sums::DeviceSums;
use super::mpi::Processes;
use crate::checkpoint;
use crate::error::TrainError;
use crate::optimizer::Moments;
use crate::parameters::{Parameter, from_values};
use crate::trainer::objective::Gradients;
use burn::tensor::{Device, Tensor};
use gorgon_kernels::host;
use std::sync::Arc;

impl ProcessGroup {
    /// Gives every replica the parameters and moments of rank 0. Returns rank 0's step.
    ///
    /// # Errors
    /// [`TrainError::Ended`] when another replica failed.
    pub(crate) fn broadcast_state(
        &self,
        step: u64,
        parameters: &mut [Parameter],
        moments: &mut [Moments],
    ) -> Result<u64, TrainError> {
        if self.size == 1 {
            return Ok(step);
        }
        let copy = |tensor: &mut Tensor<1>| -> Result<(), TrainError> {
            let mut values = checkpoint::values(tensor);
            self.broadcast(&mut values)?;
            *tensor = from_values(values, &tensor.device());
            Ok(())
        };
        parameters.iter_mut().try_for_each(|p| copy(&mut p.value))?;
        for m in moments {
            copy(&mut m.first)?;
            copy(&mut m.second)?;
        }
        let mut step = [if self.is_root() { step as f64 } else { 0.0 }];
        self.all_reduce(&mut step)?;
        Ok(step[0] as u64)
    }

    /// The sum of all replicas' micro-batches; each replica brings the parts of its own.
    ///
    /// # Errors
    /// [`TrainError::Ended`] when another replica failed; when the devices cannot sum.
    pub(crate) fn reduce(&self, parts: Vec<Gradients>, parameters: &[Parameter]) -> Result<Gradients, TrainError> {
        let Some(first) = parameters.first().filter(|_| self.size > 1) else { return Ok(Gradients::sum(parts)) };
        match &self.device_sums {
            Some(device_sums) => self.reduce_on_devices(device_sums, parts, parameters),
            None => self.reduce_in_memory(parts, parameters, &first.value.device()),
        }
    }

    fn reduce_on_devices(
        &self,
        device_sums: &DeviceSums,
        parts: Vec<Gradients>,
        parameters: &[Parameter],
    ) -> Result<Gradients, TrainError> {
        let mut own = Gradients::sum(parts);
        let zeros = || parameters.iter().map(|p| Tensor::zeros([p.len()], &p.value.device())).collect();
        let own_gradients = std::mem::take(&mut own.gradients);
        let own_gradients = if own_gradients.is_empty() { zeros() } else { own_gradients };
        let gradients = device_sums.sum(own_gradients)?;
        let numbers = self.combine(own, |all, _| Gradients::sum(all))?;
        Ok(Gradients { gradients, ..Arc::unwrap_or_clone(numbers) })
    }

    fn reduce_in_memory(
        &self,
        parts: Vec<Gradients>,
        parameters: &[Parameter],
        device: &Device,
    ) -> Result<Gradients, TrainError> {
        // Parts in a device's memory are added up there.
        let parts =
            if host::is_host(device) { parts } else { parts.into_iter().reduce(Gradients::plus).into_iter().collect() };
        let moved = |part: Gradients| Gradients { gradients: moved(part.gradients, &Device::flex()), ..part };
        let parts: Vec<Gradients> = parts.into_iter().map(moved).collect();
        let lengths: Vec<usize> = parameters.iter().map(Parameter::len).collect();
        let sums = self.combine(parts, |all, processes| {
            let mut sums = Gradients::sum(interleaved(all));
            add_other_processes(&mut sums, processes, &lengths);
            sums
        })?;
        let sums = Arc::unwrap_or_clone(sums);
        Ok(Gradients { gradients: self::moved(sums.gradients, device), ..sums })
    }
}

/// Adds the sums of the other processes.
fn add_other_processes(sums: &mut Gradients, processes: Processes, lengths: &[usize]) {
    if processes.size == 1 {
        return;
    }
    let gradients = std::mem::take(&mut sums.gradients);
    let sum = |(i, length): (usize, &usize)| {
        let mut values = gradients.get(i).map_or_else(|| vec![0.0; *length], checkpoint::values);
        processes.sum_f32(&mut values);
        from_values(values, &Device::flex())
    };
    sums.gradients = lengths.iter().enumerate().map(sum).collect();
    // Process 0 always has a micro-batch, and so all names; one without any has nothing to count.
    let mut names = [if processes.rank == 0 { sums.counts.len() as f64 } else { 0.0 }];
    processes.sum_f64(&mut names);
    let mut numbers = vec![sums.loss, sums.tokens as f64];
    numbers.extend(sums.counts.iter().flat_map(|(_, sum, weight)| [*sum, *weight]));
    numbers.resize(2 + 2 * names[0] as usize, 0.0);
    processes.sum_f64(&mut numbers);
    (sums.loss, sums.tokens) = (numbers[0], numbers[1] as usize);
    for (count, pair) in sums.counts.iter_mut().zip(numbers[2..].chunks_exact(2)) {
        (count.1, count.2) = (pair[0], pair[1]);
    }
}

/// The parts of all replicas in the order of their micro-batches, which were dealt out one at a time.
fn interleaved<T>(all: Vec<Vec<T>>) -> Vec<T> {
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

/// Tensors on another device.
fn moved(tensors: Vec<Tensor<1>>, device: &Device) -> Vec<Tensor<1>> {
    let one = |tensor: Tensor<1>| match host::is_host(&tensor.device()) && host::is_host(device) {
        true => tensor,
        false => from_values(checkpoint::values(&tensor), device),
    };
    tensors.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests;
