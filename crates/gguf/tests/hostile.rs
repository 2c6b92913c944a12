//! Damaged and unsupported files are refused by name, and cost no memory.

use gorgon_gguf::kind::Kind;
use gorgon_gguf::write::Draft;
use gorgon_gguf::{Array, Gguf, Value, find, read};
use std::path::{Path, PathBuf};

fn model() -> Draft {
    let integer = Value::Integer;
    let text = |text: &str| Value::Text(text.into());
    Draft::default()
        .value("general.architecture", text("llama"))
        .value("llama.block_count", integer(1))
        .value("llama.context_length", integer(32))
        .value("llama.embedding_length", integer(32))
        .value("llama.feed_forward_length", integer(32))
        .value("llama.attention.head_count", integer(2))
        .value("llama.attention.layer_norm_rms_epsilon", Value::Float(1e-5))
        .value("tokenizer.ggml.model", text("llama"))
        .value("tokenizer.ggml.tokens", Value::List(Array::Texts(vec!["<unk>".into(), "▁".into(), "a".into()])))
        .value("tokenizer.ggml.scores", Value::List(Array::Floats(vec![0.0, -1.0, -2.0])))
        .value("tokenizer.ggml.token_type", Value::List(Array::Integers(vec![2, 1, 1])))
        .tensor("token_embd.weight", Kind::Q8_0, &[3, 32], vec![1; 102])
}

/// The folder, and the file in it.
fn written(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn refused(bytes: &[u8], word: &str) {
    let (_dir, path) = written(bytes);
    let message = Gguf::open(&path).unwrap_err().to_string();
    assert!(message.contains(word) && message.contains("m.gguf"), "no {word:?} in {message}");
    assert!(!message.contains('\n'), "{message}");
}

/// A document is refused.
fn refuses(name: &str, draft: &Draft, word: &str) {
    let (_dir, path) = written(&draft.bytes());
    let message = read(&path, name, 1 << 20).unwrap_err().to_string();
    assert!(message.contains(word), "no {word:?} in {message}");
}

/// The file with other values of a key.
fn with(key: &str, value: Value) -> Draft {
    let mut draft = model();
    draft.values.retain(|(other, _)| other != key);
    draft.value(key, value)
}

#[test]
fn heads_of_files_are_checked() {
    let sound = model().bytes();
    let patched = |at: usize, bytes: &[u8]| {
        let mut file = sound.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    refused(&patched(0, b"GGML"), "not with GGUF");
    refused(&patched(4, &1u32.to_le_bytes()), "version 1");
    refused(&patched(4, &3u32.to_be_bytes()), "big-endian");
    refused(&patched(8, &u64::MAX.to_le_bytes()), "tensors");
    refused(&patched(16, &(1u64 << 40).to_le_bytes()), "values");
    refused(&patched(24, &(1u64 << 60).to_le_bytes()), "key");
    refused(&sound[..sound.len() - 40], "the file has");
    for end in 0..sound.len() - 102 {
        let (_dir, path) = written(&sound[..end]);
        assert!(Gguf::open(&path).is_err(), "{end}");
    }
}

#[test]
fn tensors_are_checked() {
    let twice = model().tensor("token_embd.weight", Kind::F32, &[1], vec![0; 4]);
    refused(&twice.bytes(), "there twice");
    refused(&model().tensor("odd", Kind::Q4_0, &[2, 31], vec![0; 36]).bytes(), "no multiple of the 32");
    refused(&model().tensor("none", Kind::F32, &[0, 4], vec![]).bytes(), "absurd");
    refused(&model().tensor("huge", Kind::F32, &[1 << 30, 1 << 30], vec![]).bytes(), "absurd");
    refused(&model().tensor("many", Kind::F32, &[1, 1, 1, 1, 1], vec![0; 4]).bytes(), "5 dimensions");
    // The type and the place of the last tensor stand before the data.
    let draft = model().tensor("last", Kind::F32, &[1], vec![0; 4]);
    let bytes = draft.bytes();
    let at = bytes.windows(4).rposition(|window| window == b"last").unwrap() + 4 + 4 + 8;
    let mut unknown = bytes.clone();
    unknown[at..at + 4].copy_from_slice(&18u32.to_le_bytes());
    refused(&unknown, "IQ3_XXS");
    let mut overlapping = bytes.clone();
    overlapping[at + 4..at + 12].copy_from_slice(&0u64.to_le_bytes());
    refused(&overlapping, "overlap");
    let mut crooked = bytes;
    crooked[at + 4..at + 12].copy_from_slice(&129u64.to_le_bytes());
    refused(&crooked, "no multiple of 32");
}

#[test]
fn settings_are_refused_by_name() {
    let text = |text: &str| Value::Text(text.into());
    refuses("config.json", &with("general.architecture", text("bert")), "\"bert\"; supported: llama, qwen2, qwen3");
    refuses("config.json", &with("llama.expert_count", Value::Integer(8)), "mixtures of experts");
    refuses("config.json", &with("llama.block_count", text("two")), "llama.block_count is \"two\"");
    refuses("config.json", &with("llama.rope.scaling.type", text("longrope")), "longrope");
    refuses("config.json", &with("general.alignment", Value::Integer(33)), "general.alignment is 33");
    refuses("config.json", &with("split.count", Value::Integer(3)), "one of 3 parts");
    refuses("tokenizer.json", &with("tokenizer.ggml.model", text("bert")), "supported: gpt2, llama");
    refuses("tokenizer.json", &with("tokenizer.ggml.scores", Value::List(Array::Floats(vec![]))), "0 entries for 3");
    let same = Value::List(Array::Texts(vec!["a".into(), "b".into(), "a".into()]));
    refuses("tokenizer.json", &with("tokenizer.ggml.tokens", same), "tokens 0 and 2");
    let bytes = with("tokenizer.ggml.model", text("gpt2")).value("tokenizer.ggml.pre", text("viking"));
    refuses("tokenizer.json", &bytes, "\"viking\"; supported: llama-bpe");
    refuses("tokenizer_config.json", &with("tokenizer.ggml.bos_token_id", Value::Integer(9)), "ends with token 2");
}

#[test]
fn a_folder_of_one_file_is_that_file() {
    let (dir, path) = written(&model().bytes());
    assert_eq!(find(dir.path()).unwrap(), Some(path.clone()));
    assert_eq!(find(&path).unwrap(), Some(path.clone()));
    let config = read(dir.path(), "config.json", 1 << 20).unwrap();
    let config: serde_json::Value = serde_json::from_slice(&config).unwrap();
    assert_eq!((&config["vocab_size"], &config["tie_word_embeddings"]), (&3.into(), &true.into()));
    assert_eq!(config["quantization_config"]["types"], serde_json::json!(["Q8_0"]));
    std::fs::copy(&path, dir.path().join("n.gguf")).unwrap();
    assert!(find(dir.path()).unwrap_err().to_string().contains("2 GGUF files"));
    std::fs::write(dir.path().join("model.safetensors"), b"").unwrap();
    assert_eq!(find(dir.path()).unwrap(), None);
    assert_eq!(find(Path::new("no/such/place")).unwrap(), None);
}
