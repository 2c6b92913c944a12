//! Options of every verb: each has an effect on a verb, or is refused by it.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone};
use gorgon::{Model, gorgon, refused, stderr, stdout};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Options that only some verbs take, with a value that no verb can work with, and what is said of it.
const TELLING: [(&str, &[&str], &str); 5] = [
    ("--device", &["--device", "cuda:63"], "cuda"),
    ("--dtype", &["--dtype", "f16", "--compute-dtype", "bf16"], "--dtype f16: weights are in bf16"),
    ("--compute-dtype", &["--compute-dtype", "bf16", "--dtype", "f32"], "--dtype f32: weights are in bf16"),
    (
        "--weights",
        &["--weights", "int8", "--compute-dtype", "bf16"],
        "--weights int8: weights are either in integers or in bf16",
    ),
    ("--context", &["--context", "2"], "context"),
];

/// Arguments of each verb that it can work with; words in capitals stand for files of a job.
const VERBS: [(&str, &str); 42] = [
    ("doctor", "--model MODEL --heads HEADS"),
    ("fetch", "owner/name"),
    ("inspect", "MODEL"),
    ("generate", "--model MODEL --prompt Hello --max-new-tokens 4"),
    ("chat", "--model MODEL --prompt Hello --max-new-tokens 4"),
    ("distill", "-c JOB/distill.toml out=JOB/other"),
    ("train", "-c JOB/train.toml"),
    ("config-schema", "train"),
    ("config-reference", "train"),
    ("config-check", "JOB/train.toml"),
    ("init", "MODEL PROMPTS --dir JOB/configs"),
    ("compare", "-c JOB/compare.toml"),
    ("bench", "--model MODEL --heads HEADS --prompts PROMPTS --max-new-tokens 4"),
    ("serve", "--model MODEL --port 0"),
    ("verify", "--model MODEL --heads HEADS --prompts PROMPTS --max-new-tokens 4"),
    ("tree-calibrate", "--model MODEL --heads HEADS --prompts PROMPTS --max-new-tokens 4 --rounds 1"),
    ("tree-sequoia", "--heads HEADS"),
    ("tree-show", "--tree chain:2"),
    ("tree-plan", "--alpha 0.5"),
    ("export", "HEADS --to medusa-v1 JOB/export"),
    ("quantize", "MODEL JOB/int8 --to int8 --prompts PROMPTS"),
    ("store-build", "PROMPTS --model MODEL JOB/answers.store"),
    ("store-inspect", "JOB/answers.store"),
    ("store-save", "--url http://127.0.0.1:1 JOB/saved.store"),
    ("runs-list", "JOB/runs"),
    ("runs-show", "HEADS"),
    ("runs-compare", "HEADS --out JOB/curves.svg"),
    ("runs-open", "HEADS"),
    ("demo", "--model MODEL --dir JOB/demo"),
    ("completions", "bash"),
    ("dev-logits", "--model MODEL --ids 1,2,3 --out JOB/logits"),
    ("dev-features", "-c JOB/train.toml"),
    ("dev-synth", "--out JOB/synth"),
    ("dev-t5", "JOB/t5 --steps 2"),
    ("dev-pretrain", "-c PRETRAIN"),
    ("dev-suite", "cpu"),
    ("dev-replay", "--model MODEL --drafter ngram:2 --edits PROMPTS"),
    ("dev-skip", "--model MODEL --prompts PROMPTS --out JOB/sublayers.json --evaluations 3"),
    ("dev-trajectories", "JOB/data --model MODEL --block 4"),
    ("dev-sweep", "alpha=0,0.5 --model MODEL --drafter model:MODEL"),
    ("dev-plot", "HEADS"),
    ("dev-man", "JOB/man"),
];

/// Verbs that a seed has an effect on.
const SEEDED: &str = "bench chat compare demo dev-features dev-logits dev-pretrain dev-replay dev-skip dev-sweep dev-synth \
                      dev-t5 dev-trajectories distill doctor generate train tree-calibrate verify";

/// Verbs that render the model's chat template.
const RENDERING: &str = "bench chat compare dev-replay dev-skip distill doctor generate quantize serve store-build \
                         tree-calibrate verify";

/// The arguments of each verb for a job that was trained.
fn verbs(job: &Job) -> BTreeMap<&'static str, Vec<String>> {
    let (model, heads) = (backbone().to_str().unwrap(), job.run().unwrap());
    job.write("prompts.jsonl", "{\"prompt\": \"Hello there!\"}\n{\"prompt\": \"How are you today?\"}\n");
    let (data, prompts, pretrain) =
        (job.path("data"), job.text("prompts.jsonl"), backbone().with_file_name("pretrain.toml"));
    let methods = "[[methods]]\nname = \"lookup\"\ndrafter = \"ngram:2\"\n";
    let counts = "calibration_prompts = 1\nbench_prompts = 1\n";
    job.write("compare.toml", &format!("model = {model:?}\ndata = {data:?}\nprompts = {prompts:?}\n{counts}{methods}"));
    let (heads, pretrain, folder) =
        (heads.to_str().unwrap(), pretrain.to_str().unwrap(), job.dir.path().to_str().unwrap());
    let files = [("MODEL", model), ("HEADS", heads), ("PROMPTS", &prompts), ("PRETRAIN", pretrain), ("JOB", folder)];
    let word = |word: &str| files.iter().fold(word.to_owned(), |word, (name, file)| word.replacen(name, file, 1));
    VERBS.iter().map(|(verb, args)| (*verb, args.split(' ').map(word).collect())).collect()
}

/// Every verb of the program, by its man pages.
fn known(job: &Job) -> BTreeSet<String> {
    let folder = job.text("man-pages");
    assert!(gorgon(&["dev", "man", &folder]).status.success());
    let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<String> =
        names.filter_map(|name| Some(name.strip_prefix("gorgon-")?.strip_suffix(".1")?.to_owned())).collect();
    let is_group = |name: &str| names.iter().any(|other| other.starts_with(&format!("{name}-")));
    let is_help = |name: &str| name == "help" || name.starts_with("help-") || name.contains("-help");
    names.iter().filter(|name| !is_group(name) && !is_help(name)).cloned().collect()
}

#[test]
fn every_option_has_an_effect_or_is_refused() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&[]);
    let verbs = verbs(&job);
    let listed: BTreeSet<String> = verbs.keys().map(|verb| (*verb).to_owned()).collect();
    assert_eq!(listed, known(&job), "the verbs of this test are those of the program");
    let mut silent = vec![];
    for (verb, args) in &verbs {
        for (option, values, wanted) in TELLING {
            let words: Vec<&str> =
                verb.split('-').chain(args.iter().map(String::as_str)).chain(values.iter().copied()).collect();
            let output = gorgon(&words);
            let said = stderr(&output);
            let refused = said.contains(&format!("has no effect on gorgon {}", verb.replace('-', " ")));
            if *verb == "export" && option == "--dtype" {
                assert!(said.contains("--compute-dtype has no effect"), "{words:?}: {said}");
                continue;
            }
            if !(refused || said.contains(wanted)) || (*verb != "doctor" && output.status.code() != Some(2)) {
                silent.push(format!("{words:?}: {said}{}", stdout(&output)));
            }
        }
    }
    assert!(silent.is_empty(), "options taken in silence:\n{}", silent.join("\n"));
    for (option, value, taken) in [("--seed", "7", SEEDED), ("--template-var", "a=1", RENDERING)] {
        for (verb, args) in &verbs {
            let takes = taken.split(' ').any(|taken| taken == *verb);
            // Verbs that compute end at number formats that exclude each other, or before.
            let formats: &[&str] = if takes && *verb != "dev-synth" { TELLING[1].1 } else { &[] };
            let words: Vec<&str> = verb.split('-').chain(args.iter().map(String::as_str)).collect();
            let words = [&words[..], &[option, value], formats].concat();
            let said = stderr(&gorgon(&words));
            let refusal = format!("{option} has no effect on gorgon {}", verb.replace('-', " "));
            assert_eq!(said.contains(&refusal), !takes, "{words:?}: {said}");
        }
    }
}

/// Options and keys that need another one are refused by name without it.
#[test]
fn what_needs_another_option_is_refused_without_it() {
    let model = Model::new();
    let generate = ["generate", "--model", model.name(), "--ids", "1", "--max-new-tokens", "2"];
    for more in [&["--tree", "chain:3"][..], &["--drafter", "none", "--tree", "chain:3"]] {
        refused(&[&generate[..], more].concat(), &["tree chain:3", "without heads or a drafter"]);
    }
    assert!(gorgon(&[&generate[..], &["--tree", "none"]].concat()).status.success());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.toml");
    let config = path.to_str().unwrap();
    std::fs::write(&path, "model = \"m\"\nprompts = [\"p.jsonl\"]\nout = \"o\"\n").unwrap();
    let distill = |key: &str, words: &[&str]| refused(&["distill", "-c", config, key, "--dry-run"], words);
    distill("tree=chain:3", &["tree = chain:3", "without heads or a drafter"]);
    for key in ["attempts=3", "pause_ms=7", "timeout_seconds=2.0", "model=x", "key_env=K"] {
        let name = key.split('=').next().unwrap();
        distill(&format!("serving.{key}"), &[&format!("serving.{name}"), "it is for servers, and none answer"]);
    }
    let train = format!("method = \"medusa\"\nmodel = {:?}\ndata = \"d\"\n", model.name());
    std::fs::write(&path, train).unwrap();
    for more in [&[][..], &["--dry-run"]] {
        let args = [&["train", "-c", config, "feature_format=int8"][..], more].concat();
        refused(&args, &["feature_format = \"int8\"", "not kept on disk"]);
    }
}

/// At temperature 0 there is nothing to cut: options that would cut are named in a warning.
#[test]
fn cuts_at_temperature_0_are_named() {
    let model = Model::new();
    let generate = ["generate", "--model", model.name(), "--ids", "1", "--max-new-tokens", "2"];
    let said = |more: &[&str]| {
        let output = gorgon(&[&generate[..], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let words = "warning: top-k 5 and top-p 0.5 have no effect at temperature 0\n";
    assert!(said(&["--top-k", "5", "--top-p", "0.5"]).starts_with(words));
    assert!(said(&["--top-k", "5"]).contains("warning: top-k 5 has no effect at temperature 0"));
    assert!(!said(&["--top-k", "5", "--temperature", "1"]).contains("no effect"));
    let job = Job::new();
    let args =
        ["distill", "-c", &job.text("distill.toml"), "sampling.temperature=0.0", "sampling.top_k=5", "--dry-run"];
    let said = stderr(&gorgon(&args));
    assert!(said.contains("warning: top-k 5 has no effect at temperature 0"), "{said}");
}

/// `--seed` replaces the seed of every kind of config, and is refused by verbs without randomness.
#[test]
fn a_seed_replaces_that_of_the_config() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    let path = config.to_str().unwrap();
    let compare = "model = \"m\"\ndata = \"d\"\nprompts = \"p\"\nseeds = [1, 2]\n[[methods]]\nname = \"a\"\n\
                   drafter = \"ngram:2\"\n";
    for (verb, text, wanted) in [
        (&["train"][..], "method = \"medusa\"\nmodel = \"m\"\ndata = \"d\"\nseed = 3\n", "seed = 7\n"),
        (&["distill"], "model = \"m\"\nout = \"o\"\n[sampling]\nseed = 3\n", "seed = 7\n"),
        (&["compare"], compare, "seeds = [7]\n"),
        (&["dev", "pretrain"], PRETRAIN, "seed = 7\n"),
    ] {
        std::fs::write(&config, text).unwrap();
        let output = gorgon(&[verb, &["-c", path, "--print-config", "--seed", "7"]].concat());
        let said = stdout(&output);
        assert!(output.status.success() && said.contains(wanted), "{verb:?}: {said}{}", stderr(&output));
    }
    let said = stderr(&gorgon(&["inspect", path, "--seed", "7"]));
    assert!(said.contains("--seed has no effect on gorgon inspect"), "{said}");
}

/// A config of a pretraining with all that it needs.
const PRETRAIN: &str = "out = \"o\"\n[data]\nsynthetic = 100\n[tokenizer]\nsize = 600\n[model]\nhidden_size = 32\n\
     intermediate_size = 48\nlayers = 2\nheads = 2\nkv_heads = 1\nmax_positions = 512\n";

/// Values of another kind than the default for a key, as they are typed after `=`.
fn values(schema: &Value) -> Vec<String> {
    let choices = ["anyOf", "oneOf"].iter().flat_map(|of| schema[of].as_array().into_iter().flatten());
    let mut found: Vec<String> = choices.flat_map(values).collect();
    found.extend(schema["const"].as_str().map(String::from));
    found.extend(schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).map(String::from));
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    for kind in types {
        let some: &[&str] = match kind {
            "boolean" => &["true", "false"],
            "integer" => &["1", "2", "3", "64"],
            "number" => &["0.25", "0.5", "1.5"],
            "string" if found.is_empty() => &["other"],
            "object" => &["{ other = 1 }"],
            "array" => &["[1, 2]", "[0.25, 0.5]", "[\"other\"]", "[1, 1, 1, 1]", "[]"],
            _ => &[],
        };
        found.extend(some.iter().map(|value| (*value).to_owned()));
    }
    // The default changes nothing, and is no refusal.
    found.retain(|value| typed(value) != schema["default"]);
    found
}

/// A value as it is typed after `=`: TOML, or text.
fn typed(value: &str) -> Value {
    let table = format!("x = {value}").parse::<toml::Table>();
    table.ok().and_then(|table| serde_json::to_value(&table["x"]).ok()).unwrap_or_else(|| value.into())
}

/// The keys of the tables in a list, with their values; `None` for any other key.
fn of_tables(schema: &Value) -> Option<Vec<(String, Vec<String>)>> {
    schema["items"]["properties"]
        .as_object()
        .map(|keys| keys.iter().map(|(key, one)| (key.clone(), values(one))).collect())
}

/// The assignment that gives the first table of a list one more key.
fn in_table(base: &[(&str, &str)], key: &str, value: &str) -> String {
    let value =
        if format!("x = {value}").parse::<toml::Table>().is_ok() { value.to_owned() } else { format!("{value:?}") };
    let others = base.iter().filter(|(name, _)| *name != key).map(|(name, value)| format!("{name} = {value:?}"));
    format!("[{{ {} }}]", others.chain([format!("{key} = {value}")]).collect::<Vec<_>>().join(", "))
}

/// The keys of a schema that hold values, with those values.
fn keys(schema: &Value, path: &str, found: &mut Vec<(String, Vec<String>)>) {
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let inner = inner["anyOf"]
            .as_array()
            .and_then(|any| any.iter().find(|one| one["properties"].is_object()))
            .unwrap_or(inner);
        match (inner["properties"].is_object(), of_tables(inner)) {
            (true, _) => keys(inner, &path, found),
            (false, Some(tables)) => {
                let set = |(key, values): (String, Vec<String>)| {
                    let values = values.iter().map(|value| in_table(&METHOD, &key, value)).collect();
                    (format!("{path}[].{key}"), values)
                };
                found.extend(tables.into_iter().map(set));
            }
            (false, None) => found.push((path, values(inner))),
        }
    }
}

/// The one method of the comparison that keys are tried on.
const METHOD: [(&str, &str); 2] = [("name", "a"), ("drafter", "ngram:2")];

/// The config as gorgon resolves it, or its refusal.
fn resolved(kind: &str, config: &str, override_: Option<&str>) -> Result<String, String> {
    let verb: &[&str] = if kind == "pretrain" { &["dev", "pretrain"] } else { &[kind] };
    let output = gorgon(&[verb, &["-c", config, "--print-config"], override_.as_slice()].concat());
    match output.status.code() {
        Some(0) => Ok(stdout(&output)),
        Some(2) => Err(stderr(&output)),
        other => panic!("{kind} {override_:?}: {other:?} {}", stderr(&output)),
    }
}

/// Replies to overrides, up to one with an effect, or the refusal of a table, which does not depend on the value.
fn replies(kind: &str, config: &str, plain: &str, given: impl Iterator<Item = String>) -> Vec<Result<String, String>> {
    let mut replies = vec![];
    for given in given {
        replies.push(resolved(kind, config, Some(&given)));
        if replies[replies.len() - 1].as_ref().map_or_else(|said| said.contains("another method"), |now| now != plain) {
            break;
        }
    }
    replies
}

/// The value of a key in a config as it is printed.
fn value_of(printed: &str, key: &str) -> Value {
    let table: toml::Table = printed.parse().unwrap();
    let whole = serde_json::to_value(table).unwrap();
    key.split('.').fold(whole, |value, part| value[part].clone())
}

/// The least config of a kind.
fn least(kind: &str, method: &str) -> String {
    let base = match kind {
        "train" => format!("method = {method:?}\nmodel = \"m\"\ndata = \"d\"\n"),
        "distill" => "model = \"m\"\nprompts = [\"p.jsonl\"]\nout = \"o\"\n".into(),
        "compare" => {
            "model = \"m\"\ndata = \"d\"\nprompts = \"p\"\n[[methods]]\nname = \"a\"\ndrafter = \"ngram:2\"\n".into()
        }
        _ => PRETRAIN.into(),
    };
    base + if method == "distill-spec" { "[distill_spec]\ndraft = \"d\"\n" } else { "" }
}

#[test]
fn every_config_key_has_an_effect_or_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    let path = config.to_str().unwrap();
    let (mut silent, mut in_lists, mut tried) = (vec![], BTreeSet::new(), 0);
    for kind in ["train", "distill", "compare", "pretrain"] {
        let schema: Value = serde_json::from_str(&stdout(&gorgon(&["config", "schema", kind]))).unwrap();
        let mut known = vec![];
        keys(&schema, "", &mut known);
        let methods = if kind == "train" { values(&schema["properties"]["method"]) } else { vec![String::new()] };
        for method in methods {
            std::fs::write(&config, least(kind, &method)).unwrap();
            let plain = resolved(kind, path, None).unwrap_or_else(|said| panic!("{kind} {method}: {said}"));
            in_lists.extend(known.iter().map(|(key, _)| key.clone()).filter(|key| key.contains("[]")));
            for (key, values) in &known {
                tried += 1;
                let name = key.split("[]").next().unwrap();
                // A value that is there already changes nothing, and is no refusal.
                let others = values.iter().filter(|value| typed(value) != value_of(&plain, name));
                let said = replies(kind, path, &plain, others.map(|value| format!("{name}={value}")));
                let last = key.rsplit('.').next().unwrap();
                let changed = said.iter().flatten().any(|printed| *printed != plain);
                let is_refusal = |said: &String| said.contains(last) || said.contains("belongs to another method");
                let refused = !said.is_empty() && said.iter().all(|said| said.as_ref().is_err_and(is_refusal));
                if !changed && !refused {
                    silent.push(format!("{kind} {method} {key}: {said:?}"));
                }
            }
        }
    }
    assert!(tried > 200, "{tried}");
    assert!(in_lists.contains("methods[].tree") && in_lists.contains("methods[].overrides"), "{in_lists:?}");
    assert!(silent.is_empty(), "keys taken in silence:\n{}", silent.join("\n"));
}

#[test]
fn every_verb_prints_one_document() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&[]);
    // These take minutes, open a window, or wait for clients.
    let heavy = ["compare", "demo", "dev-suite", "dev-sweep", "runs-open", "serve"];
    let mut wrong = vec![];
    for (verb, args) in verbs(&job).iter().filter(|(verb, _)| !heavy.contains(verb)) {
        let words: Vec<&str> = verb.split('-').chain(args.iter().map(String::as_str)).chain(["--json"]).collect();
        let output = gorgon(&words);
        let document: Result<Value, _> = serde_json::from_slice(&output.stdout);
        if document.is_err() || !(output.status.success() || ["fetch", "store-save"].contains(verb)) {
            wrong.push(format!("{words:?}: {:.300} {:.300}", stdout(&output), stderr(&output)));
        }
    }
    let all = verbs(&job);
    for verb in ["train", "distill", "compare", "dev-pretrain", "dev-features"] {
        let args = all[verb].iter().map(String::as_str).chain(["--dry-run", "--json"]);
        let words: Vec<&str> = verb.split('-').chain(args).collect();
        let output = gorgon(&words);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if !output.status.success() || document["plan"].as_object().is_none_or(|plan| plan.is_empty()) {
            wrong.push(format!("{words:?}: {:.300} {:.300}", stdout(&output), stderr(&output)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
