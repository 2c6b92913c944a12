//! Pretraining, distilling and training through the command line.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished};
use gorgon::{json, refused, stderr, stdout};
use serde_json::Value;
use std::fmt::Write;

#[test]
fn the_chain_ends_in_heads_that_are_recognised() {
    let job = Job::new();
    job.distill(&[]);
    let report: Value = serde_json::from_slice(&std::fs::read(job.path("data/report.json")).unwrap()).unwrap();
    assert_eq!(report["conversations"], 60);
    assert!(report["assistant_tokens"].as_u64().unwrap() > 500);
    let before = std::fs::read(backbone().join("model.safetensors")).unwrap();
    let document = json(&finished(&["train", "-c", &job.text("train.toml"), "--json"], &[]));
    assert_eq!(std::fs::read(backbone().join("model.safetensors")).unwrap(), before);
    let evaluation = &document["evaluation"];
    for key in ["top1", "top5", "head_loss"] {
        assert_eq!(evaluation[key].as_array().unwrap().len(), 4, "{key}");
    }
    for key in ["length_tree", "length_chain", "tau"] {
        assert!(evaluation[key].as_f64().unwrap() >= 1.0, "{key}");
    }
    let heads = document["heads"].as_str().unwrap();
    let inspected = json(&finished(&["inspect", heads, "--json"], &[]));
    assert!(inspected.to_string().contains("medusa"), "{inspected}");
    assert_eq!(inspected["problems"].as_array().map(Vec::len).unwrap_or(0), 0, "{inspected}");
    let run = job.run().unwrap();
    for name in
        ["config.toml", "provenance.json", "metrics.jsonl", "log.txt", "best", "plots/loss.svg", "plots/length.svg"]
    {
        assert!(run.join(name).is_file(), "{name}");
    }
    // The resolved config is a config: it repeats the run, bit for bit.
    let first = job.weights();
    finished(&["train", "-c", run.join("config.toml").to_str().unwrap()], &[]);
    assert!(job.run().unwrap() != run);
    assert_eq!(job.weights(), first);
}

#[test]
fn cached_and_computed_states_train_the_same_heads() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&[]);
    let computed = job.weights();
    job.train(&["cache_features=true"]);
    assert!(job.features().is_some());
    assert_eq!(job.weights(), computed);
    // How a step is cut into micro-batches changes the order of sums, hence bits, but not what is learnt.
    job.train(&["medusa.own_lm_heads=true", "medusa.blocks=2", "medusa.heads=2"]);
    let heads = job.run().unwrap().join("heads");
    let inspected = json(&finished(&["inspect", heads.to_str().unwrap(), "--json"], &[]));
    assert_eq!(inspected["problems"].as_array().map(Vec::len).unwrap_or(0), 0, "{inspected}");
}

#[test]
fn given_answers_can_be_trained_on() {
    let job = Job::new();
    job.distill(&["answers=data", "sampling={}", "batch_size=16"]);
    let report: Value = serde_json::from_slice(&std::fs::read(job.path("data/report.json")).unwrap()).unwrap();
    assert_eq!(report["answers_cut_off"], 0);
    job.train(&[]);
    let preview = finished(
        &["distill", "-c", &job.text("distill.toml"), "answers=data", "sampling={}", "batch_size=16", "--preview", "3"],
        &[],
    );
    let shown = stdout(&preview);
    assert_eq!(shown.matches("--- row").count(), 3, "{shown}");
    // Labels stand in brackets where there is no colour; every answer ends with its end token.
    assert!(shown.contains("[<|end|>]") && shown.contains("<|assistant|>["), "{shown}");
}

#[test]
fn dry_runs_write_nothing() {
    let job = Job::new();
    let plan = finished(&["distill", "-c", &job.text("distill.toml"), "--dry-run"], &[]);
    assert!(stderr(&plan).contains("60 conversations"), "{}", stderr(&plan));
    assert!(!job.path("data").exists());
    job.distill(&[]);
    let plan = finished(&["train", "-c", &job.text("train.toml"), "--dry-run"], &[]);
    let said = stderr(&plan);
    assert!(said.contains("4 heads") && said.contains("memory") && said.contains("disk"), "{said}");
    assert!(!job.path("runs").exists());
}

#[test]
fn damaged_shards_are_refused_by_name() {
    let job = Job::new();
    job.distill(&[]);
    let shard = job.path("data/shard-00000.parquet");
    let bytes = std::fs::read(&shard).unwrap();
    for cut in [0, 10, bytes.len() / 2, bytes.len() - 3] {
        std::fs::write(&shard, &bytes[..cut]).unwrap();
        refused(&["train", "-c", &job.text("train.toml")], &["shard-00000.parquet"]);
    }
}

/// The broken lines, a dozen kinds and more.
fn broken() -> Vec<Vec<u8>> {
    let mut long = br#"{"id": "long", "prompt": ""#.to_vec();
    long.resize(10 << 20, b'x');
    long.extend(br#""}"#);
    let text = |line: &str| line.as_bytes().to_vec();
    vec![
        text(r#"{"id": "a", "conversations": ["#),
        text(r#"{"id": "b", "conversations": [{"from": "wizard", "value": "hi"}]}"#),
        text(r#"{"id": "c", "conversations": [{"from": "human", "value": "  "}]}"#),
        text(r#"{"id": "d", "conversations": [{"from": "gpt", "value": "hello"}]}"#),
        long,
        b"{\"id\": \"f\", \"prompt\": \"\xff\xfe\"}".to_vec(),
        text(r#"{"id": "g", "prompt": "\ud800"}"#),
        text(r#"{"id": "h", "prompt": null}"#),
        text(r#"{"id": "i", "prompt": 42}"#),
        text(r#"{"id": "good-3", "prompt": "a second one of this name"}"#),
        text(r#"{"id": "k", "weather": "fine"}"#),
        text(&format!("{}{}", "[".repeat(5000), "]".repeat(5000))),
        text(r#"{"id": "m", "conversations": []}"#),
        text("7"),
        text(r#"{"id": "o", "conversations": {"from": "human", "value": "hi"}}"#),
    ]
}

/// Broken lines end in a finished run, an exact report, and the weights that the clean lines alone give.
#[test]
fn broken_lines_change_nothing_but_the_report() {
    let good = |i: usize| {
        format!(r#"{{"id": "good-{i}", "conversations": [{{"from": "human", "value": "What is {i} + {}?"}}]}}"#, i % 9)
    };
    let bad = broken();
    let (mut mixed, mut clean, mut lines, mut line) = (vec![], String::new(), vec![], 0usize);
    // One in a hundred lines is broken.
    for i in 0..100 * bad.len() - bad.len() {
        writeln!(clean, "{}", good(i)).unwrap();
        mixed.extend(good(i).into_bytes());
        mixed.push(b'\n');
        line += 1;
        if i % 99 == 50 {
            mixed.extend(&bad[i / 99]);
            mixed.push(b'\n');
            line += 1;
            lines.push(line);
        }
    }
    let train = |name: &str, bytes: &[u8]| {
        let job = Job::new();
        std::fs::write(job.path("prompts.jsonl"), bytes).unwrap();
        let prompts = format!("prompts=[{:?}]", job.path("prompts.jsonl"));
        job.write(
            "distill.toml",
            &std::fs::read_to_string(job.path("distill.toml"))
                .unwrap()
                .replace("[synthetic]\ndialogues = 60\nseed = 9\n", ""),
        );
        job.distill(&[&prompts, "sampling.max_new_tokens=6", "batch_size=16"]);
        job.train(&[]);
        let report: Value = serde_json::from_slice(&std::fs::read(job.path("data/report.json")).unwrap()).unwrap();
        assert_eq!(report["conversations"], 99 * bad.len(), "{name}");
        (job.weights(), report)
    };
    let (clean_weights, clean_report) = train("clean", clean.as_bytes());
    let (mixed_weights, mixed_report) = train("mixed", &mixed);
    assert_eq!(mixed_weights, clean_weights);
    assert_eq!(clean_report["files"][0]["skipped"].as_array().map(Vec::len), Some(0));
    let skipped = mixed_report["files"][0]["skipped"].as_array().unwrap();
    let found: Vec<usize> = skipped.iter().map(|s| s["line"].as_u64().unwrap() as usize).collect();
    assert_eq!(found, lines);
}

#[test]
fn the_corpus_is_written_and_examined() {
    let job = Job::new();
    let out = job.text("held.jsonl");
    finished(&["synth", "--held-out", "--dialogues", "30", "--out", &out], &[]);
    let text = std::fs::read_to_string(&out).unwrap();
    assert_eq!(text.lines().count(), 30);
    assert_eq!(stdout(&finished(&["synth", "--held-out", "--dialogues", "30"], &[])), text);
    let kinds = json(&finished(
        &["synth", "--check", backbone().to_str().unwrap(), "--dialogues", "12", "--kind", "sum", "--json"],
        &[],
    ));
    assert_eq!(kinds["kinds"]["sum"]["checked"], 12);
    refused(&["synth", "--kind", "alchemy"], &["alchemy"]);
}

/// A draft model: fitted to files, with another model's tokenizer and as many rows as it has.
#[test]
fn a_model_is_fitted_to_files_with_another_models_tokenizer() {
    let job = Job::new();
    let (file, out) = (job.text("train.jsonl"), job.text("small"));
    finished(&["synth", "--dialogues", "200", "--out", &file], &[]);
    job.write(
        "pretrain.toml",
        &format!(
            "out = {out:?}\nruns = {:?}\n[data]\nfiles = [{file:?}]\nheld_out = 10\n[tokenizer]\nfrom = {:?}\n\
             [model]\nhidden_size = 16\nintermediate_size = 16\nlayers = 1\nheads = 2\nkv_heads = 2\n\
             max_positions = 128\n[training]\nsteps = 4\nmicro_batch_tokens = 256\n",
            job.text("runs"),
            backbone()
        ),
    );
    let config = job.text("pretrain.toml");
    let plan = finished(&["pretrain", "-c", &config, "--dry-run"], &[]);
    assert!(
        stderr(&plan).contains("180 conversations") || stderr(&plan).contains("190 conversations"),
        "{}",
        stderr(&plan)
    );
    assert!(!job.path("small").exists() && !job.path("runs").exists());
    finished(&["pretrain", "-c", &config], &[]);
    let inspected = json(&finished(&["inspect", &out, "--json"], &[]));
    assert_eq!(inspected["problems"].as_array().map(Vec::len).unwrap_or(0), 0, "{inspected}");
    let tokenizer = |dir: &std::path::Path| std::fs::read(dir.join("tokenizer.json")).unwrap();
    assert_eq!(tokenizer(&job.path("small")), tokenizer(backbone()));
    let said = finished(&["generate", "--model", &out, "--prompt", "Hi", "--max-new-tokens", "5"], &[]);
    assert!(said.status.success());
    refused(&["pretrain", "-c", &config, "data.files=[]"], &["nothing to fit to"]);
    refused(&["pretrain", "-c", &config, "model.heads=3"], &["hidden_size"]);
}

/// Heads decode: the same text as without them, measured, verified, with a tree of their own.
#[test]
fn trained_heads_are_decoded_with() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&[]);
    let (model, heads) = (backbone().to_str().unwrap(), job.run().unwrap());
    let heads = heads.to_str().unwrap();
    let prompts = job.text("prompts.jsonl");
    finished(&["synth", "--held-out", "--dialogues", "12", "--seed", "5", "--out", &prompts], &[]);
    let comparison =
        ["--model", model, "--heads", heads, "--prompts", &prompts, "--max-new-tokens", "24", "--ignore-eos"];
    let with =
        |first: &[&str], more: &[&str]| json(&finished(&[first, &comparison[..], more, &["--json"]].concat(), &[]));

    let generate =
        ["generate", "--model", model, "--prompt", "Hello", "--max-new-tokens", "40", "--ignore-eos", "--json"];
    let plain = json(&finished(&generate, &[]));
    let drafted = json(&finished(&[&generate[..], &["--heads", heads]].concat(), &[]));
    assert_eq!(drafted["ids"], plain["ids"]);
    assert_eq!((&drafted["drafter"], &drafted["tree"]), (&"medusa".into(), &"mc_sim_7b_63".into()));
    let accepted = drafted["accepted"].as_array().unwrap();
    let emitted: u64 = accepted.iter().map(|n| n.as_u64().unwrap() + 1).sum();
    assert!(emitted >= 39 && drafted["steps"] == accepted.len());

    let oracle = ["--drafter", "oracle:1,0.9", "--tree", "chain:3"];
    let verdict = with(&["verify"], &oracle);
    assert_eq!((&verdict["prompts"], &verdict["diverged"]), (&12.into(), &0.into()), "{verdict}");
    assert!(verdict["accepted_drafts"].as_u64().unwrap() > 100);
    let bench = with(&["bench"], &[&oracle[..], &["--rounds", "2", "--limit", "4"]].concat());
    let summary = &bench["summary"];
    assert_eq!((&summary["pairs"], &summary["same_text"]), (&8.into(), &8.into()));
    assert!(summary["tokens_per_step"].as_f64().unwrap() > 2.0 && summary["speedup"].as_f64().unwrap() > 0.0);
    assert_eq!(bench["runs"].as_array().unwrap().len(), 16);
    assert!(!bench["categories"].as_object().unwrap().is_empty());

    let calibration = with(&["tree", "calibrate"], &["--rounds", "1", "--limit", "4"]);
    assert_eq!(calibration["accuracies"].as_array().unwrap().len(), 4);
    let shown = json(&finished(&["tree", "show", "--heads", heads, "--json"], &[]));
    assert_eq!(shown["paths"], calibration["tree"]);
    let stored = json(&finished(&[&generate[..], &["--heads", heads]].concat(), &[]));
    assert_eq!(stored["ids"], plain["ids"]);
    refused(&["generate", "--model", model, "--prompt", "x", "--drafter", "medusa"], &["heads"]);
    refused(&["generate", "--model", model, "--prompt", "x", "--drafter", "oracle:2"], &["oracle:2"]);
    refused(&["generate", "--model", model, "--prompt", "x", "--heads", "/no/such"], &["/no/such"]);
    refused(&["generate", "--model", model, "--prompt", "x", "--heads", model], &["heads"]);
}

/// Heads in every format load again and decode alike; those that a format cannot hold are refused.
#[test]
fn exported_heads_are_the_same_heads() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&[]);
    let model = backbone().to_str().unwrap();
    let run = job.run().unwrap();
    let run = run.to_str().unwrap();
    let ids = |heads: &str| {
        let args = ["generate", "--model", model, "--heads", heads, "--tree", "chain:3", "--prompt", "Hello"];
        let document =
            json(&finished(&[&args[..], &["--max-new-tokens", "60", "--ignore-eos", "--json"]].concat(), &[]));
        (document["ids"].clone(), document["accepted"].clone())
    };
    let own = ids(run);
    for format in ["medusa-v1", "medusa-v2", "tgi", "vllm-medusa"] {
        let out = job.text(&format!("out-{format}"));
        // In the numbers of the training, so that they are the same to the last bit.
        finished(&["export", run, "--to", format, &out, "--dtype", "f32"], &[]);
        let card = std::fs::read_to_string(job.path(&format!("out-{format}/README.md"))).unwrap();
        assert!(card.contains("top-1 by head") && card.contains(format), "{card}");
        let config = std::fs::read_to_string(job.path(&format!("out-{format}/config.json"))).unwrap();
        assert_eq!(config.contains("architectures"), format == "vllm-medusa", "{config}");
        // The texts are equal whatever the heads; that the same drafts are accepted shows that they are the same heads.
        assert_eq!(ids(&out), own, "{format}");
        refused(&["export", run, "--to", format, &out], &["not empty"]);
    }
    let config = std::fs::read(job.path("out-vllm-medusa/config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    assert_eq!((&config["medusa_fc_bias"], &config["original_lm_head"]), (&true.into(), &true.into()));
    // What was imported goes out again as it came, its LM head included.
    for (from, to) in
        [("vllm-medusa", "vllm-medusa"), ("vllm-medusa", "medusa-v1"), ("tgi", "tgi"), ("medusa-v2", "medusa-v2")]
    {
        let (import, out) = (job.text(&format!("out-{from}")), job.text(&format!("again-{from}-{to}")));
        finished(&["export", &import, "--to", to, &out, "--model", model, "--dtype", "f32"], &[]);
        let name = if to == "vllm-medusa" { "model.safetensors" } else { "medusa_lm_head.safetensors" };
        let bytes = |folder: &str| std::fs::read(job.path(folder).join(name)).unwrap();
        assert_eq!(bytes(&out), bytes(&format!("out-{to}")), "{from} as {to}");
    }
    job.train(&["medusa.blocks=2"]);
    let two = job.run().unwrap();
    refused(&["export", two.to_str().unwrap(), "--to", "medusa-v1", &job.text("out-two")], &["2 blocks"]);
    refused(&["export", run, "--to", "gguf", &job.text("out-x")], &["gguf"]);
}

/// The whole main job in one command.
#[test]
fn the_demo_goes_all_the_way() {
    let job = Job::new();
    let (model, dir) = (backbone().to_str().unwrap(), job.text("demo"));
    let demo = ["demo", "--model", model, "--dialogues", "24", "--dir", &dir, "--grow", "1500000", "--json"];
    let document = json(&finished(&demo, &[]));
    assert_eq!(document["same_text"], document["compared"]);
    assert!(document["summary"]["tokens_per_step"].as_f64().unwrap() >= 1.0);
    let run = document["run"].as_str().unwrap();
    assert!(std::path::Path::new(run).join("heads/tree.json").is_file());
    // The last part: the same logits and texts in a larger body, which every command takes.
    let grown = &document["grown"];
    assert_eq!(
        (&grown["same_text"], &grown["equality"]["same_text"]),
        (&grown["compared"], &grown["equality"]["prompts"])
    );
    assert_eq!(grown["equality"]["greatest_difference"], 0.0);
    assert!((1_000_000..2_000_000).contains(&grown["parameters"].as_u64().unwrap()));
    assert!(grown["bench"]["summary"]["plain_tokens_per_second"].as_f64().unwrap() > 0.0);
    let (body, heads) = (grown["model"].as_str().unwrap(), grown["heads"].as_str().unwrap());
    assert!(stdout(&finished(&["inspect", body], &[])).contains("no problems"));
    finished(&["generate", "--model", body, "--heads", heads, "--prompt", "Hi", "--max-new-tokens", "4"], &[]);
    let small = ["demo", "--model", model, "--dialogues", "24", "--dir", &dir, "--grow", "0", "--json"];
    let again = json(&finished(&small, &[]));
    assert!(again["grown"].is_null());
    assert_eq!(again["run"].as_str(), Some(run), "heads of an earlier demo are taken");
    refused(&["demo", "--model", "/no/such/model"], &["/no/such/model"]);
}

#[test]
fn a_conversation_goes_through_a_pipe() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&[]);
    let (model, heads) = (backbone().to_str().unwrap(), job.run().unwrap());
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_gorgon"))
        .args(["chat", "--model", model, "--heads", heads.to_str().unwrap(), "--max-new-tokens", "12"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let said = "Hello\n/compare\n/drafter none\nHello again\n/nonsense\n/reset\nHello\n/quit\nnever read\n";
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), said.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let talk = stderr(&output);
    assert!(output.status.success(), "{talk}");
    // Three answers with their numbers, one comparison, one command that is none; no colours in a pipe.
    assert_eq!(talk.matches("tokens/s").count(), 3, "{talk}");
    assert_eq!(talk.matches("no drafts").count(), 2, "{talk}");
    assert!(talk.contains("the same text") && talk.contains("/nonsense: no such command"), "{talk}");
    assert!(!stdout(&output).contains('\u{1b}'));
    let one = finished(&["chat", "--model", model, "-p", "Hello", "--max-new-tokens", "12"], &[]);
    let lossy = ["chat", "--model", model, "--heads", heads.to_str().unwrap(), "-p", "Hello", "--accept", "typical"];
    let lossy = finished(&[&lossy[..], &["--max-new-tokens", "12"]].concat(), &[]);
    assert!(stderr(&lossy).contains(", not lossless ") && !stderr(&one).contains("not lossless"), "{}", stderr(&lossy));
    assert!(stdout(&output).starts_with(stdout(&one).trim_end()));
}

/// Without a held-out conversation nothing is measured, and nothing passes for measured.
#[test]
fn without_held_out_conversations_nothing_is_measured() {
    let job = Job::new();
    job.distill(&[]);
    let train = ["train", "-c", &job.text("train.toml"), "held_out=0.0", "training.steps=2"];
    let output = finished(&train, &[]);
    let said = stderr(&output) + &stdout(&output);
    assert!(said.contains("no held-out position has a label") && !said.contains("held out at step"), "{said}");
    assert!(!said.contains("expected tokens per step"), "{said}");
    let run = job.run().unwrap();
    assert!(run.join("heads").is_dir() && run.join("best").exists());
    let listed = json(&finished(&["runs", "list", &job.text("runs"), "--json"], &[]));
    assert!(listed.to_string().contains("\"held_out_loss\":null"), "{listed}");
    let all = ["train", "-c", &job.text("train.toml"), "held_out=0.9999"];
    refused(&all, &["no position"]);
    assert!(stderr(&gorgon::gorgon(&all)).contains("held_out = 0.9999"));
}
