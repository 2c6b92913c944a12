//! Answers on their way from the engine to a client.
//!
//! The engine never waits for a client. What a slow one has not taken stays here, which is bounded twice: an answer has
//! at most so many tokens, and a client that is [`MOST_BYTES`] behind is given up.

use crate::api::error::ApiError;
use gorgon_core::Token;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Bytes that a client may be behind.
const MOST_BYTES: usize = 8 << 20;
/// Bytes that an event takes beside its text.
const EVENT_BYTES: usize = 64;

/// Something that the engine says about an answer.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// More of its text.
    Piece(Piece),
    /// It ended.
    End(End),
    /// It failed, and with it the request.
    Failed(ApiError),
}

/// A piece of an answer: what one or several tokens added.
#[derive(Clone, Debug, Default)]
pub(crate) struct Piece {
    /// Which of the request's answers.
    pub index: usize,
    pub text: String,
    /// Whether it was drafted and accepted.
    pub drafted: bool,
    pub ids: Vec<Token>,
    /// Of each of the ids, where they were asked for.
    pub logprobs: Vec<Logprob>,
}

/// The log-probability of a token under the model, before temperature, top-k and top-p.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Logprob {
    pub token: Token,
    pub logprob: f64,
    /// The most likely tokens, best first.
    pub top: Vec<(Token, f64)>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// By an end token or a stop string.
    Stop,
    /// It has as many tokens as it may.
    Length,
}

/// The end of an answer.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub index: usize,
    pub reason: Reason,
    pub stats: Stats,
}

/// Numbers of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stats {
    /// Tokens of the prompt, and those of them that had to be read.
    pub prompt: usize,
    pub read: usize,
    /// New tokens.
    pub tokens: usize,
    pub steps: usize,
    /// Drafted tokens, and those that became text.
    pub drafted: usize,
    pub accepted: usize,
    pub prefill_time: Duration,
    pub decode_time: Duration,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Event>,
    bytes: usize,
    waker: Option<Waker>,
    /// Whether the client takes the answer in one piece.
    whole: bool,
    closed: bool,
}

/// The engine's side of an outbox.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sender(Arc<Mutex<State>>);

/// The client's side of an outbox. Dropping it ends the answers.
#[derive(Debug)]
pub(crate) struct Receiver(Arc<Mutex<State>>);

/// A new outbox.
pub(crate) fn outbox() -> (Sender, Receiver) {
    let state = Arc::new(Mutex::new(State::default()));
    (Sender(state.clone()), Receiver(state))
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sender {
    /// Leaves an event. False where nobody will take it.
    pub fn send(&self, event: Event) -> bool {
        let mut state = lock(&self.0);
        if state.closed {
            return false;
        }
        let bytes = size(&event);
        if state.bytes + bytes > MOST_BYTES {
            state.closed = true;
            state.events.clear();
            state.events.push_back(Event::Failed(ApiError::slow()));
        } else {
            state.bytes += bytes;
            state.events.push_back(event);
        }
        // A wake costs the engine a system call, and a decoding core for as long as the task runs.
        let waits = state.whole && state.bytes < MOST_BYTES / 2 && matches!(state.events.back(), Some(Event::Piece(_)));
        let (open, waker) = (!state.closed, if waits { None } else { state.waker.take() });
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        open
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_closed(&self) -> bool {
        lock(&self.0).closed
    }
}

impl Receiver {
    /// Is woken only when an answer ends or much waits, for a client that takes the answer in one piece.
    pub fn whole(self) -> Self {
        lock(&self.0).whole = true;
        self
    }

    /// The next event, once there is one.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        let mut state = lock(&self.0);
        match state.events.pop_front() {
            Some(event) => {
                state.bytes = state.bytes.saturating_sub(size(&event));
                Poll::Ready(event)
            }
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Waits for the next event.
    pub async fn next(&mut self) -> Event {
        poll_fn(|context| self.poll(context)).await
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        state.closed = true;
        state.events.clear();
    }
}

/// Bytes of an event.
fn size(event: &Event) -> usize {
    match event {
        Event::Piece(piece) => {
            let tops: usize = piece.logprobs.iter().map(|one| EVENT_BYTES + 16 * one.top.len()).sum();
            EVENT_BYTES + piece.text.len() + 4 * piece.ids.len() + tops
        }
        Event::End(_) | Event::Failed(_) => EVENT_BYTES,
    }
}

#[cfg(test)]
mod tests;
