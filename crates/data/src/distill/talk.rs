//! A conversation being answered in a slot of a batch.

use super::job::{Answering, DistillError, END_TOKEN, Event, LENGTH, Prompt, wrong};
use super::journal::{Answer, Journal};
use crate::render::{Renderer, Transcript};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_infer::batch::{Batch, BatchError, Turn};

/// A conversation in a slot.
pub(super) struct Talk<'a> {
    pub prompt: &'a Prompt,
    pub transcript: Transcript<'a>,
    pub turn: usize,
    /// What the model made up for the user, after the given turns.
    pub made_up: Vec<String>,
    /// Whether the tokens in the making are a user's turn, not an answer.
    pub asking: bool,
    pub answer: Vec<Token>,
    pub random: SeededRandom,
    /// How the last answer ended.
    pub last_end: &'static str,
}

impl Talk<'_> {
    /// The user's part of a turn, if there is one yet.
    pub fn user(&self, turn: usize) -> Option<&str> {
        let given = &self.prompt.users;
        given.get(turn).or_else(|| self.made_up.get(turn.checked_sub(given.len())?)).map(String::as_str)
    }

    /// An error with the prompt at which it came up.
    pub fn placed(&self, error: BatchError) -> DistillError {
        match error {
            BatchError::NonFinite { .. } => {
                DistillError::NonFinite { source_file: self.prompt.source.clone(), line: self.prompt.line }
            }
            error => error.into(),
        }
    }

    /// Takes over what a step emitted.
    pub fn emit(&mut self, tokens: &[Token]) {
        self.answer.extend_from_slice(tokens);
    }
}

/// What is the same for all conversations.
pub(super) struct Work<'a> {
    pub renderer: &'a Renderer,
    pub answering: &'a Answering<'a>,
    pub capacity: usize,
}

impl<'a> Work<'a> {
    /// A conversation with the answers that the journal has.
    pub fn open(&self, prompt: &'a Prompt, journal: &Journal) -> Result<Talk<'a>, DistillError> {
        let transcript = self.renderer.transcript(prompt.system.as_deref());
        // Without a template there is no system prompt to be had; the prompts were checked for that.
        let transcript = match transcript {
            Ok(transcript) => transcript,
            Err(_) => self.renderer.transcript(None).map_err(|e| wrong(prompt, &e))?,
        };
        let random = SeededRandom::new(0);
        let (made_up, answer) = (vec![], vec![]);
        let mut talk =
            Talk { prompt, transcript, turn: 0, made_up, asking: false, answer, random, last_end: END_TOKEN };
        for answer in journal.answers(prompt.row) {
            talk.made_up.extend(answer.user.clone());
            let Some(user) = talk.user(talk.turn).map(str::to_owned) else { break };
            if talk.transcript.ask(&user).and_then(|()| talk.transcript.answer_ids(&answer.ids)).is_err() {
                break;
            }
            talk.last_end = if answer.end == LENGTH { LENGTH } else { END_TOKEN };
            talk.turn += 1;
        }
        Ok(talk)
    }

    /// Begins the next answer, if there is another turn that fits; a conversation without one is done.
    pub fn go_on(
        &self,
        mut talk: Talk<'a>,
        slot: usize,
        batch: &mut Batch<'_>,
        journal: &mut Journal,
        observe: &mut dyn FnMut(Event),
    ) -> Result<Option<Talk<'a>>, DistillError> {
        loop {
            if let Err(why) = self.begin(&mut talk, slot, batch)? {
                journal.done(talk.prompt.row, why)?;
                observe(Event::Conversation { row: talk.prompt.row, slot: Some((slot, batch.len(slot))) });
                return Ok(None);
            }
            match self.ended(&talk) {
                None => return Ok(Some(talk)),
                Some(end) => self.finish(&mut talk, end, slot, batch, journal, observe)?,
            }
        }
    }

    /// Reads up to where the next answer (or the next user's turn to be made up) begins, and picks its first token. The
    /// inner error says why there is none, if a reason is worth telling.
    fn begin(
        &self,
        talk: &mut Talk<'a>,
        slot: usize,
        batch: &mut Batch<'_>,
    ) -> Result<Result<(), Option<String>>, DistillError> {
        // An answer that was cut off leaves nothing to reply to.
        if talk.last_end == LENGTH {
            return Ok(Err(None));
        }
        let user = talk.user(talk.turn).map(str::to_owned);
        let last_turn = talk.prompt.users.len() + self.answering.self_talk_turns;
        let asked = match &user {
            Some(user) => talk.transcript.ask(user).map(|()| vec![]),
            None if talk.turn < last_turn => talk.transcript.user_opening(),
            None => return Ok(Err(None)),
        };
        let opening = match asked {
            Ok(opening) => opening,
            Err(error) => return Ok(Err(Some(error.to_string()))),
        };
        let unread = [&talk.transcript.example().ids[batch.len(slot)..], &opening].concat();
        let length = batch.len(slot) + unread.len();
        if length + 1 > self.capacity {
            return Ok(Err(Some(format!("no room for turn {} in {} tokens", talk.turn + 1, self.capacity))));
        }
        talk.answer.clear();
        talk.asking = user.is_none();
        let stream = talk.prompt.row << 16 | (talk.turn as u64) << 1 | u64::from(talk.asking);
        talk.random = SeededRandom::stream(self.answering.seed, stream);
        let first = batch.prefill(slot, &unread, self.answering.rule, &mut talk.random);
        talk.answer.push(first.map_err(|error| talk.placed(error))?);
        Ok(Ok(()))
    }

    /// Its part in the next step.
    pub fn turn<'t>(&self, slot: usize, talk: &'t mut Talk<'_>) -> Option<Turn<'t>> {
        let (root, said) = (*talk.answer.last()?, talk.answer.len());
        let room = self.capacity.saturating_sub(talk.transcript.example().ids.len() + said);
        let left = room.min(self.answering.max_new_tokens.saturating_sub(said));
        Some(Turn { slot, root, left, random: &mut talk.random })
    }

    pub fn ended(&self, talk: &Talk<'_>) -> Option<&'static str> {
        let full = talk.transcript.example().ids.len() + talk.answer.len() >= self.capacity;
        if talk.answer.last().is_some_and(|last| self.renderer.end_tokens().contains(last)) {
            Some(END_TOKEN)
        } else if full || talk.answer.len() >= self.answering.max_new_tokens {
            Some(LENGTH)
        } else {
            None
        }
    }

    pub fn finish(
        &self,
        talk: &mut Talk<'_>,
        end: &'static str,
        slot: usize,
        batch: &mut Batch<'_>,
        journal: &mut Journal,
        observe: &mut dyn FnMut(Event),
    ) -> Result<(), DistillError> {
        let mut ids = std::mem::take(&mut talk.answer);
        if talk.asking {
            ids.truncate(ids.len() - usize::from(end == END_TOKEN));
            let text = self.renderer.text().decode(&ids, true).map_err(|e| wrong(talk.prompt, &e.into()))?;
            // What was made up is read again as any user's turn would be, so its own tokens are dropped.
            batch.truncate(slot, talk.transcript.example().ids.len());
            talk.asking = false;
            match text.trim() {
                "" => talk.last_end = LENGTH,
                text => talk.made_up.push(text.to_owned()),
            }
            return Ok(());
        }
        talk.transcript.answer_ids(&ids).map_err(|error| wrong(talk.prompt, &error))?;
        observe(Event::Answer { row: talk.prompt.row, tokens: ids.len() });
        let made_up = talk.turn.checked_sub(talk.prompt.users.len()).and_then(|i| talk.made_up.get(i)).cloned();
        journal.answer(Answer {
            row: talk.prompt.row,
            turn: talk.turn,
            ids,
            end: end.into(),
            user: made_up,
            retokenised: false,
        })?;
        (talk.turn, talk.last_end) = (talk.turn + 1, end);
        Ok(())
    }
}
