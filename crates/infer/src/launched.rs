//! Steps of sessions.

use crate::error::DecodeError;
use crate::executor::{Executor, Progress};
use crate::pace::{Choice, Pace};
use crate::request::Request;
use crate::session::{ChunkOutput, Method, ReadChunk, Session};
use crate::step::step;
use crate::timing::StepTimes;
use crate::turn::{Outcomes, Turn};
use crate::verdict::first;
use gorgon_core::Token;
use gorgon_draft::drafter::Drafter;
use gorgon_model::decoder::ModelError;
use gorgon_model::target::Target;

/// New tokens that the cache is made ready for, however short the prompt.
const ROWS_AHEAD: usize = 256;

/// Steps whose passes are launched one by one.
pub(crate) struct Launched<'a, T, D> {
    pub sessions: &'a mut [Session<T, D>],
    pub method: Method<'a>,
    /// Makes a session that has read nothing; sessions are emptied where there is none.
    pub renew: Option<&'a dyn Fn() -> Session<T, D>>,
    /// Which trees pay, by the number of sequences; the method's own always if there is none.
    pub pace: Option<&'a mut Pace>,
    /// The slot that has read last, and that pass's output, where there are other slots.
    pub chunk: Option<(usize, ChunkOutput)>,
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

    fn pace(&self) -> Option<&Pace> {
        self.pace.as_deref()
    }

    fn forget(&mut self, slot: usize) {
        match self.renew {
            Some(renew) => self.sessions[slot] = renew(),
            None => self.sessions[slot].reset(),
        }
    }

    fn finished(&mut self, slot: usize, answer: &[Token]) {
        self.sessions[slot].drafter().finished(answer);
    }

    fn read_on(&mut self, slot: usize, request: &mut Request<'_>) -> Result<Progress, DecodeError> {
        self.chunk = None;
        let (chunk, output) = self.sessions[slot].read_shared(&request.text, ahead(request))?;
        let shares = self.sessions.len() > 1 && self.sessions[slot].target().is_host();
        self.chunk = output.filter(|_| shares).map(|output| (slot, output));
        Ok(Progress { read: chunk.read, first: self.first_of(slot, chunk, request)? })
    }

    fn read_along(&mut self, slot: usize, request: &mut Request<'_>) -> Result<Option<Progress>, DecodeError> {
        let Some((leader, output)) = &self.chunk else { return Ok(None) };
        let Ok([other, session]) = self.sessions.get_disjoint_mut([*leader, slot]) else { return Ok(None) };
        let chunk = session.read_along(other, output, &request.text, ahead(request))?;
        chunk.map(|chunk| Ok(Progress { read: 0, first: self.first_of(slot, chunk, request)? })).transpose()
    }

    fn step(&mut self, turns: &mut [Turn<'_>], times: &mut StepTimes) -> Result<Outcomes, DecodeError> {
        self.chunk = None;
        // A step in which some are not drafted says little about drafting.
        let pace = self.pace.as_deref_mut().filter(|_| turns.iter().all(|turn| turn.drafts));
        let Some(pace) = pace else { return step(self.sessions, turns, self.method, times) };
        let sequences = turns.len();
        let choice = pace.choose(sequences);
        let tree = pace.tree(choice).unwrap_or(self.method.tree);
        if choice == Choice::Plain {
            turns.iter_mut().for_each(|turn| turn.drafts = false);
        }
        let outcomes = step(self.sessions, turns, Method { tree, ..self.method }, times)?;
        let tokens = outcomes.iter().map(|outcome| outcome.tokens.len()).sum();
        pace.record(sequences, choice, times.total(), tokens);
        Ok(outcomes)
    }
}

impl<T: Target, D: Drafter> Launched<'_, T, D> {
    /// The first new token behind a chunk; `None` while there is more to read.
    fn first_of(&self, slot: usize, chunk: ReadChunk, request: &mut Request<'_>) -> Result<Option<Token>, DecodeError> {
        let Some(states) = chunk.states else { return Ok(None) };
        let session = &self.sessions[slot];
        let (position, last) = (session.len(), *request.text.last().ok_or(ModelError::EmptyPrompt)?);
        request.random.set_position(position);
        let rule = request.rule.as_deref().unwrap_or(self.method.rule);
        let token = first(session.target(), last, &states, rule, &mut *request.random);
        token.ok_or(DecodeError::NonFinite { slot, position }).map(Some)
    }
}

/// New tokens that the cache is made ready for. An answer may be far shorter than its limit, so these are as many as the
/// prompt has.
fn ahead(request: &Request<'_>) -> usize {
    request.limits.max_new_tokens.min(request.text.len().max(ROWS_AHEAD))
}
