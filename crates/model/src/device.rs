//! Where a model runs and in which number format.

mod error;
mod memory;
mod options;
mod parts;
mod split;

pub use error::DeviceError;
pub use options::{ActivationBits, DeviceChoice, DraftWeights, FloatFormat, IntegerWeights, Products, Weights};
pub use split::CudaSplit;

use crate::prefilter_budget::Int8PrefilterBudget;
use burn::tensor::{DType, Device};
use gorgon_kernels::few_row_matmul::WeightDtype;
use gorgon_kernels::quantised_matmul::Activations;
use gorgon_kernels::skinny_matmul;
use std::sync::Arc;

/// A device with a number format.
///
/// On the CPU activations and products are `f32` and the format is the weights' precision: `f32` takes them as they are
/// (16-bit checkpoints stay in 16 bits, which is exact), the others round them; with [`Products::Bf16`] what is
/// multiplied is rounded too. Elsewhere it is the format of both.
#[derive(Clone, Debug)]
pub struct Compute {
    device: Device,
    /// Devices of the later layers, if layers are split.
    others: Arc<[Device]>,
    choice: DeviceChoice,
    format: FloatFormat,
    integers: IntegerWeights,
    products: Products,
    prefilters: Arc<Int8PrefilterBudget>,
}

impl Compute {
    /// Resolves a choice of device; without a format the device's own default is taken (`f32` on the CPU and wgpu,
    /// `bf16` on CUDA).
    ///
    /// # Errors
    /// When the binary or the machine lacks the device, or the device the format.
    pub fn resolve(choice: DeviceChoice, format: Option<FloatFormat>) -> Result<Self, DeviceError> {
        let choice = match choice {
            DeviceChoice::Auto if cuda_devices() > 0 => DeviceChoice::Cuda(0),
            DeviceChoice::Auto => DeviceChoice::Cpu,
            named => named,
        };
        let mut others = vec![];
        let (device, default) = match choice {
            DeviceChoice::CudaSplit(split) => {
                let mut devices = split.indices().map(cuda).collect::<Result<Vec<_>, _>>()?;
                split::check_moves(&devices, &choice.to_string())?;
                others = devices.split_off(1);
                (devices.swap_remove(0), FloatFormat::Bf16)
            }
            DeviceChoice::Auto | DeviceChoice::Cpu => (Device::flex(), FloatFormat::F32),
            DeviceChoice::Cuda(index) => (cuda(index)?, FloatFormat::Bf16),
            DeviceChoice::Wgpu => (wgpu()?, FloatFormat::F32),
        };
        let format = format.unwrap_or(default);
        let integers = IntegerWeights::default();
        let compute = Self { device, others: others.into(), choice, format, integers, ..Self::cpu(format) };
        if !compute.is_host() && !compute.device.supports_dtype(format.tensor()) {
            return Err(DeviceError::Format { format: format.name(), name: choice.to_string() });
        }
        Ok(compute)
    }

    /// The CPU.
    pub fn cpu(format: FloatFormat) -> Self {
        Self {
            device: Device::flex(),
            others: [].into(),
            choice: DeviceChoice::Cpu,
            format,
            integers: IntegerWeights::default(),
            products: Products::F32,
            prefilters: Arc::default(),
        }
    }

    /// The burn device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The device by name, never `auto`.
    pub fn choice(&self) -> DeviceChoice {
        self.choice
    }

    /// The number format.
    pub fn format(&self) -> FloatFormat {
        self.format
    }

    /// Copy with some weights in integers: on a GPU with tensor cores those of the target, which are multiplied with
    /// activations as they are.
    ///
    /// # Errors
    /// Of other integers elsewhere than on the CPU, and where the device has no such products in its number format.
    pub fn with_integers(self, integers: IntegerWeights) -> Result<Self, DeviceError> {
        let options = integers.options();
        if options.is_empty() || self.is_host() {
            return Ok(Self { integers, ..self });
        }
        let (options, device) = (options.join(" "), self.choice.to_string());
        if integers.draft_weights != DraftWeights::Stored || integers.activation_bits.is_some() {
            return Err(DeviceError::IntegerDevice { options, device });
        }
        let multiplies = |device: &Device| skinny_matmul::is_supported(32, 32, self.format.tensor(), device);
        match self.devices().iter().all(multiplies) {
            true => Ok(Self { integers, ..self }),
            false => Err(DeviceError::IntegerFormat { options, device, format: self.format.name() }),
        }
    }

    /// True if weights are integers on a GPU.
    pub(crate) fn has_codes_on_gpu(&self) -> bool {
        !self.is_host() && self.integers.weights != Weights::Stored
    }

    /// Copy with matmuls in another format; those in `bf16` take weights in `bf16` with them.
    ///
    /// # Errors
    /// Elsewhere than on the CPU, on a processor without such products, and with all weights in 8 bits.
    pub fn with_products(self, products: Products) -> Result<Self, DeviceError> {
        if products == Products::F32 {
            return Ok(Self { products, ..self });
        }
        let refuse = |reason: String| Err(DeviceError::Products(reason));
        if !self.is_host() {
            return refuse(format!("--device {}: a GPU computes in what --dtype names", self.choice));
        }
        if self.integers.weights != Weights::Stored {
            return refuse(format!("{}: weights are either in integers or in bf16", self.integers.options()[0]));
        }
        if !WeightDtype::Bf16Pairs.is_supported() {
            return refuse("this processor: it has no products of bf16 numbers (AVX-512 BF16)".into());
        }
        Ok(Self { products, format: FloatFormat::Bf16, ..self })
    }

    /// Number format of matmuls.
    pub fn products(&self) -> Products {
        self.products
    }

    /// How the CPU stores matrices that are to be multiplied in `bf16`; `None` if they are not.
    pub(crate) fn pairs(&self) -> Option<WeightDtype> {
        (self.products == Products::Bf16).then_some(WeightDtype::Bf16Pairs)
    }

    /// Device of a draft model, all of which may be in 8 bits.
    #[must_use]
    pub fn for_draft_model(&self) -> Self {
        let mut integers = self.integers;
        if integers.draft_weights == DraftWeights::Int8 {
            integers.weights = Weights::Int8;
        }
        // A draft model is small: all of it is on the first device.
        Self { integers, ..self.on(&self.device) }
    }

    /// The memory that the int8 prefilters of LM heads may take; all clones share it.
    pub fn prefilter_budget(&self) -> &Arc<Int8PrefilterBudget> {
        &self.prefilters
    }

    /// Which weights are stored in integers.
    pub fn integers(&self) -> IntegerWeights {
        self.integers
    }

    /// The name of the precision in which a backbone computes: the number format's, `int8` or `int4` (with the bits of
    /// activations if they are not 8, and the number format on a GPU), or `bf16-products`.
    pub fn precision(&self) -> &'static str {
        use Activations::{Eight, Exact, Sixteen};
        if self.has_codes_on_gpu() {
            return match (self.integers.weights, self.format) {
                (Weights::Int4, FloatFormat::F16) => "int4-f16",
                (Weights::Int4, _) => "int4-bf16",
                (_, FloatFormat::F16) => "int8-f16",
                (..) => "int8-bf16",
            };
        }
        match (self.integers.weights, self.integers.activations(), self.products) {
            (Weights::Int8, Eight, _) => "int8",
            (Weights::Int8, Sixteen, _) => "int8-a16",
            (Weights::Int8, Exact, _) => "int8-a32",
            (Weights::Int4, Eight, _) => "int4",
            (Weights::Int4, Sixteen, _) => "int4-a16",
            (Weights::Int4, Exact, _) => "int4-a32",
            (_, _, Products::Bf16) => "bf16-products",
            _ => self.format.name(),
        }
    }

    /// The number format of activations as tensors have it.
    pub fn activation(&self) -> DType {
        if self.is_host() { DType::F32 } else { self.format.tensor() }
    }

    /// Bytes that a GPU's memory pool holds, pages that are kept for later included; `None` on the CPU.
    pub fn pool_bytes(&self) -> Option<u64> {
        if self.is_host() {
            return None;
        }
        let devices = self.devices();
        devices.iter().map(|device| device.memory_pool_usage().map(|usage| usage.bytes_reserved)).sum()
    }

    /// Has a GPU's memory pool give back what nobody uses.
    pub fn shrink_pool(&self) {
        if !self.is_host() {
            self.devices().iter().for_each(Device::memory_cleanup);
        }
    }

    /// True on the CPU.
    pub fn is_host(&self) -> bool {
        self.choice == DeviceChoice::Cpu
    }
}

/// Number of CUDA devices that this binary can use.
pub fn cuda_devices() -> usize {
    crate::tuning::begin();
    #[cfg(feature = "cuda")]
    {
        Device::enumerate(burn::tensor::DeviceType::Cuda).len()
    }
    #[cfg(not(feature = "cuda"))]
    0
}

/// Number of wgpu adapters that this binary can use.
pub fn wgpu_devices() -> usize {
    crate::tuning::begin();
    #[cfg(feature = "wgpu")]
    {
        Device::enumerate(burn::tensor::DeviceType::Wgpu).len()
    }
    #[cfg(not(feature = "wgpu"))]
    0
}

fn cuda(index: usize) -> Result<Device, DeviceError> {
    let name = DeviceChoice::Cuda(index).to_string();
    if !cfg!(feature = "cuda") {
        return Err(DeviceError::NotBuilt { name, feature: "cuda" });
    }
    // Only a count of devices is safe to ask for: opening one that is not there panics deep inside the driver's loader.
    match cuda_devices() {
        0 => Err(DeviceError::NotFound { name, found: "no CUDA device or driver was found on this machine".into() }),
        n if index >= n => Err(DeviceError::NotFound { name, found: format!("this machine has {n} CUDA device(s)") }),
        _ => Ok(open_cuda(index)),
    }
}

#[cfg(feature = "cuda")]
fn open_cuda(index: usize) -> Device {
    Device::cuda(index)
}

#[cfg(not(feature = "cuda"))]
fn open_cuda(_: usize) -> Device {
    Device::flex()
}

fn wgpu() -> Result<Device, DeviceError> {
    let name = DeviceChoice::Wgpu.to_string();
    if !cfg!(feature = "wgpu") {
        return Err(DeviceError::NotBuilt { name, feature: "wgpu" });
    }
    match wgpu_devices() {
        0 => Err(DeviceError::NotFound { name, found: "no Vulkan, Metal or DX12 adapter was found".into() }),
        _ => Ok(open_wgpu()),
    }
}

#[cfg(feature = "wgpu")]
fn open_wgpu() -> Device {
    Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)
}

#[cfg(not(feature = "wgpu"))]
fn open_wgpu() -> Device {
    Device::flex()
}

#[cfg(test)]
mod tests;
