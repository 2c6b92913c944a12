//! Plain decoding: one token per forward pass. The baseline of every comparison, through the same engine.

use crate::event::{Event, Finish, Generation};
use crate::timing::StepTimes;
use gorgon_core::Token;
use gorgon_core::accept::{AcceptanceRule, RandomSource};
use gorgon_core::dist::Row;
use gorgon_draft::drafter::DraftError;
use gorgon_draft::eagle::GrowthError;
use gorgon_model::decoder::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::target::Target;
use std::ops::ControlFlow;
use std::time::Instant;

/// When to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// New tokens at most.
    pub max_new_tokens: usize,
    /// Tokens that end the generation; none are heeded if this is empty.
    pub end_tokens: Vec<Token>,
}

/// Why decoding failed.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The drafter.
    #[error(transparent)]
    Draft(#[from] DraftError),
    /// The model's scores are no scores.
    #[error(
        "the model's logits at position {position} are not finite: its weights are damaged or overflow this format"
    )]
    NonFinite {
        /// Tokens before.
        position: usize,
    },
    /// Steps cannot be recorded there.
    #[error("steps are recorded on a GPU only, not on {device}")]
    NotRecorded {
        /// The device by name.
        device: String,
    },
    /// Trees cannot be grown on a device.
    #[error(transparent)]
    Growth(#[from] GrowthError),
    /// The prompt and the new tokens do not fit.
    #[error("a prompt of {prompt} tokens and {new} new tokens do not fit a context of {context} tokens")]
    Context {
        /// Prompt tokens.
        prompt: usize,
        /// New tokens asked for.
        new: usize,
        /// Tokens that fit.
        context: usize,
    },
}

/// Decodes after `prompt`, telling `observe` of every event; it may stop the generation by breaking.
///
/// The committed sequence of `target` is replaced.
///
/// # Errors
/// When the prompt is empty, holds a token outside the vocabulary, or does not fit with the new tokens.
pub fn decode(
    target: &mut Target,
    prompt: &[Token],
    rule: &dyn AcceptanceRule,
    random: &mut dyn RandomSource,
    limits: &Limits,
    observe: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<Generation, DecodeError> {
    // The last new token is emitted but never read, so it needs no room.
    let (asked, context) = (prompt.len() + limits.max_new_tokens.saturating_sub(1), target.capacity());
    if asked > context || limits.max_new_tokens == 0 {
        return Err(DecodeError::Context { prompt: prompt.len(), new: limits.max_new_tokens, context });
    }
    target.reset();
    let started = Instant::now();
    let output = target.prefill(prompt)?;
    let last = prompt.len() - 1;
    let mut token = first(prompt[last], target, &output.hidden.part(last, 1), rule, random)?;
    let mut logits = vec![];
    let prefilled = Instant::now();
    let mut generation = Generation {
        ids: Vec::with_capacity(limits.max_new_tokens.min(context)),
        accepted: Vec::with_capacity(limits.max_new_tokens.min(context)),
        finish: Finish::Length,
        decode_time: prefilled.elapsed(),
        prefill_time: prefilled - started,
        times: StepTimes::default(),
        nodes: 0,
    };
    generation.ids.push(token);
    let stopped = observe(Event::Prefilled).is_break() | observe(Event::Token(token)).is_break();
    let mut finish = finished(&generation.ids, limits, stopped);
    while finish.is_none() {
        token = after(token, target, rule, random, &mut logits)?;
        generation.ids.push(token);
        generation.accepted.push(0);
        generation.nodes += 1;
        finish = finished(&generation.ids, limits, observe(Event::Token(token)).is_break());
    }
    generation.finish = finish.unwrap_or(Finish::Length);
    generation.decode_time = prefilled.elapsed();
    Ok(generation)
}

/// The token after a prompt that was just read and ends with `last`, where the state is `hidden`.
pub(crate) fn first(
    last: Token,
    target: &Target,
    hidden: &HiddenStates,
    rule: &dyn AcceptanceRule,
    random: &mut dyn RandomSource,
) -> Result<Token, DecodeError> {
    let top_tokens = rule.as_greedy().and_then(|_| target.top_tokens(hidden)?.first().copied());
    match top_tokens {
        Some(token) => Ok(token),
        None => pick(last, &target.logits(hidden), rule, random, target.len()),
    }
}

/// Reads `last` and picks the next token. `logits` is room to work in.
fn after(
    last: Token,
    target: &mut Target,
    rule: &dyn AcceptanceRule,
    random: &mut dyn RandomSource,
    logits: &mut Vec<f32>,
) -> Result<Token, DecodeError> {
    if rule.as_greedy().is_none() {
        target.advance(last, logits)?;
    } else if let Some(top_tokens) = target.advance_greedily(last, logits)? {
        return Ok(top_tokens);
    }
    pick(last, logits, rule, random, target.len())
}

/// The token that a rule emits after `last`.
fn pick(
    last: Token,
    logits: &[f32],
    rule: &dyn AcceptanceRule,
    random: &mut dyn RandomSource,
    position: usize,
) -> Result<Token, DecodeError> {
    let row = Row::Logits(logits);
    match row.is_sound() {
        true => Ok(rule.next(last, row, random)),
        false => Err(DecodeError::NonFinite { position }),
    }
}

pub(crate) fn finished(ids: &[Token], limits: &Limits, stopped: bool) -> Option<Finish> {
    if ids.last().is_some_and(|last| limits.end_tokens.contains(last)) {
        Some(Finish::EndToken)
    } else if ids.len() >= limits.max_new_tokens {
        Some(Finish::Length)
    } else {
        stopped.then_some(Finish::Stopped)
    }
}
