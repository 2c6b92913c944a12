//! Whether drafting pays with a model and heads on this machine, before anything is decided.

use super::Options;
use super::calibration::{self, Calibrated};
use crate::drafting::DrafterChoice;
use crate::failure::Failure;
use crate::load;
use crate::settings::Settings;
use gorgon_core::accept::RuleChoice;
use gorgon_core::dist::Transform;
use gorgon_model::config::ModelConfig;
use serde_json::{Value, json};
use std::path::Path;

/// Prompts of many kinds: answers to them are drafted when nothing is known of the user's own.
const PROMPTS: [&str; 8] = [
    "Explain in a few sentences how a bicycle stays upright.",
    "Write a Python function that returns the n-th Fibonacci number.",
    "Translate to French: The meeting was moved to Thursday morning.",
    "A train travels 60 km in 45 minutes. What is its average speed in km/h?",
    "Summarise the plot of Romeo and Juliet.",
    "List five things to check before a long drive.",
    "Write a short email that asks a colleague for last month's sales figures.",
    "What is the difference between a virus and a bacterium?",
];
/// New tokens of each answer, if the context has room for four times as many.
const NEW_TOKENS: usize = 96;
/// Measurements of each step time.
const ROUNDS: usize = 5;

/// Predicted gain of drafting.
pub struct Prediction {
    found: Calibrated,
}

/// Measures acceptance and step times on general prompts, and stores nothing.
///
/// # Errors
/// When the model or the heads cannot be loaded.
pub fn predict(model: &str, heads: &Path, settings: &Settings) -> Result<Prediction, Failure> {
    let file = tempfile::Builder::new().suffix(".jsonl").tempfile()?;
    let lines: String = PROMPTS.iter().map(|prompt| json!({ "prompt": prompt }).to_string() + "\n").collect();
    std::fs::write(file.path(), lines).map_err(|error| Failure::io(file.path(), &error))?;
    let context = load::context(&ModelConfig::read(&load::folder(model, settings)?)?, settings)?;
    let options = Options {
        model: model.to_owned(),
        heads: Some(heads.into()),
        drafter: DrafterChoice::Auto,
        tree: None,
        prompts: file.path().into(),
        turns: 1,
        limit: PROMPTS.len(),
        max_new_tokens: NEW_TOKENS.min(context / 4),
        accept: RuleChoice::Auto,
        transform: Transform::GREEDY,
        ignore_eos: false,
    };
    Ok(Prediction { found: calibration::measure(&options, ROUNDS, settings)? })
}

impl Prediction {
    /// As a JSON document.
    pub fn document(&self) -> Value {
        let choice = &self.found.choice;
        json!({
            "pays": self.found.has_tree(), "expected_speedup": choice.expected_speedup,
            "expected_tokens_per_step": choice.expected_tokens, "nodes": choice.shape.len(),
            "best_speedup_with_drafts": choice.drafting.as_ref().map(|(_, speedup)| speedup), "prompts": PROMPTS.len(),
        })
    }

    /// As a sentence.
    pub fn sentence(&self) -> String {
        let choice = &self.found.choice;
        let on = format!("{} general prompts, temperature 0", PROMPTS.len());
        match (self.found.has_tree(), &choice.drafting) {
            (true, _) => format!(
                "is predicted at {:.2} times plain decoding here, with {} nodes and {:.2} tokens per step ({on})",
                choice.expected_speedup,
                choice.shape.len(),
                choice.expected_tokens
            ),
            (false, Some((shape, speedup))) => format!(
                "is not expected to pay here: the best tree has {} nodes and is predicted at {speedup:.2} times plain \
                 decoding ({on})",
                shape.len()
            ),
            (false, None) => format!("is not expected to pay here: no draft was accepted ({on})"),
        }
    }
}
