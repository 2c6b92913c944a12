//! Settings in the spelling of `config.json` and `generation_config.json`.

use crate::Gguf;
use crate::kind::Kind;
use crate::value::quoted;
use crate::{rope, vocabulary};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Architectures that are read, with the class and the type of their configs.
const ARCHITECTURES: [(&str, &str); 3] =
    [("llama", "LlamaForCausalLM"), ("qwen2", "Qwen2ForCausalLM"), ("qwen3", "Qwen3ForCausalLM")];

/// Base of the rotary frequencies where a file names none, as in llama.cpp.
const THETA: f64 = 10000.0;

fn architecture(gguf: &Gguf) -> Result<(&'static str, &'static str), String> {
    let named = gguf.metadata.text("general.architecture")?.ok_or("general.architecture is missing")?;
    let found = ARCHITECTURES.into_iter().find(|(name, _)| *name == named);
    found.ok_or_else(|| {
        let names: Vec<&str> = ARCHITECTURES.iter().map(|(name, _)| *name).collect();
        format!("general.architecture is {}; supported: {}", quoted(named), names.join(", "))
    })
}

/// A head's size, of which keys, values and rotated dimensions must be.
fn head_dim(gguf: &Gguf, name: &str, hidden: u64, heads: u64) -> Result<u64, String> {
    let count = |part: &str| gguf.metadata.count(&format!("{name}.{part}"));
    let head_dim = match count("attention.key_length")? {
        Some(length) => length,
        None => hidden.checked_div(heads).unwrap_or(0),
    };
    let rotary = count("rope.dimension_count")?.unwrap_or(head_dim);
    let values = count("attention.value_length")?.unwrap_or(head_dim);
    if rotary == head_dim && values == head_dim {
        return Ok(head_dim);
    }
    let reason = format!("rotates {rotary} and has values of {values}");
    Err(format!("a head of {head_dim} that {reason} is not supported; all three must be equal"))
}

/// The document `config.json`.
pub fn config(gguf: &Gguf) -> Result<Value, String> {
    let (name, class) = architecture(gguf)?;
    let data = &gguf.metadata;
    let key = |part: &str| format!("{name}.{part}");
    let size = |part: &str| data.count(&key(part))?.ok_or_else(|| format!("{} is missing", key(part)));
    refuse(gguf, name)?;
    let (heads, hidden) = (size("attention.head_count")?, size("embedding_length")?);
    let head_dim = head_dim(gguf, name, hidden, heads)?;
    let epsilon = key("attention.layer_norm_rms_epsilon");
    let theta = data.number(&key("rope.freq_base"))?.unwrap_or(THETA);
    let embedding = gguf.tensors.get("token_embd.weight").ok_or("tensor token_embd.weight is missing")?;
    let has = |tensor: &str| gguf.tensors.contains_key(tensor);
    let mut config = json!({
        "architectures": [class],
        "model_type": name,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": size("feed_forward_length")?,
        "num_hidden_layers": size("block_count")?,
        "num_attention_heads": heads,
        "num_key_value_heads": data.count(&key("attention.head_count_kv"))?.unwrap_or(heads),
        "head_dim": head_dim,
        "vocab_size": embedding.shape.first(),
        "max_position_embeddings": size("context_length")?,
        "rms_norm_eps": data.number(&epsilon)?.ok_or_else(|| format!("{epsilon} is missing"))?,
        "rope_theta": theta,
        "rope_scaling": rope::scaling(gguf, name, theta, head_dim)?,
        "tie_word_embeddings": !has("output.weight"),
        "attention_bias": name != "qwen2" && has("blk.0.attn_q.bias"),
        "mlp_bias": has("blk.0.ffn_up.bias"),
        "bos_token_id": data.count("tokenizer.ggml.bos_token_id")?,
        "eos_token_id": data.count("tokenizer.ggml.eos_token_id")?,
    });
    let types = types(gguf);
    if !types.is_empty() {
        config["quantization_config"] = json!({"quant_method": "gguf", "types": types});
    }
    Ok(config)
}

/// The types of tensors whose numbers stand in blocks.
fn types(gguf: &Gguf) -> Vec<&'static str> {
    let kinds: BTreeSet<Kind> = gguf.tensors.values().map(|tensor| tensor.kind).collect();
    kinds.into_iter().filter(|kind| kind.block() > 1).map(Kind::name).collect()
}

/// Refuses what changes results and is not computed here.
fn refuse(gguf: &Gguf, name: &str) -> Result<(), String> {
    let key = |part: &str| format!("{name}.{part}");
    if let Some(count @ 1..) = gguf.metadata.count(&key("expert_count"))? {
        return Err(format!("{} is {count}; mixtures of experts are not read from GGUF files", key("expert_count")));
    }
    for part in ["attention.clamp_kqv", "logit_scale", "residual_scale", "embedding_scale", "attention.scale"] {
        if let Some(value) = gguf.metadata.number(&key(part))?.filter(|value| *value != 0.0) {
            return Err(format!("{} is {value}; it is not supported", key(part)));
        }
    }
    match gguf.metadata.flag(&key("use_parallel_residual"))? {
        Some(true) => Err(format!("{} is not supported", key("use_parallel_residual"))),
        _ => Ok(()),
    }
}

/// The document `generation_config.json`: all tokens that end a generation.
pub fn generation(gguf: &Gguf) -> Result<Value, String> {
    let mut ids: Vec<u64> = vec![];
    for name in ["eos_token_id", "eot_token_id", "eom_token_id"] {
        ids.extend(gguf.metadata.count(&format!("tokenizer.ggml.{name}"))?);
    }
    ids.extend(vocabulary::end_tokens(gguf)?);
    ids.sort_unstable();
    ids.dedup();
    Ok(if ids.is_empty() { json!({}) } else { json!({"eos_token_id": ids}) })
}
