//! GGUF files wherever a model folder is taken.

use crate::gorgon;

use gorgon::{Model, SHAPE, gorgon, json, refused, stderr, stdout};
use gorgon_gguf::kind::Kind;
use gorgon_gguf::write::Draft;
use gorgon_gguf::{Array, Value};
use gorgon_model::weights::Checkpoint;
use gorgon_text::template::{ChatTemplate, Render};
use gorgon_text::variables::Variables;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};

const NAMES: [(&str, &str); 13] = [
    ("model.embed_tokens", "token_embd"),
    ("model.norm", "output_norm"),
    ("lm_head", "output"),
    ("model.layers.", "blk."),
    ("input_layernorm", "attn_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

/// Tokens of the model's byte-level tokenizer, padded to its vocabulary.
fn tokens(model: &Model) -> Vec<String> {
    let document: Json = serde_json::from_slice(&std::fs::read(model.file("tokenizer.json")).unwrap()).unwrap();
    let mut texts: Vec<String> = (0..SHAPE.vocab_size).map(|id| format!("[PAD{id}]")).collect();
    for (text, id) in document["model"]["vocab"].as_object().unwrap() {
        texts[id.as_u64().unwrap() as usize] = text.clone();
    }
    texts
}

/// The model as a file of architecture `qwen2`, which stores heads in order and biases, here zeros.
fn file(model: &Model) -> Draft {
    let integer = |n: usize| Value::Integer(n as i128);
    let types = (0..SHAPE.vocab_size).map(|id| if (256..258).contains(&id) { 3 } else { 1 }).collect();
    let mut draft = Draft::default()
        .value("general.architecture", Value::Text("qwen2".into()))
        .value("qwen2.block_count", integer(SHAPE.layers))
        .value("qwen2.context_length", integer(SHAPE.max_positions))
        .value("qwen2.embedding_length", integer(SHAPE.hidden_size))
        .value("qwen2.feed_forward_length", integer(SHAPE.intermediate_size))
        .value("qwen2.attention.head_count", integer(SHAPE.heads))
        .value("qwen2.attention.head_count_kv", integer(SHAPE.kv_heads))
        .value("qwen2.attention.layer_norm_rms_epsilon", Value::Float(1e-5))
        .value("tokenizer.ggml.model", Value::Text("gpt2".into()))
        .value("tokenizer.ggml.pre", Value::Text("gpt-2".into()))
        .value("tokenizer.ggml.tokens", Value::List(Array::Texts(tokens(model))))
        .value("tokenizer.ggml.token_type", Value::List(Array::Integers(types)))
        .value("tokenizer.ggml.merges", Value::List(Array::Texts(vec![])))
        .value("tokenizer.ggml.bos_token_id", integer(256))
        .value("tokenizer.ggml.eos_token_id", integer(257))
        .value("tokenizer.ggml.add_bos_token", Value::Flag(true));
    let checkpoint = Checkpoint::open(model.path()).unwrap();
    for (name, entry) in checkpoint.entries() {
        let theirs = NAMES.iter().fold(name.clone(), |name, (ours, theirs)| name.replace(ours, theirs));
        let bytes = checkpoint.read_stored(name).unwrap();
        if ["attn_q", "attn_k", "attn_v"].iter().any(|part| theirs.contains(part)) {
            let bias = theirs.replace(".weight", ".bias");
            draft = draft.tensor(&bias, Kind::F32, &entry.shape[..1], vec![0; 4 * entry.shape[0]]);
        }
        draft = draft.tensor(&theirs, Kind::F32, &entry.shape, bytes);
    }
    draft
}

fn written(draft: &Draft, dir: &Path) -> PathBuf {
    let path = dir.join("m.gguf");
    std::fs::write(&path, draft.bytes()).unwrap();
    path
}

#[test]
fn a_file_answers_as_the_folder_does() {
    let (model, dir) = (Model::new(), tempfile::tempdir().unwrap());
    let path = written(&file(&model), dir.path());
    let answer = |model: &str| {
        let output = gorgon(&[
            "generate",
            "--model",
            model,
            "--prompt",
            "ab 12 é",
            "--raw",
            "--max-new-tokens",
            "12",
            "--print-ids",
        ]);
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let expected = answer(model.name());
    assert_eq!(answer(path.to_str().unwrap()), expected);
    // A folder of the file alone is the file.
    assert_eq!(answer(dir.path().to_str().unwrap()), expected);
}

#[test]
fn the_files_chat_template_is_used() {
    let (model, dir) = (Model::new(), tempfile::tempdir().unwrap());
    let template = "{{ bos_token }}{% for m in messages %}[{{ m.content }}]{% endfor %}";
    let draft = file(&model).value("tokenizer.chat_template", Value::Text(template.into()));
    let path = written(&draft, dir.path());
    let answer = |prompt: &str, raw: &[&str]| {
        let model = path.to_str().unwrap();
        let command = ["generate", "--model", model, "--prompt", prompt, "--max-new-tokens", "6", "--print-ids"];
        let output = gorgon(&[&command[..], raw].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    // The template's beginning is that which the tokenizer puts before a plain text.
    assert_eq!(answer("hi", &[]), answer("[hi]", &["--raw"]));
}

/// Files name the template for conversations with tools beside the usual one, as llama.cpp writes them.
#[test]
fn the_files_template_for_tools_is_used() {
    let (model, dir) = (Model::new(), tempfile::tempdir().unwrap());
    let text = |text: &str| Value::Text(text.into());
    let draft = file(&model).value("tokenizer.chat_template", text("usual"));
    let path = written(&draft.value("tokenizer.chat_template.tool_use", text("with tools")), dir.path());
    let template = ChatTemplate::load(path.parent().unwrap()).unwrap();
    let tools = serde_json::json!({"tools": []}).as_object().unwrap().clone();
    let render = |variables| template.render(&[], &Render { variables, ..Render::default() }).unwrap();
    assert_eq!((render(Variables::new()), render(tools)), ("usual".into(), "with tools".into()));
}

#[test]
fn inspect_describes_a_file() {
    let (model, dir) = (Model::new(), tempfile::tempdir().unwrap());
    let path = written(&file(&model), dir.path());
    let output = gorgon(&["inspect", path.to_str().unwrap(), "--json"]);
    let document = json(&output);
    assert_eq!((&document["kind"], &document["problems"]), (&"model".into(), &serde_json::json!([])), "{document}");
    assert_eq!(document["facts"]["architecture"], "Qwen2ForCausalLM", "{document}");
}

#[test]
fn what_is_not_supported_is_refused_in_a_line() {
    let (model, dir) = (Model::new(), tempfile::tempdir().unwrap());
    let named = |key: &str, value: &str| {
        let mut draft = file(&model);
        draft.values.retain(|(other, _)| other != key);
        written(&draft.value(key, Value::Text(value.into())), dir.path())
    };
    let generate = |path: &Path, words: &[&str]| {
        let model = path.to_str().unwrap();
        refused(&["generate", "--model", model, "--prompt", "a", "--raw", "--max-new-tokens", "1"], words);
    };
    generate(&named("general.architecture", "bert"), &["m.gguf", "\"bert\"", "llama, qwen2, qwen3"]);
    generate(&named("tokenizer.ggml.pre", "viking"), &["m.gguf", "\"viking\""]);
    generate(&named("tokenizer.ggml.model", "t5"), &["m.gguf", "\"t5\""]);
    let bytes = file(&model).bytes();
    std::fs::write(dir.path().join("m.gguf"), &bytes[..bytes.len() / 2]).unwrap();
    generate(&dir.path().join("m.gguf"), &["m.gguf", "the file has"]);
    std::fs::write(dir.path().join("n.gguf"), &bytes).unwrap();
    generate(dir.path(), &["2 GGUF files"]);
}
