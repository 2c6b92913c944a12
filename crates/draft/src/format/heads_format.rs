//! The formats in which draft heads are stored, and their methods.

use super::probe_kind::ProbeKind;

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
    /// A block drafter as z-lab publishes DFlash.
    DFlash,
    /// A block drafter as speculators writes it: a nested config, and copies of the target's embedding and LM head.
    DFlashSpeculators,
    /// Probes: a table of embeddings.
    Probes(ProbeKind),
    /// Kangaroo's adapter on an early exit.
    Kangaroo,
}

impl HeadsFormat {
    /// All of them.
    pub const ALL: [Self; 18] = [
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
        Self::DFlash,
        Self::DFlashSpeculators,
        Self::Probes(ProbeKind::Ppd),
        Self::Probes(ProbeKind::Pass),
        Self::Probes(ProbeKind::Space),
        Self::Kangaroo,
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
            Self::Eagle3Speculators | Self::DFlashSpeculators => "speculators",
            Self::Eagle3ModelOpt => "modelopt-eagle3",
            Self::Hydra => "hydra",
            Self::HydraPlusPlus => "hydra++",
            Self::Mtp => "mtp",
            Self::DFlash => "dflash",
            Self::Probes(kind) => kind.name(),
            Self::Kangaroo => "kangaroo",
        }
    }

    /// Description in one line.
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
            Self::DFlash => "block drafter under DFlash's names (z-lab)",
            Self::DFlashSpeculators => "block drafter as speculators writes DFlash for vLLM",
            Self::Probes(ProbeKind::Ppd) => "prompt tokens of parallel prompt decoding",
            Self::Probes(ProbeKind::Pass) => "look-ahead embeddings of PaSS",
            Self::Probes(ProbeKind::Space) => "mask token of SPACE",
            Self::Kangaroo => "Kangaroo's adapter on an early exit",
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
            Self::DFlash | Self::DFlashSpeculators => HeadsMethod::Block,
            Self::Probes(kind) => HeadsMethod::Probes(kind),
            Self::Kangaroo => HeadsMethod::Kangaroo,
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
    /// A parallel pass over a block of mask tokens.
    Block,
    /// Embeddings behind every candidate.
    Probes(ProbeKind),
    /// The target's first layers and an adapter.
    Kangaroo,
}

impl HeadsMethod {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Medusa,
        Self::Hydra,
        Self::Eagle,
        Self::Mtp,
        Self::Block,
        Self::Kangaroo,
        Self::Probes(ProbeKind::Ppd),
        Self::Probes(ProbeKind::Pass),
        Self::Probes(ProbeKind::Space),
    ];

    /// Its name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Medusa => "medusa",
            Self::Hydra => "hydra",
            Self::Eagle => "eagle",
            Self::Mtp => "mtp",
            Self::Block => "block",
            Self::Probes(kind) => kind.name(),
            Self::Kangaroo => "kangaroo",
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
