//! An EAGLE draft layer through the command line: trained, looked at, decoded with, exported.

use crate::chain;
use crate::gorgon;
use crate::shared;

use chain::{Job, backbone, finished};
use gorgon::{json, refused, stderr};
use serde_json::Value;

/// The reference's layers load as they lie there, and every recorded generation comes out.
#[test]
fn recorded_generations_are_reproduced() {
    let test = "recorded_generations_are_reproduced";
    for (layer, model) in [("eagle1_llama_mha", "llama_mha"), ("eagle3_llama_7layer_bf16", "llama_7layer_bf16")] {
        let Some(heads) = shared::shared(&format!("fixtures/eagle/{layer}"), test) else { return };
        let Some(model) = shared::shared(&format!("fixtures/backbones/{model}"), test) else { return };
        let expected: Value = serde_json::from_slice(&std::fs::read(heads.join("expected.json")).unwrap()).unwrap();
        for run in expected["runs"].as_array().unwrap() {
            let list = |key: &str| -> Vec<u32> { serde_json::from_value(run[key].clone()).unwrap() };
            let prompt = list("prompt").iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            let output = list("output");
            let tree = format!("dynamic:{},{},{}", run["total_tokens"], run["depth"], run["top_k"]);
            // The recorded output leaves out the last step's bonus.
            let new = (output.len() + 1).to_string();
            let named = [("--ids", prompt.as_str()), ("--tree", &tree), ("--max-new-tokens", &new)];
            let mut args = vec!["generate", "--model", model.to_str().unwrap(), "--heads", heads.to_str().unwrap()];
            named.iter().for_each(|(name, value)| args.extend([name, value]));
            let document = json(&finished(&[&args[..], &["--ignore-eos", "--json"]].concat(), &[]));
            let said: Vec<u32> = serde_json::from_value(document["ids"].clone()).unwrap();
            assert_eq!(said[..output.len()], output, "{layer}");
            if run["trees_stable_under_1e-5_weight_noise"] != false {
                assert_eq!(document["accepted"], run["accept_lengths"], "{layer}");
            }
        }
    }
}

fn inspected(dir: &str) -> Value {
    json(&finished(&["inspect", dir, "--json"], &[]))
}

/// The layer in a folder is recognised, and decoding with it gives the plain text.
fn decodes(dir: &str) {
    let model = backbone().to_str().unwrap();
    let found = inspected(dir);
    assert_eq!(found["facts"]["format"], "eagle", "{found}");
    assert_eq!(found["problems"].as_array().map(Vec::len), Some(0), "{found}");
    let decode = |more: &[&str]| {
        let base = ["generate", "--model", model, "--prompt", "What is 3 + 4?", "--max-new-tokens", "24", "--json"];
        json(&finished(&[&base[..], more].concat(), &[]))
    };
    let plain = decode(&[]);
    for more in [&["--heads", dir][..], &["--heads", dir, "--drafter", "eagle", "--tree", "chain:3"]] {
        let drafted = decode(more);
        assert_eq!(drafted["ids"], plain["ids"]);
        assert_eq!(drafted["drafter"], "eagle");
        assert_eq!(drafted["tree"], if more.len() > 2 { "chain:3" } else { "dynamic:60,5,10" });
    }
    let oracle = decode(&["--heads", dir, "--drafter", "oracle:1,1"]);
    assert_eq!(oracle["ids"], plain["ids"]);
    assert!(oracle["tokens_per_step"].as_f64().unwrap() > 1.5, "{}", oracle["tokens_per_step"]);
}

#[test]
fn a_layer_is_trained_decoded_with_and_exported() {
    let job = Job::new();
    job.distill(&[]);
    let config = job.text("train.toml");
    let train = ["train", "-c", &config, "method=\"eagle\"", "training.learning_rate=3e-3"];
    let plan = finished(&[&train[..], &["--dry-run"]].concat(), &[]);
    assert!(stderr(&plan).contains("a draft layer") && !job.path("runs").exists(), "{}", stderr(&plan));
    let document = json(&finished(&[&train[..], &["--json"]].concat(), &[]));
    let evaluation = &document["evaluation"];
    for key in ["regression", "cross_entropy", "top1", "top5"] {
        assert!(evaluation[key].is_number(), "{key}: {evaluation}");
    }
    assert!(evaluation["tau"].as_f64().unwrap() >= 1.0);
    let run = job.run().unwrap();
    assert!(run.file_name().unwrap().to_str().unwrap().starts_with("eagle-"));
    for name in ["config.toml", "metrics.jsonl", "best", "plots/loss.svg", "heads/config.json"] {
        assert!(run.join(name).is_file(), "{name}");
    }
    let first = job.weights();
    // The resolved config repeats the run, bit for bit, with cached states too.
    finished(&["train", "-c", run.join("config.toml").to_str().unwrap(), "cache_features=true"], &[]);
    assert_eq!(job.weights(), first);
    let run = run.to_str().unwrap();
    let (out, model) = (job.text("exported"), backbone().to_str().unwrap());
    finished(&["export", run, "--to", "eagle", &out], &[]);
    decodes(&format!("{run}/heads"));
    decodes(&out);
    refused(&["export", run, "--to", "medusa-v2", &job.text("other")], &["eagle"]);
    refused(&["generate", "--model", model, "--heads", run, "--drafter", "medusa", "--prompt", "x"], &["eagle"]);
}

#[test]
fn wrong_settings_are_refused_in_a_line() {
    let job = Job::new();
    job.distill(&[]);
    let train = job.text("train.toml");
    for (given, word) in [
        ("eagle.noise=-1", "eagle.noise"),
        ("eagle.cross_entropy=nan", "eagle.cross_entropy"),
        ("eagle.typo=1", "typo"),
        ("training.max_seq_len=2", "label"),
        ("training.max_grad_norm=0", "max_grad_norm"),
    ] {
        refused(&["train", "-c", &train, "method=\"eagle\"", given], &[word]);
    }
    refused(&["generate", "--model", backbone().to_str().unwrap(), "--drafter", "eagle", "--prompt", "x"], &["heads"]);
}
