//! Folders are untrusted: what does not fit is refused in a line.

use crate::eagle::random::{SHAPE, decoder, load, values, write};
use gorgon_draft::eagle::EagleShape;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::LlamaShape;
use serde_json::{Value, json};
use std::sync::Arc;

type Tensors = Vec<(String, Vec<usize>, Vec<f32>)>;

fn refused(change: impl FnOnce(&mut Tensors, &mut Value), words: &[&str]) {
    let (decoder, dir) = (decoder(), tempfile::tempdir().unwrap());
    write(dir.path(), &EagleShape::of(decoder.config(), false), change);
    said(&load(dir.path(), &decoder).unwrap_err().to_string(), dir.path().to_str().unwrap(), words);
}

fn said(error: &str, path: &str, words: &[&str]) {
    assert!(error.contains(path) && !error.contains('\n'), "{error}");
    words.iter().for_each(|word| assert!(error.contains(word), "no {word:?} in: {error}"));
}

#[test]
fn damaged_folders_are_refused_in_a_line() {
    refused(|tensors, _| drop(tensors.remove(3)), &["v_proj"]);
    refused(|tensors, _| tensors.push(("norm.extra".into(), vec![3], vec![0.0; 3])), &["norm.extra"]);
    refused(|tensors, _| (tensors[0].1, tensors[0].2) = (vec![32, 63], values(32 * 63, 1)), &["fc.weight"]);
    refused(|_, config| config["num_attention_heads"] = json!(8), &["num_attention_heads"]);
    refused(|_, config| config["num_attention_heads"] = json!("four"), &["num_attention_heads"]);
    refused(|_, config| config["rms_norm_eps"] = json!(-3), &["rms_norm_eps", "-3"]);
    refused(|_, config| config["rope_theta"] = json!(0), &["rope_theta"]);
    refused(|_, config| config["rope_scaling"] = json!({"rope_type": "longrope"}), &["short_factor"]);
    refused(|_, config| config["rope_scaling"] = json!({"rope_type": "yarn"}), &["factor"]);
    refused(|_, config| config["bias"] = json!(true), &["fc.bias"]);
    refused(|_, config| config["num_hidden_layers"] = json!(2), &["num_hidden_layers"]);
    refused(|_, config| *config = json!([1]), &["config.json"]);
    refused(|_, config| drop(config.as_object_mut().unwrap().remove("num_attention_heads")), &["num_attention_heads"]);
    let table = |tensors: &mut Tensors, config: &mut Value| {
        tensors.push(("embed_tokens.weight".into(), vec![299, 32], values(299 * 32, 1)));
        config["vocab_size"] = json!(299);
    };
    refused(table, &["299", "300"]);
}

#[test]
fn a_layer_without_a_config_or_for_another_model_is_refused() {
    let (decoder, dir) = (decoder(), tempfile::tempdir().unwrap());
    write(dir.path(), &EagleShape::of(decoder.config(), true), |_, _| ());
    let folder = tempfile::tempdir().unwrap();
    LlamaShape { hidden_size: 64, ..SHAPE }.write(folder.path(), FloatFormat::F32, 3).unwrap();
    let bigger = Arc::new(Decoder::load(folder.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
    let path = dir.path().to_str().unwrap();
    said(&load(dir.path(), &bigger).unwrap_err().to_string(), path, &["32", "64"]);
    assert!(load(dir.path(), &decoder).is_ok());
    std::fs::remove_file(dir.path().join("config.json")).unwrap();
    said(&load(dir.path(), &decoder).unwrap_err().to_string(), path, &["config.json", "attention heads"]);
}

/// Keys that published configs leave out are taken from the tensors and the backbone.
#[test]
fn sparse_configs_and_foreign_class_names_load() {
    let decoder = decoder();
    for class in ["LlamaForCausalLM", "LlamaForCausalLMEagle", "EagleLlamaForCausalLM", "Qwen2ForCausalLM"] {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &EagleShape::of(decoder.config(), false), |_, config| {
            let object = config.as_object_mut().unwrap();
            for key in ["vocab_size", "max_position_embeddings", "num_hidden_layers", "head_dim", "model_type"] {
                object.remove(key);
            }
            object.insert("architectures".into(), json!([class]));
        });
        load(dir.path(), &decoder).unwrap();
    }
}
