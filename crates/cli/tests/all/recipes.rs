//! The recipes in `configs/recipes`: each is planned on the shape of its model, without weights, and the predictions
//! stand in `docs/src/recipes.md`. The configs of the model of this repository are planned too.

use crate::chain;
use crate::gorgon;
use crate::written;

use chain::finished;
use gorgon::{json, refused};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use written::{check, root};

const MODELS: [&str; 5] = ["llama-3.1-8b", "qwen3-8b", "qwen2.5-0.5b", "llama-3.2-1b", "tinyllama-1.1b"];
const METHODS: [&str; 4] = ["medusa", "eagle3", "hydra", "mtp"];
/// The data set that predictions are for, and the device: 60,000 conversations of 1,000 tokens.
const TOKENS: &str = "60000000";
const TFLOPS: &str = "100";
/// The tokens of them that are new, and how fast the device reads its memory, in 10^9 bytes per second.
const ANSWERS: &str = "30000000";
const BANDWIDTH: &str = "2000";

/// A model's folder without weights: its config, and another model's tokenizer in place of its own.
fn shape(model: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shapes").join(format!("{model}.json"));
    std::fs::copy(from, dir.path().join("config.json")).unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(root().join("checkpoints/tiny").join(name), dir.path().join(name)).unwrap();
    }
    std::fs::write(dir.path().join("prompts.jsonl"), "{\"prompt\": \"Hello\"}\n").unwrap();
    dir
}

fn planned(model: &str, file: &str, more: &[&str]) -> Value {
    let dir = shape(model);
    let config = root().join("configs/recipes").join(model).join(file);
    let verb = if file == "distill.toml" { "distill" } else { "train" };
    let own =
        [format!("model={}", dir.path().display()), format!("prompts=[\"{}/prompts.jsonl\"]", dir.path().display())];
    let nowhere = [format!("{}={}", if verb == "train" { "data" } else { "out" }, dir.path().join("none").display())];
    let mut args = vec![verb, "-c", config.to_str().unwrap(), "--dry-run", "--json", &own[0], &nowhere[0]];
    if verb == "distill" {
        args.push(&own[1]);
    }
    args.extend(more);
    let document = json(&finished(&args, &[]));
    assert!(!dir.path().join("none").exists());
    document["plan"].clone()
}

fn giga(value: &Value) -> String {
    format!("{:.1} GB", value.as_f64().unwrap() / 1e9)
}

/// The hub id in a recipe.
fn hub(model: &str) -> String {
    let text = std::fs::read_to_string(root().join("configs/recipes").join(model).join("medusa.toml")).unwrap();
    let line = text.lines().find(|line| line.starts_with("model = ")).unwrap();
    line.trim_start_matches("model = ").trim_matches('"').to_owned()
}

const INTRODUCTION: &str = "<!-- Generated. Do not edit: `GORGON_WRITE_REFERENCE=1 make test` writes it. -->\n\n# Recipes\n\n\
     Each folder in `configs/recipes` holds configs for one model: `distill.toml`, and one config per method.\n\
     Run `gorgon distill`, then `gorgon train`, as the first lines of each file say.\n\n\
     All numbers below are **predicted, not measured**. They come from the formulas of `--dry-run` on the model's\n\
     `config.json` alone. Training is predicted for 60,000 conversations of 1,000 tokens and a device that does\n\
     100·10¹² floating-point operations per second, distillation for answers that are half of these tokens and\n\
     a device that reads 2,000·10⁹ bytes of memory per second: each step reads the weights once and caches that\n\
     are half full. The time of reading prompts comes on top. These commands print the numbers:\n\n```\n\
     gorgon train -c CONFIG --dry-run --assume-tokens 60000000 --assume-tflops 100\n\
     gorgon distill -c CONFIG --dry-run --assume-tokens 30000000 --assume-bandwidth 2000\n```\n\n\
     Memory is that of fitting with all micro-batches of a step at once; the backbone's weights in 16 bits\n\
     come on top of it. For the 8B models the sum is at most 80 GB. Each micro-batch has gradients of its own,\n\
     so fewer and larger ones take less memory for the same tokens in a step. Fewer tokens in a step and\n\
     `training.memory_limit_mb` lower the memory too. Disk is that of the run folder.\n";

/// Bytes that fitting and the backbone of an 8B model may take together.
const MOST_8B: f64 = 80e9;

#[test]
fn recipes_are_planned_on_shapes() {
    let mut page = String::from(INTRODUCTION);
    for model in MODELS {
        assert!(planned(model, "distill.toml", &[])["seconds"].is_null());
        let distill = planned(model, "distill.toml", &["--assume-tokens", ANSWERS, "--assume-bandwidth", BANDWIDTH]);
        let (weights, caches) = (giga(&distill["weights_bytes"]), giga(&distill["caches_bytes"]));
        write!(
            page,
            "\n## {}\n\n`configs/recipes/{model}`. Distillation: weights {weights}, caches and logits at most {caches}\n\
             on a CPU, for {} conversations at a time; {:.1} hours for the new tokens, which take about {} of disk.\n\n\
             | method | parameters | memory | backbone | disk | steps | hours |\n|---|--:|--:|--:|--:|--:|--:|\n",
            hub(model),
            distill["batch_size"],
            distill["seconds"].as_f64().unwrap() / 3600.0,
            giga(&distill["disk_bytes"]),
        )
        .unwrap();
        for method in METHODS {
            let file = format!("{method}.toml");
            let bare = planned(model, &file, &[]);
            assert!(bare["seconds"].is_null() && bare["steps"].is_null() && bare["by_formula_alone"] == true, "{bare}");
            let plan = planned(model, &file, &["--assume-tokens", TOKENS, "--assume-tflops", TFLOPS]);
            let whole = plan["memory_bytes"].as_f64().unwrap() + plan["backbone_bytes"].as_f64().unwrap();
            assert!(!model.ends_with("-8b") || whole <= MOST_8B, "{model} {method}: {whole} bytes");
            let row = [
                format!("{:.0} M", plan["parameters"].as_f64().unwrap() / 1e6),
                giga(&plan["memory_bytes"]),
                giga(&plan["backbone_bytes"]),
                giga(&plan["disk_bytes"]),
                plan["steps"].to_string(),
                format!("{:.1}", plan["seconds"].as_f64().unwrap() / 3600.0),
            ];
            writeln!(page, "| {method} | {} |", row.join(" | ")).unwrap();
        }
    }
    check("docs/src/recipes.md", &page);
}

/// The time of a distillation follows from the declared rate, for as many conversations at a time as there are.
#[test]
fn a_distillations_time_follows_from_the_memorys_rate() {
    let of = |tokens: &str, rate: &str| {
        let plan = planned("qwen2.5-0.5b", "distill.toml", &["--assume-tokens", tokens, "--assume-bandwidth", rate]);
        (plan["seconds"].as_f64().unwrap(), plan["weights_bytes"].as_f64().unwrap(), plan["disk_bytes"].as_u64())
    };
    let (seconds, weights, disk) = of("1000", "100");
    // One prompt is answered alone, however many fit.
    assert!(seconds > 1000.0 * weights / 100e9 && seconds < 1.5 * 1000.0 * weights / 100e9, "{seconds}");
    assert!((of("2000", "100").0 / seconds - 2.0).abs() < 1e-9 && (of("1000", "50").0 / seconds - 2.0).abs() < 1e-9);
    assert!(of("2000", "100").2 > disk && of(&u64::MAX.to_string(), "100").2 > disk);
    let file = root().join("configs/distill-tiny.toml").display().to_string();
    let model = format!("model={}", root().join("checkpoints/tiny").display());
    let given = ["distill", "-c", &file, &model, "--dry-run", "--assume-tokens", "5", "servers=[\"http://a/v1\"]"];
    refused(&given, &["--assume-tokens", "no model answers"]);
    refused(&["distill", "-c", &file, "--assume-bandwidth", "5"], &["--dry-run"]);
}

/// Methods that change the backbone or a draft model: they are planned on data. Plans of the others measure no step
/// without data, which is quicker.
const ON_DATA: [&str; 5] = ["cllm", "distill-spec", "layerskip", "medusa-2", "space-sft"];

/// The config with paths that exist here, and a smaller corpus. Keys that need another job's output are left out, so
/// `init_from`, `keep_start`, `publish` and `labels` are not planned.
fn self_contained(file: &Path, model: &str, data: &Path) -> toml::Table {
    let mut keys: toml::Table = std::fs::read_to_string(file).unwrap().parse().unwrap();
    ["init_from", "keep_start", "publish", "labels"].iter().for_each(|key| drop(keys.remove(*key)));
    if let Some(method) = keys.get("method").and_then(|method| method.as_str()) {
        let data = if ON_DATA.contains(&method) { data.into() } else { data.join("none") };
        keys.insert("data".into(), data.to_str().unwrap().into());
    }
    let held_out = root().join("datasets/tiny-chat/held_out.jsonl").display().to_string();
    if let Some(prompts) = keys.get_mut("prompts") {
        *prompts = vec![held_out.clone()].into();
    }
    for (table, key, value) in [
        ("data", "files", vec![held_out].into()),
        ("distill_spec", "draft", model.into()),
        ("tokenizer", "from", model.into()),
        ("tokenizer", "size", toml::Value::Integer(1000)),
        ("data", "synthetic", toml::Value::Integer(200)),
    ] {
        if let Some(place) = keys.get_mut(table).and_then(|table| table.get_mut(key)) {
            *place = value;
        }
    }
    if let Some(place) = keys.get_mut("model").filter(|place| place.is_str()) {
        *place = model.into();
    }
    keys
}

/// The configs for the model of this repository are planned too.
#[test]
fn configs_of_the_small_model_are_planned() {
    let (folder, model) = (tempfile::tempdir().unwrap(), root().join("checkpoints/tiny").display().to_string());
    let (data, config) = (folder.path().join("data"), folder.path().join("config.toml"));
    let (out, from) = (format!("out={}", data.display()), format!("model={model}"));
    let answers = root().join("configs/distill-tiny.toml");
    finished(&["distill", "-c", answers.to_str().unwrap(), &from, &out, "synthetic.dialogues=40"], &[]);
    finished(&["dev", "trajectories", data.to_str().unwrap(), "--model", &model], &[]);
    let mut planned = 0;
    let own = root().join("configs").read_dir().unwrap().map(|file| file.unwrap().path());
    let own = own.filter(|file| file.extension().is_some_and(|extension| extension == "toml"));
    for file in own.chain([root().join("configs/recipes/chat-8m/pretrain.toml")]) {
        let keys = self_contained(&file, &model, &data);
        std::fs::write(&config, keys.to_string()).unwrap();
        let verb: &[&str] = match (keys.contains_key("method"), keys.contains_key("sampling")) {
            (true, _) => &["train"],
            (_, true) => &["distill"],
            _ => &["dev", "pretrain"],
        };
        let document = json(&finished(&[verb, &["-c", config.to_str().unwrap(), "--dry-run", "--json"]].concat(), &[]));
        assert!(document["plan"].is_object(), "{}: {document}", file.display());
        planned += 1;
    }
    assert!(planned > 20, "{planned}");
}

/// The comparisons too: those of other models on the one of this repository, those of logs on its answers.
#[test]
fn comparisons_are_planned() {
    let (folder, model) = (tempfile::tempdir().unwrap(), root().join("checkpoints/tiny").display().to_string());
    let (data, config) = (folder.path().join("data").display().to_string(), folder.path().join("config.toml"));
    let answers = root().join("configs/distill-tiny.toml");
    let out = format!("out={data}");
    finished(
        &["distill", "-c", answers.to_str().unwrap(), &format!("model={model}"), &out, "synthetic.dialogues=4"],
        &[],
    );
    let prompts = root().join("datasets/tiny-chat/held_out.jsonl").display().to_string();
    for file in root().join("configs/compare").read_dir().unwrap().map(|file| file.unwrap().path()) {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut keys: toml::Table =
            text.replace("configs/", &format!("{}/configs/", root().display())).parse().unwrap();
        for (key, value) in [("model", &model), ("data", &data), ("prompts", &prompts)] {
            keys.insert(key.into(), value.as_str().into());
        }
        for method in keys["methods"].as_array_mut().unwrap() {
            if let Some(place) = method.get_mut("data") {
                *place = data.as_str().into();
            }
        }
        std::fs::write(&config, keys.to_string()).unwrap();
        let document = json(&finished(&["compare", "-c", config.to_str().unwrap(), "--dry-run", "--json"], &[]));
        let fitted = keys["methods"].as_array().unwrap().iter().filter(|method| method.get("config").is_some()).count();
        let (plan, shown) = (&document["plan"], file.display());
        assert!(plan["methods"].as_u64() > Some(1), "{shown}: {document}");
        assert!(plan["trainings"].as_u64() >= Some(fitted as u64), "{shown}: {document}");
    }
}
