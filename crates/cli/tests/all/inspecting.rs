//! `gorgon inspect` of everything that gorgon reads and writes; numbers are numbers.

use crate::chain;
use crate::gorgon;
use crate::shared;

use chain::{Job, backbone, finished};
use gorgon::{Model, gorgon, json, refused, stderr, stdout};
use serde_json::Value;
use std::path::Path;

/// A small Medusa head as PyTorch stores it.
const PYTORCH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../draft/tests/data/medusa_lm_head.pt");

fn inspected(path: &str) -> Value {
    let document = json(&finished(&["inspect", path, "--json"], &[]));
    assert_eq!(document["ok"], true, "{document}");
    document
}

/// No number is written with a unit or in words: `"8.3 M"`.
fn no_number_in_words(value: &Value) {
    match value {
        Value::String(text) => {
            let mut parts = text.split(' ');
            let number = parts.next().is_some_and(|part| part.parse::<f64>().is_ok());
            assert!(!number || parts.count() != 1, "a number in words: {text:?}");
        }
        Value::Array(values) => values.iter().for_each(no_number_in_words),
        Value::Object(fields) => fields.values().for_each(no_number_in_words),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Fills every tensor of a model with NaN.
fn fill_with_nan(model: &Model) {
    let path = model.file("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[start..].chunks_exact_mut(4).for_each(|number| number.copy_from_slice(&f32::NAN.to_le_bytes()));
    std::fs::write(&path, bytes).unwrap();
}

#[test]
fn a_model_of_nan_is_named() {
    let model = Model::new();
    assert_eq!(inspected(model.name())["problems"], serde_json::json!([]));
    fill_with_nan(&model);
    let document = json(&gorgon(&["inspect", model.name(), "--json"]));
    let problems = document["problems"].as_array().unwrap();
    let wanted = "tensor model.layers.0.input_layernorm.weight: element 0 is NaN, not a finite number";
    assert_eq!(problems, &[Value::from(wanted)], "{document}");
    let output = gorgon(&["generate", "--model", model.name(), "--ids", "1", "--max-new-tokens", "2"]);
    let said = stderr(&output);
    assert!(!output.status.success() && said.contains("not finite"), "{said}{}", stdout(&output));
}

#[test]
fn everything_is_recognised_and_numbers_are_numbers() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&["cache_features=true"]);
    let run = job.run().unwrap();
    let tree = job.text("tree.json");
    std::fs::write(&tree, "[[0], [0, 0], [1]]").unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let data = job.text("data");
    let shard = std::fs::read_dir(&data)
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.extension().is_some_and(|e| e == "parquet"));
    for (path, kind, numbers) in [
        (text(backbone()), "model", &["parameters", "context_tokens", "size_bytes", "layers"][..]),
        (text(&run), "run", &["steps", "total_steps", "size_bytes", "held_out_loss", "checkpoints"]),
        (text(&run.join("heads")), "heads", &["heads", "hidden_size", "size_bytes", "files"]),
        (text(&run.join("step-000012")), "heads", &["heads"]),
        (text(&run.join("heads/model.safetensors")), "heads", &["heads"]),
        (data.clone(), "dataset", &["shards", "conversations", "tokens", "assistant_tokens", "size_bytes"]),
        (text(&shard.unwrap()), "dataset", &["conversations"]),
        (text(&job.features().unwrap()), "features", &["files", "hidden_states", "size_bytes"]),
        (tree.clone(), "tree", &["nodes", "depth", "leaves"]),
        (PYTORCH.to_owned(), "heads", &["heads", "hidden_size"]),
    ] {
        let document = inspected(&path);
        assert_eq!(document["kind"], kind, "{path}: {document}");
        for key in numbers {
            assert!(document["facts"][key].is_number(), "{path}: {key}: {document}");
        }
        no_number_in_words(&document["facts"]);
        let shown = stdout(&finished(&["inspect", &path], &[]));
        assert!(shown.contains(kind) && shown.contains("no problems"), "{shown}");
    }
    assert_eq!(inspected(&tree)["facts"]["nodes_by_depth"], serde_json::json!([1, 2, 1]));
    let report: Value = serde_json::from_slice(&std::fs::read(job.path("data/report.json")).unwrap()).unwrap();
    assert_eq!(inspected(&data)["facts"]["tokens"], report["tokens"]);
}

#[test]
fn what_is_damaged_or_nothing_is_said_to_be() {
    let job = Job::new();
    job.distill(&[]);
    std::fs::write(job.path("data/shard-00000.parquet"), "PAR1").unwrap();
    let output = gorgon(&["inspect", &job.text("data"), "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("shard-00000.parquet"));
    std::fs::write(job.path("tree.json"), "[[0], [3, 0]]").unwrap();
    refused(&["inspect", &job.text("tree.json")], &["tree.json"]);
    std::fs::write(job.path("broken.pt"), "no pickle").unwrap();
    refused(&["inspect", &job.text("broken.pt")], &["broken.pt"]);
    std::fs::write(job.path("notes.txt"), "text").unwrap();
    refused(&["inspect", &job.text("notes.txt")], &["notes.txt"]);
    for (name, text, words) in [
        ("p.jsonl", "{\"prompt\": \"Hello\"}\n", &["a file of text, such as prompts"][..]),
        ("metrics.jsonl", "{}\n", &["the metrics of a run"]),
        ("train-2.toml", "method = \"medusa\"\n", &["a config of gorgon train"]),
        ("config.json", "{\"model_type\": \"llama\"}", &["the config of a model or of draft heads"]),
        ("model.safetensors.index.json", "{\"weight_map\": {}}", &["the index of a model's weights"]),
        ("tokenizer.json", "{}", &["a part of a tokenizer"]),
    ] {
        job.write(name, text);
        refused(&["inspect", &job.text(name)], words);
    }
    std::fs::create_dir(job.path("empty")).unwrap();
    refused(&["inspect", &job.text("empty")], &["empty", NEITHER]);
}

/// Said of a folder of nothing in particular.
const NEITHER: &str = "this is neither a model, heads, a run, a dataset nor a tree";

/// Facts that say nothing are left out for people; a tree of one node and a folder of nothing are said to be that.
#[test]
fn what_is_empty_is_said_to_be_or_left_out() {
    let job = Job::new();
    job.distill(&[]);
    let shown = stdout(&finished(&["inspect", &job.text("data")], &[]));
    for nothing in ["inputs", "top_p", "top_k"] {
        assert!(!shown.contains(nothing), "{nothing}: {shown}");
    }
    assert!(shown.contains("made with") && shown.contains("max_new_tokens"), "{shown}");
    assert!(inspected(&job.text("data"))["facts"]["made_with"]["sampling"].as_object().unwrap().contains_key("top_k"));
    job.write("tree.json", "[]");
    let shown = stdout(&finished(&["inspect", &job.text("tree.json")], &[]));
    assert!(shown.contains("it drafts nothing") && !shown.contains("rank paths"), "{shown}");
    // Of a folder of nothing in particular, the content is named.
    job.train(&["training.steps=2"]);
    for (folder, file) in [("texts", Some("held_out.jsonl")), ("empty", None)] {
        std::fs::create_dir(job.path(folder)).unwrap();
        file.iter().for_each(|file| job.write(&format!("{folder}/{file}"), "{}"));
    }
    for (folder, hint) in [
        ("runs", format!("hint: gorgon runs list {} lists the runs in it\n", job.text("runs"))),
        ("texts", "/texts has held_out.jsonl\n".into()),
        ("empty", "/empty is empty\n".into()),
    ] {
        let said = stderr(&gorgon(&["inspect", &job.text(folder)]));
        assert!(said.contains(NEITHER) && said.ends_with(&hint), "{said}");
    }
}

/// PyTorch files load wherever heads do; the old verb for them still works, and names the new one.
#[test]
fn pytorch_files_are_heads() {
    let job = Job::new();
    for (out, verb) in [("exported", &["export", "--to", "safetensors"][..]), ("converted", &["convert"])] {
        let output = finished(&[verb, &[PYTORCH, &job.text(out)]].concat(), &[]);
        assert_eq!(stderr(&output).contains("gorgon export"), verb[0] == "convert", "{}", stderr(&output));
        assert_eq!(inspected(&job.text(out))["facts"]["format"], "medusa-v1");
    }
    let bytes = |out: &str| std::fs::read(job.path(out).join("model.safetensors")).unwrap();
    assert_eq!(bytes("exported"), bytes("converted"));
    refused(
        &["export", PYTORCH, "--to", "safetensors", &job.text("narrow"), "--dtype", "f16"],
        &["--dtype f16", "safetensors"],
    );
    // Heads of four hidden values for another model: they are read, and do not fit.
    let model = backbone().to_str().unwrap();
    refused(&["generate", "--model", model, "--heads", PYTORCH, "--prompt", "x"], &["hidden size"]);
}

/// The method, the formats, what stays in floats, and what is not applied.
#[test]
fn quantised_checkpoints() {
    let Some(root) = shared::shared("fixtures/quantised", "inspection of quantised checkpoints") else { return };
    for (name, method, format, ignored) in [
        ("ct_int4_g128_asym_actorder", "compressed-tensors", "packed integers of 4 bits, groups of 128", 0),
        ("ct_int8_channel", "compressed-tensors", "integers of 8 bits, a scale per output, symmetric", 1),
        ("fp8_block128", "fp8", "blocks of 128 x 128", 1),
        ("gptq_asym_desc_act", "gptq", "groups of 64, with zero points, activation order", 0),
        ("awq_gemm_g128", "awq", "layout gemm", 0),
        ("bnb_nf4_double", "bitsandbytes", "nf4", 0),
    ] {
        let document = inspected(root.join(name).to_str().unwrap());
        let facts = &document["facts"];
        assert_eq!(
            (&facts["quantisation_method"], &facts["quantised_modules"]),
            (&method.into(), &14.into()),
            "{name}"
        );
        assert!(facts["quantised_formats"][0].as_str().unwrap().contains(format), "{name}: {facts}");
        assert_eq!(facts["quantisation_settings_ignored"].as_array().unwrap().len(), ignored, "{name}");
        let tied = facts["tied_embeddings"] == true;
        assert_eq!(facts["modules_in_floats"].as_array().unwrap().len(), if tied { 1 } else { 2 }, "{name}: {facts}");
        assert!(facts["quantised_bytes"].as_u64() < facts["size_bytes"].as_u64());
    }
}

/// Damage beside the weights of heads, a store, a config of another verb, and trees that cannot be drawn.
#[test]
fn neighbours_are_named() {
    let job = Job::new();
    job.distill(&[]);
    let (heads, model) = (job.text("heads"), backbone().to_str().unwrap());
    finished(&["export", PYTORCH, "--to", "safetensors", &heads], &[]);
    job.write("heads/tree.json", "[[0], [0,");
    job.write("heads/calibration.json", "{");
    let problems = json(&gorgon(&["inspect", &heads, "--json"]))["problems"].clone();
    for (problem, file) in problems.as_array().unwrap().iter().zip(["tree.json", "calibration.json"]) {
        assert!(problem.as_str().unwrap().contains(file), "{problems}");
    }
    assert_eq!(problems.as_array().unwrap().len(), 2, "{problems}");
    refused(&["tree", "show", "--heads", &heads, "--tree", "dynamic:10,3,2"], &["its shape depends on the drafts"]);
    std::fs::rename(job.path("heads/model.safetensors"), job.path("heads/ngrams.safetensors")).unwrap();
    refused(&["generate", "--model", model, "--heads", &heads, "--prompt", "x"], &[&heads, "no "]);
    let store = job.text("answers.store");
    finished(&["store", "build", &job.text("data"), "--model", model, &store], &[]);
    refused(&["inspect", &store], &["answers.store: this is a store of texts"]);
    refused(
        &["train", "-c", &job.text("distill.toml")],
        &["distill.toml: this is a config of gorgon distill, not of gorgon train"],
    );
}
