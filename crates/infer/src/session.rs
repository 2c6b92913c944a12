//! A generation with a drafter.

use crate::event::{Event, Finish, Generation};
use crate::plain::{DecodeError, Limits, finished, first};
use crate::step::{StepOutcome, Stepper};
use crate::timing::StepTimes;
use gorgon_core::Token;
use gorgon_draft::drafter::Committed;
use std::ops::ControlFlow;
use std::time::Instant;

/// Decodes after `prompt` with drafts, telling `observe` of every token; it may stop the generation by breaking.
///
/// With a lossless rule the text is plain decoding's (at temperature 0) or has its law. Tokens that a step yields
/// beyond a limit are not emitted, but its accepted drafts count in full.
///
/// # Errors
/// When the prompt is empty, holds a token outside the vocabulary, or does not fit with the new tokens and a tree.
pub fn decode_with(
    with: &mut Stepper<'_>,
    prompt: &[Token],
    limits: &Limits,
    observe: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<Generation, DecodeError> {
    // The last step may begin one token before the limit and holds a whole tree.
    let asked = prompt.len() + limits.max_new_tokens.saturating_sub(1);
    let (room, context) = (with.builder.max_nodes(), with.target.capacity());
    if asked + room.saturating_sub(1) > context || limits.max_new_tokens == 0 {
        return Err(DecodeError::Context { prompt: prompt.len(), new: limits.max_new_tokens, context });
    }
    let (mut generation, prefilled) = begin(with, prompt, limits.max_new_tokens.min(context))?;
    go_on(&mut generation, limits, observe, &mut |root, times| with.step(root, times))?;
    generation.decode_time = prefilled.elapsed();
    Ok(generation)
}

/// Takes steps from a generation's first token to its end.
pub(crate) fn go_on(
    generation: &mut Generation,
    limits: &Limits,
    observe: &mut dyn FnMut(Event) -> ControlFlow<()>,
    step: &mut dyn FnMut(Token, &mut StepTimes) -> Result<StepOutcome, DecodeError>,
) -> Result<(), DecodeError> {
    let first = generation.ids[0];
    let stopped = observe(Event::Prefilled).is_break() | observe(Event::Token(first)).is_break();
    let mut finish = finished(&generation.ids, limits, stopped);
    while finish.is_none() {
        let root = generation.ids[generation.ids.len() - 1];
        let outcome = step(root, &mut generation.times)?;
        generation.accepted.push(outcome.tokens.len() - 1);
        generation.nodes += outcome.nodes;
        let drafted = outcome.tokens.len() - 1;
        for (i, token) in outcome.tokens.iter().copied().enumerate() {
            generation.ids.push(token);
            let event = if i < drafted { Event::Drafted(token) } else { Event::Token(token) };
            finish = finished(&generation.ids, limits, observe(event).is_break());
            if finish.is_some() {
                break;
            }
        }
    }
    generation.finish = finish.unwrap_or(Finish::Length);
    Ok(())
}

/// Reads the prompt and picks the first of `most` tokens.
fn begin(with: &mut Stepper<'_>, prompt: &[Token], most: usize) -> Result<(Generation, Instant), DecodeError> {
    with.target.reset();
    with.drafter.reset();
    let started = Instant::now();
    let output = with.target.prefill(prompt)?;
    let rows: Vec<usize> = (0..prompt.len()).collect();
    with.drafter.observe(Committed { tokens: prompt, output: &output, rows: &rows })?;
    let last = prompt.len() - 1;
    let hidden = output.hidden.part(last, 1);
    let first = first(prompt[last], with.target, &hidden, with.rule, with.random)?;
    let prefilled = Instant::now();
    Ok((Generation::begun(first, most, prefilled - started), prefilled))
}
