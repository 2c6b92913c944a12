//! Every key of every config with values at the ends of its type: each is refused, or planned in bounded work.
#![cfg(unix)]

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, stages};
use gorgon::{gorgon, json};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Seconds on the processor and KiB of memory that checking or planning may take.
const LIMITS: &str = "ulimit -t 120; ulimit -v 8000000; exec \"$0\" \"$@\"";

fn limited(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_gorgon");
    Command::new("sh").args(["-c", LIMITS, program]).args(args).output().unwrap()
}

/// Values at the ends of a key's types, as they are typed after `=`.
fn extremes(schema: &Value) -> Vec<&'static str> {
    let choices = ["anyOf", "oneOf"].iter().flat_map(|of| schema[of].as_array().into_iter().flatten());
    let mut found: Vec<&str> = choices.flat_map(extremes).collect();
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    for kind in types {
        found.extend(match kind {
            "integer" => &["0", "-1", "1000000000000000000"][..],
            "number" => &["0", "-1", "nan", "inf", "1e18", "1e-300"],
            "string" => &["\"\""],
            "array" => &["[]", "[\"\"]", "[-1]", "[nan, nan]", "[1000000000000000000]"],
            _ => &[],
        });
    }
    found
}

/// The keys of a schema that hold values, with their extremes. A list of tables has those of its first one.
fn keys(schema: &Value, path: &str, found: &mut Vec<(String, Vec<&'static str>)>) {
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let choices = inner["anyOf"].as_array().into_iter().flatten();
        let inner = choices.clone().find(|one| one["properties"].is_object()).unwrap_or(inner);
        match inner["properties"].is_object() {
            true => keys(inner, &path, found),
            false => found.push((path, extremes(inner))),
        }
    }
}

/// Tries every key of a kind on a config; `of` chooses keys. What checks well is planned, if there is a `verb`.
fn walk(kind: &str, config: &Path, of: impl Fn(&str) -> bool, verb: Option<&[&str]>) -> usize {
    let schema = json(&gorgon(&["config", "schema", kind]));
    let mut known = vec![];
    keys(&schema, "", &mut known);
    let config = config.to_str().unwrap();
    let (mut tried, mut wrong) = (0, vec![]);
    let mut ends = |args: &[&str]| {
        tried += 1;
        let output = limited(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !matches!(output.status.code(), Some(0 | 2)) || said.contains("internal error") {
            wrong.push(format!("{args:?}: {:?}: {said}", output.status));
        }
        output.status.success()
    };
    for (key, values) in known.iter().filter(|(key, _)| of(key)) {
        for value in values {
            let set = format!("{key}={value}");
            if ends(&["config", "check", config, &set])
                && let Some(verb) = verb
            {
                ends(&[verb, &["-c", config, &set, "--dry-run"]].concat());
            }
        }
    }
    assert!(wrong.is_empty(), "{kind}:\n{}", wrong.join("\n"));
    tried
}

/// The tables of methods other than the default one.
const TABLES: [&str; 14] = [
    "medusa2",
    "eagle",
    "eagle3",
    "hydra",
    "mtp",
    "kangaroo",
    "layerskip",
    "block",
    "ppd",
    "pass",
    "space",
    "space_sft",
    "cllm",
    "distill_spec",
];

#[test]
fn every_value_of_a_training_is_refused_or_planned() {
    let job = Job::new();
    job.distill(&[]);
    let config = job.path("train.toml");
    let of_other = |key: &str| TABLES.iter().any(|table| key.starts_with(&format!("{table}.")));
    let mut tried = walk("train", &config, |key| !of_other(key), Some(&["train"]));
    for table in TABLES.into_iter().filter(|&table| table != "cllm") {
        let method = match table {
            "medusa2" => "medusa-2",
            "distill_spec" => "distill-spec",
            "space_sft" => "space-sft",
            table => table,
        };
        let draft = format!("[distill_spec]\ndraft = {:?}\n", backbone());
        let draft = if method == "distill-spec" { draft } else { String::new() };
        let text = format!("method = {method:?}\nmodel = {:?}\ndata = {:?}\n{draft}", backbone(), job.path("data"));
        job.write("other.toml", &text);
        let own = format!("{table}.");
        tried += walk("train", &job.path("other.toml"), |key| key.starts_with(&own), None);
    }
    assert!(tried > 200, "{tried}");
}

#[test]
fn every_value_of_a_distillation_is_refused_or_planned() {
    let job = Job::new();
    assert!(walk("distill", &job.path("distill.toml"), |_| true, Some(&["distill"])) > 50);
}

#[test]
fn every_value_of_a_pretraining_is_refused_or_planned() {
    let job = stages::pretraining();
    assert!(walk("pretrain", &job.path("pretrain.toml"), |_| true, Some(&["dev", "pretrain"])) > 50);
}

#[test]
fn every_value_of_a_comparison_is_refused_or_planned() {
    let job = Job::new();
    job.distill(&[]);
    stages::comparison(&job);
    assert!(walk("compare", &job.path("compare.toml"), |_| true, Some(&["compare"])) > 50);
}
