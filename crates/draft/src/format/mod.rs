//! Recognising draft heads by the names and shapes of their tensors.
//!
//! The engines that publish draft heads share no format marker, and the configs they write disagree with their own
//! files. Several loaders skip unknown names silently, so heads with one wrong name or flag load and are never
//! accepted. Hence [`detect`] goes by the tensors, holds every name, shape, type and config key against the format, and
//! lists each difference.
//!
//! Sources: the loaders of FasterDecoding/Medusa, text-generation-inference, vLLM, SGLang, TensorRT-LLM and ModelOpt,
//! SafeAILab/EAGLE, SpecForge, speculators, zankner/Hydra and DeepSeek-V3.

mod block;
mod config_hints;
mod detection;
mod eagle;
mod head_spec;
mod heads_format;
mod hydra;
mod kangaroo;
mod layer;
mod medusa;
mod mtp;
mod probe_kind;
mod probes;
mod recognise;
mod specs;
mod speculators;
mod tensor_index;

pub use detection::{Detected, detect};
pub use head_spec::{
    BlockSpec, EagleSpec, HeadSpec, HydraSpec, KangarooSpec, LayerSpec, LmHeads, MedusaSpec, MtpSpec, ProbeSpec,
};
pub use heads_format::{HeadsFormat, HeadsMethod};
pub use hydra::HydraNaming;
pub use medusa::MedusaNaming;
pub use mtp::mtp_prefix;
pub use probe_kind::{MAX_MEMBERS, MAX_PLACES, ProbeKind};
pub use recognise::DetectError;
pub(crate) use speculators::LAYERS;
pub use tensor_index::TensorInfo;
