//! Models written in integers, as a person makes and uses them.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished};
use gorgon::{Model, gorgon, json, refused, stderr, stdout};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn tiny() -> String {
    root().join("checkpoints/tiny").to_str().unwrap().to_owned()
}

/// Names in a folder besides `known`.
fn others(folder: &Path, known: &[&str]) -> Vec<String> {
    let names = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| !known.contains(&name.as_str())).collect()
}

/// The project's own model in both formats: report, folder, inspection, text.
#[test]
fn the_tiny_model_in_integers() {
    let dir = tempfile::tempdir().unwrap();
    let prompts = root().join("datasets/tiny-chat/held_out.jsonl");
    let mut divergences = vec![];
    for (to, bits, format) in [("int8", 8.0, "8 bits"), ("int4", 4.0, "4 bits")] {
        let out = dir.path().join(to);
        let out = out.to_str().unwrap();
        let quantize = ["quantize", &tiny(), out, "--to", to, "--limit", "4", "--json", "--prompts"];
        let report = json(&finished(&[&quantize[..], &[prompts.to_str().unwrap()]].concat(), &[]));
        let stored: Value =
            serde_json::from_slice(&std::fs::read(dir.path().join(to).join("quantize.json")).unwrap()).unwrap();
        assert_eq!(report["out"], out);
        assert_eq!((&report["agreement"], &report["kinds"]), (&stored["agreement"], &stored["kinds"]));
        assert_eq!(report["kinds"].as_array().unwrap().len(), 7);
        let number = |key: &str| report[key].as_f64().unwrap();
        assert!(number("bits_per_weight") > bits && number("bits_per_weight") < bits + 0.25, "{report}");
        assert!(number("bytes_after") < number("bytes_before"));
        let agreement = &report["agreement"];
        assert!(agreement["positions"].as_u64().unwrap() > 100 && agreement["texts"] == 4);
        let exact = agreement["activations_f32"]["kl_nats_per_position"].as_f64().unwrap();
        assert!(agreement["activations_f32"]["top1_agreement"].as_f64().unwrap() > 0.8, "{agreement}");
        divergences.push(exact);
        for name in ["tokenizer.json", "tokenizer_config.json", "generation_config.json", "README.md", "config.json"] {
            assert!(Path::new(out).join(name).is_file(), "{name}");
        }
        let card = std::fs::read_to_string(Path::new(out).join("README.md")).unwrap();
        assert!(card.contains("compressed-tensors") && !card.contains(dir.path().to_str().unwrap()), "{card}");
        let seen = stdout(&finished(&["inspect", out], &[]));
        assert!(seen.contains("compressed-tensors") && seen.contains(format), "{seen}");
        let inspected = json(&finished(&["inspect", out, "--json"], &[]));
        assert!(inspected.to_string().contains("\"quantised_modules\":42"), "{inspected}");
        let generate = ["generate", "--model", out, "--prompt", "What is 3 + 4?", "--max-new-tokens", "24", "--json"];
        for more in [&[][..], &["--activation-bits", "8"], &["--drafter", "ngram:2"]] {
            let said = json(&finished(&[&generate[..], more].concat(), &[]));
            assert!(said["text"].as_str().unwrap().contains('7'), "{to} {more:?} {said}");
        }
    }
    assert!(divergences[0] < 0.1 * divergences[1] && divergences[1] > 1e-4, "{divergences:?}");
    assert!(others(dir.path(), &["int8", "int4"]).is_empty());
}

/// The long jobs take such a model as any other: distil with it, train heads on it, decode with them.
#[test]
fn heads_are_trained_on_a_model_in_integers() {
    let job = Job::new();
    let (model, out) = (backbone().to_str().unwrap(), job.text("int4"));
    let said = finished(&["quantize", model, &out, "--to", "int4", "--group", "64"], &[]);
    let (table, notes) = (stdout(&said), stderr(&said));
    assert!(table.contains("q_proj") && table.contains("model.layers.1.mlp.down_proj"), "{table}");
    assert!(notes.contains("no --prompts were given"), "{notes}");
    let named = format!("model={out:?}");
    job.distill(&[&named]);
    job.train(&[&named]);
    let run = job.run().unwrap();
    let heads = ["--heads", run.to_str().unwrap(), "--model", &out];
    let generate = ["generate", "--prompt", "Hi", "--max-new-tokens", "16", "--json"];
    let drafted = json(&finished(&[&generate[..], &heads].concat(), &[]));
    let plain = json(&finished(&[&generate[..], &["--model", &out]].concat(), &[]));
    assert_eq!(drafted["ids"], plain["ids"]);
}

#[test]
fn a_dry_run_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("deep/out");
    let quantize = ["quantize", &tiny(), out.to_str().unwrap(), "--to", "int4", "--dry-run"];
    let plan = stdout(&finished(&quantize, &[]));
    assert!(plan.contains("down_proj") && plan.contains("128") && plan.contains("lm_head"), "{plan}");
    let document = json(&finished(&[&quantize[..], &["--json"]].concat(), &[]));
    assert_eq!((&document["to"], &document["ignored"]), (&json!("int4"), &json!(["lm_head"])));
    assert!(others(dir.path(), &[]).is_empty());
}

#[test]
fn what_cannot_be_quantised_is_refused() {
    let (model, dir) = (Model::new(), tempfile::tempdir().unwrap());
    let (out, other) = (dir.path().join("out"), dir.path().join("other"));
    let (out, other) = (out.to_str().unwrap(), other.to_str().unwrap());
    refused(&["quantize", model.name(), out, "--to", "int5"], &["int5", "int8 or int4"]);
    refused(&["quantize", model.name(), out, "--to", "int4", "--group", "48"], &["48", "32, 64 or 128"]);
    refused(&["quantize", model.name(), out, "--to", "int8", "--group", "32"], &["--group 32", "one scale per output"]);
    refused(&["quantize", model.name(), model.name(), "--to", "int8"], &[model.name(), "not empty"]);
    refused(&["quantize", "no/such/model", out, "--to", "int8"], &["no/such/model"]);
    refused(&["quantize", model.name(), out, "--to", "int8", "--prompts", "no.jsonl"], &["no.jsonl"]);
    refused(&["quantize", model.name(), out, "--to", "int8", "--seed", "3"], &["--seed"]);
    assert!(others(dir.path(), &[]).is_empty());
    finished(&["quantize", model.name(), out, "--to", "int8"], &[]);
    refused(&["quantize", out, other, "--to", "int4"], &[out, "quantised already", "compressed-tensors"]);
    // A config that its weights do not fit.
    let narrow = Model::new();
    narrow.edit("config.json", |config| config["hidden_size"] = 33.into());
    refused(&["quantize", narrow.name(), other, "--to", "int4"], &["config.json"]);
    assert!(others(dir.path(), &["out"]).is_empty());
}

/// Damage that only shows while the weights are read leaves nothing behind.
#[test]
fn a_failure_half_way_leaves_nothing() {
    let (model, dir) = (Model::new(), tempfile::tempdir().unwrap());
    let path = model.file("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let index: Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let at = index["model.layers.1.mlp.down_proj.weight"]["data_offsets"][0].as_u64().unwrap() as usize + 8 + header;
    bytes[at..at + 4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let out = dir.path().join("out");
    let words = ["model.layers.1.mlp.down_proj.weight", "not finite"];
    refused(&["quantize", model.name(), out.to_str().unwrap(), "--to", "int8"], &words);
    assert!(others(dir.path(), &[]).is_empty());
}

/// Killed at any of its writes, the job leaves no folder of the name that it was to have, and the next one succeeds.
#[cfg(unix)]
#[test]
fn a_killed_job_leaves_no_folder() {
    let (model, dir) = (Model::new(), tempfile::tempdir().unwrap());
    let out = dir.path().join("out");
    let args = ["quantize", model.name(), out.to_str().unwrap(), "--to", "int8"];
    for point in ["after-write:1", "before-rename:3", "before-folder-sync:4"] {
        let status =
            Command::new(env!("CARGO_BIN_EXE_gorgon")).args(args).env("GORGON_CRASH_AT", point).output().unwrap();
        assert!(!status.status.success(), "{point}");
        assert!(!out.exists(), "{point}");
    }
    assert!(gorgon(&args).status.success());
    assert!(out.join("quantize.json").is_file());
}
