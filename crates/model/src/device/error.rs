//! Why a device cannot be used.

/// Why a device cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// No such name.
    #[error("--device {0}: expected auto, cpu, cuda, cuda:INDEX or wgpu")]
    UnknownDevice(String),
    /// Several devices for what runs on one.
    #[error("--device {0}: only train and pretrain compute on several devices; name one")]
    Several(String),
    /// Devices of several kinds.
    #[error("--device {0}: several devices have to be named and of one kind")]
    Mixed(String),
    /// A GPU that is named more than once.
    #[error("--device {0}: a GPU is named twice")]
    Twice(String),
    /// No such name.
    #[error("--dtype {0}: expected f32, f16 or bf16")]
    UnknownFormat(String),
    /// No such name.
    #[error("--weights {0}: expected stored, int8 or int4")]
    UnknownWeights(String),
    /// No such name.
    #[error("--draft-weights {0}: expected stored or int8")]
    UnknownDraftWeights(String),
    /// No such number.
    #[error("--activation-bits {0}: expected 8, 16 or 32")]
    UnknownActivationBits(String),
    /// No such name.
    #[error("--compute-dtype {0}: expected f32 or bf16")]
    UnknownProducts(String),
    /// Where products cannot be chosen, or not with the other options.
    #[error("--compute-dtype bf16 with {0}")]
    Products(String),
    /// Weights in integers elsewhere than on the CPU.
    #[error("{options} with --device {device}: products in integers are for the CPU")]
    IntegerDevice {
        /// The options that were given.
        options: String,
        /// The device.
        device: String,
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
