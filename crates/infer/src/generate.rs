//! The one generation loop: requests are begun in free slots, and all that are under way take steps together.

use crate::error::DecodeError;
use crate::request::{Event, Finish, Generation, Limits, Request};
use crate::session::{Method, Session};
use crate::step::step;
use crate::timing::StepTimes;
use crate::turn::{Outcomes, StepOutcome, Turn};
use crate::verdict::first;
use gorgon_core::Token;
use gorgon_core::accept::{AcceptanceRule, RandomSource};
use gorgon_core::tree::ChainTree;
use gorgon_draft::drafter::Drafter;
use gorgon_model::decoder::ModelError;
use gorgon_model::target::Target;
use smallvec::SmallVec;
use std::ops::ControlFlow;
use std::time::Instant;

/// New tokens that the cache is made ready for, however short the prompt.
const ROWS_AHEAD: usize = 256;

/// Where the loop gets its requests and leaves its results.
pub trait Feed<'r> {
    /// Why the feed fails.
    type Error;

    /// The next request for a free slot that has read so many tokens; `None` if there is none now.
    ///
    /// # Errors
    /// Ends the loop.
    fn next(&mut self, slot: usize, read: usize) -> Result<Option<Request<'r>>, Self::Error>;

    /// Something happened in a slot; breaking ends its generation.
    fn event(&mut self, slot: usize, event: Event) -> ControlFlow<()>;

    /// A slot's generation ended.
    ///
    /// # Errors
    /// Ends the loop.
    fn finished(&mut self, slot: usize, generation: Generation) -> Result<(), Self::Error>;

    /// Decoding failed: the error that ends the loop.
    fn failed(&mut self, error: DecodeError) -> Self::Error;
}

/// Takes the steps: passes launched one by one, or a step recorded on a device.
pub(crate) trait Executor {
    /// Sequences at most.
    fn slots(&self) -> usize;

    /// Tokens that a slot has read.
    fn read(&self, slot: usize) -> usize;

    /// Tokens that fit into a slot.
    fn context(&self, slot: usize) -> usize;

    /// Reads a request's text and picks the first new token. Also says how many tokens had to be read.
    fn begin(&mut self, slot: usize, request: &mut Request<'_>) -> Result<(Token, usize), DecodeError>;

    /// One step of some slots, each named once, in increasing order.
    fn step(&mut self, turns: &mut [Turn<'_>], times: &mut StepTimes) -> Result<Outcomes, DecodeError>;
}

/// A request that is under way.
struct Running<'r> {
    request: Request<'r>,
    generation: Generation,
    since: Instant,
}

/// Serves a feed's requests until there are none left and all that were begun have ended.
pub(crate) fn run<'r, E>(executor: &mut dyn Executor, feed: &mut dyn Feed<'r, Error = E>) -> Result<(), E> {
    let mut running: SmallVec<[Option<Running<'r>>; 1]> = (0..executor.slots()).map(|_| None).collect();
    loop {
        for (slot, running) in running.iter_mut().enumerate() {
            while running.is_none() {
                let Some(request) = feed.next(slot, executor.read(slot))? else { break };
                *running = begin(executor, slot, request, feed)?;
            }
        }
        let under_way = running.iter_mut().enumerate();
        let mut turns: SmallVec<[Turn<'_>; 1]> =
            under_way.filter_map(|(slot, running)| running.as_mut()?.turn(slot)).collect();
        if turns.is_empty() {
            return Ok(());
        }
        let mut times = StepTimes::default();
        let outcomes = executor.step(&mut turns, &mut times);
        drop(turns);
        let outcomes = outcomes.map_err(|error| feed.failed(error))?;
        let under_way = running.iter_mut().enumerate().filter(|(_, running)| running.is_some());
        for ((slot, place), outcome) in under_way.zip(outcomes) {
            let Some(one) = place else { continue };
            one.generation.times += times;
            let observe = &mut |event| feed.event(slot, event);
            if let Some(finish) = emit(&mut one.generation, &one.request.limits, &outcome, observe)
                && let Some(one) = place.take()
            {
                feed.finished(slot, one.ended(finish))?;
            }
        }
    }
}

impl Running<'_> {
    /// Its part in the next step.
    fn turn(&mut self, slot: usize) -> Option<Turn<'_>> {
        let root = *self.generation.ids.last()?;
        let left = self.request.limits.max_new_tokens - self.generation.ids.len();
        let Request { limits, random, .. } = &mut self.request;
        Some(Turn { slot, root, left, end_tokens: &limits.end_tokens, random: &mut **random })
    }

    fn ended(self, finish: Finish) -> Generation {
        Generation { finish, decode_time: self.since.elapsed(), ..self.generation }
    }
}

/// Begins a request; `None` where it ends with its first token.
fn begin<'r, E>(
    executor: &mut dyn Executor,
    slot: usize,
    mut request: Request<'r>,
    feed: &mut dyn Feed<'r, Error = E>,
) -> Result<Option<Running<'r>>, E> {
    let (prompt, new) = (request.text.len(), request.limits.max_new_tokens);
    let context = executor.context(slot);
    // The last new token is emitted but never read, so it needs no room.
    if new == 0 || prompt + new - 1 > context {
        return Err(feed.failed(DecodeError::Context { prompt, new, context }));
    }
    let started = Instant::now();
    let (token, read) = executor.begin(slot, &mut request).map_err(|error| feed.failed(error))?;
    let since = Instant::now();
    let generation = Generation::begun(token, new.min(context), since - started, read);
    let running = Running { request, generation, since };
    let stopped = feed.event(slot, Event::Prefilled).is_break() | feed.event(slot, Event::Token(token)).is_break();
    match running.generation.finished(&running.request.limits, stopped) {
        None => Ok(Some(running)),
        Some(finish) => feed.finished(slot, running.ended(finish)).map(|()| None),
    }
}

/// Adds what a step emitted to a generation. Says why it ends, if it does.
fn emit(
    generation: &mut Generation,
    limits: &Limits,
    outcome: &StepOutcome,
    observe: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Option<Finish> {
    generation.accepted.push(outcome.accepted);
    generation.nodes += outcome.nodes;
    for (i, token) in outcome.tokens.iter().copied().enumerate() {
        generation.ids.push(token);
        let event = if i < outcome.accepted { Event::Drafted(token) } else { Event::Token(token) };
        let stopped = observe(event).is_break();
        if let Some(finish) = generation.finished(limits, stopped) {
            return Some(finish);
        }
    }
    None
}

/// Steps whose passes are launched one by one.
pub(crate) struct Launched<'a, T, D> {
    pub sessions: &'a mut [Session<T, D>],
    pub method: Method<'a>,
}

impl<T: Target, D: Drafter> Executor for Launched<'_, T, D> {
    fn slots(&self) -> usize {
        self.sessions.len()
    }

    fn read(&self, slot: usize) -> usize {
        self.sessions[slot].len()
    }

    fn context(&self, slot: usize) -> usize {
        self.sessions[slot].target().context()
    }

    fn begin(&mut self, slot: usize, request: &mut Request<'_>) -> Result<(Token, usize), DecodeError> {
        let session = &mut self.sessions[slot];
        // An answer may be far shorter than its limit, so the cache is made ready for one as long as the prompt.
        let ahead = request.limits.max_new_tokens.min(request.text.len().max(ROWS_AHEAD));
        let hidden = session.read(&request.text, ahead)?;
        let (position, last) = (session.len(), *request.text.last().ok_or(ModelError::EmptyPrompt)?);
        request.random.set_position(position);
        let token = first(session.target(), last, &hidden.states, self.method.rule, &mut *request.random);
        Ok((token.ok_or(DecodeError::NonFinite { slot, position })?, hidden.read))
    }

    fn step(&mut self, turns: &mut [Turn<'_>], times: &mut StepTimes) -> Result<Outcomes, DecodeError> {
        step(self.sessions, turns, self.method, times)
    }
}

impl<T: Target, D: Drafter> Session<T, D> {
    /// Continues a text with drafts; `observe` gets every token and stops the generation by breaking.
    ///
    /// With a lossless rule the text is plain decoding's (at temperature 0) or has its distribution. Tokens that a step
    /// yields beyond a limit are not emitted, but its accepted drafts count in full.
    ///
    /// # Errors
    /// When the text is empty, holds a token outside the vocabulary, or does not fit with the new tokens; when logits
    /// are no numbers or the drafter fails.
    pub fn generate(
        &mut self,
        method: Method<'_>,
        request: Request<'_>,
        observe: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Generation, DecodeError> {
        generate_one(&mut Launched { sessions: std::slice::from_mut(self), method }, request, observe)
    }
}

/// Decodes plainly behind a prompt, one token per pass: the baseline of every comparison. The text that `target` has
/// read is replaced.
///
/// # Errors
/// As of [`Session::generate`].
pub fn decode(
    target: &mut impl Target,
    prompt: &[Token],
    rule: &dyn AcceptanceRule,
    random: &mut dyn RandomSource,
    limits: &Limits,
    observe: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<Generation, DecodeError> {
    let method = Method { tree: &ChainTree::ROOT, rule };
    Session::plain(target).generate(method, Request::new(prompt, limits, random), observe)
}

/// One request and what becomes of it.
struct One<'r, 'o> {
    request: Option<Request<'r>>,
    observe: &'o mut dyn FnMut(Event) -> ControlFlow<()>,
    result: Option<Generation>,
}

impl<'r> Feed<'r> for One<'r, '_> {
    type Error = DecodeError;

    fn next(&mut self, _: usize, _: usize) -> Result<Option<Request<'r>>, DecodeError> {
        Ok(self.request.take())
    }

    fn event(&mut self, _: usize, event: Event) -> ControlFlow<()> {
        (self.observe)(event)
    }

    fn finished(&mut self, _: usize, generation: Generation) -> Result<(), DecodeError> {
        self.result = Some(generation);
        Ok(())
    }

    fn failed(&mut self, error: DecodeError) -> DecodeError {
        error
    }
}

/// Serves a single request.
pub(crate) fn generate_one(
    executor: &mut dyn Executor,
    request: Request<'_>,
    observe: &mut dyn FnMut(Event) -> ControlFlow<()>,
) -> Result<Generation, DecodeError> {
    let mut one = One { request: Some(request), observe, result: None };
    run(executor, &mut one)?;
    one.result.ok_or_else(|| ModelError::EmptyPrompt.into())
}

#[cfg(test)]
mod tests;
