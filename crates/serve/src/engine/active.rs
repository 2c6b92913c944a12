//! An answer that is being decoded.

use super::logged::{Log, Logged};
use super::text::Text;
use crate::api::error::ApiError;
use crate::job::Job;
use crate::outbox::{End, Event, Piece, Reason, Sender, Stats};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, RuleChoice};
use gorgon_infer::{Finish, Generation, Limits, Request, StepOutcome};
use gorgon_text::tokenizer::Tokenizer;
use std::sync::Arc;
use std::time::Instant;

/// Why an answer is not continued.
#[derive(Clone, Debug)]
pub(super) enum Broken {
    /// Nobody waits for it.
    Cancelled,
    /// The request fails.
    Failed(ApiError),
}

/// An answer that is being decoded.
pub(super) struct Active {
    pub job: Job,
    text: Text,
    log: Option<Log>,
    /// Text of the step that is under way.
    pieces: Vec<Piece>,
    pub broken: Option<Broken>,
    drafted: usize,
    accepted: usize,
}

impl Active {
    /// Begins an answer.
    pub fn new(job: Job, tokenizer: &Tokenizer) -> Self {
        let text = Text::new(tokenizer.stream(true), job.stop.clone());
        let log = job.logprobs.map(|_| Log::default());
        Self { job, text, log, pieces: vec![], broken: None, drafted: 0, accepted: 0 }
    }

    /// The answer as the loop takes it. Its noise depends on seed, prompt and sample alone.
    pub fn request(&self) -> Request<'static> {
        let job = &self.job;
        let rule: Box<dyn AcceptanceRule> = RuleChoice::Auto.rule(job.transform);
        let rule: Arc<dyn AcceptanceRule> = match (&self.log, job.logprobs) {
            (Some(log), Some(top)) => Arc::new(Logged { inner: rule, top, log: log.clone() }),
            _ => Arc::from(rule),
        };
        let limits = Limits { max_new_tokens: job.max_new_tokens, end_tokens: job.end_tokens.clone() };
        let random = SeededRandom::behind(job.seed, &job.prompt, job.sample as u64);
        Request { rule: Some(rule), drafts: job.drafts, ..Request::new(&job.prompt, &limits, random) }
    }

    /// Whether it may go on.
    pub fn check(&mut self, abandoned: bool) -> bool {
        if self.broken.is_none() && self.job.outbox.is_closed() {
            self.broken = Some(Broken::Cancelled);
        } else if self.broken.is_none() && abandoned {
            self.broken = Some(Broken::Failed(ApiError::stopping()));
        } else if self.broken.is_none() && Instant::now() > self.job.deadline {
            let seconds = self.job.deadline.saturating_duration_since(self.job.arrived).as_secs();
            self.broken = Some(Broken::Failed(ApiError::late(seconds)));
        }
        self.broken.is_none()
    }

    /// Takes note of its part in a step.
    pub fn stepped(&mut self, outcome: &StepOutcome) {
        self.drafted += outcome.nodes - 1;
    }

    /// Takes a token; false where nothing is to follow.
    pub fn push(&mut self, token: Token, drafted: bool) -> bool {
        self.accepted += usize::from(drafted);
        let logprobs: Vec<_> = self.log.as_ref().and_then(Log::take).into_iter().collect();
        let is_end = self.job.end_tokens.contains(&token);
        let text = match if is_end { Ok(String::new()) } else { self.text.push(token) } {
            Ok(text) => text,
            Err(error) => {
                self.broken = Some(Broken::Failed(ApiError::server(error)));
                return false;
            }
        };
        let index = self.job.index;
        // An end token is no part of the text, and has no log-probability there.
        let logprobs = if is_end { vec![] } else { logprobs };
        match self.pieces.last_mut().filter(|last| last.drafted == drafted) {
            Some(last) => {
                last.text.push_str(&text);
                last.ids.push(token);
                last.logprobs.extend(logprobs);
            }
            None => self.pieces.push(Piece { index, text, drafted, ids: vec![token], logprobs }),
        }
        !self.text.is_stopped()
    }

    /// Whether it has ended at a stop string.
    pub fn is_stopped(&self) -> bool {
        self.text.is_stopped() && self.broken.is_none()
    }

    /// Sends what a step has added.
    pub fn flush(&mut self) {
        for piece in self.pieces.drain(..) {
            if !self.job.outbox.send(Event::Piece(piece)) {
                self.broken.get_or_insert(Broken::Cancelled);
            }
        }
    }

    /// Ends it: sends what is left of its text, and returns its last event.
    pub fn finish(mut self, generation: &Generation) -> Ended {
        if self.broken.is_none() {
            match self.text.finish() {
                Ok(text) if text.is_empty() => {}
                Ok(text) => self.pieces.push(Piece { index: self.job.index, text, ..Piece::default() }),
                Err(error) => self.broken = Some(Broken::Failed(ApiError::server(error))),
            }
        }
        self.flush();
        let last = match &self.broken {
            None => Some(Event::End(self.end(generation))),
            Some(Broken::Failed(error)) => Some(Event::Failed(error.clone())),
            Some(Broken::Cancelled) => None,
        };
        Ended { broken: self.broken, last, outbox: self.job.outbox }
    }

    fn end(&self, generation: &Generation) -> End {
        let stats = Stats {
            // Several answers to a prompt are asked with one prompt.
            prompt: if self.job.sample == 0 { self.job.prompt.len() } else { 0 },
            read: generation.read,
            tokens: generation.ids.len(),
            steps: generation.accepted.len(),
            drafted: self.drafted,
            accepted: self.accepted,
            prefill_time: generation.prefill_time,
            decode_time: generation.decode_time,
        };
        let is_full = generation.finish == Finish::Length && !self.text.is_stopped();
        let reason = if is_full { Reason::Length } else { Reason::Stop };
        End { index: self.job.index, reason, stats }
    }
}

/// An answer that has ended, before its client knows.
pub(super) struct Ended {
    pub broken: Option<Broken>,
    /// The event that its client is told.
    last: Option<Event>,
    outbox: Sender,
}

impl Ended {
    /// Tells its client.
    pub fn tell(self) {
        if let Some(last) = self.last {
            self.outbox.send(last);
        }
    }
}
