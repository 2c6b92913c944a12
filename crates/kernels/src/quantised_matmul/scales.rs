//! Scales of weights in the number format that they were given in.

use half::{bf16, f16};

/// Number format of scales in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleFormat {
    /// 32-bit.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an `f32`.
    Bf16,
}

impl ScaleFormat {
    /// The smallest format that holds all of `values`.
    pub fn of(values: &[f32]) -> Self {
        let all = |fits: fn(f32) -> bool| values.iter().all(|&value| fits(value));
        if all(|value| bf16::from_f32(value).to_f32() == value) {
            ScaleFormat::Bf16
        } else if all(|value| f16::from_f32(value).to_f32() == value) {
            ScaleFormat::F16
        } else {
            ScaleFormat::F32
        }
    }

    /// The nearest value of this format.
    pub fn round(self, value: f32) -> f32 {
        match self {
            ScaleFormat::F32 => value,
            ScaleFormat::F16 => f16::from_f32(value).to_f32(),
            ScaleFormat::Bf16 => bf16::from_f32(value).to_f32(),
        }
    }
}

/// Values in one of the formats.
pub(super) enum Scales {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl Scales {
    pub fn new(format: ScaleFormat, values: Vec<f32>) -> Self {
        match format {
            ScaleFormat::F32 => Scales::F32(values),
            ScaleFormat::F16 => Scales::F16(values.into_iter().map(f16::from_f32).collect()),
            ScaleFormat::Bf16 => Scales::Bf16(values.into_iter().map(bf16::from_f32).collect()),
        }
    }

    pub fn get(&self, index: usize) -> f32 {
        match self {
            Scales::F32(values) => values[index],
            Scales::F16(values) => values[index].to_f32(),
            Scales::Bf16(values) => values[index].to_f32(),
        }
    }

    /// `N` values from `first` on.
    #[inline(always)]
    pub fn several<const N: usize>(&self, first: usize) -> [f32; N] {
        match self {
            Scales::F32(values) => {
                let values = &values[first..first + N];
                std::array::from_fn(|i| values[i])
            }
            Scales::F16(values) => {
                let values = &values[first..first + N];
                std::array::from_fn(|i| values[i].to_f32())
            }
            Scales::Bf16(values) => {
                let values = &values[first..first + N];
                std::array::from_fn(|i| f32::from_bits(u32::from(values[i].to_bits()) << 16))
            }
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Scales::F32(values) => 4 * values.len(),
            Scales::F16(values) => 2 * values.len(),
            Scales::Bf16(values) => 2 * values.len(),
        }
    }
}
