//! The formats that heads can be exported to.

use gorgon_draft::eagle::three;
use gorgon_draft::medusa::MedusaTarget;
use std::str::FromStr;

/// What heads can be exported to.
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
}

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "eagle" => Ok(Self::Eagle),
            "eagle3" => Ok(Self::Eagle3(three::Layout::Original)),
            "speculators" => Ok(Self::Eagle3(three::Layout::Speculators)),
            "merged" => Ok(Self::Merged),
            "hydra" => Ok(Self::Hydra),
            other => {
                let more = "an EAGLE layer to eagle, an EAGLE-3 layer to eagle3 or speculators, Hydra heads to hydra, \
                            a Medusa-2 run to merged";
                other.parse().map(Self::Medusa).map_err(|error| format!("{error}, {more}"))
            }
        }
    }
}

impl ExportFormat {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Medusa(target) => target.name(),
            Self::Eagle => "eagle",
            Self::Eagle3(layout) => layout.name(),
            Self::Merged => "merged",
            Self::Hydra => "hydra",
        }
    }

    /// The method, as a model card tags it.
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Medusa(_) | Self::Merged => "medusa",
            Self::Eagle => "eagle",
            Self::Eagle3(_) => "eagle3",
            Self::Hydra => "hydra",
        }
    }

    /// What was written, as a card's title has it.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Medusa(_) => "Medusa heads",
            Self::Eagle => "EAGLE draft layer",
            Self::Eagle3(_) => "EAGLE-3 draft layer",
            Self::Hydra => "Hydra heads",
            Self::Merged => "Medusa-2 model",
        }
    }

    /// How to load what was written.
    pub(super) fn loading(self) -> &'static str {
        match self {
            Self::Medusa(MedusaTarget::V1) => {
                "The original loader and TensorRT-LLM read a `.pt` file:\n\n```python\nimport torch\nfrom safetensors.torch import \
                 load_file\ntorch.save(load_file(\"medusa_lm_head.safetensors\"), \"medusa_lm_head.pt\")\n```\n"
            }
            Self::Medusa(MedusaTarget::V2 | MedusaTarget::Tgi) => {
                "text-generation-inference: pass this folder as the model id; it finds the base model by \
                 `base_model_name_or_path`.\n"
            }
            Self::Medusa(MedusaTarget::Vllm) => {
                "vLLM: pass this folder as the speculative model, with the method `medusa`.\n"
            }
            Self::Merged => {
                "A whole model: the original Medusa code loads this folder; gorgon takes it as `--model` and as `--heads`.\n"
            }
            Self::Eagle => {
                "The original loader, SGLang and vLLM take this folder as the draft model, with the method `eagle`; embedding \
                 and LM head are the base model's.\n"
            }
            Self::Eagle3(three::Layout::Original) => {
                "The original loader, SGLang and vLLM take this folder as the draft model, with the method `eagle3`; the embedding \
                 is the base model's. The states that the layer reads are named twice in the config: \
                 `eagle_aux_hidden_state_layer_ids` lists the layers that they enter, as vLLM counts; inside `eagle_config` \
                 are the layers that they leave, one less each, as SGLang, SpecForge and ModelOpt count.\n"
            }
            Self::Eagle3(three::Layout::Speculators) => {
                "vLLM: `vllm serve` with this folder; it finds the base model by `speculators_config.verifier`. \
                 `eagle_aux_hidden_state_layer_ids` lists the layers that the states enter which the layer reads.\n"
            }
            Self::Hydra => {
                "The original loader reads a `.pt` file:\n\n```python\nimport torch\nfrom safetensors.torch import \
                 load_file\ntorch.save(load_file(\"hydra_lm_head.safetensors\"), \"hydra_lm_head.pt\")\n```\n"
            }
        }
    }
}
