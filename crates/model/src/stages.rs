//! The layers of a model, split over devices of one machine.

use crate::config::ModelConfig;
use crate::device::Compute;
use crate::error::ModelError;
use crate::layout;
use burn::tensor::Device;
use std::ops::Range;
use std::sync::Arc;

/// The layers that one device holds. The first device also holds embeddings, final norm and LM head.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Where they are.
    pub device: Device,
    /// Their numbers.
    pub layers: Range<usize>,
}

impl Stage {
    /// All layers on the first device.
    pub(crate) fn whole(layers: usize, compute: &Compute) -> Arc<[Self]> {
        [Self { device: compute.device().clone(), layers: 0..layers }].into()
    }

    /// A stage for each device of `compute`, in the order of the layers.
    ///
    /// # Errors
    /// When there are more devices than layers.
    pub(crate) fn of(config: &ModelConfig, compute: &Compute) -> Result<Arc<[Self]>, ModelError> {
        let devices = compute.devices();
        let parts = split(config, devices.len())?;
        Ok(devices.into_iter().zip(parts).map(|(device, layers)| Self { device, layers }).collect())
    }
}

/// Numbers of one layer, and of what lies outside the layers.
pub fn parameters(config: &ModelConfig) -> (usize, usize) {
    let count = |layers: usize| -> usize {
        let config = ModelConfig { layers, ..config.clone() };
        layout::tensors(&config).iter().map(|tensor| tensor.shape.iter().product::<usize>()).sum()
    };
    let rest = count(0);
    (count(1) - rest, rest)
}

/// The layers of each of `devices` devices, so that all hold about as many weights; each has one layer at least.
///
/// With `L` numbers in a layer and `E` outside the layers, device `k` of `N` ends at the layer nearest to
/// `(k (layers L + E) / N - E) / L`.
///
/// # Errors
/// When there are more devices than layers.
pub fn split(config: &ModelConfig, devices: usize) -> Result<Vec<Range<usize>>, ModelError> {
    let layers = config.layers;
    if devices == 0 || devices > layers {
        return Err(ModelError::Split { devices, layers });
    }
    let (layer, rest) = parameters(config);
    let (layer, rest) = (layer.max(1) as f64, rest as f64);
    let mut parts: Vec<Range<usize>> = vec![];
    for k in 1..=devices {
        let start = parts.last().map_or(0, |part| part.end);
        let wanted = (k as f64 * (layers as f64 * layer + rest) / devices as f64 - rest) / layer;
        let last = layers - (devices - k);
        let end = if k == devices { layers } else { (wanted.round().max(0.0) as usize).clamp(start + 1, last) };
        parts.push(start..end);
    }
    Ok(parts)
}

/// Layers and memory of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its layers.
    pub layers: Range<usize>,
    /// Bytes of weights: those of the layers, and on the first device what lies outside the layers.
    pub weights: u128,
    /// Bytes of the cache.
    pub cache: u128,
}

/// How `weights` and `cache` bytes of a model lie on `devices` devices.
///
/// # Errors
/// When there are more devices than layers.
pub fn shares(config: &ModelConfig, devices: usize, weights: u128, cache: u128) -> Result<Vec<Share>, ModelError> {
    let (layer, rest) = parameters(config);
    let of_layers = |count: usize, bytes: u128| bytes * count as u128 / config.layers.max(1) as u128;
    let all = (layer * config.layers + rest).max(1) as u128;
    let outside = weights * rest as u128 / all;
    let share = |(number, layers): (usize, Range<usize>)| Share {
        weights: of_layers(layers.len(), weights - outside) + if number == 0 { outside } else { 0 },
        cache: of_layers(layers.len(), cache),
        layers,
    };
    Ok(split(config, devices)?.into_iter().enumerate().map(share).collect())
}

#[cfg(test)]
mod tests;
