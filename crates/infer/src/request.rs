//! Requests of decoding, their events and their results.

use crate::timing::StepTimes;
use gorgon_core::Token;
use gorgon_core::accept::{AcceptanceRule, RandomSource};
use std::sync::Arc;
use std::time::Duration;

/// When to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// New tokens at most.
    pub max_new_tokens: usize,
    /// Tokens that end the generation; none if this is empty.
    pub end_tokens: Vec<Token>,
}

/// A continuation that is asked for.
pub struct Request<'a> {
    /// The whole text to continue. What a session has read of it already is not read again.
    pub text: Vec<Token>,
    /// When to stop.
    pub limits: Limits,
    /// Where random choices come from.
    pub random: Box<dyn RandomSource + 'a>,
    /// How its tokens are picked; the loop's rule if there is none.
    pub rule: Option<Arc<dyn AcceptanceRule>>,
    /// Whether it is drafted at all.
    pub drafts: bool,
}

impl<'a> Request<'a> {
    /// A continuation of a text.
    pub fn new(text: &[Token], limits: &Limits, random: impl RandomSource + 'a) -> Self {
        Self { text: text.into(), limits: limits.clone(), random: Box::new(random), rule: None, drafts: true }
    }
}

/// Something that happened during decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The prompt has been read.
    Prefilled,
    /// A token of the target's own was emitted.
    Token(Token),
    /// A drafted token was accepted and emitted.
    Drafted(Token),
}

impl Event {
    /// The token that was emitted.
    pub fn token(self) -> Option<Token> {
        match self {
            Self::Prefilled => None,
            Self::Token(token) | Self::Drafted(token) => Some(token),
        }
    }
}

/// Why decoding ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// An end token was emitted.
    EndToken,
    /// As many tokens as were asked for.
    Length,
    /// The caller asked to stop.
    Stopped,
}

impl Finish {
    /// The name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::EndToken => "end_token",
            Self::Length => "length",
            Self::Stopped => "stopped",
        }
    }
}

/// A finished generation.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// New tokens, an end token included.
    pub ids: Vec<Token>,
    /// Drafted tokens accepted in each step, the bonus not counted. The token that prefill yields is no step.
    pub accepted: Vec<usize>,
    /// Why it ended.
    pub finish: Finish,
    /// Time from the end of prefill to the last token.
    pub decode_time: Duration,
    /// Time to read the prompt and pick the first token.
    pub prefill_time: Duration,
    /// Where the time of its steps went.
    pub times: StepTimes,
    /// Nodes verified in all steps, roots included.
    pub nodes: usize,
    /// Tokens that had to be read before the first new one: fewer than the text has where a session knew its beginning.
    pub read: usize,
}

impl Generation {
    /// A generation that has its first token.
    pub(crate) fn begun(first: Token, most: usize, prefill_time: Duration, read: usize) -> Self {
        let (mut ids, accepted) = (Vec::with_capacity(most), Vec::with_capacity(most));
        ids.push(first);
        let (finish, decode_time) = (Finish::Length, Duration::ZERO);
        Self { ids, accepted, finish, decode_time, prefill_time, times: StepTimes::default(), nodes: 0, read }
    }

    /// A generation that was stopped before its first token.
    pub(crate) fn stopped(prefill_time: Duration, read: usize) -> Self {
        let begun = Self::begun(0, 0, prefill_time, read);
        Self { ids: vec![], finish: Finish::Stopped, ..begun }
    }

    /// Mean tokens per step, `τ = Σ (accepted + 1) / steps`; `None` before the first step.
    pub fn tokens_per_step(&self) -> Option<f64> {
        let steps = self.accepted.len();
        let emitted = self.accepted.iter().sum::<usize>() + steps;
        (steps > 0).then(|| emitted as f64 / steps as f64)
    }

    /// Why it ends here, if it does.
    pub(crate) fn finished(&self, limits: &Limits, stopped: bool) -> Option<Finish> {
        if self.ids.last().is_some_and(|last| limits.end_tokens.contains(last)) {
            Some(Finish::EndToken)
        } else if self.ids.len() >= limits.max_new_tokens {
            Some(Finish::Length)
        } else {
            stopped.then_some(Finish::Stopped)
        }
    }
}
