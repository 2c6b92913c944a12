//! Why a device cannot be used.

use gorgon_core::suggest::did_you_mean;

/// Why a device cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// No such name.
    #[error("{}expected auto, cpu, cuda, cuda:INDEX, cuda:INDEX+INDEX or wgpu", did_you_mean(.0, ["auto", "cpu", "cuda", "wgpu"]))]
    UnknownDevice(String),
    /// Several devices for what runs on one.
    #[error("--device {0}: only train and pretrain compute on several devices; name one")]
    Several(String),
    /// Devices of several kinds.
    #[error("several devices have to be named and of one kind")]
    Mixed(String),
    /// A GPU that is named more than once.
    #[error("a GPU is named twice")]
    Twice(String),
    /// Layers on several devices, and replicas of them.
    #[error("layers that are split over devices cannot be in a list of devices")]
    SplitReplicas(String),
    /// Layers on several devices for a job that needs them on one.
    #[error("--device {device}: {job} takes one device; layers are split for decoding and for training heads")]
    Whole {
        /// The devices.
        device: String,
        /// The job.
        job: &'static str,
    },
    /// Devices that tensors do not get to.
    #[error(
        "--device {0}: what one of these GPUs sends does not arrive on the next; layers are split through NCCL (libnccl.so)"
    )]
    Moves(String),
    /// No such name.
    #[error("{}expected f32, f16 or bf16", did_you_mean(.0, ["f32", "f16", "bf16"]))]
    UnknownFormat(String),
    /// No such name.
    #[error("{}expected stored, int8 or int4", did_you_mean(.0, ["stored", "int8", "int4"]))]
    UnknownWeights(String),
    /// No such name.
    #[error("{}expected stored or int8", did_you_mean(.0, ["stored", "int8"]))]
    UnknownDraftWeights(String),
    /// No such number.
    #[error("expected 8, 16 or 32")]
    UnknownActivationBits(String),
    /// No such name.
    #[error("{}expected f32 or bf16", did_you_mean(.0, ["f32", "bf16"]))]
    UnknownProducts(String),
    /// Where products cannot be chosen, or not with the other options.
    #[error("--compute-dtype bf16 with {0}")]
    Products(String),
    /// Products of integers elsewhere than on the CPU.
    #[error("{options} with --device {device}: of these a GPU takes --weights int8 or --weights int4 alone")]
    IntegerDevice {
        /// The options that were given.
        options: String,
        /// The device.
        device: String,
    },
    /// Weights in integers where nothing multiplies them.
    #[error(
        "{options} with --device {device} and --dtype {format}: on a GPU weights in integers take CUDA with tensor cores \
         (compute capability 8.0) and --dtype bf16 or f16"
    )]
    IntegerFormat {
        /// The options that were given.
        options: String,
        /// The device.
        device: String,
        /// The number format.
        format: &'static str,
    },
    /// The binary lacks the backend.
    #[error(
        "--device {name}: this binary was built without it; build with `cargo build --release --features {feature}`"
    )]
    NotBuilt {
        /// The device asked for.
        name: String,
        /// The cargo feature that brings it.
        feature: &'static str,
    },
    /// The machine lacks the device.
    #[error("--device {name}: {found}")]
    NotFound {
        /// The device asked for.
        name: String,
        /// Devices that exist.
        found: String,
    },
    /// The device cannot compute in this format.
    #[error("--dtype {format}: the device {name} does not support it")]
    Format {
        /// The format asked for.
        format: &'static str,
        /// The device.
        name: String,
    },
}
