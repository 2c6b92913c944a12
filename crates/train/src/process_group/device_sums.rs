//! Sums over the devices of this process, on the devices: burn's own, which are NCCL's.
//!
//! burn 0.22 has them for CUDA devices. A call only queues the sum. Every device has to make the same calls in the same
//! order, and no device may appear twice. Where the library is missing the first call panics, so they are tried
//! before anything depends on them.

use super::watchdog::Watched;
use crate::error::{TrainError, panic_message};
use burn::tensor::distributed::{ReduceOperation, all_reduce};
use burn::tensor::{Device, Tensor};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How one device takes part.
pub(crate) struct DeviceSums {
    /// All devices, in the same order for each.
    devices: Vec<Device>,
    own: Device,
    /// Sums wait for all devices, however long that takes.
    watched: Option<Arc<Watched>>,
}

/// Checks that a device can hold numbers and multiply them. The error is the reason.
pub(super) fn check(device: &Device) -> Result<(), String> {
    const N: usize = 64;
    contained(|| {
        let ones = Tensor::<2>::ones([N, N], device);
        let found = read(ones.clone().matmul(ones).sum())?;
        let expected = [(N * N * N) as f32];
        if found == expected { Ok(()) } else { Err(format!("a matmul sums to {found:?} instead of {expected:?}")) }
    })
}

fn read(tensor: Tensor<1>) -> Result<Vec<f32>, String> {
    tensor.into_data().convert::<f32>().try_into_vec::<f32>().map_err(|error| format!("{error:?}"))
}

/// A panic as an error.
fn contained<R>(work: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|panic| Err(panic_message(&*panic).unwrap_or_else(|| "it panicked".into())))
}

impl DeviceSums {
    /// Device `number` of these, if sums over them come out right; the reason otherwise. All of them have to call it at
    /// once.
    pub fn probe(devices: &[Device], number: usize, watched: Option<Arc<Watched>>) -> Result<Self, String> {
        let sums = Self { devices: devices.to_vec(), own: devices[number].clone(), watched };
        let attempt = || {
            let one = Tensor::<1>::from_floats([number as f32 + 1.0], &sums.own);
            read(sums.queued(vec![one]).map_err(|error| error.to_string())?.remove(0))
        };
        let found = match &sums.watched {
            None => contained(attempt)?,
            // Where this device fails, others may wait for it.
            Some(watched) => watched.during(true, || contained(attempt)).inspect_err(|reason| watched.lost(reason))?,
        };
        let expected = (devices.len() * (devices.len() + 1) / 2) as f32;
        if found == [expected] { Ok(sums) } else { Err(format!("the sum is {found:?} instead of {expected}")) }
    }

    /// The sum of each tensor with those of the other devices, which bring as many of the same sizes.
    pub fn sum(&self, tensors: Vec<Tensor<1>>) -> Result<Vec<Tensor<1>>, TrainError> {
        match &self.watched {
            None => self.queued(tensors),
            Some(watched) => watched.during(false, || self.queued(tensors)),
        }
    }

    fn queued(&self, tensors: Vec<Tensor<1>>) -> Result<Vec<Tensor<1>>, TrainError> {
        let queue = |tensor| all_reduce(tensor, ReduceOperation::Sum, self.devices.clone());
        let queued: Vec<_> = tensors.into_iter().map(queue).collect();
        let sums = queued.into_iter().map(|queued| queued.resolve()).collect();
        // From here on other threads, whose queues know nothing of these sums, may read them.
        self.own.sync().map_err(|error| TrainError::Data(error.to_string()))?;
        Ok(sums)
    }
}

#[cfg(test)]
mod tests;
