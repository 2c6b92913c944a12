//! An EAGLE-3 draft layer through the command line: trained, looked at, decoded with, exported.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished};
use gorgon::{json, refused, stderr};

/// The layer in a folder is recognised, and decoding with it gives the plain text.
fn decodes(dir: &str, format: &str) {
    let model = backbone().to_str().unwrap();
    let found = json(&finished(&["inspect", dir, "--json"], &[]));
    assert_eq!(found["facts"]["format"], format, "{found}");
    assert_eq!(found["facts"]["aux_hidden_state_layers"], serde_json::json!([1, 1, 2]), "{found}");
    assert_eq!(found["problems"].as_array().map(Vec::len), Some(0), "{found}");
    let decode = |more: &[&str]| {
        let base = ["generate", "--model", model, "--prompt", "What is 3 + 4?", "--max-new-tokens", "24", "--json"];
        json(&finished(&[&base[..], more].concat(), &[]))
    };
    let plain = decode(&[]);
    for tree in ["dynamic:60,5,10", "chain:3", "eagle_static"] {
        let drafted = decode(&["--heads", dir, "--drafter", "eagle", "--tree", tree]);
        assert_eq!((&drafted["ids"], &drafted["drafter"]), (&plain["ids"], &"eagle".into()));
        assert_eq!(drafted["lossless"], true);
    }
    assert_eq!(decode(&["--heads", dir])["tree"], "dynamic:60,5,10");
    let oracle = decode(&["--heads", dir, "--drafter", "oracle:1,1"]);
    assert_eq!(oracle["ids"], plain["ids"]);
    assert!(oracle["tokens_per_step"].as_f64().unwrap() > 1.5, "{}", oracle["tokens_per_step"]);
}

#[test]
fn a_layer_is_trained_decoded_with_and_exported() {
    let job = Job::new();
    job.distill(&[]);
    let config = job.text("train.toml");
    let own = ["method=\"eagle3\"", "eagle3.steps=3", "eagle3.draft_vocab=200", "training.learning_rate=3e-3"];
    let train = [&["train", "-c", &config][..], &own].concat();
    let plan = finished(&[&train[..], &["--dry-run"]].concat(), &[]);
    assert!(stderr(&plan).contains("a draft layer for 200 of") && !job.path("runs").exists(), "{}", stderr(&plan));
    let document = json(&finished(&[&train[..], &["--json"]].concat(), &[]));
    let evaluation = &document["evaluation"];
    for key in ["loss", "top1", "top5", "draftable"] {
        assert!(evaluation[key].is_number(), "{key}: {evaluation}");
    }
    assert_eq!(evaluation["step_loss"].as_array().map(Vec::len), Some(3));
    assert!(evaluation["tau"].as_f64().unwrap() >= 1.0);
    let run = job.run().unwrap();
    assert!(run.file_name().unwrap().to_str().unwrap().starts_with("eagle3-"));
    for name in ["config.toml", "metrics.jsonl", "best", "plots/loss.svg", "heads/config.json"] {
        assert!(run.join(name).is_file(), "{name}");
    }
    let first = job.weights();
    // The resolved config repeats the run, bit for bit, with cached states too.
    finished(&["train", "-c", run.join("config.toml").to_str().unwrap(), "cache_features=true"], &[]);
    assert_eq!(job.weights(), first);
    let run = run.to_str().unwrap();
    decodes(&format!("{run}/heads"), "eagle3");
    // Fitted further to fewer answers, it keeps its tokens, though others are the most frequent ones there.
    let (more, from) = (format!("runs={:?}", job.text("more")), format!("init_from=\"{run}/heads\""));
    let further = ["train_conversations=3", "training.steps=1", "eval_decoded_prompts=0", &more, &from];
    finished(&[&train[..], &further].concat(), &[]);
    // This backbone has two layers, so that every hook has a layer that it leaves.
    for to in ["eagle3", "speculators"] {
        let out = job.text(to);
        finished(&["export", run, "--to", to, &out], &[]);
        decodes(&out, to);
        let card = std::fs::read_to_string(format!("{out}/README.md")).unwrap();
        for word in ["EAGLE-3 draft layer", "tokens per step", "eagle_aux_hidden_state_layer_ids", "200"] {
            assert!(card.contains(word), "no {word:?} in {card}");
        }
    }
    finished(&["export", &job.text("speculators"), "--to", "eagle3", &job.text("back")], &[]);
    decodes(&job.text("back"), "eagle3");
    refused(&["export", run, "--to", "eagle", &job.text("other")], &["eagle3"]);
    refused(&["export", run, "--to", "medusa-v2", &job.text("other")], &["eagle3"]);
}

#[test]
fn wrong_settings_are_refused_in_a_line() {
    let job = Job::new();
    job.distill(&[]);
    let train = job.text("train.toml");
    for (given, word) in [
        ("eagle3.steps=0", "eagle3.steps"),
        ("eagle3.steps=1000", "eagle3.steps"),
        ("eagle3.decay=nan", "eagle3.decay"),
        ("eagle3.decay=2", "eagle3.decay"),
        ("eagle3.draft_vocab=0", "eagle3.draft_vocab"),
        ("eagle3.aux_hidden_state_layers=[0, 1, 5]", "eagle3.aux_hidden_state_layers"),
        ("eagle3.aux_hidden_state_layers=[]", "eagle3.aux_hidden_state_layers"),
        ("eagle3.typo=1", "typo"),
        ("training.max_seq_len=2", "label"),
    ] {
        refused(&["train", "-c", &train, "method=\"eagle3\"", given], &[word]);
    }
}

/// States of other layers are kept apart, in every number format, and a training finds its own.
#[test]
fn tapped_states_are_kept_under_what_they_are() {
    let job = Job::new();
    job.distill(&[]);
    let config = job.text("train.toml");
    let own = ["-c", &config, "method=\"eagle3\"", "eagle3.steps=2", "feature_format=\"int8\""];
    let folders = || {
        let inside = std::fs::read_dir(job.path("data")).unwrap().map(|e| e.unwrap().path());
        inside.filter(|path| path.join("index.json").is_file()).count()
    };
    let plan = finished(&[&["features"][..], &own, &["--dry-run"]].concat(), &[]);
    assert!(stderr(&plan).contains("states of 32 values in int8") && folders() == 0, "{}", stderr(&plan));
    finished(&[&["features"][..], &own].concat(), &[]);
    let index = std::fs::read_to_string(job.features().unwrap().join("index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_str(&index).unwrap();
    assert_eq!((&index["identity"]["taps"], &index["identity"]["width"]), (&serde_json::json!([1, 1, 2]), &128.into()));
    finished(&[&["train"][..], &own, &["cache_features=true"]].concat(), &[]);
    assert_eq!(folders(), 1, "the training read what was there");
    finished(&[&["features"][..], &own, &["eagle3.aux_hidden_state_layers=[0, 1, 2]"]].concat(), &[]);
    assert_eq!(folders(), 2);
    let named = format!("features={:?}", job.features().unwrap());
    let said = [&["features"][..], &own, &[&named, "eagle3.aux_hidden_state_layers=[0, 0, 2]"]].concat();
    let output = chain::start(&said, &[]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("states of something else"), "{said}");
}

/// Trees are measured by decoding with them, and what is measured decodes the plain text.
#[test]
fn a_tree_is_calibrated_for_a_layer() {
    let job = Job::new();
    job.distill(&[]);
    let config = job.text("train.toml");
    let own = ["method=\"eagle3\"", "eagle3.steps=2", "training.learning_rate=3e-3"];
    finished(&[&["train", "-c", &config][..], &own].concat(), &[]);
    let (model, run) = (backbone().to_str().unwrap(), job.run().unwrap());
    let (heads, prompts) = (run.to_str().unwrap(), job.text("prompts.jsonl"));
    finished(&["synth", "--held-out", "--dialogues", "6", "--seed", "5", "--out", &prompts], &[]);
    let comparison =
        ["--model", model, "--heads", heads, "--prompts", &prompts, "--max-new-tokens", "24", "--ignore-eos"];
    let with =
        |first: &[&str], more: &[&str]| json(&finished(&[first, &comparison[..], more, &["--json"]].concat(), &[]));
    let calibration = with(&["tree", "calibrate"], &["--rounds", "1", "--limit", "3"]);
    assert!(!calibration["step_times"].as_array().unwrap().is_empty(), "{calibration}");
    let shown = json(&finished(&["tree", "show", "--heads", heads, "--json"], &[]));
    assert_eq!(shown["paths"], calibration["tree"]);
    let generate = ["generate", "--model", model, "--prompt", "Hello", "--max-new-tokens", "24", "--json"];
    let plain = json(&finished(&generate, &[]));
    let stored = json(&finished(&[&generate[..], &["--heads", heads, "--tree", "calibrated"]].concat(), &[]));
    assert_eq!(stored["ids"], plain["ids"]);
    let verdict = with(&["verify"], &["--drafter", "oracle:1,0.9", "--tree", "dynamic:60,5,10"]);
    assert_eq!((&verdict["prompts"], &verdict["diverged"]), (&6.into(), &0.into()), "{verdict}");
    assert!(verdict["accepted_drafts"].as_u64().unwrap() > 20, "{verdict}");
    let bench = with(&["bench"], &["--tree", "chain:3", "--rounds", "1", "--limit", "2"]);
    assert_eq!(bench["summary"]["same_text"], bench["summary"]["pairs"]);
}
