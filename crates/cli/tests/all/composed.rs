//! Drafters that are made of other drafters, through the command line.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished};
use gorgon::{json, refused, stderr};
use gorgon_model::config::ModelConfig;
use gorgon_model::device::FloatFormat;
use gorgon_model::random::LlamaShape;
use serde_json::Value;
use std::path::Path;

/// A draft model with random weights and the tokens of the shared backbone.
fn draft(dir: &Path, seed: u64) -> String {
    let config = ModelConfig::read(backbone()).unwrap();
    let shape = LlamaShape {
        hidden_size: 16,
        intermediate_size: 24,
        layers: 2,
        heads: 2,
        kv_heads: 2,
        vocab_size: config.vocab_size,
        max_positions: config.max_positions,
    };
    shape.write(dir, FloatFormat::F32, seed).unwrap();
    std::fs::copy(backbone().join("tokenizer.json"), dir.join("tokenizer.json")).unwrap();
    dir.to_str().unwrap().to_owned()
}

struct Drafts {
    job: Job,
    one: String,
    two: String,
    prompts: String,
}

impl Drafts {
    fn new() -> Self {
        let job = Job::new();
        let (one, two) = (draft(&job.path("one"), 1), draft(&job.path("two"), 2));
        job.write("prompts.txt", "What is 3 + 4?\nSay hello.\n");
        let prompts = job.text("prompts.txt");
        Self { job, one, two, prompts }
    }

    /// Drafters with the trees that they draft by default. The backbone drafts too, so that drafts are accepted.
    fn drafters(&self) -> Vec<(String, &'static str)> {
        let (one, two, model) = (&self.one, &self.two, backbone().to_str().unwrap());
        vec![
            (format!("specinfer:{one}+{two}+{model}"), "own:34,5"),
            (format!("specinfer:{model},expand=2,1"), "own:5,2"),
            (format!("cascade:{model},then=none"), "chain:8"),
            (format!("cascade:{model},then=model:{one},ahead=2"), "chain:8"),
            (format!("cascade:{model},then=ngram:2,ahead=3,tail=2"), "chain:10"),
            (format!("cascade:{model},then=early-exit:1"), "chain:8"),
            (format!("cascade:{model},then=lookahead:3,3,3"), "chain:8"),
            (format!("ouroboros:{model},gamma=4,w=3,n=4,g=3"), "own:14,7"),
            (format!("ouroboros:{model},gamma=2,k=1,w=3,n=3,g=3"), "own:5,4"),
            ("partial:16,4".to_owned(), "chain:6"),
            (format!("partial:16,4,small={model},window=16"), "chain:6"),
            (format!("partial:16,4,small={one},sinks=0,window=8,ahead=2"), "chain:6"),
            (format!("suffix,else=cascade:{model},then=ngram:2,ahead=3,tail=2"), "chain:10"),
            (format!("suffix:live,else=ouroboros:{model},gamma=4,w=3,n=4,g=3"), "own:14,7"),
        ]
    }
}

fn run(command: &[&str], drafter: &str, more: &[&str]) -> Value {
    let model = backbone().to_str().unwrap();
    json(&finished(&[command, &["--model", model, "--drafter", drafter, "--json"], more].concat(), &[]))
}

#[test]
fn every_command_drafts_with_them() {
    let drafts = Drafts::new();
    let prompts = ["--prompts", &drafts.prompts, "--max-new-tokens", "16"];
    let generate = ["generate", "--prompt", "What is 3 + 4?", "--max-new-tokens", "24"];
    let plain = run(&generate, "none", &[]);
    for (drafter, tree) in drafts.drafters() {
        let found = run(&generate, &drafter, &[]);
        assert_eq!((&found["ids"], &found["drafter"]), (&plain["ids"], &drafter.as_str().into()));
        assert_eq!((&found["tree"], &found["lossless"]), (&tree.into(), &true.into()));
        for rule in ["coupled", "sampling", "block", "k-seq", "lossy:0.2", "opt:0.3", "bild:0.1,2"] {
            let found = run(&generate, &drafter, &["--accept", rule, "--temperature", "0.8"]);
            assert_eq!(found["lossless"], !rule.contains(':'), "{drafter} {rule}");
        }
        let bench = run(&["bench", "--rounds", "1"], &drafter, &prompts);
        assert_eq!(bench["summary"]["same_text"], bench["summary"]["pairs"], "{drafter}");
        for temperature in ["0", "0.9"] {
            let verify = run(&["verify"], &drafter, &[&prompts[..], &["--temperature", temperature]].concat());
            assert_eq!(verify["diverged"], 0, "{drafter} at {temperature}");
        }
        let model = backbone().to_str().unwrap();
        finished(&["chat", "-p", "hello", "--model", model, "--drafter", &drafter, "--max-new-tokens", "8"], &[]);
    }
}

/// Drafters without weights are measured while a chat goes on.
#[test]
fn a_chat_measures_drafters() {
    let model = backbone().to_str().unwrap();
    let store = Job::new();
    store.distill(&[]);
    let file = store.text("answers.store");
    finished(&["store", "build", &store.text("data"), "--model", model, &file], &[]);
    let chat = ["chat", "-p", "hello", "--model", model, "--max-new-tokens", "60", "-v", "--drafter"];
    let said = |drafter: &str| stderr(&finished(&[&chat[..], &[drafter]].concat(), &[]));
    // Both log what they decided when the chat ends.
    assert!(said("auto").contains("suffix drafts pay with more tokens than times"), "{}", said("auto"));
    assert!(said("recycle").contains("token recycling chose its tree"), "{}", said("recycle"));
    for drafter in ["suffix".to_owned(), format!("suffix:{file}"), format!("rest:{file}")] {
        assert!(said(&drafter).contains(&format!("drafter={drafter}")), "{}", said(&drafter));
    }
}

/// Self-distillation answers several prompts at a time with them, and they take part in comparisons.
#[test]
fn they_distil_and_are_compared() {
    let drafts = Drafts::new();
    let job = &drafts.job;
    job.distill(&[]);
    let plain = job.shards();
    let all = drafts.drafters();
    let methods: String = all[..3]
        .iter()
        .chain(&all[7..8])
        .enumerate()
        .map(|(i, (drafter, _))| format!("[[methods]]\nname = \"m{i}\"\ndrafter = {drafter:?}\n"))
        .collect();
    let prompts: String = (0..4).map(|i| format!("{{\"prompt\": \"What is {i} + 4?\"}}\n")).collect();
    job.write("prompts.jsonl", &prompts);
    let (data, prompts, runs) = (job.path("data"), job.path("prompts.jsonl"), job.path("runs"));
    let config = format!(
        "model = {:?}\ndata = {data:?}\nprompts = {prompts:?}\nruns = {runs:?}\ncalibration_prompts = 1\n\
         bench_prompts = 2\nmax_new_tokens = 12\nrounds = 1\n{methods}",
        backbone()
    );
    job.write("compare.toml", &config);
    let document = json(&finished(&["compare", "-c", &job.text("compare.toml"), "--json"], &[]));
    for result in document["results"].as_array().unwrap() {
        assert_eq!(result["summary"]["same_text"], result["summary"]["pairs"], "{result}");
    }
    let all = drafts.drafters();
    for (drafter, _) in all[..5].iter().chain(&all[7..8]) {
        let other = Job::like(job);
        other.distill(&[&format!("drafter={drafter:?}")]);
        assert_eq!(other.shards(), plain, "{drafter}");
    }
}

#[test]
fn those_that_cannot_be_are_refused_in_a_line() {
    let drafts = Drafts::new();
    let (model, one) = (backbone().to_str().unwrap(), &drafts.one);
    let generate = |drafter: &str, more: &[&str], words: &[&str]| {
        refused(&[&["generate", "--model", model, "--prompt", "x", "--drafter", drafter], more].concat(), words);
    };
    generate("specinfer:", &[], &["specinfer:", "folders"]);
    generate(&format!("specinfer:{one}+/nowhere/at/all"), &[], &["/nowhere/at/all", "no such folder"]);
    generate(&format!("specinfer:{one},expand=0"), &[], &["expand=0"]);
    generate(&format!("specinfer:{one}"), &["--tree", "own:4,2"], &["own:12,5"]);
    generate(&format!("specinfer:{one},expand=2"), &["--tree", "chain:4"], &["own:3,1"]);
    generate("cascade:/nowhere/at/all,then=none", &[], &["/nowhere/at/all", "no such folder"]);
    generate(&format!("cascade:{one}"), &[], &["then="]);
    generate(&format!("cascade:{one},then=model:/nowhere"), &[], &["/nowhere", "no such folder"]);
    generate(&format!("cascade:{one},then=medusa"), &[], &["then=medusa", "model:DIR"]);
    generate(&format!("cascade:{one},then=early-exit:9"), &[], &["then=early-exit:9"]);
    generate(&format!("cascade:{one},then=none"), &["--tree", "mc_sim_7b_63"], &["chain:1"]);
    generate("ouroboros:/nowhere/at/all", &[], &["/nowhere/at/all", "no such folder"]);
    generate(&format!("ouroboros:{one},n=1"), &[], &["n=1"]);
    generate(&format!("ouroboros:{one}"), &["--tree", "chain:4"], &["own:31,18"]);
    generate(&format!("cascade:{one},then=ngram:2,tail=4"), &["--tree", "chain:4"], &["chain:5"]);
    // Other tokens, in either place.
    let bytes = drafts.job.path("bytes");
    let shape = LlamaShape {
        hidden_size: 16,
        intermediate_size: 24,
        layers: 1,
        heads: 2,
        kv_heads: 2,
        vocab_size: 300,
        max_positions: 64,
    };
    shape.write(&bytes, FloatFormat::F32, 1).unwrap();
    let bytes = bytes.to_str().unwrap();
    generate(&format!("cascade:{one},then=model:{bytes}"), &[], &["tokenizer", bytes, model]);
    generate(&format!("specinfer:{one}+{bytes}"), &[], &["tokenizer", bytes, model]);
    refused(
        &["bench", "--model", model, "--drafter", &format!("cascade:{one},then=none"), "--sweep", "alpha=0"],
        &["sweep"],
    );
}

/// The small model of a part of the cache.
#[test]
fn a_small_model_that_cannot_be_is_refused_in_a_line() {
    let drafts = Drafts::new();
    let (model, one) = (backbone().to_str().unwrap(), &drafts.one);
    let refuse = |drafter: &str, more: &[&str], words: &[&str]| {
        refused(&[&["generate", "--model", model, "--prompt", "x", "--drafter", drafter], more].concat(), words);
    };
    refuse("partial:16,4,small=/nowhere/at/all", &[], &["/nowhere/at/all", "no such folder"]);
    refuse(&format!("partial:16,4,small={one}"), &["--tree", "own:8,4"], &["chain:N"]);
    refuse(&format!("partial:4,16,small={one}"), &[], &["partial:4,16", "2·C"]);
    refuse(&format!("partial:16,4,small={one},window=2"), &[], &["window=2", "from 8"]);
    refuse(&format!("partial:16,4,small={one},window=99999"), &[], &["window=99999", "512 positions"]);
    refuse("partial:16,4,window=16", &[], &["small=DIR"]);
}

/// A draft model that is fitted where another one fails.
#[test]
fn a_draft_model_is_boosted() {
    let drafts = Drafts::new();
    let (job, one) = (&drafts.job, &drafts.one);
    job.distill(&[]);
    let config = job.text("train.toml");
    let (draft, answers) = (format!("distill_spec.draft={:?}", drafts.two), "distill_spec.answers=\"data\"");
    let train = ["train", "-c", &config, "method=\"distill-spec\"", &draft, answers];
    let with = |earlier: &str| format!("distill_spec.earlier=[{earlier:?}]");
    let plan = finished(&[&train[..], &[&with(one), "--dry-run"]].concat(), &[]);
    assert!(stderr(&plan).contains("a draft model") && !job.path("runs").exists(), "{}", stderr(&plan));
    let tokens = |more: &[&str]| {
        let document = json(&finished(&[&train[..], more, &["--json"]].concat(), &[]));
        document["evaluation"]["loss"].as_f64().unwrap()
    };
    let plain = tokens(&[]);
    let run = job.run().unwrap();
    // A run folder stands for its draft model.
    let boosted = tokens(&[&with(run.to_str().unwrap()), "distill_spec.earlier_top_k=40"]);
    assert_ne!(plain, boosted);
    for (more, words) in [
        (with("/nowhere/at/all"), &["/nowhere/at/all"][..]),
        ("distill_spec.earlier_top_k=0".to_owned(), &["distill_spec.earlier_top_k"]),
        ("distill_spec.earlier=3".to_owned(), &["earlier"]),
    ] {
        refused(&[&train[..], &[&more]].concat(), words);
    }
}
