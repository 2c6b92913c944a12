//! What is done with hostile bytes: every reader of something that comes from outside, as a plain function. An error is
//! fine; a panic, a hang or a dead process is not.

use gorgon_bench::record::CalibrationRecord;
use gorgon_core::tree::TreeShape;
use gorgon_data::distill::{Answer, Journal};
use gorgon_data::manifest;
use gorgon_data::render::Example;
use gorgon_data::shard::{self, Row};
use gorgon_data::source::{self, Format, Options};
use gorgon_draft::eagle::{EagleModel, EagleShape};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::medusa::{MedusaConfig, MedusaModel};
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::LlamaShape;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::run_dir::{RunDir, RunView};
use gorgon_runs::tensors::{self, Source};
use gorgon_text::template::{ChatTemplate, Limits, Render, message};
use gorgon_text::tokenizer::Tokenizer;
use safetensors::Dtype;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A reader, and files that it reads.
pub struct Target {
    /// Its name, which is that of its fuzz target.
    pub name: &'static str,
    /// Reads bytes.
    pub read: fn(&[u8]),
    /// Sound files to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every reader.
pub const TARGETS: [Target; 13] = [
    Target { name: "weights_header", read: weights_header, seeds: weights_seeds },
    Target { name: "shard_index", read: shard_index, seeds: index_seeds },
    Target { name: "config", read: config, seeds: config_seeds },
    Target { name: "tokenizer", read: tokenizer, seeds: tokenizer_seeds },
    Target { name: "tokenizer_config", read: tokenizer_config, seeds: tokenizer_config_seeds },
    Target { name: "chat_template", read: chat_template, seeds: template_seeds },
    Target { name: "prompts", read: prompts, seeds: prompt_seeds },
    Target { name: "tree", read: tree, seeds: tree_seeds },
    Target { name: "heads", read: heads, seeds: head_seeds },
    Target { name: "heads_config", read: heads_config, seeds: heads_config_seeds },
    Target { name: "shard", read: shard, seeds: shard_seeds },
    Target { name: "journal", read: journal, seeds: journal_seeds },
    Target { name: "checkpoint", read: checkpoint, seeds: checkpoint_seeds },
];

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 16,
    intermediate_size: 24,
    layers: 1,
    heads: 2,
    kv_heads: 1,
    vocab_size: 260,
    max_positions: 32,
};

/// A folder with one hostile file.
fn with(name: &str, bytes: &[u8], read: impl FnOnce(&Path)) {
    let Ok(dir) = tempfile::tempdir() else { return };
    if std::fs::write(dir.path().join(name), bytes).is_ok() {
        read(dir.path());
    }
}

/// A sound model, written once.
fn model() -> &'static Path {
    static MODEL: OnceLock<tempfile::TempDir> = OnceLock::new();
    let write = || {
        let dir = tempfile::tempdir().expect("a folder for a model");
        SHAPE.write(dir.path(), FloatFormat::F32, 1).expect("a model");
        dir
    };
    MODEL.get_or_init(write).path()
}

fn decoder() -> Arc<Decoder> {
    static DECODER: OnceLock<Arc<Decoder>> = OnceLock::new();
    let load = || Arc::new(Decoder::load(model(), &Compute::cpu(FloatFormat::F32)).expect("a model"));
    DECODER.get_or_init(load).clone()
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(model().join(name)).unwrap_or_default()
}

/// Reads a small sound file back after `write`.
fn written(name: &str, write: impl FnOnce(&Path)) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a folder");
    write(&dir.path().join(name));
    std::fs::read(dir.path().join(name)).unwrap_or_default()
}

fn weights_header(bytes: &[u8]) {
    with("model.safetensors", bytes, |dir| {
        let Ok(checkpoint) = Checkpoint::open(dir) else { return };
        let sound = ModelConfig::read(model());
        if let Ok(config) = &sound {
            let _ = checkpoint.problems(config);
        }
        for name in checkpoint.entries().keys().take(4) {
            let _ = checkpoint.read_all(name);
        }
    });
}

fn weights_seeds() -> Vec<Vec<u8>> {
    let small = written("t.safetensors", |path| {
        let fill = |file: &mut dyn Write| file.write_all(&[0; 24]);
        let source = Source { name: "a.b".into(), dtype: Dtype::F32, shape: vec![2, 3], fill: Box::new(fill) };
        let _ = tensors::write(path, &[source]);
    });
    vec![small, file("model.safetensors")]
}

fn shard_index(bytes: &[u8]) {
    with("model.safetensors.index.json", bytes, |dir| {
        let _ = std::fs::copy(model().join("model.safetensors"), dir.join("one.safetensors"));
        let _ = Checkpoint::open(dir);
    });
}

fn index_seeds() -> Vec<Vec<u8>> {
    let names: Vec<String> =
        Checkpoint::open(model()).map(|c| c.entries().keys().cloned().collect()).unwrap_or_default();
    let map: BTreeMap<String, &str> = names.into_iter().map(|name| (name, "one.safetensors")).collect();
    vec![json!({"metadata": {"total_size": 1}, "weight_map": map}).to_string().into_bytes()]
}

fn config(bytes: &[u8]) {
    with("config.json", bytes, |dir| {
        if let Ok(config) = ModelConfig::read(dir)
            && let Ok(checkpoint) = Checkpoint::open(model())
        {
            let _ = checkpoint.check(&config);
        }
    });
}

fn config_seeds() -> Vec<Vec<u8>> {
    let full = json!({
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 16, "intermediate_size": 24,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 260,
        "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "num_local_experts": 2,
        "num_experts_per_tok": 1, "sliding_window": 16, "eos_token_id": [1, 2], "tie_word_embeddings": true,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 16}
    });
    vec![file("config.json"), full.to_string().into_bytes()]
}

fn tokenizer(bytes: &[u8]) {
    with("tokenizer.json", bytes, |dir| {
        let Ok(text) = Tokenizer::load(dir) else { return };
        let _ = text.check_vocab(260);
        for special in [false, true] {
            if let Ok(ids) = text.encode("Héllo <s> 世界\n\u{0}</s>", special) {
                let _ = text.decode(&ids, special);
            }
        }
        let mut stream = text.stream(true);
        for id in [0, 256, 255, 4_000_000_000] {
            let _ = stream.push(id);
        }
        let _ = stream.finish();
    });
}

fn tokenizer_seeds() -> Vec<Vec<u8>> {
    let small = json!({
        "version": "1.0", "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"}]},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\s+|\\p{L}+"}, "behavior": "Isolated", "invert": false},
        "post_processor": null, "decoder": {"type": "ByteFallback"},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
                  "vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3, "<0x41>": 4}, "merges": ["a b"]}
    });
    let unigram = json!({
        "version": "1.0", "added_tokens": [{"id": 0, "content": "<s>", "single_word": false, "lstrip": false,
                                              "rstrip": false, "normalized": false, "special": true}],
        "normalizer": null, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
        "post_processor": null, "decoder": {"type": "Metaspace", "replacement": "▁"},
        "model": {"type": "Unigram", "unk_id": 1, "vocab": [["<s>", 0.0], ["<unk>", -1.0], ["▁a", -2.0], ["b", -3.0]]}
    });
    vec![small.to_string().into_bytes(), unigram.to_string().into_bytes(), file("tokenizer.json")]
}

fn tokenizer_config(bytes: &[u8]) {
    with("tokenizer_config.json", bytes, |dir| {
        let _ = std::fs::copy(model().join("tokenizer.json"), dir.join("tokenizer.json"));
        if let Ok(text) = Tokenizer::load(dir) {
            let _ = text.encode("a", true);
        }
        speak(dir);
    });
}

fn tokenizer_config_seeds() -> Vec<Vec<u8>> {
    let full = json!({
        "bos_token": "<s>", "eos_token": {"content": "</s>"}, "add_bos_token": true, "add_eos_token": false,
        "chat_template": [{"name": "default", "template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"}]
    });
    vec![full.to_string().into_bytes(), file("tokenizer_config.json")]
}

/// Renders a conversation with the folder's template, within limits that end a hostile one soon.
fn speak(dir: &Path) {
    let Ok(template) = ChatTemplate::load_with(dir, Limits::default()) else { return };
    let turns =
        [message("system", "Be kind."), message("user", "Hi <|x|>"), message("assistant", "Ho"), message("user", "?")];
    for open in [false, true] {
        let _ = template.render(&turns, &Render { add_generation_prompt: open, ..Render::default() });
    }
}

fn chat_template(bytes: &[u8]) {
    with("chat_template.jinja", bytes, speak);
}

fn template_seeds() -> Vec<Vec<u8>> {
    let seeds = [
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}{{ eos_token }}{% endfor %}\
         {% if add_generation_prompt %}[assistant]{% endif %}",
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% if m['role'] != 'user' and loop.first %}\
         {{ raise_exception('no') }}{% endif %}{% set ns.n = ns.n + 1 %}{{ m.content.split('x')[0] }}{% endfor %}{{ ns.n }}",
        "{% macro f(x) %}{{ x | tojson }}{% endmacro %}{{ f(messages) }}{{ 'a' * 10 }}{{ range(5) | list | join(',') }}\
         {{ strftime_now('%d %b %Y') }}",
    ];
    seeds.map(|seed| seed.as_bytes().to_vec()).to_vec()
}

fn prompts(bytes: &[u8]) {
    with("prompts.jsonl", bytes, |dir| {
        let path = dir.join("prompts.jsonl");
        for format in std::iter::once(None).chain(Format::ALL.map(Some)) {
            let options = Options { format, max_line_bytes: 1 << 16, ..Options::default() };
            let _ = source::read(&path, &options);
        }
    });
}

fn prompt_seeds() -> Vec<Vec<u8>> {
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

fn tree(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(shape) = TreeShape::from_json(text) {
            let _ = shape.paths();
        }
        let _ = text.parse::<gorgon_core::tree::TreeChoice>();
        let _ = text.parse::<gorgon_core::accept::RuleChoice>();
    }
    with("calibration.json", bytes, |dir| {
        if let Ok(Some(record)) = CalibrationRecord::read(dir) {
            let _ = record.cost(8);
        }
    });
}

fn tree_seeds() -> Vec<Vec<u8>> {
    let record = json!({
        "tree": [[0], [0, 0]], "accuracies": [[0.5, 0.2], [0.3]], "positions": 10, "children": [0.5], "chain": [0.5],
        "step_times": [{"nodes": 1, "seconds": 1.0, "draft_seconds": 0.1}, {"nodes": 2, "seconds": 1.5, "draft_seconds": 0.1}],
        "expected_tokens_per_step": 1.5, "expected_speedup": 1.1, "threads": 2, "device": "cpu", "dtype": "f32"
    });
    let seeds = ["[[0], [1], [0, 0], [0, 1], [0, 0, 0]]", "dynamic:60,5,10", "sequoia:64", "typical:0.3,0.09"];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
    seeds.into_iter().chain([record.to_string().into_bytes()]).collect()
}

/// Medusa heads and an EAGLE layer for the sound model, and what their configs say.
fn sound_heads() -> [(Vec<u8>, Vec<u8>); 2] {
    let zeros = |shapes: Vec<(String, Vec<usize>)>| {
        written("model.safetensors", |path| {
            let source = |(name, shape): (String, Vec<usize>)| {
                let bytes = shape.iter().product::<usize>() * 4;
                let fill = move |file: &mut dyn Write| file.write_all(&vec![0; bytes]);
                Source { name, dtype: Dtype::F32, shape, fill: Box::new(fill) }
            };
            let _ = tensors::write(path, &shapes.into_iter().map(source).collect::<Vec<_>>());
        })
    };
    let medusa = MedusaConfig { heads: 2, ..MedusaConfig::default() };
    let (d, vocab) = (SHAPE.hidden_size, SHAPE.vocab_size);
    let eagle = EagleShape::of(decoder().config(), false);
    let medusa_shapes = medusa.parameters(d, vocab).into_iter().map(|p| (p.name, p.shape)).collect();
    let eagle_shapes = eagle.parameters().into_iter().map(|p| (p.name.to_string(), p.shape)).collect();
    [
        (zeros(medusa_shapes), medusa.document(d, vocab, "m").to_string().into_bytes()),
        (zeros(eagle_shapes), eagle.document("m").to_string().into_bytes()),
    ]
}

fn load_heads(dir: &Path) {
    let Ok(folder) = HeadsFolder::open(dir) else { return };
    match folder.detected.format.method() {
        "medusa" => drop(MedusaModel::load(&folder, decoder())),
        _ => drop(EagleModel::load(&folder, decoder())),
    }
}

fn heads(bytes: &[u8]) {
    for (_, config) in sound_configs() {
        with("model.safetensors", bytes, |dir| {
            let _ = std::fs::write(dir.join("config.json"), config);
            load_heads(dir);
        });
    }
    with("pytorch_lm_head.safetensors", bytes, load_heads);
}

/// The sound heads, made once.
fn sound_configs() -> &'static [(Vec<u8>, Vec<u8>); 2] {
    static HEADS: OnceLock<[(Vec<u8>, Vec<u8>); 2]> = OnceLock::new();
    HEADS.get_or_init(sound_heads)
}

fn head_seeds() -> Vec<Vec<u8>> {
    sound_configs().iter().map(|(weights, _)| weights.clone()).collect()
}

fn heads_config(bytes: &[u8]) {
    for (weights, _) in sound_configs() {
        with("config.json", bytes, |dir| {
            let _ = std::fs::write(dir.join("model.safetensors"), weights);
            load_heads(dir);
        });
    }
}

fn heads_config_seeds() -> Vec<Vec<u8>> {
    sound_configs().iter().map(|(_, config)| config.clone()).collect()
}

fn shard(bytes: &[u8]) {
    with(&shard::file_name(0), bytes, |dir| {
        let _ = shard::read(&dir.join(shard::file_name(0)), 260);
        let _ = std::fs::write(dir.join(manifest::MANIFEST), bytes);
        let _ = manifest::verify(dir);
    });
}

fn shard_seeds() -> Vec<Vec<u8>> {
    let row = |i: u64| Row {
        row: i,
        id: format!("id-{i}"),
        source: "prompts.jsonl".into(),
        line: i + 1,
        category: i.is_multiple_of(2).then(|| "maths".to_owned()),
        example: Example { ids: (0..i as u32 + 3).collect(), assistant: (0..i + 3).map(|k| k > 1).collect() },
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

fn journal(bytes: &[u8]) {
    with("answers.jsonl", bytes, |dir| drop(Journal::open(&dir.join("answers.jsonl"))));
}

fn journal_seeds() -> Vec<Vec<u8>> {
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

fn checkpoint(bytes: &[u8]) {
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

fn checkpoint_seeds() -> Vec<Vec<u8>> {
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
