//! Encoder-decoder models on the command line: what takes them, and what refuses them by name.

use crate::gorgon;
use crate::shared;

use gorgon::{gorgon, json, refused, stderr};
use gorgon_model::random::T5Shape;
use safetensors::SafeTensors;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A T5 that loads in no time, with a tokenizer of bytes.
fn t5(layers: usize, gated: bool, seed: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let shape = T5Shape {
        hidden_size: 32,
        intermediate_size: 48,
        encoder_layers: 2,
        layers,
        heads: 4,
        head_dim: 12,
        vocab_size: 300,
        gated,
    };
    shape.write(dir.path(), seed).unwrap();
    dir
}

fn name(dir: &tempfile::TempDir) -> &str {
    dir.path().to_str().unwrap()
}

fn done(args: &[&str]) -> Value {
    let output = gorgon(args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    json(&output)
}

fn floats(file: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    let data = file.tensor(name).unwrap();
    data.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn ids(file: &SafeTensors<'_>, name: &str) -> Vec<u32> {
    let data = file.tensor(name).unwrap();
    data.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as u32).collect()
}

fn listed(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// The folders of the reference models that come with sources and texts.
fn models(test: &str) -> Vec<PathBuf> {
    let Some(root) = shared::shared("fixtures/t5", test) else { return vec![] };
    let names = ["flan_like_bf16", "v10_relu_tied", "v11_gated_untied"];
    names.iter().map(|name| root.join(name)).filter(|dir| dir.is_dir()).collect()
}

fn close(got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len());
    let worst = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-3, "{worst:e}");
}

#[test]
fn logits_and_texts_of_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    for dir in models("T5 on the command line") {
        let bytes = std::fs::read(dir.join("expected.safetensors")).unwrap();
        let expected = SafeTensors::deserialize(&bytes).unwrap();
        let (out, model) = (folder.path().join("rows.safetensors"), dir.to_str().unwrap());
        for case in ["long", "short"] {
            let of = |what: &str| format!("{case}.{what}");
            let source = listed(&ids(&expected, &of("source_ids")));
            let decoder = ids(&expected, &of("decoder_input_ids"));
            let given = ["--ids", &source, "--decoder-ids", &listed(&decoder), "--out", out.to_str().unwrap()];
            let document = done(&[&["logits", "--model", model, "--json"][..], &given].concat());
            assert_eq!(document["hidden"][0], decoder.len(), "{document}");
            let bytes = std::fs::read(&out).unwrap();
            let rows = SafeTensors::deserialize(&bytes).unwrap();
            close(&floats(&rows, "encoder"), &floats(&expected, &of("encoder_hidden")));
            close(&floats(&rows, "hidden"), &floats(&expected, &of("decoder_hidden")));
            let vocab = rows.tensor("logits").unwrap().shape()[1];
            let logits = floats(&rows, "logits");
            let at = ids(&expected, &of("logits_at"));
            let some: Vec<f32> = at.iter().flat_map(|&row| &logits[row as usize * vocab..][..vocab]).copied().collect();
            close(&some, &floats(&expected, &of("logits")));

            let text = ["generate", "--model", model, "--ids", &source, "--max-new-tokens", "48", "--json"];
            for drafts in [&[][..], &["--drafter", "suffix"], &["--drafter", "ngram:2", "--tree", "chain:4"]] {
                let found = done(&[&text[..], drafts].concat());
                assert_eq!(found["ids"], json!(ids(&expected, &of("greedy"))));
                assert_eq!(found["prompt_ids"], json!(ids(&expected, &of("source_ids"))));
            }
        }
    }
}

/// The reference's pair of models: greedy text with drafts is the target's own, and drafts are accepted.
#[test]
fn a_draft_model_with_an_encoder() {
    let Some(root) = shared::shared("fixtures/t5", "a T5 draft on the command line") else { return };
    let (target, draft) = (root.join("v10_relu_tied"), root.join("draft_of_v10_relu_tied"));
    let bytes = std::fs::read(draft.join("expected.safetensors")).unwrap();
    let expected = SafeTensors::deserialize(&bytes).unwrap();
    let drafter = format!("model:{}", draft.display());
    for run in 0..3 {
        let source = listed(&ids(&expected, &format!("run{run}.source_ids")));
        let text = ["generate", "--model", target.to_str().unwrap(), "--ids", &source, "--max-new-tokens", "48"];
        let found = done(&[&text[..], &["--drafter", &drafter, "--tree", "chain:4", "--json"]].concat());
        assert_eq!(found["ids"], json!(ids(&expected, &format!("run{run}.target_greedy"))));
        let tau = found["tokens_per_step"].as_f64().unwrap();
        assert!(tau > 2.0, "{tau}");
    }
}

fn prompts(folder: &Path) -> String {
    let path = folder.join("prompts.jsonl");
    let lines = ["reverse: a b c d", "sort: 5 2 9 4 1 7", "copy the text that comes here"];
    std::fs::write(&path, lines.map(|line| json!({ "prompt": line }).to_string() + "\n").concat()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn commands_that_take_a_source() {
    let (target, draft, folder) = (t5(3, true, 3), t5(1, false, 5), tempfile::tempdir().unwrap());
    let (prompts, drafter) = (prompts(folder.path()), format!("model:{}", name(&draft)));
    let inspected = done(&["inspect", name(&target), "--json"]);
    let facts = &inspected["facts"];
    assert_eq!((&inspected["ok"], &facts["encoder_layers"]), (&true.into(), &2.into()), "{inspected}");
    assert_eq!(facts["tied_embeddings"], false);

    let ask = ["generate", "--model", name(&target), "--prompt", "hello", "--max-new-tokens", "12", "--json"];
    let plain = done(&[&ask[..], &["--ignore-eos"]].concat());
    assert_eq!(plain["prompt_ids"], json!([256, 104, 101, 108, 108, 111]));
    for more in [&["--temperature", "0.8"][..], &["--temperature", "0.8", "--accept", "sampling"], &[]] {
        let found = done(&[&ask[..], more, &["--drafter", &drafter, "--tree", "chain:3"]].concat());
        assert!(found["ids"].as_array().is_some_and(|ids| !ids.is_empty()), "{found}");
    }
    let drafted = done(&[&ask[..], &["--ignore-eos", "--drafter", &drafter, "--tree", "chain:3"]].concat());
    assert_eq!(drafted["ids"], plain["ids"]);

    let common = ["--model", name(&target), "--prompts", &prompts, "--json", "--max-new-tokens", "16", "--ignore-eos"];
    for tree in ["chain:3", "dynamic:12,2,4"] {
        let found = done(&[&["bench"][..], &common, &["--drafter", &drafter, "--tree", tree]].concat());
        assert_eq!(found["prompts"], 3, "{found}");
    }
    let own = format!("model:{}", name(&target));
    let found = done(&[&["verify"][..], &common, &["--drafter", &own, "--tree", "chain:3"]].concat());
    assert_eq!((&found["diverged"], &found["prompts"]), (&0.into(), &3.into()), "{found}");
    let law = ["--drafter", &own, "--tree", "chain:2", "--temperature", "0.8", "--samples", "30", "--limit", "1"];
    let found = done(&[&["verify"][..], &common, &law].concat());
    assert_eq!((&found["passes"], &found["lossless"]), (&true.into(), &true.into()), "{found}");
}

/// Lossy rules of a sweep at temperature 0, where lossy sampling is lossy greedy decoding; with their parameters where α
/// is 0 and 0.5.
const LOSSY: [(&str, [&str; 2]); 9] = [
    ("chow", ["chow:0", "chow:0.5"]),
    ("diff", ["diff:0", "diff:0.5"]),
    ("opt", ["opt:0", "opt:0.5"]),
    ("token-v1", ["token-v1:0", "token-v1:0.5"]),
    ("token-v2", ["token-v2:0", "token-v2:0.5"]),
    ("token-v3", ["token-v3:0", "token-v3:0.5"]),
    ("lossy-greedy", ["lossy:0,1", "lossy:0.5,1"]),
    ("bild", ["bild:0,0", "bild:0,0.6931471805599453"]),
    ("top-beta", ["top-beta:3,0", "top-beta:3,0.6931471805599453"]),
];

/// A sweep over lossy rules, on the questions of the synthetic corpus and on prompts with right answers.
#[test]
fn a_sweep_of_lossy_rules() {
    let (target, draft, folder) = (t5(3, true, 3), t5(1, false, 5), tempfile::tempdir().unwrap());
    let drafter = format!("model:{}", name(&draft));
    let sweep = ["dev", "sweep", "alpha=0,0.5", "--model", name(&target), "--drafter", &drafter];
    let few = ["--tree", "chain:3", "--limit", "2", "--max-new-tokens", "8", "--rounds", "1"];
    let found = done(&[&sweep[..], &few, &["--json"]].concat());
    let points = found["points"].as_array().unwrap();
    // Both models alone, drafts without loss, and every lossy rule with each α, under its own parameters.
    for (rule, lossless) in [("target alone", true), ("draft model alone", false), ("greedy", true)] {
        let is_rule = |point: &&Value| point["rule"] == rule && point["alpha"].is_null();
        let of: Vec<&Value> = points.iter().filter(is_rule).collect();
        assert!(matches!(of[..], [point] if point["lossless"] == lossless), "{rule}: {found}");
    }
    let tried = |(rule, accept): &(&str, [&str; 2])| {
        [0.0, 0.5].iter().zip(accept).all(|(alpha, accept)| {
            let is_point = |point: &&Value| (&point["rule"], &point["alpha"]) == (&json!(rule), &json!(alpha));
            let of: Vec<&Value> = points.iter().filter(is_point).collect();
            matches!(of[..], [point] if point["accept"] == *accept && point["tokens_per_step"].as_f64() >= Some(1.0))
        })
    };
    let missing: Vec<&(&str, [&str; 2])> = LOSSY.iter().filter(|rule| !tried(rule)).collect();
    assert!(missing.is_empty(), "{missing:?}: {found}");
    assert_eq!(points.len(), 3 + 2 * LOSSY.len(), "{found}");
    let answers = folder.path().join("answers.jsonl");
    let answered = |lines: &str| {
        std::fs::write(&answers, lines).unwrap();
        [&sweep[..], &few, &["--prompts", answers.to_str().unwrap()]].concat()
    };
    let two = "{\"prompt\": \"ab\", \"answer\": \"bc\"}\n\n{\"prompt\": \"c\", \"answer\": \"d\"}\n";
    let found = done(&[&answered(two)[..], &["--json"]].concat());
    assert_eq!(found["prompts"], 2, "{found}");
    refused(&answered("{\"prompt\": \"ab\"}\n"), &["answers.jsonl:1", "answer"]);
    refused(&answered("{\"prompt\": \"ab\", \"answer\": \"bc\"}\nno"), &["answers.jsonl:2"]);
    refused(&answered(""), &["answers.jsonl"]);
}

#[test]
fn commands_that_take_none_refuse_by_name() {
    let (target, draft, folder) = (t5(2, true, 3), t5(1, false, 5), tempfile::tempdir().unwrap());
    let (model, small) = (name(&target), name(&draft));
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let write = |name: &str, text: String| {
        std::fs::write(folder.path().join(name), text).unwrap();
        path(name)
    };
    let what = "encoder-decoder model";
    refused(&["chat", "--model", model], &[what, "chat"]);
    refused(&["serve", "--model", model, "--port", "0"], &[what, "serve"]);
    let out = path("out");
    let distill =
        write("distill.toml", format!("model = {model:?}\nout = {out:?}\n[synthetic]\ndialogues = 2\nseed = 1\n"));
    refused(&["distill", "-c", &distill], &[what, "distill"]);
    let (data, runs) = (path("data"), path("runs"));
    for method in ["medusa", "medusa-2", "hydra", "eagle", "eagle3", "mtp", "block", "distill-spec"] {
        let more =
            if method == "distill-spec" { format!("[distill_spec]\ndraft = {small:?}\n") } else { String::new() };
        let text = format!("method = {method:?}\nmodel = {model:?}\ndata = {data:?}\nruns = {runs:?}\n{more}");
        let config = write("train.toml", text);
        refused(&["train", "-c", &config], &[what, "train"]);
        refused(&["features", "-c", &config], &[what]);
    }
    refused(&["quantize", model, &out, "--to", "int8"], &[what, "quantize"]);
    refused(&["init", model, &prompts(folder.path()), "--dir", &out], &[what, "init"]);
    let rows = path("rows.safetensors");
    refused(&["logits", "--model", model, "--ids", "300", "--out", &rows], &["300", "vocabulary"]);
    refused(&["logits", "--model", model, "--ids", "5", "--decoder-ids", "", "--out", &rows], &["--decoder-ids"]);
    refused(
        &["logits", "--model", model, "--ids", "5", "--decoder-ids", "0,x", "--out", &rows],
        &["--decoder-ids", "x"],
    );
    let llama = gorgon::Model::new();
    let given = ["--ids", "5", "--decoder-ids", "0", "--out", &rows];
    refused(&[&["logits", "--model", llama.name()][..], &given].concat(), &["--decoder-ids", "no encoder"]);
    let drafter = format!("model:{small}");
    let ask = ["generate", "--model", llama.name(), "--ids", "5", "--drafter", &drafter, "--tree", "chain:2"];
    refused(&ask, &["encoder-decoder model", small]);
    assert!(!Path::new(&rows).exists() && !Path::new(&out).exists());
}

/// Every field of a config is checked: the file and the value are named.
#[test]
fn hostile_configs_are_refused() {
    let target = t5(2, true, 3);
    let path = target.path().join("config.json");
    let good: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let wrong = [
        ("relative_attention_num_buckets", json!(0)),
        ("relative_attention_max_distance", json!(1e18)),
        ("feed_forward_proj", json!("gated-swish")),
        ("num_decoder_layers", json!(1_000_000)),
        ("d_kv", json!("12")),
        ("decoder_start_token_id", json!(300)),
        ("layer_norm_epsilon", json!(-1)),
        ("num_heads", json!(null)),
    ];
    for (key, value) in wrong {
        let mut config = good.clone();
        config[key] = value;
        std::fs::write(&path, config.to_string()).unwrap();
        refused(&["generate", "--model", name(&target), "--ids", "5"], &["config.json", key]);
    }
    let mut config = good;
    config["num_layers"] = json!(3);
    std::fs::write(&path, config.to_string()).unwrap();
    let missing = "encoder.block.2.layer.0.SelfAttention.q.weight";
    let output = gorgon(&["inspect", name(&target), "--json"]);
    assert!(json(&output)["problems"].to_string().contains(missing));
    refused(&["generate", "--model", name(&target), "--ids", "5"], &["missing"]);
}

/// A pair is fitted for a moment, and one drafts for the other.
#[test]
fn a_small_pair_is_fitted_from_scratch() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (large, small) = (path("large"), path("small"));
    let few = ["--steps", "12", "--pairs", "4", "--json", "--quiet"];
    let found = done(&[&["dev", "t5", &large, "--hidden-size", "16", "--heads", "2"][..], &few].concat());
    assert!(found["parameters"].as_u64().unwrap() > 10_000, "{found}");
    assert!(found["evaluation"].to_string().contains("answer_top1"), "{found}");
    done(&[&["dev", "t5", &small, "--hidden-size", "8", "--heads", "1", "--layers", "1"][..], &few].concat());
    let again = path("again");
    done(&[&["dev", "t5", &again, "--hidden-size", "16", "--heads", "2"][..], &few].concat());
    let bytes = |dir: &str| std::fs::read(Path::new(dir).join("model.safetensors")).unwrap();
    assert_eq!(bytes(&large), bytes(&again));
    let prompts = path("large/held-out.jsonl");
    let drafter = format!("model:{small}");
    let base = ["verify", "--model", &large, "--prompts", &prompts, "--limit", "4", "--max-new-tokens", "12"];
    let output = gorgon(&[&base[..], &["--drafter", &drafter, "--tree", "chain:3", "--json"]].concat());
    assert_eq!(json(&output)["diverged"], 0, "{}", stderr(&output));
    refused(&["dev", "t5", &large], &[&large, "not empty"]);
    refused(&["dev", "t5", &path("odd"), "--hidden-size", "10", "--heads", "4"], &["--hidden-size 10"]);
    refused(&["dev", "t5", &path("odd"), "--learning-rate", "0"], &["learning-rate"]);
}
