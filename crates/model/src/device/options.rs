//! Command-line choices of devices and number formats.

use super::error::DeviceError;
use super::split::CudaSplit;
use burn::tensor::DType;
use gorgon_kernels::quantised_matmul::Activations;
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
    /// CUDA devices that share the layers of a model.
    CudaSplit(CudaSplit),
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

/// Value of `--weights`: how the CPU, or a GPU with tensor cores, stores the matrices of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weights {
    /// As `--dtype` says; those of a quantised checkpoint as they are.
    #[default]
    Stored,
    /// Rounded to 8 bits with a scale per output: another model, slightly.
    Int8,
    /// Rounded to 4 bits with a scale for each 32 inputs of an output: another model.
    Int4,
}

/// Value of `--draft-weights`: the matrices that only drafts are made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DraftWeights {
    /// Those of the target; a draft model as it is stored.
    #[default]
    Stored,
    /// An LM head for drafts, or a draft model, in 8 bits: drafts get cheaper, and the text stays the same.
    Int8,
}

/// Value of `--activation-bits`: inputs of products with weights in integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivationBits {
    /// Rounded to 8 bits for each row (and group of inputs, where weights have groups).
    Eight,
    /// Rounded to 16 bits; twice the multiply-adds.
    Sixteen,
    /// As they are, in `f32`.
    ThirtyTwo,
}

/// Which weights the CPU holds in integers, and what they are multiplied with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntegerWeights {
    /// Of the target.
    pub weights: Weights,
    /// Of what drafts.
    pub draft_weights: DraftWeights,
    /// Inputs: 8 bits for weights that are rounded here, 32 for those of a quantised checkpoint, unless this says
    /// otherwise.
    pub activation_bits: Option<ActivationBits>,
}

impl IntegerWeights {
    /// None of them.
    pub const STORED: Self =
        Self { weights: Weights::Stored, draft_weights: DraftWeights::Stored, activation_bits: None };

    /// The options that differ from the defaults, as they are typed.
    pub fn options(&self) -> Vec<String> {
        let weights = match self.weights {
            Weights::Stored => None,
            Weights::Int8 => Some("--weights int8".to_owned()),
            Weights::Int4 => Some("--weights int4".to_owned()),
        };
        let drafts = (self.draft_weights == DraftWeights::Int8).then(|| "--draft-weights int8".to_owned());
        let bits = self.activation_bits.map(|bits| format!("--activation-bits {}", bits.number()));
        [weights, drafts, bits].into_iter().flatten().collect()
    }

    /// Inputs of weights that a checkpoint holds in integers: as they are unless options say otherwise.
    pub(crate) fn activations_of_codes(&self) -> Activations {
        match (self.activation_bits, self.weights) {
            (None, Weights::Stored) => Activations::Exact,
            _ => self.activations(),
        }
    }

    /// Inputs of weights that are rounded here.
    pub(crate) fn activations(&self) -> Activations {
        self.activation_bits.unwrap_or(ActivationBits::Eight).activations()
    }
}

impl ActivationBits {
    /// Bits of a number.
    pub fn number(self) -> u32 {
        match self {
            Self::Eight => 8,
            Self::Sixteen => 16,
            Self::ThirtyTwo => 32,
        }
    }

    pub(crate) fn activations(self) -> Activations {
        match self {
            Self::Eight => Activations::Eight,
            Self::Sixteen => Activations::Sixteen,
            Self::ThirtyTwo => Activations::Exact,
        }
    }
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
            Some(("cuda", indices)) if indices.contains('+') => return indices.parse().map(Self::CudaSplit),
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
            Self::CudaSplit(split) => split.fmt(f),
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

impl FromStr for Weights {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        match text {
            "stored" => Ok(Self::Stored),
            "int8" => Ok(Self::Int8),
            "int4" => Ok(Self::Int4),
            _ => Err(DeviceError::UnknownWeights(text.into())),
        }
    }
}

impl FromStr for DraftWeights {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        match text {
            "stored" => Ok(Self::Stored),
            "int8" => Ok(Self::Int8),
            _ => Err(DeviceError::UnknownDraftWeights(text.into())),
        }
    }
}

impl FromStr for ActivationBits {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        match text {
            "8" => Ok(Self::Eight),
            "16" => Ok(Self::Sixteen),
            "32" => Ok(Self::ThirtyTwo),
            _ => Err(DeviceError::UnknownActivationBits(text.into())),
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
