//! Command-line choices of devices and number formats.

use super::error::DeviceError;
use burn::tensor::DType;
use std::str::FromStr;

/// Value of `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A CUDA device if the build and the machine have one, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// The CUDA device of this index.
    Cuda(usize),
    /// The default Vulkan, Metal or DX12 device, through WGSL.
    Wgpu,
}

/// Value of `--dtype`: the precision of weights, and on a GPU of activations too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum FloatFormat {
    F32,
    F16,
    Bf16,
}

/// Value of `--int8`: linear layers whose weights the CPU stores in 8 bits, with a scale per output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Int8 {
    /// None.
    #[default]
    Off,
    /// A copy of the LM head that only drafts are made with: they get cheaper, and what is decoded stays the same.
    Drafts,
    /// All matrices, those of the backbone too: another model, slightly.
    All,
}

/// Value of `--compute-dtype`: the number format of the CPU's matmuls. Sums are in 32 bits either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Products {
    /// Weights as they are stored, activations in 32 bits.
    #[default]
    F32,
    /// Weights and activations rounded to `bf16`: up to twice as fast where the processor has such products, and, as on
    /// a GPU, another model, slightly.
    Bf16,
}

impl FromStr for DeviceChoice {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        match text.split_once(':') {
            None => match text {
                "auto" => Some(Self::Auto),
                "cpu" => Some(Self::Cpu),
                "cuda" => Some(Self::Cuda(0)),
                "wgpu" => Some(Self::Wgpu),
                _ => None,
            },
            Some(("cuda", index)) => index.parse().ok().map(Self::Cuda),
            Some(_) => None,
        }
        .ok_or_else(|| DeviceError::UnknownDevice(text.into()))
    }
}

impl std::fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
            Self::Wgpu => f.write_str("wgpu"),
        }
    }
}

impl FromStr for FloatFormat {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        match text {
            "f32" => Ok(Self::F32),
            "f16" => Ok(Self::F16),
            "bf16" => Ok(Self::Bf16),
            _ => Err(DeviceError::UnknownFormat(text.into())),
        }
    }
}

impl FromStr for Int8 {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        match text {
            "off" => Ok(Self::Off),
            "drafts" => Ok(Self::Drafts),
            "all" => Ok(Self::All),
            _ => Err(DeviceError::UnknownInt8(text.into())),
        }
    }
}

impl FromStr for Products {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        match text {
            "f32" => Ok(Self::F32),
            "bf16" => Ok(Self::Bf16),
            _ => Err(DeviceError::UnknownProducts(text.into())),
        }
    }
}

impl FloatFormat {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    /// Bytes per number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    pub(crate) fn tensor(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::BF16,
        }
    }
}
