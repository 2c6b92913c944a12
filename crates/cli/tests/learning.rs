//! `chat --learn`: the text stays, corrections become training data, and the draft model is fitted to them.

mod chain;
mod gorgon;

use chain::{Job, backbone, finished};
use gorgon::{json, refused};
use gorgon_data::shard;

/// Another model with the backbone's tokens.
fn draft(job: &Job) -> String {
    let keys = ["method=\"layerskip\"", "layerskip.exit_layer=1", "training.learning_rate=3e-2", "training.steps=6"];
    finished(&[&["train", "-c", &job.text("train.toml")][..], &keys].concat(), &[]);
    job.run().unwrap().join("model").to_str().unwrap().to_owned()
}

#[test]
fn corrections_are_logged_and_learnt() {
    let job = Job::new();
    job.distill(&[]);
    let (draft, log, model) = (draft(&job), job.text("log"), backbone().to_str().unwrap());
    let drafter = format!("model:{draft}");
    let chat = |prompt: &str, more: &[&str]| {
        let base = ["chat", "--model", model, "-p", prompt, "--max-new-tokens", "32", "--json"];
        json(&finished(&[&base[..], more].concat(), &[]))["turns"][0]["ids"].clone()
    };
    let prompts = ["What is 3 + 4?", "Sort these numbers: 5, 2, 9.", "Tell me a story.", "Who are you?", "Count to 9."];
    for prompt in prompts {
        assert_eq!(chat(prompt, &["--drafter", &drafter, "--learn", &log]), chat(prompt, &["--drafter", "none"]));
    }
    let files = shard::files(&job.path("log")).unwrap();
    let labels: usize =
        files.iter().flat_map(|file| shard::read(file, 10_000).unwrap().0).map(|row| row.example.labels()).sum();
    assert!(labels > 0);
    let config = format!(
        "method = \"distill-spec\"\nmodel = {model:?}\ndata = {log:?}\nruns = {:?}\neval_data = {log:?}\nheld_out = 0.0\nseed = 1\n\
         eval_decoded_prompts = 0\n[distill_spec]\ndraft = {draft:?}\nanswers = \"data\"\nkeep_start = true\n\
         [training]\nsteps = 6\neval_every = 3\nlearning_rate = 1e-3\n",
        job.path("learnt")
    );
    job.write("learn.toml", &config);
    finished(&["train", "-c", &job.text("learn.toml")], &[]);
    let run = std::fs::read_dir(job.path("learnt")).unwrap().next().unwrap().unwrap().path();
    let learnt = format!("model:{}", run.join("model").display());
    assert_eq!(chat(prompts[0], &["--drafter", &learnt]), chat(prompts[0], &["--drafter", "none"]));
    let refuse = |drafter: &str, learn: &str, words: &[&str]| {
        refused(&["chat", "--model", model, "-p", "x", "--drafter", drafter, "--learn", learn], words);
    };
    refuse("ngram:2", &log, &["--learn", "a draft model only"]);
    refuse(&drafter, &job.text("data"), &["distilled data set"]);
    refuse(&drafter, &job.text("train.toml"), &["train.toml"]);
}
