//! The tokenizer and the chat templates of the reference backbones against the outputs recorded with them.

use crate::shared;

use std::path::{Path, PathBuf};

use gorgon_text::template::{ChatTemplate, Render};
use gorgon_text::tokenizer::{Tokenizer, TokenizerError};
use serde_json::Value;
use shared::shared;

/// The folders of all reference backbones with their `tokenizer` section of `expected.json`.
fn backbones(test: &str) -> Vec<(PathBuf, Value)> {
    let Some(root) = shared("fixtures/backbones", test) else { return Vec::new() };
    let mut found: Vec<_> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    assert!(!found.is_empty(), "the folder of reference backbones is empty");
    found.into_iter().map(|folder| (folder.clone(), expected(&folder))).collect()
}

fn expected(folder: &Path) -> Value {
    let json: Value = serde_json::from_slice(&std::fs::read(folder.join("expected.json")).unwrap()).unwrap();
    json["tokenizer"].clone()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

#[test]
fn encode_and_decode() {
    for (folder, expected) in backbones("encode_and_decode") {
        let text = Tokenizer::load(&folder).unwrap();
        assert_eq!(text.vocab_size() as u64, expected["vocab_size"].as_u64().unwrap(), "{folder:?}");
        for case in expected["encode"].as_array().unwrap() {
            let source = case["text"].as_str().unwrap();
            let with_special = text.encode(source, true).unwrap();
            assert_eq!(with_special, ids(&case["ids"]), "{folder:?} {source:?}");
            assert_eq!(text.encode(source, false).unwrap(), ids(&case["ids_no_special"]), "{folder:?} {source:?}");
            assert_eq!(text.decode(&with_special, true).unwrap(), case["decoded"], "{folder:?} {source:?}");
            assert_eq!(
                text.decode(&with_special, false).unwrap(),
                case["decoded_with_special"],
                "{folder:?} {source:?}"
            );
        }
    }
}

#[test]
fn prefixes_decode_and_stream() {
    for (folder, expected) in backbones("prefixes_decode_and_stream") {
        let text = Tokenizer::load(&folder).unwrap();
        let ids = ids(&expected["stream"]["ids"]);
        let prefixes = expected["stream"]["prefix_decodes"].as_array().unwrap();
        let mut stream = text.stream(true);
        let mut so_far = String::new();
        for (n, prefix) in prefixes.iter().enumerate() {
            let prefix = prefix.as_str().unwrap();
            assert_eq!(text.decode(&ids[..=n], true).unwrap(), prefix, "{folder:?}");
            so_far += &stream.push(ids[n]).unwrap();
            assert!(prefix.starts_with(&so_far), "{folder:?}: {so_far:?} is no prefix of {prefix:?}");
            assert!(!so_far.contains('\u{FFFD}'), "{folder:?}: {so_far:?} cuts a character");
        }
        so_far += &stream.finish().unwrap();
        assert_eq!(so_far, prefixes.last().unwrap().as_str().unwrap(), "{folder:?}");
    }
}

/// Ids in a fixed pseudo-random order, some without a token: a stream must still say what a plain decode says.
#[test]
fn any_ids_stream_to_their_decoded_text() {
    for (folder, _) in backbones("any_ids_stream_to_their_decoded_text") {
        let text = Tokenizer::load(&folder).unwrap();
        let past_the_end = text.max_id().unwrap() + 20;
        let mut state = 1u32;
        for round in 0..200 {
            let ids: Vec<u32> = (0..round)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 8) % past_the_end
                })
                .collect();
            for skip_special in [true, false] {
                assert_streams(&text, &ids, skip_special);
            }
        }
    }
}

/// Only broken bytes: nothing is certain until the end, and it must not take quadratic time to find that out.
#[test]
fn broken_bytes_stream_in_linear_time() {
    for (folder, _) in backbones("broken_bytes_stream_in_linear_time") {
        let text = Tokenizer::load(&folder).unwrap();
        let start = text.encode("é", false).unwrap();
        let lead = start[start.len() - 2];
        let begin = std::time::Instant::now();
        assert_streams(&text, &vec![lead; 20_000], true);
        assert!(begin.elapsed().as_secs() < 20, "{folder:?} took {:?}", begin.elapsed());
    }
}

fn assert_streams(text: &Tokenizer, ids: &[u32], skip_special: bool) {
    let mut stream = text.stream(skip_special);
    let mut all = String::new();
    for id in ids {
        let piece = stream.push(*id).unwrap();
        assert!(!piece.ends_with('\u{FFFD}'), "{piece:?} may end inside a character");
        all += &piece;
    }
    all += &stream.finish().unwrap();
    assert_eq!(all, text.decode(ids, skip_special).unwrap(), "{ids:?}");
}

#[test]
fn chat_templates_render_and_encode() {
    for (folder, expected) in backbones("chat_templates_render_and_encode") {
        let text = Tokenizer::load(&folder).unwrap();
        let template = ChatTemplate::load(&folder).unwrap();
        for case in expected["chat"].as_array().unwrap() {
            let messages = case["messages"].as_array().unwrap();
            let render =
                Render { add_generation_prompt: case["add_generation_prompt"].as_bool().unwrap(), ..Render::default() };
            let rendered = template.render(messages, &render);
            let name = format!("{folder:?} {}", case["name"]);
            match case["rendered"].as_str() {
                Some(expected) => {
                    assert_eq!(rendered.as_deref().unwrap(), expected, "{name}");
                    assert_eq!(text.encode(expected, false).unwrap(), ids(&case["ids"]), "{name}");
                }
                None => {
                    let message = rendered.unwrap_err().to_string();
                    assert!(message.contains(case["error"].as_str().unwrap()), "{name}: {message}");
                    assert!(!message.contains('\n'), "{name}: {message}");
                }
            }
        }
    }
}

/// Tokens of the vocabulary need a row of the model's embedding; added ones may lie behind the last row until a text
/// spells them.
#[test]
fn ids_outside_the_model_are_refused() {
    for (folder, _) in backbones("ids_outside_the_model_are_refused") {
        let max = Tokenizer::load(&folder).unwrap().max_id().unwrap();
        let of_model = |folder: &Path, rows: u32| Tokenizer::load(folder).unwrap().of_model(rows as usize);
        of_model(&folder, max + 1).unwrap();
        of_model(&folder, max + 100).unwrap();
        let document = std::fs::read_to_string(folder.join("tokenizer.json")).unwrap();
        let mut document: Value = serde_json::from_str(&document).unwrap();
        let added = document["added_tokens"].as_array_mut().unwrap();
        added.push(serde_json::json!({
            "id": max + 1, "content": "[PAD]", "special": true, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false
        }));
        let padded = tempfile::tempdir().unwrap();
        std::fs::write(padded.path().join("tokenizer.json"), document.to_string()).unwrap();
        let text = of_model(padded.path(), max + 1).unwrap();
        text.encode("hi", true).unwrap();
        let message = text.encode("hi[PAD]", true).unwrap_err().to_string();
        assert!(message.contains("[PAD]") && message.contains(&(max + 1).to_string()), "{message}");
        let few = document["model"]["vocab"].as_object().map_or(10, |vocab| vocab.len() as u32 / 2);
        let message = of_model(&folder, few).unwrap_err().to_string();
        assert!(message.contains("tokenizer.json") && message.contains(&few.to_string()), "{message}");
    }
}

#[test]
fn missing_and_broken_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = Tokenizer::load(folder.path()).unwrap_err();
    assert!(matches!(error, TokenizerError::Missing { .. }) && error.to_string().contains("tokenizer.json"), "{error}");

    std::fs::write(folder.path().join("tokenizer.json"), "{\n\"model\": 3\n}").unwrap();
    let message = Tokenizer::load(folder.path()).unwrap_err().to_string();
    assert!(message.contains("tokenizer.json") && !message.contains('\n'), "{message}");

    std::fs::write(folder.path().join("tokenizer_config.json"), "[]").unwrap();
    let message = Tokenizer::load(folder.path()).unwrap_err().to_string();
    assert!(message.contains("tokenizer_config.json"), "{message}");
}

/// A folder with the tokenizer of one backbone and a `tokenizer_config.json` of our own.
fn with_config(test: &str, backbone: &str, config: &Value) -> Option<(tempfile::TempDir, Tokenizer)> {
    let source = shared(&format!("fixtures/backbones/{backbone}/tokenizer.json"), test)?;
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(source, folder.path().join("tokenizer.json")).unwrap();
    std::fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    let text = Tokenizer::load(folder.path()).unwrap();
    Some((folder, text))
}

#[test]
fn the_config_decides_on_bos_and_eos() {
    let test = "the_config_decides_on_bos_and_eos";
    let around =
        |config: Value| with_config(test, "llama_mha", &config).map(|(_folder, text)| text.encode("", true).unwrap());
    let tokens = |more: &[(&str, bool)]| {
        let mut config = serde_json::json!({"bos_token": "<s>", "eos_token": {"content": "</s>"}});
        more.iter().for_each(|(key, value)| config[*key] = Value::from(*value));
        config
    };
    let Some(plain) = around(tokens(&[])) else { return };
    assert_eq!(plain, [1]);
    assert_eq!(around(tokens(&[("add_bos_token", false)])).unwrap(), [0u32; 0]);
    assert_eq!(around(tokens(&[("add_eos_token", true)])).unwrap(), [1, 2]);
    assert_eq!(around(tokens(&[("add_bos_token", false), ("add_eos_token", true)])).unwrap(), [2]);
}
