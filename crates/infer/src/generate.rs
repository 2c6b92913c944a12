//! The one generation loop: requests are begun in free slots, and all that are under way take steps together.

use crate::error::DecodeError;
use crate::executor::Executor;
use crate::launched::Launched;
use crate::pace::Pace;
use crate::request::{Event, Finish, Generation, Limits, Request};
use crate::session::{Method, Session};
use crate::timing::StepTimes;
use crate::turn::{StepOutcome, Turn};
use gorgon_core::Token;
use gorgon_core::accept::{AcceptanceRule, RandomSource};
use gorgon_core::tree::ChainTree;
use gorgon_draft::drafter::Drafter;
use gorgon_model::decoder::ModelError;
use gorgon_model::target::{PREFILL_CHUNK, Target};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Instant;

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

    /// Whether what a free slot has read is to be forgotten, and its memory freed. Asked before [`next`](Self::next).
    fn forgets(&mut self, _slot: usize) -> bool {
        false
    }

    /// Whether the request whose text a slot is reading is still wanted. Asked before each chunk; a request that is not
    /// ends without a token.
    fn wanted(&mut self, _slot: usize) -> bool {
        true
    }

    /// True if a generation that the feed has stopped is a whole answer, as at a stop string. Asked once, before
    /// [`finished`](Self::finished).
    fn is_answer(&mut self, _slot: usize) -> bool {
        false
    }

    /// A slot's part in a step, before its events.
    fn stepped(&mut self, _slot: usize, _outcome: &StepOutcome) {}

    /// A step of so many sequences was taken. `pace` knows how fast steps are, where trees are chosen by that.
    fn measured(&mut self, _sequences: usize, _times: &StepTimes, _pace: Option<&Pace>) {}
}

/// A request that is under way.
struct Running<'r> {
    request: Request<'r>,
    /// When it was begun, or its first token was there.
    since: Instant,
    /// Tokens of its text that had to be read so far.
    read: usize,
    /// Its tokens so far; `None` while its text is read.
    generation: Option<Generation>,
}

/// The requests that are under way, by slot.
type Slots<'r> = SmallVec<[Option<Running<'r>>; 1]>;

/// Serves a feed's requests until there are none left and all that were begun have ended.
///
/// Between two steps of the sequences that have their first token, at most [`PREFILL_CHUNK`] tokens of other requests'
/// texts are read, give or take one chunk. Texts are read in turns, a chunk at a time, so that a long one does not keep
/// short ones waiting.
pub(crate) fn run<'r, E>(executor: &mut dyn Executor, feed: &mut dyn Feed<'r, Error = E>) -> Result<(), E> {
    let mut slots: Slots<'r> = (0..executor.slots()).map(|_| None).collect();
    let mut reading: VecDeque<usize> = VecDeque::new();
    loop {
        let begun = fill(executor, feed, &mut slots, &mut reading)?;
        read(executor, feed, &mut slots, &mut reading)?;
        let under_way = slots.iter_mut().enumerate();
        let mut turns: SmallVec<[Turn<'_>; 1]> =
            under_way.filter_map(|(slot, running)| running.as_mut()?.turn(slot)).collect();
        if turns.is_empty() {
            if begun || !reading.is_empty() {
                continue;
            }
            return Ok(());
        }
        let (mut times, sequences) = (StepTimes::default(), turns.len());
        let outcomes = executor.step(&mut turns, &mut times);
        drop(turns);
        let outcomes = outcomes.map_err(|error| feed.failed(error))?;
        feed.measured(sequences, &times, executor.pace());
        let decoding = |running: &&mut Option<Running<'r>>| running.as_ref().is_some_and(Running::decodes);
        let under_way = slots.iter_mut().enumerate().filter(|(_, running)| decoding(running));
        for ((slot, place), outcome) in under_way.zip(outcomes) {
            feed.stepped(slot, &outcome);
            let Some(Running { request, generation: Some(generation), since, .. }) = place else { continue };
            generation.times += times;
            let observe = &mut |event| feed.event(slot, event);
            if let Some(finish) = emit(generation, &request.limits, &outcome, observe) {
                generation.decode_time = since.elapsed();
                generation.finish = finish;
                finished((executor, feed), slot, place)?;
            }
        }
    }
}

/// Gives free slots requests. Says whether there were any.
fn fill<'r, E>(
    executor: &mut dyn Executor,
    feed: &mut dyn Feed<'r, Error = E>,
    slots: &mut Slots<'r>,
    reading: &mut VecDeque<usize>,
) -> Result<bool, E> {
    let mut begun = false;
    for (slot, place) in slots.iter_mut().enumerate().filter(|(_, place)| place.is_none()) {
        if feed.forgets(slot) {
            executor.forget(slot);
        }
        let Some(request) = feed.next(slot, executor.read(slot))? else { continue };
        let (prompt, new) = (request.text.len(), request.limits.max_new_tokens);
        let context = executor.context(slot);
        // The last new token is emitted but never read, so it needs no room.
        if new == 0 || prompt + new - 1 > context {
            return Err(feed.failed(DecodeError::Context { prompt, new, context }));
        }
        *place = Some(Running { request, since: Instant::now(), read: 0, generation: None });
        reading.push_back(slot);
        begun = true;
    }
    Ok(begun)
}

/// Reads on in the texts of requests that were begun, in turns. A request may end with its first token. Requests that go
/// on with the chunk that one has read, such as several answers to one prompt, take it over.
fn read<'r, E>(
    executor: &mut dyn Executor,
    feed: &mut dyn Feed<'r, Error = E>,
    slots: &mut Slots<'r>,
    reading: &mut VecDeque<usize>,
) -> Result<(), E> {
    let mut left = PREFILL_CHUNK;
    while left > 0
        && let Some(slot) = reading.pop_front()
    {
        let Some(running) = slots[slot].as_mut() else { continue };
        if !feed.wanted(slot) {
            running.generation = Some(Generation::stopped(running.since.elapsed(), running.read));
            finished((executor, feed), slot, &mut slots[slot])?;
            continue;
        }
        let progress = executor.read_on(slot, &mut running.request).map_err(|error| feed.failed(error))?;
        running.read += progress.read;
        left = left.saturating_sub(progress.read);
        for _ in 0..reading.len() {
            let Some(other) = reading.pop_front() else { break };
            let Some(running) = slots[other].as_mut().filter(|_| feed.wanted(other)) else {
                // Its turn stops it, or it has no request.
                reading.push_back(other);
                continue;
            };
            let along = executor.read_along(other, &mut running.request).map_err(|error| feed.failed(error))?;
            match along.and_then(|along| along.first) {
                Some(token) => begin(executor, feed, (other, &mut slots[other]), token)?,
                None => reading.push_back(other),
            }
        }
        match progress.first {
            Some(token) => begin(executor, feed, (slot, &mut slots[slot]), token)?,
            None => reading.push_back(slot),
        }
    }
    Ok(())
}

/// A request whose text was read has its first token.
fn begin<'r, E>(
    executor: &mut dyn Executor,
    feed: &mut dyn Feed<'r, Error = E>,
    (slot, place): (usize, &mut Option<Running<'r>>),
    token: Token,
) -> Result<(), E> {
    let Some(running) = place.as_mut() else { return Ok(()) };
    let limits = &running.request.limits;
    let most = limits.max_new_tokens.min(executor.context(slot));
    let mut generation = Generation::begun(token, most, running.since.elapsed(), running.read);
    running.since = Instant::now();
    let stopped = feed.event(slot, Event::Prefilled).is_break() | feed.event(slot, Event::Token(token)).is_break();
    let finish = generation.finished(limits, stopped);
    generation.finish = finish.unwrap_or(generation.finish);
    running.generation = Some(generation);
    match finish {
        Some(_) => finished((executor, feed), slot, place),
        None => Ok(()),
    }
}

/// Hands over a generation that has ended, and frees its slot.
fn finished<'r, E>(
    (executor, feed): (&mut dyn Executor, &mut dyn Feed<'r, Error = E>),
    slot: usize,
    place: &mut Option<Running<'r>>,
) -> Result<(), E> {
    let Some(generation) = place.take().and_then(|running| running.generation) else { return Ok(()) };
    let is_answer = generation.finish != Finish::Stopped || feed.is_answer(slot);
    if is_answer && !generation.ids.is_empty() {
        executor.finished(slot, &generation.ids);
    }
    feed.finished(slot, generation)
}

impl Running<'_> {
    /// Whether it takes part in steps.
    fn decodes(&self) -> bool {
        self.generation.is_some()
    }

    /// Its part in the next step.
    fn turn(&mut self, slot: usize) -> Option<Turn<'_>> {
        let generation = self.generation.as_ref()?;
        let root = *generation.ids.last()?;
        let left = self.request.limits.max_new_tokens - generation.ids.len();
        let Request { limits, random, rule, drafts, .. } = &mut self.request;
        let (rule, drafts) = (rule.as_deref(), *drafts);
        Some(Turn { slot, root, left, end_tokens: &limits.end_tokens, random: &mut **random, rule, drafts })
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
        let sessions = std::slice::from_mut(self);
        generate_one(&mut Launched { sessions, method, renew: None, pace: None, chunk: None }, request, observe)
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
