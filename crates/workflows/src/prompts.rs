//! Prompts from a file, as tokens.

use crate::failure::Failure;
use crate::settings::Settings;
use gorgon_bench::measure::BenchPrompt;
use gorgon_core::Token;
use gorgon_data::render::{Renderer, Transcript};
use gorgon_data::source::{self, Options};
use std::path::Path;

/// Says what the model answers after some tokens.
type Answer<'a> = dyn FnMut(&[Token]) -> Result<Vec<Token>, Failure> + 'a;

/// A conversation whose first user turn was rendered.
pub struct Opening<'a> {
    /// The prompt: that turn, as tokens.
    pub prompt: BenchPrompt,
    transcript: Transcript<'a>,
    /// The user turns after it.
    later: Vec<String>,
}

impl Opening<'_> {
    /// The later user turns, at most `turns - 1` of them, as prompts: each after the answers that `answer` gives to
    /// those before it. Ends where one leaves no room for `new_tokens` in a context of `context`, or where the template
    /// does not write an answer as the model said it (one that is no text, say).
    ///
    /// # Errors
    /// When `answer` fails.
    pub fn later_turns(
        mut self,
        turns: usize,
        context: usize,
        new_tokens: usize,
        answer: &mut Answer<'_>,
    ) -> Result<Vec<BenchPrompt>, Failure> {
        let mut prompts: Vec<BenchPrompt> = vec![];
        for (i, user) in self.later.iter().take(turns.saturating_sub(1)).enumerate() {
            let said = answer(&self.transcript.example().ids)?;
            if self.transcript.answer_ids(&said).and_then(|()| self.transcript.ask(user)).is_err() {
                break;
            }
            let ids = self.transcript.example().ids.clone();
            if ids.len() + new_tokens > context {
                break;
            }
            prompts.push(BenchPrompt { id: format!("{}.{}", self.prompt.id, i + 2), ids, ..self.prompt.clone() });
        }
        Ok(prompts)
    }
}

/// The first user turns of the first `limit` conversations of a file, rendered as prompts; those that leave no room for
/// `new_tokens` in a context of `context` are skipped and counted.
///
/// # Errors
/// When the file cannot be read, or no prompt fits.
pub fn load<'a>(
    path: &Path,
    renderer: &'a Renderer,
    limit: usize,
    context: usize,
    new_tokens: usize,
    settings: &Settings,
) -> Result<Vec<Opening<'a>>, Failure> {
    let (conversations, report) = source::read(path, &Options { limit: Some(limit), ..Options::default() })?;
    if !report.skipped.is_empty() {
        settings.console.say(report.to_string().trim_end());
    }
    let (mut openings, mut long) = (vec![], 0);
    for conversation in conversations {
        let system = conversation.system.as_deref().filter(|_| renderer.has_template());
        let mut transcript = renderer.transcript(system)?;
        let mut users = conversation.turns.into_iter().map(|turn| turn.user);
        let Some(user) = users.next() else { continue };
        transcript.ask(&user)?;
        let ids = transcript.example().ids.clone();
        if ids.is_empty() || ids.len() + new_tokens > context {
            long += 1;
            continue;
        }
        let later = if renderer.has_template() { users.collect() } else { vec![] };
        let prompt = BenchPrompt { id: conversation.id, category: conversation.category, ids };
        openings.push(Opening { prompt, transcript, later });
    }
    if long > 0 {
        settings.console.say(format!("{long} prompts leave no room for {new_tokens} new tokens in {context}: skipped"));
    }
    if openings.is_empty() {
        return Err(Failure::input(format!("{}: no prompt fits the model's context", path.display())));
    }
    Ok(openings)
}
