//! Commented configs for a model and a file of prompts.

use crate::config::{self, Kind};
use crate::failure::Failure;
use crate::fitting::MERGED;
use crate::settings::Settings;
use crate::train::{self, Assumed};
use crate::{absent, files, hub_id, load};
use gorgon_core::suggest::did_you_mean;
use gorgon_data::config::DistillConfig;
use gorgon_data::render::Renderer;
use gorgon_data::source;
use gorgon_model::config::ModelConfig;
use gorgon_runs::visible;
use gorgon_train::config::TrainConfig;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use toml::Table;

/// Tokens of a conversation at most, where the model's context has room for them.
const CONVERSATION: usize = 2048;

/// The methods that a config can be written for.
const METHODS: [&str; 11] =
    ["medusa", "medusa-2", "hydra", "eagle", "eagle3", "mtp", "kangaroo", "block", "ppd", "pass", "space"];

/// The wish of a user who begins.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// A model folder or a repo id.
    pub model: &'a str,
    /// A file of prompts, or a data set on the hub.
    pub prompts: &'a Path,
    /// The training method.
    pub method: &'a str,
    /// The folder for the configs.
    pub dir: &'a Path,
}

/// The files that were written, and the commands to run next.
pub struct Written {
    /// The configs.
    pub files: Vec<PathBuf>,
    /// Commands, in order.
    pub commands: Vec<String>,
    /// The plan of the training, by formula.
    pub plan: Value,
    /// Bytes that the training takes at most beside the model, where a formula says so.
    pub memory: Option<u64>,
}

/// Writes `distill.toml` and `train.toml`, with values that fit the model.
///
/// # Errors
/// When the model, the prompts or the method are wrong, or a file is there already.
pub fn write(options: &Options<'_>, settings: &Settings) -> Result<Written, Failure> {
    let Options { model, prompts, method, dir } = *options;
    let paths = [dir.join("distill.toml"), dir.join("train.toml")];
    if let Some(path) = paths.iter().find(|path| path.symlink_metadata().is_ok()) {
        let message = format!("{}: it is there already", path.display());
        return Err(Failure::input(message).hint("name another folder with --dir, or delete it"));
    }
    let named = prompts.to_string_lossy();
    if !named.starts_with("hf://") {
        absent::check(prompts, "file")?;
        let options = source::Options { limit: Some(1), tools: true, ..source::Options::default() };
        source::read(prompts, &options)?;
    }
    let folder = load::decoder_only(model, "init", settings)?;
    let texts = texts(options, &folder, &paths)?;
    // What is written is what gorgon reads.
    config::embedded::<DistillConfig>(&texts[0])?;
    let read = config::embedded::<TrainConfig>(&texts[1])?;
    let (plan, memory) = match train::by_formula(&read, &folder, Assumed::default()) {
        Ok((document, plan)) => (document, Some(plan.memory)),
        Err(_) => (Value::Null, None),
    };
    files::check_writable(dir)?;
    std::fs::create_dir_all(dir).map_err(|error| Failure::io(dir, &error))?;
    for (path, text) in paths.iter().zip(&texts) {
        gorgon_runs::atomic::write(path, |file| file.write_all(text.as_bytes()))
            .map_err(|error| Failure::run(format!("{}: {error}", path.display())))?;
    }
    let run = next_run(&dir.join("checkpoints"), &format!("{method}-{}", hub_id::stem(model, &folder)));
    // Heads that were fitted together with the model draft for the fitted one.
    let target = if method == "medusa-2" { visible::word(&run.join(MERGED)) } else { visible::word(model) };
    let with = format!("--model {target} --heads {}", visible::word(&run));
    // Figures on prompts that heads were fitted to would be too good.
    let commands = vec![
        command("distill", &paths[0]),
        command("train", &paths[1]),
        format!("gorgon tree calibrate {with} --prompts HELD_OUT"),
        format!("gorgon bench {with} --prompts HELD_OUT"),
        format!("gorgon chat {with}"),
    ];
    Ok(Written { files: paths.to_vec(), commands, plan, memory })
}

/// The folder that a training with this stem will make if it is the next one.
fn next_run(parent: &Path, stem: &str) -> PathBuf {
    let mut number = 1;
    while parent.join(format!("{stem}-{number}")).exists() {
        number += 1;
    }
    parent.join(format!("{stem}-{number}"))
}

/// Both configs, with comments.
fn texts(options: &Options<'_>, folder: &Path, paths: &[PathBuf; 2]) -> Result<[String; 2], Failure> {
    let Options { model, prompts, method, dir } = *options;
    let (shape, data) = (ModelConfig::read(folder)?, dir.join("data"));
    let tokens = CONVERSATION.min(shape.max_positions);
    let distill = distilling(model, &prompts.to_string_lossy(), &data, tokens);
    let train = training(method, model, &data, &dir.join("checkpoints"), (tokens, &shape))?;
    let has_template = Renderer::load(folder)?.has_template();
    let turns = if has_template { "has a chat template" } else { "has no chat template: prompts are used as text" };
    let facts = format!(
        "{model}: {} layers, width {}, {} tokens in the vocabulary, a context of {} tokens; it {turns}.",
        shape.layers, shape.hidden_size, shape.vocab_size, shape.max_positions
    );
    // A name may have characters that a comment must not have.
    let lines = |lines: [&str; 3]| lines.map(|line| visible::line(line) + "\n").concat();
    let head = |title: &str, run: &str| lines([&format!("{title} for {model}."), &facts, run]);
    let distill_head = head("Training data: the model answers prompts", &command("distill", &paths[0]));
    let train_head = head(&format!("Draft heads by the method {method}"), &command("train", &paths[1]));
    Ok([config::annotated(Kind::Distill, &distill, &distill_head), config::annotated(Kind::Train, &train, &train_head)])
}

fn command(verb: &str, path: &Path) -> String {
    format!("gorgon {verb} -c {}", visible::word(path))
}

fn table(document: Value) -> Table {
    Table::try_from(document).unwrap_or_default()
}

fn distilling(model: &str, prompts: &str, out: &Path, tokens: usize) -> Table {
    table(json!({
        "model": model, "out": out, "prompts": [prompts], "limit": 0, "max_tokens": tokens, "batch_size": "auto",
        "sampling": {"temperature": 0.0, "max_new_tokens": 512.min(tokens / 2), "seed": 0},
    }))
}

fn training(
    method: &str,
    model: &str,
    data: &Path,
    runs: &Path,
    (tokens, shape): (usize, &ModelConfig),
) -> Result<Table, Failure> {
    let rate = match method {
        "eagle" => 3e-5,
        "eagle3" | "kangaroo" => 5e-5,
        "block" => 6e-4,
        "ppd" | "pass" | "space" => 1e-2,
        _ => 1e-3,
    };
    let own = match method {
        "medusa" | "medusa-2" => ("medusa", json!({"heads": 4, "blocks": 1})),
        "hydra" => ("hydra", json!({"heads": 4, "blocks": 1, "prefix_attention": false, "soft_targets": false})),
        "eagle" => ("eagle", json!({"noise": 0.1, "cross_entropy": 0.1})),
        "eagle3" => ("eagle3", json!({"steps": 7, "draft_vocab": 32_000.min(shape.vocab_size)})),
        "mtp" => ("mtp", json!({"depths": 1})),
        "kangaroo" => ("kangaroo", json!({"exit_layer": 2.min(shape.layers.saturating_sub(1)).max(1), "stop": 0.6})),
        "ppd" => ("ppd", json!({"prompt_tokens": 3, "ensemble": 1})),
        "pass" => ("pass", json!({"look_ahead": 4})),
        "space" => ("space", json!({"masks": 5})),
        "block" => ("block", json!({"layers": 5, "block_size": 8, "anchors": 512})),
        _ => {
            let near = did_you_mean(method, METHODS);
            let message = format!("--method {method}: {near}expected {}", METHODS.join(", "));
            return Err(Failure::input(message));
        }
    };
    let mut all = table(json!({
        "method": method, "model": model, "data": data, "held_out": 0.05, "runs": runs, "seed": 1,
        "cache_features": false,
    }));
    all.extend(table(json!({own.0: own.1})));
    all.extend(table(json!({"training": {
        "epochs": 2.0, "gradient_accumulation": 4, "micro_batch_tokens": tokens, "max_seq_len": tokens,
        "learning_rate": rate, "warmup": 0.05, "max_grad_norm": if method.starts_with("eagle") { 0.5 } else { 1.0 },
        "log_every": 10, "eval_every": 200, "save_every": 200, "save_total_limit": 2,
    }})));
    Ok(all)
}
