//! Files where folders are expected, folders where files are, and folders that are somebody else's.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished, start};
use gorgon::{Model, gorgon as run, json, refused, stderr};

/// A distillation writes into a folder of its own: in a model's folder its files would hide the model.
#[test]
fn a_distillation_takes_no_folder_of_others() {
    let (job, model) = (Job::new(), Model::new());
    let config = job.text("distill.toml");
    let out = |folder: &str| format!("out={folder:?}");
    refused(&["distill", "-c", &config, &out(model.name())], &[model.name(), "config.json is there"]);
    assert!(!model.file("identity.json").exists() && !model.file("config.toml").exists());
    let file = job.text("distill.toml");
    refused(&["distill", "-c", &config, &out(&file)], &["it is no folder"]);
    // Temporary files of an interrupted write do no harm.
    let own = job.path("own");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(own.join(".gorgon-abc.tmp"), b"").unwrap();
    finished(&["distill", "-c", &config, &out(own.to_str().unwrap())], &[]);
}

#[test]
fn files_and_folders_are_told_apart() {
    let job = Job::new();
    job.write("file", "{\"prompt\": \"Hello\"}\n");
    let (file, folder, train) = (job.text("file"), job.text(""), job.text("train.toml"));
    refused(&["train", "-c", &train, &format!("data={file:?}")], &["file: it is a file", "folder of shards"]);
    refused(&["train", "-c", &folder], &["it is a folder, and a file is expected"]);
    let model = backbone().to_str().unwrap();
    refused(&["init", model, &file, "--dir", &file], &["file: it is no folder"]);
}

/// A result that could not be written is refused before anything is measured.
#[test]
fn places_of_results_are_checked_first() {
    let model = Model::new();
    let (prompts, out) = (model.file("prompts.jsonl"), model.file("none/rows.json"));
    let (prompts, out) = (prompts.to_str().unwrap(), out.to_str().unwrap());
    let bench = ["bench", "--model", model.name(), "--prompts", prompts, "--drafter", "suffix", "--out", out];
    refused(&bench, &["rows.json", "none does not exist"]);
    refused(&["dev", "suite", "cpu", "--out", out], &["rows.json", "none does not exist"]);
}

/// The run is another process's: that is said before a model is loaded and steps are planned.
#[test]
fn a_run_in_use_is_refused_first() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&["training.steps=2"]);
    let path = job.run().unwrap();
    let held = gorgon_runs::run_dir::RunDir::open(&path).unwrap();
    let output =
        run(&["train", "--resume", path.to_str().unwrap(), "training.steps=4", "--allow-change", "training.steps"]);
    let said = stderr(&output);
    assert!(!output.status.success() && said.contains("another process is using this folder"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    drop(held);
}

/// An empty chat template, and one that refuses all prompts, are named.
#[test]
fn templates_without_a_text_are_named() {
    let (job, model) = (Job::new(), Model::new());
    for file in std::fs::read_dir(backbone()).unwrap().map(|entry| entry.unwrap().path()) {
        std::fs::copy(&file, model.file(file.file_name().unwrap().to_str().unwrap())).unwrap();
    }
    std::fs::write(model.file("chat_template.jinja"), "\n").unwrap();
    refused(&["generate", "--model", model.name(), "--prompt", "Hello"], &["chat_template.jinja", "it is empty"]);
    let inspected = run(&["inspect", model.name(), "--json"]);
    assert!(!inspected.status.success());
    assert!(json(&inspected)["problems"].to_string().contains("it is empty"), "{}", stderr(&inspected));
    std::fs::write(model.file("chat_template.jinja"), "{{ raise_exception('no way') }}").unwrap();
    let (config, named) = (job.text("distill.toml"), format!("model={:?}", model.name()));
    let said = stderr(&start(&["distill", "-c", &config, &named], &[]).wait_with_output().unwrap());
    assert!(said.contains("no conversation has an answer") && said.contains("no way"), "{said}");
}
