//! GGUF files: head, settings, tokenizer and tensors.

use super::sound::{decoder, with};
use gorgon_gguf::kind::Kind;
use gorgon_gguf::write::Draft;
use gorgon_gguf::{Array, Value};
use gorgon_model::config::ModelConfig;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::weights::Checkpoint;
use gorgon_text::template::ChatTemplate;
use gorgon_text::tokenizer::Tokenizer;

/// Tensors of more numbers are not read: a file may claim as many as it is long.
const MOST: usize = 1 << 20;

pub(super) fn file(bytes: &[u8]) {
    with("model.gguf", bytes, |dir| {
        let config = ModelConfig::read(dir);
        if let Ok(text) = Tokenizer::load(dir)
            && let Ok(ids) = text.encode("Héllo <s> 世界\n\u{0}</s> 123", true)
        {
            let _ = text.decode(&ids, false);
        }
        let _ = ChatTemplate::load(dir);
        let Ok(checkpoint) = Checkpoint::open(dir) else { return };
        let _ = (checkpoint.loaded_bytes(&Compute::cpu(FloatFormat::F32)), checkpoint.quantised_bytes());
        let _ = checkpoint.problems(decoder().config());
        if let Ok(config) = config {
            let _ = checkpoint.check(&config);
        }
        for (name, entry) in checkpoint.entries().iter().take(8) {
            let module = name.rsplit_once('.').map_or(name.as_str(), |(module, _)| module);
            if entry.shape.iter().product::<usize>() <= MOST {
                let _ = (checkpoint.read_all(name), checkpoint.read_all(&format!("{module}.weight")));
            }
        }
    });
}

fn texts(list: &[&str]) -> Value {
    Value::List(Array::Texts(list.iter().map(|text| (*text).to_owned()).collect()))
}

/// A file of architecture `name` without tensors and tokenizer.
fn settings(name: &str) -> Draft {
    let key = |part: &str| format!("{name}.{part}");
    let sizes = [("block_count", 1), ("context_length", 32), ("embedding_length", 32), ("feed_forward_length", 32)];
    let draft = Draft::default().value("general.architecture", Value::Text(name.into()));
    let draft = sizes.iter().fold(draft, |draft, (part, size)| draft.value(&key(part), Value::Integer(*size)));
    draft
        .value(&key("attention.head_count"), Value::Integer(2))
        .value(&key("attention.head_count_kv"), Value::Integer(1))
        .value(&key("attention.layer_norm_rms_epsilon"), Value::Float(1e-5))
        .value(&key("rope.freq_base"), Value::Float(10000.0))
}

/// Tensors of a model of one layer whose matrices are of `kind`, with `tokens` rows of embedding.
fn tensors(draft: Draft, kind: Kind, tokens: usize) -> Draft {
    let matrix = |draft: Draft, name: &str, rows: usize| {
        let bytes = rows * 32 / kind.block() * kind.block_bytes();
        draft.tensor(name, kind, &[rows, 32], (0..bytes).map(|i| (i % 11) as u8).collect())
    };
    let norm = |draft: Draft, name: &str| draft.tensor(name, Kind::F32, &[32], [0, 0, 0x80, 0x3f].repeat(32));
    let matrices = [
        ("token_embd.weight", tokens),
        ("blk.0.attn_q.weight", 32),
        ("blk.0.attn_k.weight", 16),
        ("blk.0.attn_v.weight", 16),
        ("blk.0.attn_output.weight", 32),
        ("blk.0.ffn_gate.weight", 32),
        ("blk.0.ffn_up.weight", 32),
        ("blk.0.ffn_down.weight", 32),
    ];
    let draft = matrices.into_iter().fold(draft, |draft, (name, rows)| matrix(draft, name, rows));
    ["output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"].into_iter().fold(draft, norm)
}

fn sentence_piece() -> Draft {
    settings("llama")
        .value("tokenizer.ggml.model", Value::Text("llama".into()))
        .value("tokenizer.ggml.tokens", texts(&["<unk>", "<s>", "</s>", "<0x0A>", "▁", "a", "b", "ab", "▁ab"]))
        .value("tokenizer.ggml.scores", Value::List(Array::Floats((0..9).map(|i| f64::from(-i)).collect())))
        .value("tokenizer.ggml.token_type", Value::List(Array::Integers(vec![2, 3, 3, 6, 1, 1, 1, 1, 1])))
        .value("tokenizer.ggml.bos_token_id", Value::Integer(1))
        .value("tokenizer.chat_template", Value::Text("{{ bos_token }}{{ messages[0].content }}".into()))
}

fn byte_level() -> Draft {
    settings("qwen2")
        .value("tokenizer.ggml.model", Value::Text("gpt2".into()))
        .value("tokenizer.ggml.pre", Value::Text("qwen2".into()))
        .value("tokenizer.ggml.tokens", texts(&["a", "b", "ab", "Ġ", "<|im_end|>"]))
        .value("tokenizer.ggml.token_type", Value::List(Array::Integers(vec![1, 1, 1, 1, 3])))
        .value("tokenizer.ggml.merges", texts(&["a b"]))
        .value("tokenizer.ggml.eos_token_id", Value::Integer(4))
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let wide = Draft::default().tensor("wide.weight", Kind::Q6K, &[2, 256], vec![3; 420]);
    let scaled = sentence_piece()
        .value("llama.rope.scaling.type", Value::Text("yarn".into()))
        .value("llama.rope.scaling.factor", Value::Float(4.0))
        .value("llama.rope.scaling.original_context_length", Value::Integer(16));
    let factors = sentence_piece().tensor("rope_freqs.weight", Kind::F32, &[8], [0, 0, 0, 0x41].repeat(8));
    [
        tensors(sentence_piece(), Kind::Q8_0, 9),
        tensors(scaled, Kind::Q4_0, 9),
        tensors(factors, Kind::F16, 9),
        tensors(byte_level(), Kind::Q5_1, 5),
        wide,
    ]
    .iter()
    .map(Draft::bytes)
    .collect()
}
