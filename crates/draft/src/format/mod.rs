//! Recognising draft heads by the names and shapes of their tensors.
//!
//! The engines that publish draft heads share no format marker, and the configs they write disagree with their own
//! files. Several loaders skip unknown names silently, so heads with one wrong name or flag load and are never
//! accepted. Hence [`detect`] goes by the tensors, holds every name, shape, type and config key against the format, and
//! lists each difference.
//!
//! Sources: the loaders of FasterDecoding/Medusa, text-generation-inference, vLLM, SGLang, TensorRT-LLM and ModelOpt,
//! SafeAILab/EAGLE, SpecForge, speculators, zankner/Hydra and DeepSeek-V3.

mod config_hints;
mod eagle;
mod head_spec;
mod hydra;
mod layer;
mod medusa;
mod mtp;
mod recognise;
mod specs;
mod tensor_index;

pub use head_spec::{EagleSpec, HeadSpec, HydraSpec, LayerSpec, LmHeads, MedusaSpec, MtpSpec};
pub use hydra::HydraNaming;
pub use medusa::MedusaNaming;
pub use mtp::mtp_prefix;

use config_hints::ConfigHints;
use tensor_index::{Report, TensorIndex, shown};

/// A tensor as a file's header lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Its shape, `[out, in]` for matrices.
    pub shape: Vec<usize>,
    /// Its storage type as safetensors spells it: `F32`, `BF16`, `I64`, ….
    pub dtype: String,
}

/// A format in which draft heads are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeadsFormat {
    /// Medusa with an LM head per head: the original loader, text-generation-inference's V1, TensorRT-LLM.
    MedusaV1,
    /// Medusa on the target's LM head: the original trainer's output, text-generation-inference's V2.
    MedusaV2,
    /// vLLM's Medusa.
    MedusaVllm,
    /// ModelOpt's Medusa, read by TensorRT-LLM.
    MedusaModelOpt,
    /// `medusa_head.*` inside a full model, as the Medusa-2 models are published.
    MedusaInModel,
    /// EAGLE-1 and EAGLE-2, which are the same network.
    Eagle1,
    /// EAGLE-3 under its original names (`midlayer.*`); SpecForge writes the same.
    Eagle3,
    /// EAGLE-3 as speculators writes it: `layers.0.*` and a nested config.
    Eagle3Speculators,
    /// EAGLE-3 as ModelOpt writes it: `layers.0.*` and a flat config, or no config to tell.
    Eagle3ModelOpt,
    /// Hydra heads.
    Hydra,
    /// Hydra++: deeper heads behind a prefix-attention layer (`prefix-mlp`).
    HydraPlusPlus,
    /// DeepSeek-style multi-token-prediction modules, stored after the backbone's last layer.
    Mtp,
}

impl HeadsFormat {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::MedusaV1,
        Self::MedusaV2,
        Self::MedusaVllm,
        Self::MedusaModelOpt,
        Self::MedusaInModel,
        Self::Eagle1,
        Self::Eagle3,
        Self::Eagle3Speculators,
        Self::Eagle3ModelOpt,
        Self::Hydra,
        Self::HydraPlusPlus,
        Self::Mtp,
    ];

    /// Its name; where heads can be exported to it, the name the export takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::MedusaV1 => "medusa-v1",
            Self::MedusaV2 => "medusa-v2",
            Self::MedusaVllm => "vllm-medusa",
            Self::MedusaModelOpt => "modelopt-medusa",
            Self::MedusaInModel => "merged",
            Self::Eagle1 => "eagle",
            Self::Eagle3 => "eagle3",
            Self::Eagle3Speculators => "speculators",
            Self::Eagle3ModelOpt => "modelopt-eagle3",
            Self::Hydra => "hydra",
            Self::HydraPlusPlus => "hydra++",
            Self::Mtp => "mtp",
        }
    }

    /// What it is, in one line.
    pub fn description(self) -> &'static str {
        match self {
            Self::MedusaV1 => "Medusa heads with an LM head each (original loader, TGI V1, TensorRT-LLM)",
            Self::MedusaV2 => "Medusa heads on the target's LM head (original trainer, TGI V2)",
            Self::MedusaVllm => "Medusa heads for vLLM",
            Self::MedusaModelOpt => "Medusa heads as ModelOpt writes them for TensorRT-LLM",
            Self::MedusaInModel => "Medusa heads inside a full model",
            Self::Eagle1 => "EAGLE-1/2 draft layer",
            Self::Eagle3 => "EAGLE-3 draft layer under its original names (EAGLE, SpecForge)",
            Self::Eagle3Speculators => "EAGLE-3 draft layer as speculators writes it for vLLM",
            Self::Eagle3ModelOpt => "EAGLE-3 draft layer under ModelOpt's names",
            Self::Hydra => "Hydra heads",
            Self::HydraPlusPlus => "Hydra++ heads with a prefix-attention layer",
            Self::Mtp => "multi-token-prediction modules after the backbone's last layer",
        }
    }

    /// The drafting method.
    pub fn method(self) -> HeadsMethod {
        match self {
            Self::MedusaV1 | Self::MedusaV2 | Self::MedusaVllm | Self::MedusaModelOpt | Self::MedusaInModel => {
                HeadsMethod::Medusa
            }
            Self::Eagle1 | Self::Eagle3 | Self::Eagle3Speculators | Self::Eagle3ModelOpt => HeadsMethod::Eagle,
            Self::Hydra | Self::HydraPlusPlus => HeadsMethod::Hydra,
            Self::Mtp => HeadsMethod::Mtp,
        }
    }
}

/// A method of drafting with heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeadsMethod {
    /// Independent heads on the last hidden state.
    Medusa,
    /// Heads that read the drafts before them.
    Hydra,
    /// A draft layer in feature space, of any generation.
    Eagle,
    /// Multi-token-prediction modules.
    Mtp,
}

impl HeadsMethod {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Medusa, Self::Hydra, Self::Eagle, Self::Mtp];

    /// Its name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Medusa => "medusa",
            Self::Hydra => "hydra",
            Self::Eagle => "eagle",
            Self::Mtp => "mtp",
        }
    }
}

impl std::fmt::Display for HeadsMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::fmt::Display for HeadsFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Recognised draft heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detected {
    /// The format.
    pub format: HeadsFormat,
    /// What the shapes say.
    pub facts: HeadSpec,
    /// Everything that makes the heads load wrongly, here or in the engines the format belongs to: names that are
    /// missing or unexpected, wrong shapes and types, contradictions with the config. Heads with problems must not be
    /// loaded.
    pub problems: Vec<String>,
    /// What is worth knowing and does no harm here, such as configs that are known to miscount heads.
    pub notes: Vec<String>,
}

/// Why tensors are not recognised as draft heads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DetectError {
    /// There is nothing to recognise.
    #[error("no tensors, so no draft heads")]
    Empty,
    /// The names fit no known format.
    #[error("the {total} tensor names fit no known format of draft heads{hint}; among them: {}", .names.join(", "))]
    Unknown {
        /// Number of tensors.
        total: usize,
        /// The first few names.
        names: Vec<String>,
        /// What the tensors may be instead, in parentheses; or nothing.
        hint: &'static str,
    },
    /// The names fit two formats.
    #[error("the tensor names fit two formats at once: {first_tensor} is {first}, {second_tensor} is {second}")]
    Ambiguous {
        /// One format.
        first: HeadsFormat,
        /// A tensor of it.
        first_tensor: String,
        /// Another format.
        second: HeadsFormat,
        /// A tensor of that.
        second_tensor: String,
    },
}

/// Recognises draft heads by the names of their tensors, and compares the tensors with the format and with the
/// `config.json` beside them, if there is one.
///
/// Everything passed in may be garbage: names, shapes and the config are only compared, never believed.
///
/// # Errors
/// When the names fit no known format, or two formats at once. Heads of a known format that are damaged are recognised;
/// see [`Detected::problems`].
pub fn detect(tensors: &[TensorInfo], config: Option<&serde_json::Value>) -> Result<Detected, DetectError> {
    let inventory = TensorIndex::new(tensors);
    let mut report = Report::default();
    let claims = ConfigHints::new(config, &mut report);
    let format = recognise::recognise(&inventory, &claims)?;
    inventory.report_duplicates(&mut report);
    check_method(format, &claims, &mut report);
    let facts = match format.method() {
        HeadsMethod::Medusa => HeadSpec::Medusa(medusa::check(format, &inventory, &claims, &mut report)),
        HeadsMethod::Hydra => HeadSpec::Hydra(hydra::check(format, &inventory, &claims, &mut report)),
        HeadsMethod::Eagle => HeadSpec::Eagle(eagle::check(format, &inventory, &claims, &mut report)),
        HeadsMethod::Mtp => HeadSpec::Mtp(mtp::check(&inventory, &claims, &mut report)),
    };
    Ok(Detected { format, facts, problems: report.problems, notes: report.notes })
}

/// Reports a config that was written for heads of another method.
fn check_method(format: HeadsFormat, claims: &ConfigHints<'_>, report: &mut Report) {
    if let Some((method, key)) = claims.method().filter(|(method, _)| *method != format.method().name()) {
        let found = format.method();
        report.problem(format!("config.json: {key} belongs to {method} heads, but the tensors are {found} heads"));
    }
}
