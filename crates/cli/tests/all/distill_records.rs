//! Distillation of files of records: what one record is answered depends on no other record.

use crate::chain;
use crate::gorgon;
use crate::hub_server;

use chain::{Job, backbone, finished};
use gorgon_data::shard::{self, Row};
use std::collections::BTreeMap;

/// Records with ids, without ids, and one that is there twice.
fn records() -> Vec<String> {
    let mut lines: Vec<String> =
        (0..12).map(|i| format!("{{\"id\": \"p{i}\", \"prompt\": \"Tell me about number {i}.\"}}")).collect();
    lines.extend((0..6).map(|i| format!("{{\"turns\": [\"Hello {i}!\", \"And then?\"]}}")));
    lines.push("{\"turns\": [\"Hello 3!\", \"And then?\"]}".into());
    lines
}

/// Distils some lines with sampling. Returns the job and its rows.
fn distilled(lines: &[String], more: &[&str]) -> (Job, Vec<Row>) {
    let job = Job::new();
    job.write("prompts.jsonl", &lines.join("\n"));
    let config = format!(
        "model = {:?}\nout = {:?}\nprompts = [{:?}]\nmax_tokens = 160\nbatch_size = 4\n\
         [sampling]\ntemperature = 0.8\nmax_new_tokens = 24\nseed = 4\n",
        backbone(),
        job.path("data"),
        job.path("prompts.jsonl")
    );
    job.write("distill.toml", &config);
    finished(&[&["distill", "-c", &job.text("distill.toml")][..], more].concat(), &[]);
    let rows = shard::read(&job.path("data").join(shard::file_name(0)), 10_000).unwrap().0;
    (job, rows)
}

/// Tokens by the key of the record.
fn by_key(rows: &[Row]) -> BTreeMap<u64, Vec<u32>> {
    rows.iter().map(|row| (row.key, row.example.ids.clone())).collect()
}

/// A Parquet file of another implementation is a file of prompts like any other.
#[test]
fn parquet_files_are_prompts() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/tests/data/conversations.parquet");
    let (_, rows) = distilled(&[], &[&format!("prompts=[{file:?}]")]);
    let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["a"]);
}

#[test]
fn other_records_change_no_answer() {
    let lines = records();
    let (_, plain) = distilled(&lines, &[]);
    let plain = by_key(&plain);
    assert_eq!(plain.len(), lines.len(), "every record has a key of its own");
    let mut broken = lines.clone();
    broken.insert(3, "{\"prompt\": ".into());
    let (_, rows) = distilled(&broken, &[]);
    assert!(by_key(&rows) == plain, "a broken record changes other answers");
    let mut fewer = lines.clone();
    fewer.remove(5);
    fewer.reverse();
    let (_, rows) = distilled(&fewer, &["batch_size=1"]);
    assert_eq!(rows.len(), lines.len() - 1);
    assert!(by_key(&rows).iter().all(|(key, ids)| plain.get(key) == Some(ids)), "a missing record changes answers");
}

/// One file or a list; the keys of a hub's data set are told from paths.
#[test]
fn prompts_are_a_file_or_a_list() {
    let (job, rows) = distilled(&records()[..4], &["limit=2"]);
    let file = job.text("prompts.jsonl");
    let other = |prompts: String| {
        let out = job.text("other");
        finished(&["distill", "-c", &job.text("distill.toml"), &format!("out={out}"), &prompts, "limit=2"], &[]);
        let found = shard::read(&job.path("other").join(shard::file_name(0)), 10_000).unwrap().0;
        std::fs::remove_dir_all(out).unwrap();
        found
    };
    assert!(other(format!("prompts={file}")) == rows);
    assert_eq!(other(format!("prompts=[{file:?}, {file:?}]")).len(), 4);
    gorgon::refused(
        &["distill", "-c", &job.text("distill.toml"), "prompts=hf://models/a/b", "--offline"],
        &["models/a/b", "not a data set"],
    );
}

/// A data set on the hub is answered as the same file on the disk is.
#[test]
fn prompts_come_from_the_hub() {
    let (job, rows) = distilled(&records()[..12], &["sampling.temperature=0.0"]);
    let file = std::fs::read(job.path("prompts.jsonl")).unwrap();
    let more = ("data/train.jsonl", &b"{\"prompt\": \"One more.\"}"[..]);
    let server = hub_server::Server::start(&[("README.md", b"never"), ("data/prompts.jsonl", &file), more]);
    let home = job.text("home");
    let distill = |prompts: &str, limit: usize, out: &str| {
        let environment = [("HF_HOME", home.as_str()), ("HF_ENDPOINT", &server.endpoint), ("HF_HUB_CACHE", "")];
        let (prompts, target) = (format!("prompts={prompts}"), format!("out={}", job.text(out)));
        let keys = [prompts.as_str(), &format!("limit={limit}"), &target, "sampling.temperature=0.0"];
        finished(&[&["distill", "-c", &job.text("distill.toml")][..], &keys].concat(), &environment);
        shard::read(&job.path(out).join(shard::file_name(0)), 10_000).unwrap().0
    };
    let answers = |rows: &[Row]| -> Vec<Vec<u32>> { rows.iter().map(|row| row.example.ids.clone()).collect() };
    assert!(answers(&distill("hf://datasets/owner/name", 12, "first")) == answers(&rows));
    assert!(server.take_requests("").iter().all(|request| !request.path.ends_with(more.0)), "no more is downloaded");
    assert!(answers(&distill("hf://datasets/owner/name/data/prompts.jsonl", 0, "named")) == answers(&rows));
    assert_eq!(distill("hf://datasets/owner/name", 0, "whole").len(), rows.len() + 1);
}

/// Variables are checked, recorded with the shards, and reported where decoding has others.
#[test]
fn template_variables_are_recorded() {
    let (job, _) = distilled(&records()[..8], &["--template-var", "enable_thinking=false"]);
    let config = std::fs::read_to_string(job.path("data/config.toml")).unwrap();
    assert!(config.contains("[template]\nenable_thinking = false"), "{config}");
    job.train(&[]);
    let run = job.run().unwrap();
    let model = backbone().to_str().unwrap();
    let decode = |more: &[&str]| {
        let heads = run.to_str().unwrap();
        let args = [&["generate", "--model", model, "--heads", heads, "--prompt", "Hi", "--max-new-tokens", "2"], more];
        String::from_utf8(finished(&args.concat(), &[]).stderr).unwrap()
    };
    assert!(decode(&[]).contains("template variables {\"enable_thinking\":false}"), "{}", decode(&[]));
    assert!(!decode(&["--template-var", "enable_thinking=false"]).contains("template variables"));
    let said = decode(&["--template-var", "no_such=1"]);
    assert!(said.contains("does not read the variable no_such"), "{said}");
    let distill = job.text("distill.toml");
    gorgon::refused(
        &["distill", "-c", &distill, "answers=data", "sampling={}", "batch_size=16", "--dtype", "bf16"],
        &["--dtype bf16", "decoded"],
    );
    gorgon::refused(&["distill", "-c", &distill, "--draft-weights", "int8"], &["--draft-weights has no effect"]);
    gorgon::refused(&["distill", "-c", &distill, "template.messages=1"], &["template.messages", "set by gorgon"]);
    gorgon::refused(&["distill", "-c", &distill, "--template-var", "tools=1"], &["tools is set by gorgon"]);
    gorgon::refused(&["generate", "--model", model, "--prompt", "a", "--raw", "--template-var", "a=1"], &["--raw"]);
}

/// The job ends with the record that reaches the limit, and can be continued with a higher one.
#[test]
fn a_limit_of_tokens_ends_the_job() {
    let (_, all) = distilled(&records(), &[]);
    let tokens: usize = all[..5].iter().map(|row| row.example.labels()).sum();
    let limit = format!("max_total_tokens={tokens}");
    let (job, rows) = distilled(&records(), &[&limit]);
    assert!(by_key(&rows) == by_key(&all[..5]), "{} rows", rows.len());
    finished(&["distill", "-c", &job.text("distill.toml")], &[]);
    let rows = shard::read(&job.path("data").join(shard::file_name(0)), 10_000).unwrap().0;
    assert!(by_key(&rows) == by_key(&all));
    std::fs::remove_dir_all(job.path("data")).unwrap();
    for part in [&["--shard", "1/2"][..], &["--shard", "2/2"], &[]] {
        finished(&[&["distill", "-c", &job.text("distill.toml"), &limit], part].concat(), &[]);
    }
    let rows = shard::read(&job.path("data").join(shard::file_name(0)), 10_000).unwrap().0;
    assert!(by_key(&rows) == by_key(&all[..5]), "{} rows of parts", rows.len());
}

/// A folder with files of somebody else is not written into, and changed prompts are named.
#[test]
fn other_files_and_changed_prompts_are_named() {
    let (job, _) = distilled(&records()[..2], &["sampling.temperature=0.0"]);
    let config = job.text("distill.toml");
    let again = ["distill", "-c", &config, "sampling.temperature=0.0"];
    job.write("prompts.jsonl", &records()[..3].join("\n"));
    gorgon::refused(&again, &["prompts.jsonl has changed since these answers were begun"]);
    job.write("other.jsonl", &records()[..2].join("\n"));
    let other = format!("prompts=[{:?}]", job.text("other.jsonl"));
    gorgon::refused(&[&again[..], &[&other]].concat(), &["prompts.jsonl, which is not given now"]);
    for file in ["config.toml", "report.json"] {
        let folder = job.path(&format!("with-{file}"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(file), "mine").unwrap();
        let out = format!("out={:?}", folder.to_str().unwrap());
        gorgon::refused(&[&again[..], &[&out]].concat(), &[file, "is there"]);
        assert_eq!(std::fs::read_to_string(folder.join(file)).unwrap(), "mine");
    }
}

/// A list of texts is a list of prompts; a table is not taken for text.
#[test]
fn lists_of_texts_are_prompts_and_tables_are_refused() {
    let job = Job::new();
    job.write("list.json", "[\"Hello!\", \"What is 2 + 2?\"]");
    job.write("table.csv", "prompt,answer\nHello!,Hi\n");
    let with = |name: &str| {
        let config =
            format!("model = {:?}\nout = {:?}\nprompts = [{:?}]\n", backbone(), job.path("data"), job.path(name));
        job.write("distill.toml", &config);
        job.text("distill.toml")
    };
    let planned = gorgon::json(&finished(&["distill", "-c", &with("list.json"), "--dry-run", "--json"], &[]));
    assert_eq!(planned["plan"]["conversations"], 2, "{planned}");
    gorgon::refused(&["distill", "-c", &with("table.csv")], &["table.csv", "separated values"]);
}
