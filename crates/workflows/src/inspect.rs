//! What a folder of a model or of heads holds, and what is wrong with it.

use crate::failure::Failure;
use crate::units::{bytes, count};
use gorgon_draft::folder;
use gorgon_draft::format::{self, Detected};
use gorgon_model::config::ModelConfig;
use gorgon_model::weights::Checkpoint;
use gorgon_text::template::ChatTemplate;
use gorgon_text::tokenizer::{Tokenizer, TokenizerError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// What was found: facts by name, in order, and problems.
pub struct Report {
    /// `model` or `heads`.
    pub kind: &'static str,
    /// Facts by name, in order.
    pub facts: Vec<(String, Value)>,
    /// What is worth knowing and no problem.
    pub notes: Vec<String>,
    /// What is wrong.
    pub problems: Vec<String>,
}

/// Examines a folder.
///
/// # Errors
/// When there is no such folder, or it holds neither a model nor heads.
pub fn examine(dir: &Path) -> Result<Report, Failure> {
    if !dir.is_dir() {
        let what = if dir.exists() { "not a folder" } else { "no such folder" };
        return Err(Failure::input(format!("{}: {what}", dir.display())));
    }
    match heads(dir)? {
        Some(report) => Ok(report),
        None => model(dir),
    }
}

impl Report {
    /// As a JSON document.
    pub fn document(&self, dir: &Path) -> Value {
        let facts: serde_json::Map<String, Value> = self.facts.iter().cloned().collect();
        json!({ "dir": dir.display().to_string(), "kind": self.kind, "facts": facts, "notes": self.notes, "problems": self.problems,
                "ok": self.problems.is_empty() })
    }
}

/// A backbone with everything that belongs to it.
fn model(dir: &Path) -> Result<Report, Failure> {
    let config = ModelConfig::read(dir)?;
    let checkpoint = Checkpoint::open(dir)?;
    let found = checkpoint.problems(&config);
    let missing = found.missing.iter().map(|name| format!("missing tensor {name}"));
    let unexpected = found.unexpected.iter().map(|name| format!("unexpected tensor {name}"));
    let wrong = found.wrong.iter().map(|what| format!("wrong tensor: {what}"));
    let mut problems: Vec<String> = missing.chain(unexpected).chain(wrong).collect();
    let mut notes = vec![];
    let tokenizer = match Tokenizer::load(dir) {
        Ok(text) => {
            problems.extend(text.check_vocab(config.vocab_size).err().map(|error| error.to_string()));
            json!(text.vocab_size())
        }
        Err(error @ TokenizerError::Missing { .. }) => {
            notes.push(error.to_string());
            Value::Null
        }
        Err(error) => {
            problems.push(error.to_string());
            Value::Null
        }
    };
    let template = ChatTemplate::load(dir);
    notes.extend(template.as_ref().err().map(ToString::to_string));
    let mut facts = facts(&config, tokenizer, template.is_ok());
    facts.extend(storage(&checkpoint));
    Ok(Report { kind: "model", facts, notes, problems })
}

/// A backbone's sizes.
fn facts(config: &ModelConfig, tokenizer_vocab: Value, chat_template: bool) -> Vec<(String, Value)> {
    let mut facts: Vec<(String, Value)> = vec![
        ("architecture".into(), config.architecture.class_name().into()),
        ("parameters".into(), count(config.parameters()).into()),
        ("layers".into(), config.layers.into()),
        ("hidden_size".into(), config.hidden_size.into()),
        ("intermediate_size".into(), config.intermediate_size.into()),
        ("heads".into(), config.heads.into()),
        ("kv_heads".into(), config.kv_heads.into()),
        ("head_dim".into(), config.head_dim.into()),
        ("vocab_size".into(), config.vocab_size.into()),
        ("tokenizer_vocab".into(), tokenizer_vocab),
        ("context".into(), config.max_positions.into()),
        ("tied_embeddings".into(), config.tied_embeddings.into()),
        ("end_tokens".into(), json!(config.eos_tokens)),
        ("chat_template".into(), chat_template.into()),
    ];
    if let Some(experts) = config.experts {
        facts.push(("experts".into(), format!("{} of {} per token", experts.per_token, experts.count).into()));
    }
    facts
}

/// How the tensors are stored.
fn storage(checkpoint: &Checkpoint) -> Vec<(String, Value)> {
    let mut dtypes: BTreeMap<String, usize> = BTreeMap::new();
    for entry in checkpoint.entries().values() {
        *dtypes.entry(format!("{:?}", entry.dtype)).or_default() += 1;
    }
    let dtypes: Vec<String> = dtypes.iter().map(|(dtype, n)| format!("{dtype} ({n} tensors)")).collect();
    vec![
        ("stored_as".into(), dtypes.join(", ").into()),
        ("files".into(), checkpoint.files().count().into()),
        ("size".into(), bytes(checkpoint.bytes() as u64).into()),
    ]
}

/// Draft heads, if that is what the tensors are; `None` for anything that looks like a backbone.
fn heads(dir: &Path) -> Result<Option<Report>, Failure> {
    let Some(checkpoint) = folder::open_weights(dir)? else { return Ok(None) };
    if checkpoint.entries().contains_key(gorgon_model::layout::FINAL_NORM) {
        return Ok(None);
    }
    let config = folder::config(dir)?;
    let detected = match format::detect(&folder::tensors(&checkpoint), config.as_ref()) {
        Ok(detected) => detected,
        // A folder with a config that names a decoder is a model, however damaged.
        Err(_) if ModelConfig::read(dir).is_ok() => return Ok(None),
        Err(error) => return Err(Failure::input(format!("{}: {error}", dir.display()))),
    };
    let Detected { format, facts, problems, notes } = detected;
    let mut listed: Vec<(String, Value)> = vec![
        ("format".into(), format.name().into()),
        ("method".into(), format.method().name().into()),
        ("description".into(), format.description().into()),
    ];
    listed.extend(facts.list().into_iter().map(|(name, value)| (key(name), json!(value))));
    listed.extend(storage(&checkpoint));
    Ok(Some(Report { kind: "heads", facts: listed, notes, problems }))
}

/// A fact's name as a JSON key.
fn key(name: &str) -> String {
    name.to_lowercase().replace([' ', '/'], "_")
}
