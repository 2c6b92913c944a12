//! The formats that heads can be exported to.

use gorgon_core::suggest::did_you_mean;
use gorgon_draft::block;
use gorgon_draft::eagle::three;
use gorgon_draft::format::HeadsMethod;
use gorgon_draft::medusa::MedusaTarget;
use std::str::FromStr;

/// A format that heads can be exported to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// Medusa heads.
    Medusa(MedusaTarget),
    /// An EAGLE-1/2 draft layer under its published names.
    Eagle,
    /// An EAGLE-3 draft layer.
    Eagle3(three::Layout),
    /// A Medusa-2 model: backbone, adapter and heads in one.
    Merged,
    /// Hydra or Hydra++ heads under their published names.
    Hydra,
    /// Multi-token-prediction modules under DeepSeek's names.
    Mtp,
    /// A block drafter.
    DFlash(block::Layout),
    /// Probes under their own names.
    Probes,
    /// Kangaroo's adapter.
    Kangaroo,
    /// The weights as they are, in a safetensors file: what PyTorch files become.
    Safetensors,
}

/// The names of all formats.
const NAMES: [&str; 14] = [
    "medusa-v1",
    "medusa-v2",
    "tgi",
    "vllm-medusa",
    "merged",
    "eagle",
    "eagle3",
    "speculators",
    "hydra",
    "mtp",
    "dflash",
    "probes",
    "kangaroo",
    "safetensors",
];

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "eagle" => Ok(Self::Eagle),
            "eagle3" => Ok(Self::Eagle3(three::Layout::Original)),
            "speculators" => Ok(Self::Eagle3(three::Layout::Speculators)),
            "merged" => Ok(Self::Merged),
            "hydra" => Ok(Self::Hydra),
            "mtp" => Ok(Self::Mtp),
            "dflash" => Ok(Self::DFlash(block::Layout::ZLab)),
            "probes" => Ok(Self::Probes),
            "kangaroo" => Ok(Self::Kangaroo),
            "safetensors" => Ok(Self::Safetensors),
            other => {
                let near = did_you_mean(other, NAMES);
                let more = "an EAGLE layer to eagle, an EAGLE-3 layer to eagle3 or speculators, Hydra heads to hydra, \
                            MTP modules to mtp, a block drafter to dflash or speculators, PPD, PaSS and SPACE to probes, \
                            a Kangaroo adapter to kangaroo, a Medusa-2 run to merged, any PyTorch file to safetensors";
                other.parse().map(Self::Medusa).map_err(|error| format!("{near}{error}, {more}"))
            }
        }
    }
}

impl ExportFormat {
    /// The format for heads of a method: speculators has one for EAGLE-3 and one for block drafters.
    pub(super) fn for_heads(self, method: HeadsMethod) -> Self {
        match (self, method) {
            (Self::Eagle3(three::Layout::Speculators), HeadsMethod::Block) => Self::DFlash(block::Layout::Speculators),
            (to, _) => to,
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Medusa(target) => target.name(),
            Self::Eagle => "eagle",
            Self::Eagle3(layout) => layout.name(),
            Self::Merged => "merged",
            Self::Hydra => "hydra",
            Self::Mtp => "mtp",
            Self::DFlash(layout) => layout.name(),
            Self::Probes => "probes",
            Self::Kangaroo => "kangaroo",
            Self::Safetensors => "safetensors",
        }
    }

    /// The method, as a model card tags it.
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Medusa(_) | Self::Merged => "medusa",
            Self::Eagle => "eagle",
            Self::Eagle3(_) => "eagle3",
            Self::Hydra => "hydra",
            Self::Mtp => "mtp",
            Self::DFlash(_) => "block",
            Self::Probes => "probes",
            Self::Kangaroo => "kangaroo",
            Self::Safetensors => "safetensors",
        }
    }

    /// The formats that the heads of a method go to.
    pub(super) fn of(method: HeadsMethod) -> &'static str {
        match method {
            HeadsMethod::Medusa => "medusa-v1, medusa-v2, tgi or vllm-medusa",
            HeadsMethod::Hydra => "hydra",
            HeadsMethod::Eagle => "eagle (EAGLE-1/2), or eagle3 or speculators (EAGLE-3)",
            HeadsMethod::Mtp => "mtp",
            HeadsMethod::Block => "dflash or speculators",
            HeadsMethod::Probes(_) => "probes",
            HeadsMethod::Kangaroo => "kangaroo",
        }
    }

    /// A noun for the written heads, as a card's title has it.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Medusa(_) => "Medusa heads",
            Self::Eagle => "EAGLE draft layer",
            Self::Eagle3(_) => "EAGLE-3 draft layer",
            Self::Hydra => "Hydra heads",
            Self::Merged => "Medusa-2 model",
            Self::Mtp => "MTP modules",
            Self::DFlash(_) => "block drafter (DFlash)",
            Self::Probes => "probes",
            Self::Kangaroo => "Kangaroo adapter",
            Self::Safetensors => "weights",
        }
    }
}
