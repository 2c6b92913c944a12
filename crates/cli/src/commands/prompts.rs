//! Prompts from a file, as tokens.

use crate::error::Failure;
use crate::settings::Settings;
use gorgon_bench::measure::BenchPrompt;
use gorgon_data::render::Renderer;
use gorgon_data::source::{self, Options};
use std::path::Path;

/// The first user turns of the first `limit` conversations of a file, rendered as prompts; those that leave no room for
/// `new_tokens` in a context of `context` are skipped and counted.
///
/// # Errors
/// When the file cannot be read, or no prompt fits.
pub fn load(
    path: &Path,
    renderer: &Renderer,
    limit: usize,
    context: usize,
    new_tokens: usize,
    settings: &Settings,
) -> Result<Vec<BenchPrompt>, Failure> {
    let (conversations, report) = source::read(path, &Options { limit: Some(limit), ..Options::default() })?;
    if !report.skipped.is_empty() {
        settings.talk.say(report.to_string().trim_end());
    }
    let (mut prompts, mut long) = (vec![], 0);
    for conversation in conversations {
        let system = conversation.system.as_deref().filter(|_| renderer.has_template());
        let mut transcript = renderer.transcript(system)?;
        let Some(turn) = conversation.turns.first() else { continue };
        transcript.ask(&turn.user)?;
        let ids = transcript.into_example().ids;
        match ids.is_empty() || ids.len() + new_tokens > context {
            true => long += 1,
            false => prompts.push(BenchPrompt { id: conversation.id, category: conversation.category, ids }),
        }
    }
    if long > 0 {
        settings.talk.say(format!("{long} prompts leave no room for {new_tokens} new tokens in {context}: skipped"));
    }
    if prompts.is_empty() {
        return Err(Failure::input(format!("{}: no prompt fits the model's context", path.display())));
    }
    Ok(prompts)
}
