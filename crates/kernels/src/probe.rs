//! Upper bounds of a device: seconds of a copy and of a matmul.

use burn::tensor::{DType, Device, Distribution, Tensor};
use std::time::Instant;

/// The device failed.
#[derive(Debug, thiserror::Error)]
#[error("the device failed: {0}")]
pub struct ProbeError(String);

/// Buffers to copy and to multiply, made once.
#[derive(Debug)]
pub struct Probe {
    device: Device,
    floats: Tensor<1>,
    square: Tensor<2>,
}

impl Probe {
    /// A buffer of `floats` numbers of 32 bits, and a square matrix of `side` rows in the format `dtype`.
    pub fn new(device: &Device, floats: usize, side: usize, dtype: DType) -> Self {
        let square = Tensor::<2>::random([side, side], Distribution::Default, device).cast(dtype);
        Self { device: device.clone(), floats: Tensor::zeros([floats], device), square }
    }

    /// Bytes read and written per second by a pass over the buffer.
    ///
    /// # Errors
    /// When the device fails.
    pub fn copied_bytes_per_second(&self) -> Result<f64, ProbeError> {
        let seconds = self.timed(|| self.floats.clone() + 1.0)?;
        Ok(8.0 * self.floats.dims()[0] as f64 / seconds)
    }

    /// Floating-point operations per second of the matrix times itself.
    ///
    /// # Errors
    /// When the device fails.
    pub fn multiplied_flops(&self) -> Result<f64, ProbeError> {
        let seconds = self.timed(|| self.square.clone().matmul(self.square.clone()))?;
        Ok(2.0 * (self.square.dims()[0] as f64).powi(3) / seconds)
    }

    fn timed<const D: usize>(&self, work: impl FnOnce() -> Tensor<D>) -> Result<f64, ProbeError> {
        let sync = || self.device.sync().map_err(|error| ProbeError(error.to_string()));
        sync()?;
        let started = Instant::now();
        let result = work();
        sync()?;
        let seconds = started.elapsed().as_secs_f64();
        drop(result);
        Ok(seconds)
    }
}
