//! Number formats of cached hidden states.

use gorgon_runs::tensors::write_f32;
use half::bf16;
use safetensors::Dtype;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// How hidden states are kept on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FeatureFormat {
    /// As they were computed: training is bitwise what it is without a cache.
    #[default]
    F32,
    /// Rounded to 8 significant bits.
    Bf16,
    /// 8-bit integers with a scale per state: `h_i ≈ s · q_i`, `s = max_i |h_i| / 127`.
    Int8,
}

impl FeatureFormat {
    /// Its name in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        }
    }

    /// Bytes of a value, scales apart.
    pub(super) fn bytes_per_value(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
            Self::Int8 => 1,
        }
    }

    /// Bytes of so many states of `width` values.
    pub fn bytes(self, states: u64, width: usize) -> u64 {
        let scales = if self == Self::Int8 { 4 } else { 0 };
        states * (width as u64 * self.bytes_per_value() + scales)
    }

    pub(super) fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::Bf16 => Dtype::BF16,
            Self::Int8 => Dtype::I8,
        }
    }

    /// Writes states and returns their scales, if they have any.
    pub(super) fn write(self, file: &mut dyn Write, values: &[f32], width: usize) -> io::Result<Vec<f32>> {
        match self {
            Self::F32 => write_f32(file, values).map(|()| vec![]),
            Self::Bf16 => {
                let bytes: Vec<u8> = values.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect();
                file.write_all(&bytes).map(|()| vec![])
            }
            Self::Int8 => {
                let mut scales = Vec::with_capacity(values.len() / width.max(1));
                let mut bytes = Vec::with_capacity(values.len());
                for state in values.chunks_exact(width.max(1)) {
                    let scale = state.iter().fold(0f32, |most, v| most.max(v.abs())) / 127.0;
                    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
                    // A quotient beyond an integer's range ends at its end.
                    bytes.extend(state.iter().map(|v| (v * inverse).round() as i8 as u8));
                    scales.push(scale);
                }
                file.write_all(&bytes).map(|()| scales)
            }
        }
    }

    /// States from their bytes and those of their scales.
    pub(super) fn read(self, values: &[u8], scales: &[u8], width: usize) -> Vec<f32> {
        match self {
            Self::F32 => values.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            Self::Bf16 => values.as_chunks::<2>().0.iter().map(|bytes| bf16::from_le_bytes(*bytes).to_f32()).collect(),
            Self::Int8 => {
                let scales = scales.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
                let states = values.chunks_exact(width.max(1)).zip(scales);
                states.flat_map(|(state, scale)| state.iter().map(move |&q| f32::from(q as i8) * scale)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests;
