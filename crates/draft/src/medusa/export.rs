//! Medusa heads in the formats of other engines.

use crate::folder::{HeadsError, HeadsFolder};
use crate::format::{HeadSpec, LmHeads, MedusaSpec};
use crate::published::{Destination, Named};
use serde_json::{Value, json};
use std::str::FromStr;

/// A format that Medusa heads can be exported to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MedusaTarget {
    /// An LM head per head: the original loader and TensorRT-LLM.
    V1,
    /// On the target's LM head: text-generation-inference V2.
    V2,
    /// V1's tensors for text-generation-inference.
    Tgi,
    /// vLLM.
    Vllm,
}

impl FromStr for MedusaTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "medusa-v1" => Ok(Self::V1),
            "medusa-v2" => Ok(Self::V2),
            "tgi" => Ok(Self::Tgi),
            "vllm-medusa" => Ok(Self::Vllm),
            _ => Err("Medusa heads go to medusa-v1, medusa-v2, tgi or vllm-medusa".into()),
        }
    }
}

impl MedusaTarget {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "medusa-v1",
            Self::V2 => "medusa-v2",
            Self::Tgi => "tgi",
            Self::Vllm => "vllm-medusa",
        }
    }

    /// The file of tensors: a name that its loader insists on.
    pub fn file(self) -> &'static str {
        match self {
            Self::V1 | Self::V2 | Self::Tgi => "medusa_lm_head.safetensors",
            Self::Vllm => "model.safetensors",
        }
    }

    /// Whether shared LM heads have to be written out, so that the backbone's is needed.
    pub fn needs_lm_head(self) -> bool {
        self != Self::V2
    }
}

/// The backbone, as far as an export has to know it.
#[derive(Clone, Debug)]
pub struct Backbone<'a> {
    /// Its LM head, `[V, d]`, where the target needs it.
    pub lm_head: Option<&'a [f32]>,
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// The base model's name in the exported config.
    pub name: &'a str,
}

/// Writes tensors and a `config.json` for `target`.
///
/// # Errors
/// When the target cannot hold these heads, a weight does not fit the number format, or a file cannot be written.
pub fn export(
    folder: &HeadsFolder,
    backbone: &Backbone<'_>,
    target: MedusaTarget,
    to: &Destination<'_>,
) -> Result<(), HeadsError> {
    let wrong = |reason: String| HeadsError::Format { path: folder.path.clone(), reason };
    let HeadSpec::Medusa(spec) = &folder.detected.spec else {
        return Err(wrong(format!("{} heads, not Medusa heads", folder.detected.format.method())));
    };
    refuse(spec, target).map_err(wrong)?;
    let tensors = collect(folder, spec, backbone, target)?;
    to.write(tensors, config(spec, backbone, target), target.file())
}

fn refuse(spec: &MedusaSpec, target: MedusaTarget) -> Result<(), String> {
    if spec.blocks > 1 && target != MedusaTarget::Vllm {
        // The original code builds one shared block several times, and its loader ends up with the last one's weights.
        return Err(format!(
            "heads of {} blocks, each with its own weights: {} loads one block in every place",
            spec.blocks,
            target.name()
        ));
    }
    if target == MedusaTarget::V2 && spec.lm_heads != LmHeads::Target {
        return Err("heads with LM heads of their own: medusa-v2 has no place for them".into());
    }
    if !spec.bias && target != MedusaTarget::Vllm {
        return Err(format!("blocks without biases: {} expects them", target.name()));
    }
    Ok(())
}

fn collect(
    folder: &HeadsFolder,
    spec: &MedusaSpec,
    backbone: &Backbone<'_>,
    target: MedusaTarget,
) -> Result<Vec<Named>, HeadsError> {
    let (d, vocab) = (spec.hidden_size, backbone.vocab_size);
    let read = |name: String| folder.checkpoint.read_all(&name);
    // What serves all heads: the file's own, if it has one for all of them.
    let shared = || match &spec.lm_heads {
        LmHeads::Shared { tensor } => read(tensor.clone()),
        _ => Ok(backbone.lm_head.unwrap_or_default().to_vec()),
    };
    let mut all: Vec<Named> = vec![];
    for head in 0..spec.heads {
        for block in 0..spec.blocks {
            let from = spec.naming.linear(head, block);
            let to = match target {
                MedusaTarget::Vllm => format!("blocks.{head}.layers.{block}"),
                _ => format!("{head}.{block}.linear"),
            };
            all.push((format!("{to}.weight"), vec![d, d], read(format!("{from}.weight"))?));
            if spec.bias {
                all.push((format!("{to}.bias"), vec![d], read(format!("{from}.bias"))?));
            }
        }
        let own = match spec.lm_heads {
            LmHeads::PerHead => Some(read(spec.naming.lm_head(head, spec.blocks))?),
            _ => None,
        };
        match (target, own) {
            (MedusaTarget::V2, _) | (MedusaTarget::Vllm, None) => {}
            (MedusaTarget::Vllm, Some(own)) => all.push((format!("lm_heads.{head}.weight"), vec![vocab, d], own)),
            (_, own) => {
                let values = own.map_or_else(shared, Ok)?;
                all.push((format!("{head}.{}.weight", spec.blocks), vec![vocab, d], values));
            }
        }
    }
    if target == MedusaTarget::Vllm && spec.lm_heads != LmHeads::PerHead {
        all.push(("lm_head.weight".into(), vec![vocab, d], shared()?));
    }
    Ok(all)
}

fn config(spec: &MedusaSpec, backbone: &Backbone<'_>, target: MedusaTarget) -> Value {
    if target == MedusaTarget::Vllm {
        return json!({
            "model_type": "medusa", "architectures": ["MedusaModel"], "hidden_size": spec.hidden_size,
            "vocab_size": backbone.vocab_size, "truncated_vocab_size": backbone.vocab_size, "num_heads": spec.heads,
            "num_hidden_layers": spec.blocks, "max_paths": 64, "topk": 10, "medusa_fc_bias": spec.bias,
            "original_lm_head": spec.lm_heads != LmHeads::PerHead, "logit_scale": 1.0
        });
    }
    // No `architectures`: text-generation-inference would then look for a model's, and build no head.
    json!({
        "medusa_num_heads": spec.heads, "medusa_num_layers": spec.blocks, "version": "2",
        "base_model_name_or_path": backbone.name, "hidden_size": spec.hidden_size,
        "vocab_size": backbone.vocab_size
    })
}
