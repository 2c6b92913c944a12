//! Answers with their numbers.

use crate::units;
use gorgon_core::Token;
use gorgon_infer::Finish;
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

/// A piece of an answer's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The text.
    pub text: String,
    /// Whether it was drafted and accepted.
    pub drafted: bool,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Its text, as it came.
    pub pieces: Vec<Piece>,
    /// Its tokens, an end token included.
    pub ids: Vec<Token>,
    /// Drafted tokens accepted in each step.
    pub accepted: Vec<usize>,
    /// Why it ended.
    pub finish: Finish,
    /// Time from the first token to the last one.
    pub decode_time: Duration,
    /// The part of it that steps took; the rest went into showing text.
    pub step_time: Duration,
    /// Time to the first token.
    pub prefill_time: Duration,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the prompt that were read for this answer. The others were in the cache.
    pub read_tokens: usize,
    /// Tokens that fit the context.
    pub context: usize,
    /// Oldest turns that the prompt leaves out.
    pub trimmed_turns: usize,
    /// Whether drafts were made.
    pub drafted: bool,
    /// Whether the text is, or is distributed as, plain decoding's.
    pub lossless: bool,
    /// Time of a plain step at the end of this text, where it was measured.
    pub plain_step: Option<Duration>,
}

impl Answer {
    /// The text.
    pub fn text(&self) -> String {
        self.pieces.iter().map(|piece| piece.text.as_str()).collect()
    }

    /// Tokens of the prompt that were in the cache.
    pub fn cached_tokens(&self) -> usize {
        self.prompt_tokens - self.read_tokens.min(self.prompt_tokens)
    }

    /// Tokens that steps emitted: all but the first one, which comes from the prompt's pass.
    fn decoded(&self) -> f64 {
        self.ids.len().saturating_sub(1) as f64
    }

    /// Tokens per second of decoding; `None` of an answer without a step.
    pub fn tokens_per_second(&self) -> Option<f64> {
        rate(self.decoded(), self.decode_time)
    }

    /// Mean tokens per step.
    pub fn tokens_per_step(&self) -> Option<f64> {
        per_step(&self.accepted)
    }

    /// How many times as fast its steps were as plain steps of the measured length. A drafted step takes at least as long
    /// as a plain one, so it is no more than the tokens per step, whatever disturbed the measurement.
    pub fn speedup(&self) -> Option<f64> {
        let plain = self.plain_step.filter(|_| self.drafted)?;
        Some((rate(self.decoded(), self.step_time)? * plain.as_secs_f64()).min(self.tokens_per_step()?))
    }

    /// For programs.
    pub fn document(&self) -> Value {
        json!({
            "text": self.text(),
            "ids": self.ids,
            "steps": self.accepted.len(),
            "accepted": self.accepted,
            "tokens_per_step": self.tokens_per_step(),
            "tokens_per_second": self.tokens_per_second(),
            "speedup": self.speedup(),
            "seconds": self.decode_time.as_secs_f64(),
            "prefill_seconds": self.prefill_time.as_secs_f64(),
            "prompt_tokens": self.prompt_tokens,
            "prompt_tokens_read": self.read_tokens,
            "cached_tokens": self.cached_tokens(),
            "trimmed_turns": self.trimmed_turns,
            "finish": self.finish.name(),
        })
    }
}

fn rate(tokens: f64, time: Duration) -> Option<f64> {
    let seconds = time.as_secs_f64();
    (tokens > 0.0 && seconds > 0.0).then(|| tokens / seconds)
}

fn per_step(accepted: &[usize]) -> Option<f64> {
    let emitted = accepted.iter().sum::<usize>() + accepted.len();
    (!accepted.is_empty()).then(|| emitted as f64 / accepted.len() as f64)
}

/// Steps of an answer from which its speed is compared with plain decoding's.
const LEAST_STEPS: usize = 8;

/// The status line: `[34 tokens, 412 tokens/s, 2.31 tokens per step, 1.84 × plain · prompt: 12 new, 310 cached]`.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}", units::of(self.ids.len(), "token"))?;
        if self.finish == Finish::Length {
            f.write_str(" (cut off)")?;
        }
        if let Some(speed) = self.tokens_per_second() {
            write!(f, ", {speed:.0} tokens/s")?;
        }
        match self.tokens_per_step() {
            Some(tau) if self.drafted => write!(f, ", {tau:.2} tokens per step")?,
            _ if !self.drafted => write!(f, ", no drafts")?,
            _ => {}
        }
        // The time of a few steps says little.
        if let Some(speedup) = self.speedup().filter(|_| self.accepted.len() >= LEAST_STEPS) {
            write!(f, ", {speedup:.2} × plain")?;
        }
        if !self.lossless {
            write!(f, ", not lossless")?;
        }
        write!(f, " · prompt: {} new, {} cached", self.read_tokens, self.cached_tokens())?;
        if self.trimmed_turns > 0 {
            write!(f, ", {} left out", units::of(self.trimmed_turns, "old turn"))?;
        }
        write!(f, "]")
    }
}

/// Two answers to one prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// By plain decoding.
    pub plain: Answer,
    /// With drafts.
    pub drafted: Answer,
}

impl Comparison {
    /// Whether both have the same tokens.
    pub fn same_text(&self) -> bool {
        self.plain.ids == self.drafted.ids
    }

    /// How many times as many tokens per second with drafts.
    pub fn speedup(&self) -> Option<f64> {
        let speed = |answer: &Answer| rate(answer.decoded(), answer.step_time);
        Some(speed(&self.drafted)? / speed(&self.plain)?)
    }

    /// For programs.
    pub fn document(&self) -> Value {
        json!({
            "plain": self.plain.document(),
            "drafted": self.drafted.document(),
            "same_text": self.same_text(),
            "speedup": self.speedup(),
        })
    }
}

/// `plain 0.412 s, drafted 0.201 s: 2.05 times as fast, the same text`.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |answer: &Answer| answer.step_time.as_secs_f64();
        write!(f, "plain {:.3} s, drafted {:.3} s: ", seconds(&self.plain), seconds(&self.drafted))?;
        if let Some(speedup) = self.speedup() {
            write!(f, "{speedup:.2} times as fast, ")?;
        }
        f.write_str(if self.same_text() { "the same text" } else { "another text" })
    }
}

/// Totals of a chat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    answers: usize,
    tokens: usize,
    decoded: f64,
    time: Duration,
    accepted: Vec<usize>,
    drafted_seconds: f64,
    plain_seconds: f64,
    read: usize,
    cached: usize,
}

impl Totals {
    /// Adds an answer.
    pub fn add(&mut self, answer: &Answer) {
        self.answers += 1;
        self.tokens += answer.ids.len();
        self.decoded += answer.decoded();
        self.time += answer.decode_time;
        self.read += answer.read_tokens;
        self.cached += answer.cached_tokens();
        if answer.drafted {
            self.accepted.extend(&answer.accepted);
        }
        if let Some(plain) = answer.plain_step.filter(|_| answer.drafted) {
            self.drafted_seconds += answer.step_time.as_secs_f64();
            self.plain_seconds += answer.decoded() * plain.as_secs_f64();
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", units::of(self.answers, "answer"), units::of(self.tokens, "token"))?;
        if let Some(speed) = rate(self.decoded, self.time) {
            write!(f, ", {speed:.0} tokens/s")?;
        }
        if let Some(tau) = per_step(&self.accepted) {
            write!(f, ", {tau:.2} tokens per step")?;
        }
        if self.drafted_seconds > 0.0 {
            write!(f, ", {:.2} × plain", self.plain_seconds / self.drafted_seconds)?;
        }
        write!(f, "\nprompts: {} tokens read, {} taken from the cache", self.read, self.cached)
    }
}

#[cfg(test)]
mod tests;
