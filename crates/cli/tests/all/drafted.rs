//! Drafted decoding through the command line.

use crate::gorgon;
use crate::random_heads;
use crate::shared;

use gorgon::{Model, gorgon, json, refused, stderr, stdout};
use serde_json::{Value, json};
use std::path::Path;

/// Random heads for [`gorgon::SHAPE`].
fn heads(dir: &Path) {
    random_heads::write(dir, gorgon::SHAPE.hidden_size, gorgon::SHAPE.vocab_size);
}

/// As a calibration would leave it: chains of first guesses that are right seven times in ten, and steps of two nodes
/// that cost `cost`.
fn calibrated(dir: &Path, cost: f64) {
    let document = json!({
        "tree": [[0]], "accuracies": [[0.7, 0.1], [0.5, 0.1], [0.4, 0.1]], "positions": 100,
        "children": [0.7, 0.1, 0.05], "chain": [0.7, 0.7, 0.7],
        "step_times": [
            {"nodes": 1, "seconds": 0.001, "draft_seconds": 0.0},
            {"nodes": 2, "seconds": 0.001 * cost, "draft_seconds": 0.0002},
            {"nodes": 4, "seconds": 0.0012 * cost, "draft_seconds": 0.0002},
            {"nodes": 8, "seconds": 0.002 * cost, "draft_seconds": 0.0002}
        ],
        "expected_tokens_per_step": 1.7, "expected_speedup": 1.7 / cost, "threads": 1, "device": "cpu", "dtype": "f32"
    });
    std::fs::write(dir.join("calibration.json"), document.to_string()).unwrap();
    std::fs::write(dir.join("tree.json"), "[[0]]").unwrap();
}

fn ids(document: &Value) -> Vec<u64> {
    document["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
}

#[test]
fn recorded_generations_are_reproduced() {
    let test = "recorded_generations_are_reproduced";
    let Some(dir) = shared::shared("fixtures/medusa/run_llama_mha", test) else { return };
    let Some(backbone) = shared::shared("fixtures/backbones/llama_mha", test) else { return };
    let expected: Value = serde_json::from_slice(&std::fs::read(dir.join("expected.json")).unwrap()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    for run in expected["runs"].as_array().unwrap() {
        let tree = scratch.path().join("tree.json");
        std::fs::write(&tree, run["tree_choices"].to_string()).unwrap();
        let list = |value: &Value| value.as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>();
        let (prompt, output) = (list(&run["prompt"]).join(","), list(&run["output"]));
        // The recorded output leaves out the last step's bonus.
        let new = (output.len() + 1).to_string();
        let temperature = run["temperature"].as_f64().unwrap_or(0.0).to_string();
        let accept = if run["mode"] == "typical" { "typical" } else { "greedy" };
        let named = [
            ["--model", backbone.to_str().unwrap()],
            ["--heads", dir.to_str().unwrap()],
            ["--tree", tree.to_str().unwrap()],
            ["--ids", &prompt],
            ["--max-new-tokens", &new],
            ["--temperature", &temperature],
            ["--accept", accept],
        ];
        let args: Vec<&str> =
            ["generate", "--ignore-eos", "--json"].into_iter().chain(named.into_iter().flatten()).collect();
        let document = json(&gorgon(&args));
        let said: Vec<String> = list(&document["ids"]);
        assert_eq!(said[..output.len()], output, "{}", run["name"]);
        assert_eq!(document["accepted"], run["accept_lengths"], "{}", run["name"]);
    }
}

#[test]
fn every_drafter_gives_the_plain_text() {
    let (model, dir) = (Model::new(), tempfile::tempdir().unwrap());
    heads(dir.path());
    let heads = dir.path().to_str().unwrap();
    let base = [
        "generate",
        "--model",
        model.name(),
        "--ids",
        "256,72,105,72,105",
        "--max-new-tokens",
        "40",
        "--ignore-eos",
        "--json",
    ];
    let plain = ids(&json(&gorgon(&base)));
    calibrated(dir.path(), 1.2);
    let cases: [&[&str]; 8] = [
        &["--heads", heads],
        &["--heads", heads, "--tree", "mc_sim_7b_63"],
        &["--heads", heads, "--tree", "mc_sim_7b_63", "--draft-weights", "int8"],
        &["--heads", heads, "--tree", "sequoia:6"],
        &["--heads", heads, "--tree", "dynamic:10,2,3"],
        &["--heads", heads, "--drafter", "oracle:0.9,0.8"],
        &["--drafter", "ngram:3"],
        &["--drafter", "ngram:2", "--tree", "mc_sim_7b_63"],
    ];
    for case in cases {
        let document = json(&gorgon(&[&base[..], case].concat()));
        assert_eq!(ids(&document), plain, "{case:?}");
        assert_eq!(document["lossless"], true);
    }
    if gorgon_kernels::Isa::detect().has_pair_products() {
        let rounded = [&base[..], &["--compute-dtype", "bf16"]].concat();
        let plain = ids(&json(&gorgon(&rounded)));
        for case in cases {
            assert_eq!(ids(&json(&gorgon(&[&rounded[..], case].concat()))), plain, "{case:?} with products in bf16");
        }
    } else {
        eprintln!("SKIPPED: no products in bf16 here");
    }
}

/// Of the trees that a calibration decoded with, heads draft with the fastest.
#[test]
fn heads_draft_with_the_fastest_tree_of_their_calibration() {
    let (model, dir) = (Model::new(), tempfile::tempdir().unwrap());
    heads(dir.path());
    let base = ["generate", "--model", model.name(), "--ids", "256", "--max-new-tokens", "4", "--ignore-eos", "--json"];
    let generate = [&base[..], &["--heads", dir.path().to_str().unwrap()]].concat();
    for (decoded, tree) in [
        (json!([]), "calibrated"),
        (json!([["trellis", 1.2], ["calibrated", 1.1]]), "trellis"),
        (json!([["calibrated", 1.2], ["trellis", 1.1]]), "calibrated"),
        (json!([["trellis", 0.9], ["calibrated", 0.8]]), "calibrated"),
    ] {
        calibrated(dir.path(), 1.2);
        let path = dir.path().join("calibration.json");
        let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let entry = |entry: &Value| json!({"tree": entry[0], "tokens_per_step": 1.5, "speedup": entry[1]});
        record["decoded"] = decoded.as_array().unwrap().iter().map(entry).collect();
        std::fs::write(&path, record.to_string()).unwrap();
        assert_eq!(json(&gorgon(&generate))["tree"], tree, "{decoded}");
    }
    // Whoever stores another tree wants that one.
    calibrated(dir.path(), 1.2);
    let path = dir.path().join("calibration.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    record["decoded"] = json!([{"tree": "trellis", "tokens_per_step": 1.5, "speedup": 1.2}]);
    std::fs::write(&path, record.to_string()).unwrap();
    json(&gorgon(&["tree", "sequoia", "--heads", dir.path().to_str().unwrap(), "--nodes", "4", "--json"]));
    assert_eq!(json(&gorgon(&generate))["tree"], "calibrated");
}

/// Random heads are never right; with a stored tree and its cost, decoding is soon plain.
#[test]
fn drafts_that_do_not_pay_are_given_up() {
    let (model, dir) = (Model::new(), tempfile::tempdir().unwrap());
    heads(dir.path());
    calibrated(dir.path(), 1.5);
    let base = ["generate", "--model", model.name(), "--heads", dir.path().to_str().unwrap(), "--ids", "256"];
    let rest = ["--max-new-tokens", "56", "--ignore-eos", "--json"];
    let with = json(&gorgon(&[&base[..], &rest].concat()));
    let named = json(&gorgon(&[&base[..], &rest, &["--tree", "calibrated"]].concat()));
    assert_eq!(with["ids"], named["ids"]);
    assert_eq!((&with["tree"], &with["drafter"]), (&json!("calibrated"), &json!("medusa")));
}

/// Random heads are never right, so no tree pays; the measurements that follow a calibration still measure something.
#[test]
fn where_no_tree_pays_measurements_take_the_best_with_drafts() {
    let (model, dir) = (Model::new(), tempfile::tempdir().unwrap());
    heads(dir.path());
    let prompts = dir.path().join("prompts.txt");
    std::fs::write(&prompts, "one\ntwo\n").unwrap();
    let (heads, prompts) = (dir.path().to_str().unwrap(), prompts.to_str().unwrap());
    let base = ["--model", model.name(), "--heads", heads, "--prompts", prompts, "--max-new-tokens", "20"];
    let uncalibrated = gorgon(&[&["bench", "--rounds", "1", "--json"][..], &base].concat());
    let is_slower = json(&uncalibrated)["summary"]["speedup"].as_f64().unwrap() < 1.0;
    let hinted = stderr(&uncalibrated).contains("plain decoding with this tree: gorgon tree calibrate");
    assert_eq!(hinted, is_slower, "{}", stderr(&uncalibrated));
    let found = json(&gorgon(&[&["tree", "calibrate", "--rounds", "1", "--json"][..], &base].concat()));
    assert!(found["tree"].is_array());
    // On a busy machine a step of two nodes may seem to cost no more than one of one: the result is set here.
    let path = dir.path().join("calibration.json");
    let mut calibration: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    calibration["tree"] = json!([]);
    calibration["decoded"] = json!([]);
    // A record without its hash is taken as it is.
    calibration.as_object_mut().unwrap().shift_remove("sha256");
    std::fs::write(path, calibration.to_string()).unwrap();
    std::fs::write(dir.path().join("tree.json"), "[]").unwrap();
    let bench = gorgon(&[&["bench", "--rounds", "1", "--json"][..], &base].concat());
    assert!(stderr(&bench).contains("no tree to beat plain decoding"), "{}", stderr(&bench));
    assert!(json(&bench)["summary"]["nodes_per_step"].as_f64().unwrap() > 1.0);
    assert!(!stderr(&bench).contains("hint:"), "calibrated heads need no calibration: {}", stderr(&bench));
    let verify = gorgon(&[&["verify", "--json"][..], &base].concat());
    assert_eq!(json(&verify)["diverged"], 0, "{}", stderr(&verify));
    assert!(stderr(&verify).contains("no tree to beat plain decoding"), "{}", stderr(&verify));
    let generate = json(&gorgon(&["generate", "--model", model.name(), "--heads", heads, "--ids", "1", "--json"]));
    assert_eq!(generate["drafter"], "none", "decoding itself stays plain");
}

#[test]
fn a_doctor_predicts_whether_drafting_pays() {
    let (model, dir) = (Model::new(), tempfile::tempdir().unwrap());
    heads(dir.path());
    let heads = dir.path().to_str().unwrap();
    let report = json(&gorgon(&["doctor", "--model", model.name(), "--heads", heads, "--json"]));
    let drafting = &report["drafting"];
    // Heads that are never right: a tree could only seem to pay where the step times say that larger steps are faster.
    assert!(drafting["expected_tokens_per_step"].as_f64().unwrap() < 1.2, "{report}");
    assert_eq!(drafting["pays"].as_bool().unwrap(), drafting["nodes"].as_u64().unwrap() > 1, "{report}");
    assert_eq!(drafting["prompts"], 8);
    assert!(!dir.path().join("calibration.json").exists(), "nothing is stored");
    refused(&["doctor", "--model", model.name()], &["--heads"]);
}

#[test]
fn plans_and_sequoia_trees() {
    let dir = tempfile::tempdir().unwrap();
    heads(dir.path());
    let name = dir.path().to_str().unwrap();
    refused(&["plan", "--heads", name], &["not calibrated"]);
    refused(&["tree", "sequoia", "--heads", name], &["not calibrated"]);
    refused(&["plan", "--alpha", "1.5"], &["1.5"]);
    calibrated(dir.path(), 1.1);
    let plan = json(&gorgon(&["plan", "--heads", name, "--json"]));
    assert!((plan["alpha"].as_f64().unwrap() - 0.7).abs() < 1e-9);
    assert_eq!(plan["chains"].as_array().unwrap().len(), 3);
    let first = &plan["chains"][0];
    assert!((first["expected_tokens"].as_f64().unwrap() - 1.7).abs() < 1e-9);
    assert!((first["measured_gain"].as_f64().unwrap() - 1.7 / 1.1).abs() < 1e-9);
    assert!(plan["recommended"]["speedup"].as_f64().unwrap() > 1.5);
    let formula = json(&gorgon(&["plan", "--alpha", "0.8", "--draft-cost", "0.05", "--json"]));
    // (1 - 0.8^4) / (0.2 · 1.15)
    assert!((formula["chains"][2]["wall_time_gain"].as_f64().unwrap() - 2.566_956_521_739_13).abs() < 1e-9);
    let shown = gorgon(&["plan", "--heads", name]);
    assert!(stdout(&shown).contains("is predicted at"), "{}", stdout(&shown));
    let tree = json(&gorgon(&["tree", "sequoia", "--heads", name, "--nodes", "5", "--json"]));
    assert_eq!(tree["nodes"], 5);
    let stored: Value = serde_json::from_slice(&std::fs::read(dir.path().join("tree.json")).unwrap()).unwrap();
    assert_eq!(stored["tree"], tree["tree"]);
    std::fs::write(dir.path().join("calibration.json"), r#"{"tree": 3}"#).unwrap();
    refused(&["plan", "--heads", name], &["calibration.json"]);
}

#[test]
fn bench_and_verify_take_all_turns() {
    let dir = tempfile::tempdir().unwrap();
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/../../checkpoints/tiny");
    let prompts = dir.path().join("prompts.jsonl");
    let lines = [
        json!({"question_id": 1, "category": "a", "turns": ["What is 3 + 4?", "And 5 + 5?"]}).to_string(),
        json!({"question_id": 2, "category": "b", "turns": ["Sort 3, 1, 2."]}).to_string(),
    ];
    std::fs::write(&prompts, lines.join("\n")).unwrap();
    let base = ["--model", tiny, "--drafter", "ngram:2", "--tree", "chain:3", "--prompts", prompts.to_str().unwrap()];
    let rest = ["--max-new-tokens", "8", "--ignore-eos", "--turns", "2", "--json"];
    let bench = json(&gorgon(&[&["bench"], &base[..], &rest].concat()));
    assert_eq!(bench["prompts"], 3, "{bench}");
    assert_eq!(bench["summary"]["same_text"], bench["summary"]["pairs"]);
    let sampled = gorgon(&[&["verify"], &base[..], &rest, &["--temperature", "1", "--samples", "60"]].concat());
    let document = json(&sampled);
    assert!(document["p_value"].as_f64().unwrap() > 1e-3, "{document}");
    refused(&["bench"], &["--prompts"]);
    refused(&["verify", "--model", tiny], &["--prompts"]);
    let few = gorgon(&[&["verify"], &base[..], &rest, &["--temperature", "1", "--samples", "1"]].concat());
    assert_eq!(few.status.code(), Some(2), "{}", stderr(&few));
}

/// A folder for replays: the tokenizer of a model without weights, conversations and a text.
struct Recorded(tempfile::TempDir);

impl Recorded {
    fn new() -> Self {
        let recorded = Self(tempfile::tempdir().unwrap());
        let tiny = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../checkpoints/tiny"));
        std::fs::create_dir(recorded.path("model")).unwrap();
        for file in ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"] {
            std::fs::copy(tiny.join(file), recorded.0.path().join("model").join(file)).unwrap();
        }
        let repeated = "the cat sat on the mat and the dog sat on the mat and ".repeat(8);
        let lines = [
            json!({"question": "What is 3 + 4?", "answer": repeated}).to_string(),
            json!({"question": "Hello there, how are you doing this morning?", "category": "talk"}).to_string(),
        ];
        std::fs::write(recorded.path("given.jsonl"), lines.join("\n")).unwrap();
        let source: String = (0..90).map(|line| format!("set item_{line} to the sum of {line} and x\n")).collect();
        std::fs::write(recorded.path("source.txt"), source).unwrap();
        recorded
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// `gorgon dev replay` over all files.
    fn command(&self, more: &[&str]) -> Vec<String> {
        let (model, given, source) = (self.path("model"), self.path("given.jsonl"), self.path("source.txt"));
        let files = ["--answers", &given, "--quotes", &given, "--edits", &source, "--texts", &source];
        let words = [&["dev", "replay", "--model", &model][..], &files, more].concat();
        words.into_iter().map(str::to_owned).collect()
    }

    /// Its document for two drafters.
    fn run(&self, more: &[&str]) -> Value {
        let drafters = ["--drafter", "none", "--drafter", "ngram:3", "--json"];
        json(&gorgon(&words(&self.command(&[&drafters, more].concat()))))
    }

    fn refused(&self, more: &[&str], parts: &[&str]) {
        refused(&words(&self.command(more)), parts);
    }
}

fn words(command: &[String]) -> Vec<&str> {
    command.iter().map(String::as_str).collect()
}

#[test]
fn recorded_answers_are_replayed_without_a_model() {
    let recorded = Recorded::new();
    let out = recorded.path("rows.json");
    let found = recorded.run(&["--out", &out]);
    let rows = found["rows"].as_array().unwrap();
    let categories: Vec<&str> = rows.iter().map(|row| row["category"].as_str().unwrap()).collect();
    assert_eq!(categories, ["edits", "given", "talk", "texts", "all"].repeat(2), "{found}");
    let steps = |row: &Value| (row["answers"].clone(), row["tokens_per_step"].as_f64().unwrap());
    assert_eq!(steps(&rows[4]), (json!(4), 1.0), "without drafts a step emits a token");
    assert!([5, 6, 9].iter().all(|&row: &usize| steps(&rows[row]).1 > 1.5), "{found}");
    let stored: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_eq!(stored["answers"].as_array().unwrap().len(), 8);
    let deterministic = |row: &Value| (row["tokens"].clone(), row["steps"].clone(), row["nodes_per_step"].clone());
    let all = |document: &Value| document["rows"].as_array().unwrap().iter().map(deterministic).collect::<Vec<_>>();
    assert_eq!(all(&recorded.run(&[])), all(&found));
    assert_ne!(all(&recorded.run(&["--seed", "9"])), all(&found), "a seed makes other quotations and edits");
    for drafter in ["recycle", "jacobi:3", "early-exit:1", "medusa"] {
        recorded.refused(&["--drafter", drafter], &[drafter, "no model runs here"]);
    }
    refused(&["dev", "replay", "--model", &recorded.path("model"), "--drafter", "ngram:2"], &["no recorded answer"]);
    recorded.refused(&["--drafter", "ngram:2", "--weights", "int8"], &["--weights has no effect"]);
    recorded.refused(&["--drafter", "ngram:2", "--edits", &recorded.path("missing.txt")], &["missing.txt"]);
    std::fs::write(recorded.path("bytes.txt"), [0xff, 0xfe, 0x00]).unwrap();
    recorded.refused(&["--drafter", "ngram:2", "--edits", &recorded.path("bytes.txt")], &["bytes.txt", "UTF-8"]);
}

#[test]
fn known_times_of_passes_give_replays_a_speed() {
    let recorded = Recorded::new();
    let (file, out) = (recorded.path("times.json"), recorded.path("costs.json"));
    let times = |value: &Value| std::fs::write(&file, json!({ "step_times": value }).to_string()).unwrap();
    times(&json!([{"nodes": 1, "seconds": 0.25}, {"nodes": 9, "seconds": 0.5}]));
    let timed = recorded.run(&["--step-times", &file, "--out", &out]);
    let speed = |row: usize| timed["rows"][row]["speedup"].as_f64().unwrap();
    assert!(speed(0) > 0.98 && speed(0) <= 1.0 && speed(5) > 1.1, "{timed}");
    assert_eq!(recorded.run(&["--step-times", &out])["step_times"], timed["step_times"], "a result has its times");
    for wrong in [json!([]), json!([{"nodes": 1, "seconds": -1.0}]), json!(7)] {
        times(&wrong);
        recorded.refused(&["--drafter", "ngram:2", "--step-times", &file], &["times.json"]);
    }
}

/// Without heads, `auto` tries drafters without weights; the text is plain decoding's whatever pays.
#[test]
fn without_heads_auto_measures_drafters_without_weights() {
    let model = Model::new();
    let prompts = model.file("prompts.txt");
    std::fs::write(&prompts, "a a a a a a a a a a a a\nabc abc abc abc abc\n").unwrap();
    let prompts = prompts.to_str().unwrap();
    let auto = ["--model", model.name(), "--drafter", "auto"];
    let generate = ["generate", "--raw", "--prompt", "abcabcabcabcabcabc", "--max-new-tokens", "40", "--json"];
    for more in [&[][..], &["--temperature", "0.8"], &["--tree", "own:40,30"]] {
        let plain: Vec<&str> = more.iter().copied().filter(|word| !matches!(*word, "--tree" | "own:40,30")).collect();
        let plain = json(&gorgon(&[&generate, &["--model", model.name()][..], &plain].concat()));
        let found = json(&gorgon(&[&generate, &auto[..], more].concat()));
        assert_eq!(ids(&found), ids(&plain), "{more:?}");
        assert_eq!((&found["drafter"], &plain["drafter"]), (&json!("auto"), &json!("none")));
        assert_eq!(found["lossless"], true);
    }
    let bench = ["bench", "--prompts", prompts, "--rounds", "1", "--max-new-tokens", "30", "--json"];
    let found = json(&gorgon(&[&bench, &auto[..]].concat()));
    assert_eq!(found["summary"]["same_text"], found["summary"]["pairs"], "{found}");
    let verify = ["verify", "--prompts", prompts, "--max-new-tokens", "30", "--json"];
    assert_eq!(json(&gorgon(&[&verify, &auto[..]].concat()))["diverged"], 0);
    let told = gorgon(&[&generate[..6], &["-v"], &auto[..]].concat());
    for words in ["drafter=auto", "suffix drafts pay with more tokens than times", "recycle"] {
        assert!(stderr(&told).contains(words), "{words}: {}", stderr(&told));
    }
    refused(&[&generate[..6], &auto, &["--tree", "chain:4"]].concat(), &["auto", "own:24,23"]);
    refused(
        &["generate", "--model", model.name(), "--prompt", "x", "--drafter", "suffix,else=auto"],
        &["no other drafter"],
    );
}
