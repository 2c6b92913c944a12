//! A small random model that takes part in conversations.

use gorgon_model::device::FloatFormat;
use gorgon_model::random::LlamaShape;
use serde_json::{Value, json};
use std::path::Path;

/// A template that writes every turn as `[role]content</s>`.
pub const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}\
     {% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

/// The end token of the byte-level tokenizer.
pub const END: u32 = 257;

/// Writes the model, with a chat template if there is one.
pub fn write(dir: &Path, template: Option<&str>) {
    let shape = LlamaShape {
        hidden_size: 16,
        intermediate_size: 24,
        layers: 2,
        heads: 2,
        kv_heads: 1,
        vocab_size: 258,
        max_positions: 4096,
    };
    shape.write(dir, FloatFormat::F32, 11).unwrap();
    let mut config: Value = json!({"bos_token": "<s>", "eos_token": "</s>"});
    if let Some(template) = template {
        config["chat_template"] = template.into();
    }
    std::fs::write(dir.join("tokenizer_config.json"), config.to_string()).unwrap();
}
