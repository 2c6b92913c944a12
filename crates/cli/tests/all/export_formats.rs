//! Number formats and model cards of exports.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished};
use gorgon::{gorgon, json, refused, stderr};
use gorgon_runs::tensors::{self, Source, write_f32};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

fn trained(more: &[&str]) -> (Job, String) {
    let job = Job::new();
    job.distill(&[]);
    job.train(more);
    let run = job.run().unwrap().to_str().unwrap().to_owned();
    (job, run)
}

/// The number formats of a folder's tensors, and what its config says of them.
fn formats(folder: &str) -> (BTreeSet<String>, Value) {
    let mut files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let path = files.find(|path| path.extension().is_some_and(|end| end == "safetensors")).unwrap();
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let found = file.tensors().into_iter().map(|(_, tensor)| format!("{:?}", tensor.dtype())).collect();
    let config: Value = serde_json::from_slice(&std::fs::read(Path::new(folder).join("config.json")).unwrap()).unwrap();
    (found, config["torch_dtype"].clone())
}

#[test]
fn weights_are_in_bf16_unless_another_format_is_named() {
    let (job, run) = trained(&[]);
    for (dtype, stored, torch) in [
        (None, "BF16", "bfloat16"),
        (Some("bf16"), "BF16", "bfloat16"),
        (Some("f16"), "F16", "float16"),
        (Some("f32"), "F32", "float32"),
    ] {
        for to in ["medusa-v1", "medusa-v2", "tgi", "vllm-medusa"] {
            let out = job.text(&format!("{to}-{dtype:?}"));
            let named: Vec<&str> = dtype.iter().flat_map(|dtype| ["--dtype", dtype]).collect();
            finished(&[&["export", &run, "--to", to, &out][..], &named].concat(), &[]);
            assert_eq!(formats(&out), ([stored.to_owned()].into(), torch.into()), "{to} {dtype:?}");
            let card = std::fs::read_to_string(Path::new(&out).join("README.md")).unwrap();
            let line = card.lines().find(|line| line.contains("number format")).unwrap();
            assert!(line.contains(dtype.unwrap_or("bf16")), "{line}");
        }
    }
    refused(&["export", &run, "--to", "merged", &job.text("x"), "--dtype", "f16"], &["--dtype f16", "merged"]);
    assert!(!job.path("x").exists());
}

/// A weight that the number format cannot hold is refused with its tensor and its value, and nothing is left.
#[test]
fn weights_beyond_f16_are_named() {
    let job = Job::new();
    let d = 32;
    let (heads, out) = (job.path("heads"), job.text("out"));
    std::fs::create_dir(&heads).unwrap();
    let tensor = |name: &str, shape: Vec<usize>| {
        let values: Vec<f32> =
            (0..shape.iter().product()).map(|i: usize| if i == 7 { 70_000.0 } else { 0.5 }).collect();
        let fill = Box::new(move |file: &mut dyn Write| write_f32(file, &values));
        Source { name: name.into(), dtype: Dtype::F32, shape, fill }
    };
    let all = [tensor("0.0.linear.weight", vec![d, d]), tensor("0.0.linear.bias", vec![d])];
    tensors::write(&heads.join("model.safetensors"), &all).unwrap();
    let (from, model) = (heads.to_str().unwrap(), backbone().to_str().unwrap());
    let export = ["export", from, "--to", "medusa-v2", &out, "--model", model];
    refused(&[&export[..], &["--dtype", "f16"]].concat(), &["0.0.linear.weight", "7e4", "f16", "--dtype bf16"]);
    assert!(!job.path("out").exists());
    finished(&export, &[]);
}

#[test]
fn cards_say_whose_lm_heads_there_are_and_name_no_path() {
    let (job, run) = trained(&[]);
    let card = |to: &str, from: &str, model: &[&str]| {
        let out = job.text(&format!("card-{to}-{}", model.len()));
        let _ = std::fs::remove_dir_all(&out);
        finished(&[&["export", from, "--to", to, &out][..], model].concat(), &[]);
        std::fs::read_to_string(Path::new(&out).join("README.md")).unwrap()
    };
    for (to, lm_heads, engine) in [
        ("medusa-v1", "4 in the file, each a copy of the base model's", "TensorRT-LLM"),
        ("tgi", "4 in the file, each a copy of the base model's", "text-generation-launcher"),
        ("vllm-medusa", "1 in the file for all heads, a copy of the base model's", "vllm serve BASE_MODEL"),
        ("medusa-v2", "none in the file; the base model's serves", "text-generation-launcher"),
    ] {
        let text = card(to, &run, &[]);
        for word in [lm_heads, engine, "Fitted to the dataset `data`", "tokens per step (τ)", "60 conversations"] {
            assert!(text.contains(word), "{to}: no {word:?} in {text}");
        }
        let here = job.dir.path().to_str().unwrap();
        assert!(!text.contains(here) && !text.contains(backbone().to_str().unwrap()), "{text}");
        assert!(!text.contains("base_model:"), "{text}");
    }
    job.train(&["medusa.own_lm_heads=true"]);
    let own = job.run().unwrap();
    let text = card("medusa-v1", own.to_str().unwrap(), &[]);
    assert!(text.contains("4 in the file, one per head, trained with the heads"), "{text}");
    // A model in the cache of the hub has its name there, and one that was saved from the hub says so.
    let cached = job.path("hub/models--owner--base/snapshots/0123");
    std::fs::create_dir_all(&cached).unwrap();
    for entry in std::fs::read_dir(backbone()).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), cached.join(entry.file_name())).unwrap();
    }
    let text = card("vllm-medusa", &run, &["--model", cached.to_str().unwrap()]);
    for word in ["base_model: owner/base", "for owner/base", "vllm serve owner/base"] {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

/// Modules go out under DeepSeek's names; a format of another method names the right one.
#[test]
fn modules_are_exported_in_deepseeks_names() {
    let (job, run) = trained(&["method=\"mtp\"", "mtp.depths=2"]);
    let out = job.text("out");
    finished(&["export", &run, "--to", "mtp", &out], &[]);
    let bytes = std::fs::read(Path::new(&out).join("model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    for layer in [2, 3] {
        for part in ["enorm", "hnorm", "eh_proj", "shared_head.norm", "self_attn.q_proj", "mlp.down_proj"] {
            let name = format!("model.layers.{layer}.{part}.weight");
            assert_eq!(file.tensor(&name).unwrap().dtype(), Dtype::BF16, "{name}");
        }
    }
    let config: Value = serde_json::from_slice(&std::fs::read(Path::new(&out).join("config.json")).unwrap()).unwrap();
    assert_eq!((&config["num_nextn_predict_layers"], &config["num_hidden_layers"]), (&2.into(), &2.into()));
    let found = json(&finished(&["inspect", &out, "--json"], &[]));
    assert_eq!((&found["facts"]["format"], &found["facts"]["modules"]), (&"mtp".into(), &2.into()));
    let card = std::fs::read_to_string(Path::new(&out).join("README.md")).unwrap();
    for word in ["MTP modules", "DeepSeek-V3's", "gorgon chat --model BASE_MODEL", "shared_head.norm"] {
        assert!(card.contains(word), "no {word:?} in {card}");
    }
    let wrong = gorgon(&["export", &run, "--to", "eagle3", &job.text("other")]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("mtp heads go to mtp"), "{}", stderr(&wrong));
}

/// Without uploads in the binary, an upload is refused before the export begins.
#[cfg(not(feature = "push"))]
#[test]
fn uploads_need_their_feature() {
    let (job, run) = trained(&[]);
    let out = job.text("out");
    let output = gorgon(&["export", &run, "--to", "medusa-v1", &out, "--push", "owner/name"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("built without the feature `push`"), "{}", stderr(&output));
    assert!(!Path::new(&out).exists());
}
