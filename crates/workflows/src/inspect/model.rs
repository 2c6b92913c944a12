//! A model with everything that belongs to it.

use super::report::{Properties, Report};
use crate::failure::Failure;
use crate::units::bytes;
use gorgon_model::config::ModelConfig;
use gorgon_model::layout;
use gorgon_model::weights::Checkpoint;
use gorgon_text::template::{ChatTemplate, TemplateError};
use gorgon_text::tokenizer::{Tokenizer, TokenizerError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Examines a model's folder.
pub(super) fn report(dir: &Path) -> Result<Report, Failure> {
    let config = ModelConfig::read(dir)?;
    let checkpoint = Checkpoint::open(dir)?;
    let found = checkpoint.problems(&config);
    let missing = found.missing.iter().map(|name| format!("missing tensor {name}"));
    let unexpected = found.unexpected.iter().map(|name| format!("unexpected tensor {name}"));
    let wrong = found.wrong.iter().map(|reason| format!("wrong tensor: {reason}"));
    let mut problems: Vec<String> = missing.chain(unexpected).chain(wrong).collect();
    problems.extend(not_finite(&checkpoint));
    let mut notes = vec![];
    let tokenizer = match Tokenizer::load(dir) {
        Ok(tokenizer) => {
            let tokens = tokenizer.vocab_size();
            problems.extend(tokenizer.of_model(config.vocab_size).err().map(|error| error.to_string()));
            json!(tokens)
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
    if let Err(error) = &template {
        // A model may have none.
        let found = if matches!(error, TemplateError::Missing { .. }) { &mut notes } else { &mut problems };
        found.push(error.to_string());
    }
    let mut facts = facts(&checkpoint.resolved(&config), tokenizer, template.is_ok());
    quantisation(&mut facts, &mut notes, &config, &checkpoint);
    storage(&mut facts, &checkpoint);
    Ok(Report { kind: "model", facts, notes, problems }.shortened())
}

/// Elements of a tensor that is read to look for numbers that are not finite: those of norms and biases.
const SMALL: usize = 1 << 17;

/// Names the first tensor, among the small ones, with a number that is not finite. Damage to a whole model shows there.
fn not_finite(checkpoint: &Checkpoint) -> Option<String> {
    let is_small = |shape: &[usize]| shape.len() == 1 && shape.iter().product::<usize>() <= SMALL;
    checkpoint.entries().iter().filter(|(_, entry)| is_small(&entry.shape)).find_map(|(name, _)| {
        // Formats that are not read as numbers are named above.
        let values = checkpoint.read_all(name).ok()?;
        let at = values.iter().position(|value| !value.is_finite())?;
        Some(format!("tensor {name}: element {at} is {}, not a finite number", values[at]))
    })
}

/// A model's sizes.
fn facts(config: &ModelConfig, tokenizer: Value, chat_template: bool) -> Properties {
    let mut facts = Properties::default();
    facts.add("architecture", config.architecture.class_name());
    facts.count("parameters", config.parameters());
    facts.add("layers", config.layers);
    facts.add("hidden_size", config.hidden_size);
    facts.add("intermediate_size", config.intermediate_size);
    facts.add("heads", config.heads);
    facts.add("kv_heads", config.kv_heads);
    facts.add("head_dim", config.head_dim);
    facts.add("vocab_size", config.vocab_size);
    facts.add("tokenizer_vocab_size", tokenizer);
    facts.add("context_tokens", config.max_positions);
    facts.add("tied_embeddings", config.tied_embeddings);
    facts.add("end_tokens", json!(config.eos_tokens));
    facts.add("chat_template", chat_template);
    if let Some(encoder) = config.encoder {
        facts.add("encoder_layers", encoder.layers);
        facts.add("decoder_start_token", encoder.start_token);
        facts.add("relative_position_buckets", encoder.buckets.count);
        facts.add("relative_position_max_distance", encoder.buckets.max_distance);
    }
    if let Some(experts) = config.experts {
        facts.add("experts", experts.count);
        facts.add("experts_per_token", experts.per_token);
    }
    facts
}

/// How linear layers are stored that are quantised, which are not, and which settings are not applied.
fn quantisation(facts: &mut Properties, notes: &mut Vec<String>, config: &ModelConfig, checkpoint: &Checkpoint) {
    let Some(quantisation) = checkpoint.quantisation() else { return };
    let modules = checkpoint.quantised_modules();
    let linear = layout::tensors(config).into_iter().filter(|spec| spec.shape.len() == 2);
    let linear = linear.filter_map(|spec| Some(spec.name.strip_suffix(".weight")?.to_owned()));
    let kept: Vec<String> = linear.filter(|module| !modules.contains_key(module.as_str())).collect();
    facts.add("quantisation_method", quantisation.method());
    facts.add("quantised_formats", json!(quantisation.formats()));
    facts.add("quantised_modules", modules.len());
    facts.add_as("quantised_bytes", checkpoint.quantised_bytes(), bytes(checkpoint.quantised_bytes() as u64));
    facts.add("modules_in_floats", json!(kept));
    facts.add("quantisation_settings_ignored", json!(quantisation.ignored_settings()));
    if !quantisation.ignored_settings().is_empty() {
        let note = "activations are not quantised here: logits differ slightly from those of programs that do it";
        notes.push(note.into());
    }
}

/// How the tensors are stored.
pub(super) fn storage(facts: &mut Properties, checkpoint: &Checkpoint) {
    let mut dtypes: BTreeMap<String, usize> = BTreeMap::new();
    for entry in checkpoint.entries().values() {
        *dtypes.entry(format!("{:?}", entry.dtype)).or_default() += 1;
    }
    facts.add("tensors_by_format", json!(dtypes));
    facts.add("files", checkpoint.files().count());
    facts.size(checkpoint.bytes() as u64);
}
