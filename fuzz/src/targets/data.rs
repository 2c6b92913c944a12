//! Readers of prompts, shards, journals and checkpoints.

use super::sound::{SHAPE, model, with, written};
use gorgon_data::distill::{Answer, Client, Journal, Question, Serving};
use gorgon_data::manifest;
use gorgon_data::render::{Example, Renderer};
use gorgon_data::shard::{self, Row};
use gorgon_data::source::{self, Format, Options};
use gorgon_runs::run_dir::{RunDir, RunView};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

pub(super) fn prompts(bytes: &[u8]) {
    with("prompts.jsonl", bytes, |dir| {
        let path = dir.join("prompts.jsonl");
        for format in std::iter::once(None).chain(Format::ALL.map(Some)) {
            let options = Options { format, max_line_bytes: 1 << 16, ..Options::default() };
            let _ = source::read(&path, &options);
        }
    });
}

pub(super) fn prompt_seeds() -> Vec<Vec<u8>> {
    let seeds = [
        r#"[{"id": "a", "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]}]"#,
        "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"hi\"}]}\n",
        "{\"instruction\": \"do\", \"input\": \"this\", \"output\": \"that\"}\n{\"instruction\": \"x\"}\n",
        "{\"question_id\": 1, \"category\": \"maths\", \"turns\": [\"one\", \"two\"]}\n",
        "{\"question\": \"1+1?\", \"answer\": \"2\"}\n{\"prompt\": \"a\\ud83d\\ude00b\"}\n",
        "a line\nanother \u{1f600}\r\n\n",
    ];
    seeds.map(|seed| seed.as_bytes().to_vec()).to_vec()
}

pub(super) fn parquet_prompts(bytes: &[u8]) {
    with("prompts.parquet", bytes, |dir| {
        for tools in [false, true] {
            let options = Options { max_line_bytes: 1 << 16, tools, ..Options::default() };
            let _ = source::read(&dir.join("prompts.parquet"), &options);
        }
    });
}

/// Shards are Parquet files too; a column of texts named `text` is one of prompts.
pub(super) fn parquet_seeds() -> Vec<Vec<u8>> {
    let mut seeds = shard_seeds();
    seeds.truncate(2);
    seeds.push(include_bytes!("../../../crates/data/tests/data/conversations.parquet").to_vec());
    seeds
}

/// A server's answer is no longer than what was asked for, and has tokens of the model only.
pub(super) fn server_answer(bytes: &[u8]) {
    static RENDERER: OnceLock<Renderer> = OnceLock::new();
    let renderer = RENDERER.get_or_init(|| Renderer::load(model()).expect("a tokenizer"));
    let client = Client::new(&Serving::default(), renderer, SHAPE.vocab_size, true);
    let ids = [1, 2, 3];
    let question =
        Question { ids: &ids, text: "abc", add_special: false, max_tokens: 8, sampling: (0.7, None, None), seed: 1 };
    let Ok(body) = serde_json::from_slice(bytes) else { return };
    if let Ok(served) = client.read(&body, &question) {
        let known = |id: &u32| (*id as usize) < SHAPE.vocab_size;
        assert!((1..=8).contains(&served.ids.len()) && served.ids.iter().all(known), "{served:?}");
    }
}

pub(super) fn server_seeds() -> Vec<Vec<u8>> {
    let answer = |choice: serde_json::Value| json!({"choices": [choice]}).to_string().into_bytes();
    vec![
        answer(
            json!({"text": "abc", "finish_reason": "stop", "token_ids": [100, 101, 102], "prompt_token_ids": [1, 2, 3]}),
        ),
        answer(json!({"text": "a long answer that has more tokens than allowed", "finish_reason": "length"})),
    ]
}

pub(super) fn shard(bytes: &[u8]) {
    with(&shard::file_name(0), bytes, |dir| {
        let _ = shard::read(&dir.join(shard::file_name(0)), 260);
        let _ = std::fs::write(dir.join(manifest::MANIFEST), bytes);
        let _ = manifest::verify(dir);
    });
}

pub(super) fn shard_seeds() -> Vec<Vec<u8>> {
    let row = |i: u64| Row {
        row: i,
        id: format!("id-{i}"),
        key: i + 7,
        source: "prompts.jsonl".into(),
        line: i + 1,
        category: i.is_multiple_of(2).then(|| "maths".to_owned()),
        example: Example {
            ids: (0..i as u32 + 3).collect(),
            assistant: (0..i + 3).map(|k| k > 1).collect(),
            corrected: i.is_multiple_of(2).then(|| (0..i + 3).map(|k| k == 2).collect()),
        },
        ends: vec!["end_token".into()],
        shard: String::new(),
    };
    let write = |rows: Vec<Row>| {
        let metadata = BTreeMap::from([("gorgon.seed".to_owned(), "7".to_owned())]);
        written("shard", |path| drop(shard::write(path, &rows, &metadata)))
    };
    let named = json!({"shard-00000.parquet": {"rows": 1, "sha256": "00"}}).to_string();
    vec![write((0..3).map(row).collect()), write((0..200).map(row).collect()), named.into_bytes()]
}

pub(super) fn journal(bytes: &[u8]) {
    with("answers.jsonl", bytes, |dir| drop(Journal::open(&dir.join("answers.jsonl"))));
}

pub(super) fn journal_seeds() -> Vec<Vec<u8>> {
    vec![written("answers.jsonl", |path| {
        let Ok(mut journal) = Journal::open(path) else { return };
        let answer = |turn| Answer {
            row: 3,
            turn,
            ids: vec![1, 2, 3],
            end: "length".into(),
            user: (turn == 1).then(|| "so?".to_owned()),
            retokenised: turn == 1,
        };
        let _ = journal.answer(answer(0));
        let _ = journal.answer(answer(1));
        let _ = journal.done(3, Some("no room".into()));
    })]
}

pub(super) fn checkpoint(bytes: &[u8]) {
    with("metrics.jsonl", bytes, |dir| {
        let _ = gorgon_runs::metrics::read(&dir.join("metrics.jsonl"));
        let step = dir.join("step-000003");
        let _ = std::fs::create_dir(&step);
        let _ = std::fs::write(step.join("state.json"), bytes);
        let _ = std::fs::write(dir.join("best"), bytes);
        let _ = std::fs::write(dir.join("provenance.json"), bytes);
        let _ = gorgon_runs::provenance::Provenance::read(&dir.join("provenance.json"));
        if let Ok(view) = RunView::open(dir) {
            let _ = (view.steps(), view.open_step(3), view.best());
        }
        if let Ok(run) = RunDir::open(dir) {
            let _ = run.set_aside_damaged();
        }
    });
}

pub(super) fn checkpoint_seeds() -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a folder");
    let state = RunDir::create(dir.path(), "run").ok().and_then(|run| {
        let fill = |dir: &Path| -> Result<_, Box<dyn std::error::Error + Send + Sync>> {
            std::fs::write(dir.join("weights"), "abc")?;
            Ok(json!({"step": 3, "best_objective": 0.25}))
        };
        std::fs::read(run.write_step(3, fill).ok()?.join("state.json")).ok()
    });
    let metrics = b"{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2, \"evaluation\": {\"tau\": 1.5}}\n".to_vec();
    [metrics, b"step-000003\n".to_vec()].into_iter().chain(state).collect()
}
