//! Readers of a model folder.

use super::sound::{file, model, with, written};
use gorgon_model::config::ModelConfig;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::tensors::{self, Source};
use gorgon_text::template::{ChatTemplate, Limits, Render, message};
use gorgon_text::tokenizer::Tokenizer;
use safetensors::Dtype;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

pub(super) fn weights_header(bytes: &[u8]) {
    with("model.safetensors", bytes, |dir| {
        let Ok(checkpoint) = Checkpoint::open(dir) else { return };
        let sound = ModelConfig::read(model());
        if let Ok(config) = &sound {
            let _ = checkpoint.problems(config);
        }
        for name in checkpoint.entries().keys().take(4) {
            let _ = checkpoint.read_all(name);
        }
    });
}

pub(super) fn weights_seeds() -> Vec<Vec<u8>> {
    let small = written("t.safetensors", |path| {
        let fill = |file: &mut dyn Write| file.write_all(&[0; 24]);
        let source = Source { name: "a.b".into(), dtype: Dtype::F32, shape: vec![2, 3], fill: Box::new(fill) };
        let _ = tensors::write(path, &[source]);
    });
    vec![small, file("model.safetensors")]
}

pub(super) fn shard_index(bytes: &[u8]) {
    with("model.safetensors.index.json", bytes, |dir| {
        let _ = std::fs::copy(model().join("model.safetensors"), dir.join("one.safetensors"));
        let _ = Checkpoint::open(dir);
    });
}

pub(super) fn index_seeds() -> Vec<Vec<u8>> {
    let names: Vec<String> =
        Checkpoint::open(model()).map(|c| c.entries().keys().cloned().collect()).unwrap_or_default();
    let map: BTreeMap<String, &str> = names.into_iter().map(|name| (name, "one.safetensors")).collect();
    vec![json!({"metadata": {"total_size": 1}, "weight_map": map}).to_string().into_bytes()]
}

pub(super) fn config(bytes: &[u8]) {
    with("config.json", bytes, |dir| {
        if let Ok(config) = ModelConfig::read(dir)
            && let Ok(checkpoint) = Checkpoint::open(model())
        {
            let _ = checkpoint.check(&config);
        }
    });
}

pub(super) fn config_seeds() -> Vec<Vec<u8>> {
    let full = json!({
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 16, "intermediate_size": 24,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 260,
        "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "num_local_experts": 2,
        "num_experts_per_tok": 1, "sliding_window": 16, "eos_token_id": [1, 2], "tie_word_embeddings": true,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 16}
    });
    vec![file("config.json"), full.to_string().into_bytes()]
}

pub(super) fn tokenizer(bytes: &[u8]) {
    with("tokenizer.json", bytes, |dir| {
        let Ok(text) = Tokenizer::load(dir) else { return };
        let text = text.clone().of_model(260).unwrap_or(text);
        for special in [false, true] {
            if let Ok(ids) = text.encode("Héllo <s> 世界\n\u{0}</s>", special) {
                let _ = text.decode(&ids, special);
            }
        }
        // Long words, spaces and numbers: work that grows faster than a text shows here.
        let long = ["a".repeat(4096), "ab 12 ".repeat(300), "世界".repeat(200)].concat();
        if let Ok(ids) = text.encode(&long, false) {
            let _ = text.decode(&ids, true);
        }
        let mut stream = text.stream(true);
        for id in [0, 256, 255, 4_000_000_000] {
            let _ = stream.push(id);
        }
        let _ = stream.finish();
    });
}

pub(super) fn tokenizer_seeds() -> Vec<Vec<u8>> {
    let small = json!({
        "version": "1.0", "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"}]},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\s+|\\p{L}+"}, "behavior": "Isolated", "invert": false},
        "post_processor": null, "decoder": {"type": "ByteFallback"},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
                  "vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3, "<0x41>": 4}, "merges": ["a b"]}
    });
    let unigram = json!({
        "version": "1.0", "added_tokens": [{"id": 0, "content": "<s>", "single_word": false, "lstrip": false,
                                              "rstrip": false, "normalized": false, "special": true}],
        "normalizer": null, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
        "post_processor": null, "decoder": {"type": "Metaspace", "replacement": "▁"},
        "model": {"type": "Unigram", "unk_id": 1, "vocab": [["<s>", 0.0], ["<unk>", -1.0], ["▁a", -2.0], ["b", -3.0]]}
    });
    let word_piece = json!({
        "version": "1.0", "added_tokens": [], "normalizer": {"type": "BertNormalizer", "clean_text": true,
            "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": null,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "a": 1, "##a": 2, "ab": 3, "12": 4}}
    });
    let nested: Vec<_> = (1..40).map(|bytes| json!(["a".repeat(bytes), -1.0])).collect();
    let nested = json!({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
        "post_processor": null, "decoder": null, "model": {"type": "Unigram", "unk_id": 0, "vocab": nested}});
    let made = [small, unigram, word_piece, nested].map(|seed| seed.to_string().into_bytes());
    made.into_iter().chain([file("tokenizer.json")]).collect()
}

pub(super) fn tokenizer_config(bytes: &[u8]) {
    with("tokenizer_config.json", bytes, |dir| {
        let _ = std::fs::copy(model().join("tokenizer.json"), dir.join("tokenizer.json"));
        if let Ok(text) = Tokenizer::load(dir) {
            let _ = text.encode("a", true);
        }
        speak(dir);
    });
}

pub(super) fn tokenizer_config_seeds() -> Vec<Vec<u8>> {
    let full = json!({
        "bos_token": "<s>", "eos_token": {"content": "</s>"}, "add_bos_token": true, "add_eos_token": false,
        "chat_template": [{"name": "default", "template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"}]
    });
    vec![full.to_string().into_bytes(), file("tokenizer_config.json")]
}

/// Renders a conversation with the folder's template, within limits that end a hostile one soon.
pub(super) fn speak(dir: &Path) {
    let Ok(template) = ChatTemplate::load_with(dir, Limits::default()) else { return };
    let turns =
        [message("system", "Be kind."), message("user", "Hi <|x|>"), message("assistant", "Ho"), message("user", "?")];
    for open in [false, true] {
        let _ = template.render(&turns, &Render { add_generation_prompt: open, ..Render::default() });
    }
}

pub(super) fn chat_template(bytes: &[u8]) {
    with("chat_template.jinja", bytes, speak);
}

pub(super) fn template_seeds() -> Vec<Vec<u8>> {
    let seeds = [
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}{{ eos_token }}{% endfor %}\
         {% if add_generation_prompt %}[assistant]{% endif %}",
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% if m['role'] != 'user' and loop.first %}\
         {{ raise_exception('no') }}{% endif %}{% set ns.n = ns.n + 1 %}{{ m.content.split('x')[0] }}{% endfor %}{{ ns.n }}",
        "{% macro f(x) %}{{ x | tojson }}{% endmacro %}{{ f(messages) }}{{ 'a' * 10 }}{{ range(5) | list | join(',') }}\
         {{ strftime_now('%d %b %Y') }}",
    ];
    seeds.map(|seed| seed.as_bytes().to_vec()).to_vec()
}
