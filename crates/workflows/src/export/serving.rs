//! How exported heads are served, engine by engine. `THIS_FOLDER` stands for the exported folder, or its hub id.

use super::format::ExportFormat;
use gorgon_draft::block;
use gorgon_draft::eagle::three;
use gorgon_draft::medusa::MedusaTarget;

impl ExportFormat {
    /// Commands for the engines that read the format, and the engines that do not.
    pub(super) fn serving(self, base: &str, heads: usize, fc_bias: bool) -> String {
        match self {
            Self::Medusa(target) => medusa(target, base, heads),
            Self::Eagle if fc_bias => {
                sglang("EAGLE", base)
                    + "\nvLLM has no place for the bias of `fc`: train with `eagle.fc_bias = false` for it.\n"
            }
            Self::Eagle => vllm("eagle", base, heads) + "\n" + &sglang("EAGLE", base),
            Self::Eagle3(three::Layout::Original) => {
                vllm("eagle3", base, heads) + "\n" + &sglang("EAGLE3", base) + "\n" + HOOKS
            }
            Self::Eagle3(three::Layout::Speculators) => {
                speculators("eagle_aux_hidden_state_layer_ids", "the layer reads")
            }
            Self::DFlash(block::Layout::Speculators) => speculators("aux_hidden_state_layer_ids", "the drafter reads"),
            Self::Merged => format!(
                "A whole model. The original Medusa code loads this folder; vLLM and SGLang do not.\n\n{}",
                shell("gorgon chat --model THIS_FOLDER --heads THIS_FOLDER")
            ),
            Self::Hydra => {
                "vLLM and SGLang do not read Hydra heads. The original loader reads a `.pt` file:\n\n".to_owned()
                    + &saved("hydra")
            }
            Self::Mtp => format!(
                "The names are DeepSeek-V3's. vLLM and SGLang load such modules for DeepSeek's own architecture only; gorgon loads \
                 them for any base model that it runs:\n\n{}\nEmbedding and LM head are the base model's. Module k + 1 reads the \
                 states of module k after its `shared_head.norm`.\n",
                chat(base)
            ),
            Self::DFlash(block::Layout::ZLab) => format!(
                "The names are z-lab's. vLLM and SGLang read them for a drafter of their own sizes of heads; gorgon runs:\n\n{}",
                chat(base)
            ),
            Self::Probes => "The names are gorgon's, and no other engine reads probes:\n\n".to_owned() + &chat(base),
            Self::Kangaroo => KANGAROO.to_owned() + &chat(base),
            Self::Safetensors => String::new(),
        }
    }
}

/// The command that chats with heads for a base model.
fn chat(base: &str) -> String {
    shell(&format!("gorgon chat --model {base} --heads THIS_FOLDER"))
}

const KANGAROO: &str = "The names are Kangaroo's; its own code takes the exit layer on the command line. vLLM and SGLang do not \
     read adapters; gorgon runs:\n\n";

/// The two numberings of hidden states.
const HOOKS: &str = "`eagle_aux_hidden_state_layer_ids` names the hidden states that the layer reads, twice: at the top level by \
     the layers that they enter, as vLLM counts; inside `eagle_config` by the layers that they leave, one less each, as SGLang, \
     SpecForge and ModelOpt count.\n";

/// Heads that speculators' config describes; `key` names the hidden states that are read.
fn speculators(key: &str, reads: &str) -> String {
    format!(
        "vLLM finds the base model by `speculators_config.verifier`:\n\n{}\n`{key}` names the hidden states that {reads} by \
         the layers that they enter.\n",
        shell("vllm serve THIS_FOLDER")
    )
}

fn medusa(target: MedusaTarget, base: &str, heads: usize) -> String {
    match target {
        MedusaTarget::V1 => {
            "vLLM and SGLang do not read this format. The original loader and TensorRT-LLM read a `.pt` file:\n\n"
                .to_owned()
                + &saved("medusa")
        }
        MedusaTarget::V2 | MedusaTarget::Tgi => format!(
            "text-generation-inference finds the base model by `base_model_name_or_path`. vLLM and SGLang do not read this \
             format.\n\n{}",
            shell("text-generation-launcher --model-id THIS_FOLDER")
        ),
        MedusaTarget::Vllm => vllm("medusa", base, heads) + "\nSGLang does not read Medusa heads.\n",
    }
}

fn vllm(method: &str, base: &str, drafts: usize) -> String {
    let config =
        format!("{{\"method\": \"{method}\", \"model\": \"THIS_FOLDER\", \"num_speculative_tokens\": {drafts}}}");
    format!("vLLM:\n\n{}", shell(&format!("vllm serve {base} --speculative-config '{config}'")))
}

fn sglang(algorithm: &str, base: &str) -> String {
    let command = format!(
        "python -m sglang.launch_server --model-path {base} --speculative-algorithm {algorithm} \\\n  \
         --speculative-draft-model-path THIS_FOLDER --speculative-num-steps 5 --speculative-eagle-topk 8 \\\n  \
         --speculative-num-draft-tokens 60"
    );
    format!("SGLang:\n\n{}", shell(&command))
}

fn shell(command: &str) -> String {
    format!("```sh\n{command}\n```\n")
}

/// The one-line way from safetensors to a PyTorch file.
fn saved(method: &str) -> String {
    format!(
        "```python\nimport torch\nfrom safetensors.torch import load_file\n\
         torch.save(load_file(\"{method}_lm_head.safetensors\"), \"{method}_lm_head.pt\")\n```\n"
    )
}
