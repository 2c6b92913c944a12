//! `gorgon init`: configs for a model and a file of prompts.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished, start};
use gorgon::{json, refused, stdout};
use std::path::Path;

#[test]
fn written_configs_are_explained_and_run() {
    let job = Job::new();
    let (model, prompts, dir) = (backbone().to_str().unwrap(), job.text("prompts.jsonl"), job.text("new"));
    refused(&["init", model, &prompts, "--dir", &dir], &["prompts.jsonl", "no such file"]);
    finished(&["synth", "--dialogues", "40", "--out", &prompts], &[]);
    refused(
        &["init", model, &prompts, "--dir", &dir, "--method", "medussa"],
        &["medussa", "did you mean \"medusa\"?", "expected medusa"],
    );
    assert!(!job.path("new").exists());
    let said = stdout(&finished(&["init", model, &prompts, "--dir", &dir], &[]));
    for command in ["distill -c", "train -c", "tree calibrate", "bench", "chat"] {
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
    for method in ["hydra", "eagle", "eagle3", "mtp", "kangaroo", "block", "medusa-2", "ppd", "pass", "space"] {
        let dir = job.text(method);
        let document = json(&finished(&["init", model, &prompts, "--dir", &dir, "--method", method, "--json"], &[]));
        assert_eq!(document["files"].as_array().unwrap().len(), 2);
        assert_eq!(document["commands"].as_array().unwrap().len(), 5);
    }
}

/// Prompts that `distill` would refuse are refused before anything is written.
#[test]
fn prompts_without_a_conversation_are_refused() {
    let job = Job::new();
    let (prompts, dir) = (job.text("empty.jsonl"), job.text("configs"));
    job.write("empty.jsonl", "\n");
    refused(&["init", backbone().to_str().unwrap(), &prompts, "--dir", &dir], &["empty.jsonl"]);
    assert!(!Path::new(&dir).exists());
}

/// Printed commands can be typed, and name the model that the heads were fitted with.
#[test]
fn printed_commands_can_be_typed() {
    let job = Job::new();
    let prompts = job.text("my prompts.jsonl");
    job.write("my prompts.jsonl", "{\"prompt\": \"Hello\"}\n");
    let dir = job.text("my dir");
    let model = backbone().to_str().unwrap();
    let init = ["init", model, &prompts, "--dir", &dir, "--method", "medusa-2", "--json"];
    let commands = json(&finished(&init, &[]))["commands"].clone();
    let commands: Vec<&str> = commands.as_array().unwrap().iter().map(|command| command.as_str().unwrap()).collect();
    assert!(commands[1].contains("train -c '") && commands[1].ends_with("my dir/train.toml'"), "{commands:?}");
    for command in &commands[2..] {
        assert!(command.contains("-1/merged' --heads '"), "{command}");
    }
}

/// Runs of a model from the hub are named after its repository, and not after the commit in the cache.
#[test]
fn runs_are_named_after_the_repository() {
    let job = Job::new();
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let repo = job.path("home/hub/models--owner--Small-1.5");
    let snapshot = repo.join("snapshots").join(commit);
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::create_dir_all(repo.join("refs")).unwrap();
    std::fs::write(repo.join("refs/main"), commit).unwrap();
    for file in std::fs::read_dir(backbone()).unwrap().map(|entry| entry.unwrap().path()) {
        std::fs::copy(&file, snapshot.join(file.file_name().unwrap())).unwrap();
    }
    let home = job.text("home");
    let environment = [("HF_HOME", home.as_str()), ("HF_HUB_OFFLINE", "1")];
    job.write("prompts.jsonl", "{\"prompt\": \"Hello\"}\n");
    let init = ["init", "owner/Small-1.5", &job.text("prompts.jsonl"), "--dir", &job.text("new"), "--json"];
    let document = json(&finished(&init, &environment));
    let commands = document["commands"].to_string();
    assert!(commands.contains("checkpoints/medusa-Small-1-5-1") && !commands.contains("0123"), "{commands}");
    job.distill(&[]);
    let config = job.text("train.toml");
    finished(&["train", "-c", &config, "model=\"owner/Small-1.5\"", "training.steps=2"], &environment);
    assert_eq!(job.run().unwrap(), job.path("runs/medusa-Small-1-5-1"));

    // Heads have repositories, too.
    let heads = job.path("home/hub/models--owner--Heads/snapshots").join(commit);
    std::fs::create_dir_all(&heads).unwrap();
    for file in std::fs::read_dir(job.path("runs/medusa-Small-1-5-1/heads")).unwrap() {
        let file = file.unwrap().path();
        std::fs::copy(&file, heads.join(file.file_name().unwrap())).unwrap();
    }
    let named = format!("owner/Heads@{commit}");
    let ask = ["generate", "--model", "owner/Small-1.5", "--prompt", "Hello", "--max-new-tokens", "4", "--json"];
    let answer = json(&finished(&[&ask[..], &["--heads", &named]].concat(), &environment));
    assert_eq!(answer["drafter"], "medusa");
    let absent = start(&[&ask[..], &["--heads", "owner/None"]].concat(), &environment).wait_with_output().unwrap();
    assert!(absent.status.code() == Some(2) && stdout(&absent).contains("owner/None"), "{}", stdout(&absent));
}
