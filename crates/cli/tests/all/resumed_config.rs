//! A resumed run keeps its own config: changed keys are refused by name, or recorded.

use crate::chain;
use crate::gorgon;

use chain::{Job, finished, stages, start};
use gorgon::{gorgon, json, refused, stderr, stdout};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A training that was stopped after six of twelve steps, and the weights of one that was not.
fn stopped() -> (Job, PathBuf) {
    let job = Job::new();
    job.distill(&[]);
    let config = job.text("train.toml");
    // It dies while it writes its second checkpoint's name.
    let output =
        start(&["train", "-c", &config], &[("GORGON_CRASH_AT", "before-rename:9")]).wait_with_output().unwrap();
    assert!(!output.status.success());
    let run = job.run().unwrap();
    (job, run)
}

fn checkpoints(run: &Path) -> usize {
    let inside = run.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    inside.filter(|name| name.to_string_lossy().starts_with("step-")).count()
}

#[test]
fn a_run_is_resumed_by_its_name_alone() {
    let whole = Job::new();
    whole.distill(&[]);
    whole.train(&[]);
    let (job, run) = stopped();
    let run = run.to_str().unwrap();
    let plan = json(&finished(&["train", "--resume", run, "--dry-run", "--json"], &[]));
    let resume = &plan["plan"]["resume"];
    let step = resume["step"].as_u64().unwrap_or(0);
    assert_eq!(resume["steps_left"], 12 - step, "{plan}");
    assert_eq!(resume["damaged"], serde_json::json!([]));
    finished(&["train", "--resume", run], &[]);
    assert_eq!(job.weights(), whole.weights());
}

#[test]
fn changed_keys_are_refused_by_name_or_recorded() {
    let (job, run) = stopped();
    let (config, run) = (job.text("train.toml"), run.to_str().unwrap().to_owned());
    let own = std::fs::read_to_string(Path::new(&run).join("config.toml")).unwrap();
    let resume = ["train", "-c", &config, "--resume", &run];
    let with = |more: &[&'static str]| [&resume[..], more].concat();
    refused(&with(&["training.learning_rate=5e-3"]), &["training.learning_rate", "0.001", "0.005"]);
    refused(&with(&["data=elsewhere"]), &["data: ", "elsewhere"]);
    refused(&["train", "--resume", &run, "training.steps=20"], &["training.steps", "12", "20"]);
    refused(&with(&["medusa.heads=2", "--allow-change", "medusa.heads"]), &["medusa.heads", "cannot change", "shape"]);
    refused(&with(&["method=hydra", "--allow-change", "method"]), &["method: ", "cannot change", "medusa"]);
    refused(&with(&["--allow-change", "training.stepz"]), &["training.stepz", "training.steps"]);
    assert_eq!(std::fs::read_to_string(Path::new(&run).join("config.toml")).unwrap(), own);

    let change = with(&["training.steps=14", "--allow-change", "training.steps"]);
    let plan = finished(&[&change[..], &["--dry-run"]].concat(), &[]);
    assert!(stderr(&plan).contains("would change training.steps from 12 to 14"), "{}", stderr(&plan));
    assert_eq!(std::fs::read_to_string(Path::new(&run).join("config.toml")).unwrap(), own);
    let said = stderr(&finished(&change, &[]));
    assert!(said.contains("changed training.steps from 12 to 14"), "{said}");
    let read = |name: &str| std::fs::read_to_string(Path::new(&run).join(name)).unwrap();
    assert!(read("config.toml").contains("steps = 14"));
    assert!(read("log.txt").contains("changed training.steps from 12 to 14"));
    let records: Vec<Value> = read("metrics.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let wanted = serde_json::json!({"key": "training.steps", "old": 12, "new": 14});
    assert_eq!(records.iter().filter(|record| record["changed"] == wanted).count(), 1);
    let provenance: Value = serde_json::from_str(&read("provenance.json")).unwrap();
    let resumed = &provenance["resumed"][0];
    assert_eq!((&resumed["changes"][0], resumed["step"].is_u64()), (&wanted, true), "{provenance}");
    // The changed run is its own source again.
    finished(&["train", "--resume", &run], &[]);
}

/// Evaluations with other settings are not compared with earlier ones.
#[test]
fn a_finished_run_is_evaluated_again_with_other_settings() {
    // Its answers are no repetitions, so that the first tokens of one are accepted otherwise than the later ones.
    let tiny = format!("model={:?}", concat!(env!("CARGO_MANIFEST_DIR"), "/../../checkpoints/tiny"));
    let job = Job::new();
    job.distill(&[&tiny]);
    job.train(&[&tiny, "training.steps=6", "eval_decoded_prompts=2", "eval_decoded_tokens=8"]);
    let run = job.run().unwrap();
    let name = run.to_str().unwrap();
    let records = || -> Vec<Value> {
        let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let evaluations = || records().iter().filter(|record| record.get("evaluation").is_some()).count();
    let before = evaluations();
    let results = || -> Value { serde_json::from_slice(&std::fs::read(run.join("results.json")).unwrap()).unwrap() };
    let plan = results()["plan"].clone();
    assert!(plan["fitting_seconds"]["measured"].is_number() && plan["undisturbed"] == true, "{plan}");
    finished(&["train", "--resume", name], &[]);
    assert_eq!(evaluations(), before, "the same evaluation is recorded once");
    assert_eq!(results()["plan"], plan, "nothing was fitted, so nothing new was measured");
    let key = "eval_decoded_tokens";
    let said = stderr(&finished(&["train", "--resume", name, "eval_decoded_tokens=24", "--allow-change", key], &[]));
    assert!(said.contains("was evaluated again") && said.contains("train and serve agree"), "{said}");
    assert_eq!(evaluations(), before + 1);
    let all = records();
    let newest = all.iter().rev().find_map(|record| record.get("evaluation")).unwrap();
    assert_eq!(results()["tokens_per_step"]["decoded"], newest["tau"]);
    // More steps: the first evaluation with other settings is the best again, whatever the earlier ones measured.
    let more = ["training.steps=8", "eval_conversations=3"];
    let allow = ["--allow-change", "training.steps", "--allow-change", "eval_conversations"];
    finished(&[&["train", "--resume", name][..], &more, &allow].concat(), &[]);
    assert_eq!(results()["best_step"], 8, "{}", results());
}

#[test]
fn a_dry_run_names_damaged_checkpoints_and_changes_nothing() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&["training.save_total_limit=9"]);
    let run = job.run().unwrap();
    std::fs::write(run.join("step-000012/model.safetensors"), b"cut").unwrap();
    let before = checkpoints(&run);
    let output = finished(&["train", "--resume", run.to_str().unwrap(), "--dry-run"], &[]);
    let said = stderr(&output);
    assert!(said.contains("damaged checkpoint would be set aside") && said.contains("step-000012"), "{said}");
    assert!(said.contains("would resume from step 9: 3 of 12 steps left"), "{said}");
    assert_eq!(checkpoints(&run), before);
}

/// A run goes on with the inputs that it was begun with: the model's files and the run's own config.
#[test]
fn changed_inputs_are_refused() {
    let job = Job::new();
    let model = job.path("model");
    std::fs::create_dir(&model).unwrap();
    for file in std::fs::read_dir(chain::backbone()).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), model.join(file.file_name())).unwrap();
    }
    let key = format!("model={:?}", model.to_str().unwrap());
    job.distill(&[&key]);
    job.train(&[&key, "training.steps=6"]);
    let run = job.run().unwrap();
    let more = ["train", "--resume", run.to_str().unwrap(), "training.steps=8", "--allow-change", "training.steps"];
    let distill = job.text("distill.toml");
    let changed = |path: &Path, change: &dyn Fn(&mut Vec<u8>), args: &[&str], words: &[&str]| {
        let before = std::fs::read(path).unwrap();
        let mut bytes = before.clone();
        change(&mut bytes);
        std::fs::write(path, bytes).unwrap();
        refused(args, words);
        std::fs::write(path, before).unwrap();
    };
    let space = |bytes: &mut Vec<u8>| bytes.push(b'\n');
    let begun = ["it is not what", "was begun with"];
    changed(&model.join("config.json"), &space, &more, &[&["config.json"][..], &begun].concat());
    // Before this error stands a note: the data was made with other weights.
    let weights = model.join("model.safetensors");
    let before = std::fs::read(&weights).unwrap();
    let mut bytes = before.clone();
    *bytes.last_mut().unwrap() ^= 4;
    std::fs::write(&weights, bytes).unwrap();
    let output = gorgon(&more);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("weights: it is not what"));
    std::fs::write(&weights, before).unwrap();
    changed(&run.join("config.toml"), &space, &more, &["config.toml", "changed after the run wrote it"]);
    let words = ["begun with model_files.config.json"];
    changed(&model.join("config.json"), &space, &["distill", "-c", &distill, &key], &words);
}

/// A line of the metrics that is cut off is dropped with a word, and something is said of damaged records.
#[test]
fn damaged_records_are_reported() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&["training.steps=6"]);
    let run = job.run().unwrap();
    let more = ["train", "--resume", run.to_str().unwrap(), "training.steps=8", "--allow-change", "training.steps"];
    let metrics = run.join("metrics.jsonl");
    let text = std::fs::read(&metrics).unwrap();
    std::fs::write(&metrics, &text[..text.len() - 3]).unwrap();
    let said = stderr(&finished(&more, &[]));
    assert!(said.contains("its last line is cut off"), "{said}");
    let config: String = std::fs::read_to_string(run.join("config.toml")).unwrap();
    assert!(config.contains("steps = 8"), "{config}");
    let results: Value = serde_json::from_slice(&std::fs::read(run.join("results.json")).unwrap()).unwrap();
    assert_eq!(results["plan"]["undisturbed"], false, "{results}");
    assert!(results["plan"]["memory_bytes"]["measured"].is_null(), "{results}");
    std::fs::remove_file(&metrics).unwrap();
    let said = stderr(&finished(&["train", "--resume", run.to_str().unwrap()], &[]));
    assert!(said.contains("it is gone"), "{said}");
    for (file, words) in [("provenance.json", "provenance.json"), ("metrics.jsonl", "no records")] {
        std::fs::write(run.join(file), "").unwrap();
        let output = gorgon(&["runs", "show", run.to_str().unwrap()]);
        assert!((stdout(&output) + &stderr(&output)).contains(words), "{file}: {}", stdout(&output));
    }
}

#[test]
fn changed_keys_of_other_stages_are_refused_by_name() {
    let job = stages::pretraining();
    let config = job.text("pretrain.toml");
    finished(&["pretrain", "-c", &config], &[]);
    let run = job.run().unwrap();
    let resume = ["dev", "pretrain", "-c", &config, "--resume", run.to_str().unwrap()];
    refused(&[&resume[..], &["training.steps=20"]].concat(), &["training.steps", "8", "20"]);
    refused(&[&resume[..], &["seed=4"]].concat(), &["seed: ", "3", "4"]);

    let job = Job::new();
    job.distill(&[]);
    stages::comparison(&job);
    let config = job.text("compare.toml");
    finished(&["compare", "-c", &config], &[]);
    let run = job.run().unwrap();
    let resume = ["compare", "-c", &config, "--resume", run.to_str().unwrap()];
    refused(&[&resume[..], &["bench_prompts=3"]].concat(), &["bench_prompts", "2", "3"]);
    refused(&[&resume[..], &["seeds=[2]"]].concat(), &["seeds: ", "[1]", "[2]"]);
}

#[test]
fn without_a_config_there_is_nothing_to_do() {
    refused(&["train"], &["--config"]);
    refused(&["train", "-c", "x.toml", "--allow-change", "seed"], &["--resume"]);
    let folder = tempfile::tempdir().unwrap();
    refused(&["train", "--resume", folder.path().to_str().unwrap()], &["config.toml", "no config"]);
}
