//! The contract for scripts: verbs, JSON, exit codes, the meaning of every field.

use crate::gorgon;

use gorgon::{Model, gorgon as run, json, stderr, stdout};
use safetensors::SafeTensors;

#[test]
fn generate_reports_every_field() {
    let model = Model::new();
    let args =
        ["generate", "--model", model.name(), "--ids", "1,2,3", "--max-new-tokens", "9", "--ignore-eos", "--json"];
    let output = run(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    let document = json(&output);
    assert_eq!(document["prompt_ids"], serde_json::json!([1, 2, 3]));
    assert_eq!(document["ids"].as_array().unwrap().len(), 9);
    assert_eq!(document["accepted"], serde_json::json!([0, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(document["steps"], 8);
    assert_eq!(document["tokens_per_step"], 1.0);
    assert_eq!(document["lossless"], true);
    assert_eq!((&document["drafter"], &document["tree"]), (&"none".into(), &"none".into()));
    assert_eq!(document["accept"], "greedy");
    // On a GPU, what was counted in recorded steps.
    assert!(document["recorded"].is_null());
    for key in ["seconds", "prefill_seconds", "tokens_per_second"] {
        assert!(document[key].as_f64().is_some_and(|v| v > 0.0), "{key}");
    }
    assert!(document["text"].is_string());
    assert_eq!(json(&run(&args))["ids"], document["ids"], "decoding is deterministic");
}

#[test]
fn sampling_follows_the_seed() {
    let model = Model::new();
    let ids = |seed: &str| {
        let args = ["generate", "--model", model.name(), "--ids", "5", "--max-new-tokens", "20", "--ignore-eos"];
        let output = run(&[&args[..], &["--temperature", "1", "--seed", seed, "--json"]].concat());
        let document = json(&output);
        assert_eq!((&document["accept"], &document["lossless"]), (&"coupled".into(), &true.into()));
        document["ids"].clone()
    };
    assert_eq!(ids("1"), ids("1"));
    assert_ne!(ids("1"), ids("2"));
    let args = ["generate", "--model", model.name(), "--ids", "5", "--max-new-tokens", "8", "--ignore-eos", "--json"];
    let greedy = json(&run(&args))["ids"].clone();
    let one = json(&run(&[&args[..], &["--temperature", "1", "--top-k", "1"]].concat()))["ids"].clone();
    assert_eq!(greedy, one, "the argmax is all that top-k 1 leaves");
    let ruled = json(&run(&[&args[..], &["--temperature", "2", "--accept", "greedy"]].concat()));
    assert_eq!(ruled["ids"], greedy, "greedy ignores the temperature");
}

#[test]
fn an_end_token_ends_and_is_included() {
    let model = Model::new();
    let args = ["generate", "--model", model.name(), "--ids", "1,2,3", "--max-new-tokens", "10", "--json"];
    let free = json(&run(&[&args[..], &["--ignore-eos"]].concat()))["ids"].clone();
    let third = free[2].clone();
    model.edit("config.json", |config| config["eos_token_id"] = serde_json::json!([third]));
    let document = json(&run(&args));
    let at = free.as_array().unwrap().iter().position(|id| *id == third).unwrap();
    assert_eq!(document["ids"].as_array().unwrap(), &free.as_array().unwrap()[..=at]);
    assert_eq!(document["finish"], "end_token");
    assert_eq!(json(&run(&[&args[..], &["--ignore-eos"]].concat()))["ids"].as_array().unwrap().len(), 10);
    // generation_config.json has the last word.
    std::fs::write(model.file("generation_config.json"), "{\"eos_token_id\": 299}").unwrap();
    let document = json(&run(&args));
    assert!(document["ids"].as_array().unwrap().len() > at + 1 || document["ids"][at] == 299);
}

#[test]
fn text_goes_to_standard_output_and_talk_to_standard_error() {
    let model = Model::new();
    let args = ["generate", "--model", model.name(), "--prompt", "Hi", "--raw", "--max-new-tokens", "12"];
    let output = run(&args);
    let document = json(&run(&[&args[..], &["--json"]].concat()));
    assert_eq!(stdout(&output), format!("{}\n", document["text"].as_str().unwrap()));
    assert!(stderr(&output).contains("tokens/s"));
    let quiet = run(&[&args[..], &["-q"]].concat());
    assert_eq!((stdout(&quiet), stderr(&quiet)), (stdout(&output), String::new()));
    // `--prompt` is one user turn of the template, and the template writes its own special tokens.
    let template =
        "{{ bos_token }}[{{ messages[0].role }}] {{ messages[0].content }}{% if add_generation_prompt %}>{% endif %}";
    model.edit("tokenizer_config.json", |config| config["chat_template"] = template.into());
    let document =
        json(&run(&["generate", "--model", model.name(), "--prompt", "Hi", "--max-new-tokens", "1", "--json"]));
    let text: Vec<u32> = b"[user] Hi>".iter().map(|&b| u32::from(b)).collect();
    assert_eq!(document["prompt_ids"], serde_json::json!([&[256][..], &text].concat()));
}

#[test]
fn logits_are_written_whole() {
    let model = Model::new();
    let out = model.file("rows.safetensors");
    let output =
        run(&["logits", "--model", model.name(), "--ids", "1,2,3,4", "--out", out.to_str().unwrap(), "--json"]);
    assert_eq!(json(&output)["logits"], serde_json::json!([4, 300]));
    let bytes = std::fs::read(&out).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.tensor("hidden").unwrap().shape(), [4, 32]);
    assert_eq!(file.tensor("logits").unwrap().shape(), [4, 300]);
    assert_eq!(file.tensor("logits").unwrap().dtype(), safetensors::Dtype::F32);
}

#[test]
fn threads_and_formats() {
    let model = Model::new();
    let ids = |more: &[&str]| {
        let args =
            ["generate", "--model", model.name(), "--ids", "9,8,7", "--max-new-tokens", "16", "--ignore-eos", "--json"];
        json(&run(&[&args[..], more].concat()))["ids"].clone()
    };
    assert_eq!(ids(&["--threads", "1"]), ids(&["--threads", "2"]));
    assert_eq!(ids(&["--dtype", "f16"]).as_array().unwrap().len(), 16);
    assert_eq!(ids(&["--dtype", "bf16"]).as_array().unwrap().len(), 16);
}

#[test]
fn no_verb_prints_the_help() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("Usage: gorgon") && stdout(&output).is_empty());
    let output = run(&["--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(json(&output)["error"].as_str().unwrap().contains("subcommand"));
    assert_eq!(run(&["--help"]).status.code(), Some(0));
}

#[test]
fn inspect_and_doctor() {
    let model = Model::new();
    let output = run(&["inspect", model.name(), "--json"]);
    let document = json(&output);
    assert!(output.status.success(), "{document}");
    assert_eq!((&document["kind"], &document["ok"]), (&"model".into(), &true.into()));
    assert_eq!(document["facts"]["architecture"], "LlamaForCausalLM");
    model.edit("config.json", |config| config["num_hidden_layers"] = 3.into());
    let output = run(&["inspect", model.name(), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("missing tensor model.layers.2.mlp.down_proj.weight"));
    let output = run(&["doctor", "--json"]);
    assert!(matches!(output.status.code(), Some(0 | 1)));
    let cpu = &json(&output)["cpu"];
    assert!(cpu["threads"].as_u64().unwrap() > 0 && cpu["int8_prefilter"].is_boolean(), "{cpu}");
}
