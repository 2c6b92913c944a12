//! Coupled sampling in a recorded step: the argmax of rows with a sequence's noise.

use crate::error::DecodeError;
use burn::tensor::{Device, Int, Tensor};
use gorgon_core::accept::RandomSource;
use gorgon_core::accept::noise::Noise;
use gorgon_kernels::recorded_step::{self, NoisePositions, NoiseTable};

/// The noise that tokens are picked by, and the temperature.
#[derive(Clone, Debug)]
pub(super) struct CoupledSampling {
    noise: NoiseTable,
    temperature: f64,
}

impl CoupledSampling {
    /// Sampling at a temperature, once there is [noise](Self::take_noise).
    pub fn new(temperature: f64, device: &Device) -> Self {
        Self { noise: NoiseTable::new(Noise::new(0, 0), device), temperature }
    }

    /// Takes the noise of a random source.
    ///
    /// # Errors
    /// When it has none.
    pub fn take_noise(&self, random: &dyn RandomSource) -> Result<(), DecodeError> {
        let noise = random.noise().ok_or(DecodeError::NoNoise)?.of_sequence();
        let key = self.noise.key();
        recorded_step::overwrite(key, NoiseTable::new(noise, &key.device()).key());
        Ok(())
    }

    /// Logits with the noise, where the distribution is taken to the power `sharpness` first. Temperatures next to 0 are
    /// bounded, so that no logit overflows.
    pub fn perturb(&self, logits: &Tensor<3>, positions: &NoisePositions, sharpness: f64) -> Tensor<3> {
        recorded_step::perturb(logits, &self.noise, positions, (sharpness / self.temperature).min(1e30) as f32)
    }
}

/// The token of each row of logits.
pub(super) fn picked(
    logits: &Tensor<3>,
    sampling: Option<&CoupledSampling>,
    positions: impl FnOnce() -> NoisePositions,
) -> Tensor<1, Int> {
    match sampling {
        Some(sampling) => recorded_step::argmax_rows(&sampling.perturb(logits, &positions(), 1.0)),
        None => recorded_step::argmax_rows(logits),
    }
}
