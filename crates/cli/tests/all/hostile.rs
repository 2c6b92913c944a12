//! Files from outside that are hostile rather than damaged: nothing of them commands a terminal, fills a screen, or is
//! taken without a word.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished};
use gorgon::{Model, gorgon, json, refused, stderr, stdout};
use serde_json::{Value, json};
use std::path::Path;

/// Clears the screen, rings, returns, opens a C1 sequence, reorders.
const COMMANDS: &str = "\u{1b}[2J\u{7}\r\u{9b}31m\u{202e}\u{2066}";

fn generate<'a>(model: &'a Model, prompt: &'a [&str]) -> Vec<&'a str> {
    [&["generate", "--model", model.name(), "--max-new-tokens", "2"], prompt].concat()
}

/// Runs a command in words and as JSON: something is said, and nothing of it is a command to a terminal.
fn harmless(args: &[&str], word: &str) {
    for json in [&[][..], &["--json"]] {
        let output = gorgon(&[args, json].concat());
        let said = stderr(&output) + &stdout(&output);
        let command =
            |c: char| c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        assert!(!said.contains(command), "{args:?}: {said:?}");
        assert!(said.contains(word), "{args:?}: {said:?}");
    }
}

#[test]
fn nothing_of_a_file_commands_the_terminal() {
    let model = Model::new();
    model.edit_header(|header| {
        let norm = header.as_object_mut().unwrap().remove("model.norm.weight").unwrap();
        header[format!("evil{COMMANDS}")] = norm;
    });
    harmless(&generate(&model, &["--ids", "1"]), "evil");
    harmless(&["inspect", model.name()], "evil");
    let model = Model::new();
    let template = format!("{{{{ raise_exception('evil{COMMANDS}') }}}}");
    std::fs::write(model.file("chat_template.jinja"), template).unwrap();
    harmless(&generate(&model, &["--prompt", "Hi"]), "evil");
    model.edit("tokenizer.json", |tokenizer| tokenizer["normalizer"] = json!({"type": format!("evil{COMMANDS}")}));
    harmless(&generate(&model, &["--prompt", "Hi"]), "tokenizer.json");
    let model = Model::new();
    model.edit("config.json", |config| config["model_type"] = format!("evil{COMMANDS}").into());
    harmless(&generate(&model, &["--ids", "1"]), "evil");
    harmless(&["inspect", &format!("evil{COMMANDS}")], "evil");
    let (model, folder) = (Model::new(), tempfile::tempdir().unwrap());
    let evil = folder.path().join(format!("evil{COMMANDS}"));
    std::fs::create_dir(&evil).unwrap();
    for file in std::fs::read_dir(model.path()).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), evil.join(file.file_name())).unwrap();
    }
    let prompts = folder.path().join("prompts.jsonl");
    std::fs::write(&prompts, "{\"prompt\": \"Hi\"}\n").unwrap();
    let out = folder.path().join("out");
    let init = ["init", evil.to_str().unwrap(), prompts.to_str().unwrap(), "--dir", out.to_str().unwrap()];
    harmless(&init, "distill.toml");
    harmless(&["generate", &format!("--evil{COMMANDS}")], "evil");
}

#[test]
fn listings_of_runs_and_configs_hold_no_commands() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("medusa-model-1");
    std::fs::create_dir(&run).unwrap();
    let text = format!("method = \"medusa\"\nmodel = {:?}\ndata = \"d\"\n", format!("evil{COMMANDS}"));
    // TOML spells these as JSON does, with four digits.
    let text = text.replace("\\u{1b}", "\\u001b").replace("\\u{7}", "\\u0007").replace("\\u{9b}", "\\u009b");
    let text = text.replace("\\u{202e}", "\\u202e").replace("\\u{2066}", "\\u2066");
    std::fs::write(run.join("config.toml"), &text).unwrap();
    std::fs::write(run.join("metrics.jsonl"), "{\"step\": 1, \"loss\": 1.0}\n").unwrap();
    harmless(&["runs", "list", folder.path().to_str().unwrap()], "evil");
    harmless(&["runs", "show", run.to_str().unwrap()], "evil");
    let config = run.join("config.toml");
    harmless(&["train", "-c", config.to_str().unwrap()], "evil");
    harmless(&["config", "check", config.to_str().unwrap(), &format!("evil{COMMANDS}=1")], "evil");
}

#[test]
fn many_names_make_a_short_line() {
    let model = Model::new();
    model.edit_header(|header| {
        let end = header.as_object().unwrap().values().filter_map(|tensor| tensor["data_offsets"][1].as_u64()).max();
        for i in 0..20_000 {
            header[format!("model.unexpected.tensor.number.{i}.weight")] =
                json!({"dtype": "F32", "shape": [0], "data_offsets": [end, end]});
        }
    });
    let output = gorgon(&generate(&model, &["--ids", "1"]));
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("20000 unexpected") && said.contains("and 19992 more"), "{}", &said[..2000]);
    assert!(said.len() < 1500, "{} bytes", said.len());
    for more in [&[][..], &["--json"]] {
        let output = gorgon(&[&["inspect", model.name()][..], more].concat());
        let said = stdout(&output);
        assert!(output.status.code() == Some(1) && said.contains("and 19950 more"), "{}", said.len());
        assert!(said.len() < 20_000, "{} bytes", said.len());
    }
    let keys: String = (0..20_000).map(|i| format!("key{i} = 1\n")).collect();
    std::fs::write(model.file("many.toml"), keys).unwrap();
    let output = gorgon(&["config", "check", model.file("many.toml").to_str().unwrap()]);
    let said = stderr(&output);
    assert!(output.status.code() == Some(2) && said.contains("more") && said.len() < 20_000, "{} bytes", said.len());
    // Whatever else is long is cut where it is printed.
    let model = Model::new();
    std::fs::write(model.file("chat_template.jinja"), format!("{{{{ raise_exception('{}') }}}}", "x".repeat(50_000)))
        .unwrap();
    for args in [generate(&model, &["--prompt", "Hi"]), vec!["inspect", &"x".repeat(50_000)]] {
        let output = gorgon(&args);
        assert!(stderr(&output).lines().all(|line| line.chars().count() < 2_100), "{}", stderr(&output).len());
        let document = json(&gorgon(&[&args[..], &["--json"]].concat()));
        assert!(document["error"].as_str().unwrap().chars().count() < 2_100);
    }
}

#[test]
fn values_that_make_no_sense_are_refused_by_name() {
    let with = |file: &str, key: &str, value: Value| {
        let model = Model::new();
        if !model.file(file).exists() {
            std::fs::write(model.file(file), "{}").unwrap();
        }
        model.edit(file, |config| config[key] = value);
        model
    };
    for (file, key, value) in [
        ("config.json", "eos_token_id", json!(300)),
        ("config.json", "eos_token_id", json!([1, 4_000_000_000u32])),
        ("generation_config.json", "eos_token_id", json!(300)),
        ("config.json", "rms_norm_eps", json!(0)),
        ("config.json", "rms_norm_eps", json!(-1e-6)),
        ("config.json", "rms_norm_eps", json!(1e-60)),
        ("config.json", "rms_norm_eps", json!("NaN")),
        ("config.json", "rms_norm_eps", json!(0.5)),
    ] {
        refused(&generate(&with(file, key, value), &["--ids", "1"]), &[file, key]);
    }
    let model = with("tokenizer.json", "x", Value::Null);
    model.edit("tokenizer.json", |tokenizer| tokenizer["model"]["dropout"] = json!(0.1));
    refused(&generate(&model, &["--prompt", "Hi"]), &["tokenizer.json", "model.dropout 0.1"]);
}

#[test]
fn a_key_that_is_there_twice_is_refused() {
    let prompt = ["--prompt", "Hi"];
    for (file, key) in
        [("config.json", "vocab_size"), ("tokenizer.json", "model"), ("tokenizer_config.json", "eos_token")]
    {
        let model = Model::new();
        let text = std::fs::read_to_string(model.file(file)).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let twice = format!("{{\"{key}\": {},{}", value[key], &text.trim_start()[1..]);
        std::fs::write(model.file(file), twice).unwrap();
        refused(&generate(&model, &prompt), &[file, key, "twice"]);
    }
    let model = Model::new();
    std::fs::write(model.file("generation_config.json"), "{\"top_k\": 1, \"top_k\": 2}").unwrap();
    refused(&["inspect", model.name()], &["generation_config.json", "top_k", "twice"]);
    let model = Model::new();
    std::fs::rename(model.file("model.safetensors"), model.file("a.safetensors")).unwrap();
    let index = "{\"weight_map\": {\"lm_head.weight\": \"a.safetensors\", \"lm_head.weight\": \"b.safetensors\"}}";
    std::fs::write(model.file("model.safetensors.index.json"), index).unwrap();
    refused(&generate(&model, &["--ids", "1"]), &["model.safetensors.index.json", "lm_head.weight", "twice"]);
    let model = Model::new();
    let bytes = std::fs::read(model.file("model.safetensors")).unwrap();
    let size = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = String::from_utf8(bytes[8..8 + size].to_vec()).unwrap();
    let norm: Value = serde_json::from_str(&header).unwrap();
    let header = format!("{{\"model.norm.weight\":{},{}", norm["model.norm.weight"], &header[1..]);
    let out = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes[8 + size..]].concat();
    std::fs::write(model.file("model.safetensors"), out).unwrap();
    refused(&generate(&model, &["--ids", "1"]), &["model.safetensors", "model.norm.weight", "twice"]);
}

/// Files that gorgon writes, and records of others.
#[test]
fn a_key_that_is_there_twice_is_refused_in_every_document() {
    let job = Job::new();
    let prompts = "{\"prompt\": \"Hello\", \"prompt\": \"Hi\"}\n{\"prompt\": \"How are you?\"}\n";
    job.write("prompts.jsonl", prompts);
    job.write(
        "named.toml",
        &format!(
            "model = {:?}\nout = {:?}\nprompts = {:?}\n[sampling]\nmax_new_tokens = 4\n",
            backbone(),
            job.path("named"),
            job.path("prompts.jsonl")
        ),
    );
    let said = stderr(&finished(&["distill", "-c", &job.text("named.toml")], &[]));
    assert!(said.contains("key that is there twice"), "{said}");
    job.distill(&[]);
    job.train(&["cache_features=true"]);
    let (run, config) = (job.run().unwrap(), job.text("train.toml"));
    let doubled = |path: &Path, key: &str| {
        let text = std::fs::read_to_string(path).unwrap();
        std::fs::write(path, text.replacen('{', &format!("{{\"{key}\": 0,"), 1)).unwrap();
        text
    };
    let shards = job.path("data/shards.json");
    let text = doubled(&shards, "sha256");
    refused(&["train", "-c", &config], &["shards.json", "sha256", "twice"]);
    std::fs::write(&shards, text).unwrap();
    let index = job.features().unwrap().join("index.json");
    doubled(&index, "identity");
    refused(&["inspect", index.parent().unwrap().to_str().unwrap()], &["index.json", "identity", "twice"]);
    let heads = run.join("heads");
    let generate = ["generate", "--model", backbone().to_str().unwrap(), "--ids", "1", "--max-new-tokens", "2"];
    let with_heads = [&generate[..], &["--heads", heads.to_str().unwrap()]].concat();
    std::fs::write(heads.join("tree.json"), "{\"tree\": [[0]], \"tree\": [[1]]}").unwrap();
    refused(&with_heads, &["tree.json", "the key \"tree\" is there twice"]);
    std::fs::write(heads.join("tree.json"), "[[0]]").unwrap();
    std::fs::write(heads.join("calibration.json"), "{\"threads\": 1, \"threads\": 2}").unwrap();
    refused(&with_heads, &["calibration.json", "the key \"threads\" is there twice"]);
}

#[test]
fn empty_texts_of_configs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    let name = path.to_str().unwrap();
    std::fs::write(&path, "method = \"medusa\"\nmodel = \"m\"\ndata = \"d\"\n").unwrap();
    for key in ["model", "data", "runs", "eval_data", "features", "init_from"] {
        refused(&["train", "-c", name, &format!("{key}=\"\"")], &[key, "it is empty"]);
    }
    std::fs::write(&path, "model = \"m\"\nout = \"\"\nprompts = [\" \"]\n").unwrap();
    refused(&["distill", "-c", name], &["out = \"\"", "prompts[0]", "it is empty"]);
}

/// Counts in the config of foreign heads are held against what there can be, not only against the tensors.
#[test]
fn counts_of_heads_that_nobody_has_are_problems() {
    let folder = tempfile::tempdir().unwrap();
    let heads = concat!(env!("CARGO_MANIFEST_DIR"), "/../draft/tests/data/medusa_lm_head.pt");
    std::fs::copy(heads, folder.path().join("medusa_lm_head.pt")).unwrap();
    for (key, value) in [
        ("medusa_num_heads", json!(0)),
        ("medusa_num_heads", json!(1_000_000_000)),
        ("medusa_num_layers", json!(0)),
        ("hidden_size", json!(0)),
    ] {
        std::fs::write(folder.path().join("config.json"), json!({ key: value }).to_string()).unwrap();
        let document = json(&gorgon(&["inspect", folder.path().to_str().unwrap(), "--json"]));
        let problems = document["problems"].as_array().unwrap_or_else(|| panic!("{document}"));
        let wanted = format!("config.json: {key} is {value}, not a count");
        assert!(problems.iter().any(|problem| problem.as_str().unwrap().starts_with(&wanted)), "{document}");
        let (model, heads) = (Model::new(), folder.path().to_str().unwrap());
        refused(&["generate", "--model", model.name(), "--heads", heads, "--ids", "1"], &[key]);
    }
}
