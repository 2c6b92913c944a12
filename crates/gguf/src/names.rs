//! Names of tensors in a file, and in a Hugging Face folder.

use crate::Gguf;
use crate::file::Tensor;

/// Scaling factors of rotary frequencies, which are read into the config.
pub const ROPE_FACTORS: &str = "rope_freqs.weight";

/// A tensor under its name in a Hugging Face folder.
#[derive(Clone, Debug)]
pub struct Named<'a> {
    /// The name. Instead of `weight` it ends with the type where numbers stand in blocks ([`crate::kind::Kind::suffix`]).
    pub name: String,
    /// The tensor.
    pub tensor: &'a Tensor,
    /// Heads whose rows are interleaved: row `2j + i` of a head is row `i · D/2 + j` of a Hugging Face folder, with
    /// `D` rows in a head. Files of architecture `llama` store query and key projections so.
    pub interleaved_heads: Option<usize>,
}

/// The names in a layer.
const LAYER: [(&str, &str); 11] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// The module of a Hugging Face folder that a module of a file is.
fn module(name: &str) -> Option<String> {
    match name {
        "token_embd" => return Some("model.embed_tokens".into()),
        "output_norm" => return Some("model.norm".into()),
        "output" => return Some("lm_head".into()),
        _ => {}
    }
    let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
    let layer: u32 = layer.parse().ok()?;
    let (_, theirs) = LAYER.iter().find(|(ours, _)| *ours == part)?;
    Some(format!("model.layers.{layer}.{theirs}"))
}

/// All tensors but the factors of rotary frequencies. A tensor that no folder has keeps its name.
///
/// # Errors
/// When query or key rows cannot be divided into heads.
pub fn named(gguf: &Gguf) -> Result<Vec<Named<'_>>, String> {
    let heads = interleaved(gguf)?;
    let mut list = vec![];
    for (name, tensor) in gguf.tensors.iter().filter(|(name, _)| *name != ROPE_FACTORS) {
        let (own, suffix) = name.rsplit_once('.').unwrap_or((name, ""));
        let Some(module) = module(own).filter(|_| suffix == "weight" || suffix == "bias") else {
            list.push(Named { name: name.clone(), tensor, interleaved_heads: None });
            continue;
        };
        let suffix = if suffix == "bias" && tensor.kind.block() == 1 { "bias" } else { tensor.kind.suffix() };
        let interleaved_heads = match heads {
            Some([heads, _]) if own.ends_with(".attn_q") => Some(heads),
            Some([_, heads]) if own.ends_with(".attn_k") => Some(heads),
            _ => None,
        };
        if let Some(heads) = interleaved_heads
            && !tensor.shape[0].is_multiple_of(2 * heads)
        {
            return Err(format!("tensor {name}: {} rows are no {heads} heads of even size", tensor.shape[0]));
        }
        list.push(Named { name: format!("{module}.{suffix}"), tensor, interleaved_heads });
    }
    Ok(list)
}

/// Query and key heads where their rows are interleaved.
fn interleaved(gguf: &Gguf) -> Result<Option<[usize; 2]>, String> {
    if gguf.metadata.text("general.architecture")? != Some("llama") {
        return Ok(None);
    }
    let heads = |key: &str| match gguf.metadata.count(key)? {
        Some(count @ 1..=16384) => Ok(Some(count as usize)),
        Some(count) => Err(format!("{key} is {count}; a number from 1 to 16384 is expected")),
        None => Ok(None),
    };
    let key = "llama.attention.head_count";
    let queries = heads(key)?.ok_or_else(|| format!("{key} is missing"))?;
    Ok(Some([queries, heads("llama.attention.head_count_kv")?.unwrap_or(queries)]))
}
