//! `gorgon init`: configs for a model and a file of prompts.

mod chain;
mod gorgon;

use chain::{Job, backbone, finished};
use gorgon::{json, refused, stdout};

#[test]
fn written_configs_are_explained_and_run() {
    let job = Job::new();
    let (model, prompts, dir) = (backbone().to_str().unwrap(), job.text("prompts.jsonl"), job.text("new"));
    refused(&["init", model, &prompts, "--dir", &dir], &["prompts.jsonl", "no such file"]);
    finished(&["synth", "--dialogues", "40", "--out", &prompts], &[]);
    refused(&["init", model, &prompts, "--dir", &dir, "--method", "medussa"], &["medussa", "expected medusa"]);
    assert!(!job.path("new").exists());
    let said = stdout(&finished(&["init", model, &prompts, "--dir", &dir], &[]));
    for command in ["distill -c", "train -c", "tree calibrate", "bench"] {
        assert!(said.contains(&format!("gorgon {command}")), "{said}");
    }
    refused(&["init", model, &prompts, "--dir", &dir], &["distill.toml", "there already"]);
    for (name, verb) in [("distill.toml", "distill"), ("train.toml", "train")] {
        let text = std::fs::read_to_string(job.path("new").join(name)).unwrap();
        let mut explained = false;
        for line in text.lines().filter(|line| !line.is_empty()) {
            assert!(explained || line.starts_with('#'), "{name}: {line} is not explained");
            explained = line.starts_with('#');
        }
        let file = job.path("new").join(name);
        let more: &[&str] = if verb == "train" { &["training.steps=2"] } else { &["sampling.max_new_tokens=8"] };
        finished(&[&[verb, "-c", file.to_str().unwrap()][..], more].concat(), &[]);
    }
    for method in ["hydra", "eagle", "eagle3", "mtp", "medusa-2"] {
        let dir = job.text(method);
        let document = json(&finished(&["init", model, &prompts, "--dir", &dir, "--method", method, "--json"], &[]));
        assert_eq!(document["files"].as_array().unwrap().len(), 2);
        assert_eq!(document["commands"].as_array().unwrap().len(), 4);
    }
}
