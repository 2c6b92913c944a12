//! A conversation that is answered turn by turn.

use super::job::{Answering, DistillError, END_TOKEN, Event, LENGTH, Prompt, wrong};
use super::journal::{Answer, Journal};
use crate::render::{Renderer, Transcript};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_infer::{Finish, Limits, Request};

/// A conversation with the answers that it has so far.
pub(super) struct Conversation<'a> {
    pub prompt: &'a Prompt,
    pub transcript: Transcript<'a>,
    pub turn: usize,
    /// The user's turns that the model made up, after the given ones.
    made_up: Vec<String>,
    /// Whether the tokens in the making are a user's turn, not an answer.
    asking: bool,
    /// How the last answer ended.
    pub last_end: &'static str,
}

impl Conversation<'_> {
    /// The user's part of a turn, if there is one yet.
    pub fn user(&self, turn: usize) -> Option<&str> {
        let given = &self.prompt.users;
        given.get(turn).or_else(|| self.made_up.get(turn.checked_sub(given.len())?)).map(String::as_str)
    }
}

/// Settings shared by all conversations.
pub(super) struct Work<'a> {
    pub renderer: &'a Renderer,
    pub answering: &'a Answering<'a>,
    pub capacity: usize,
}

/// The next continuation of a conversation, or why there is none, if the reason is worth keeping.
pub(super) type Next = Result<Request<'static>, Option<String>>;

impl<'a> Work<'a> {
    /// A conversation with the answers that the journal has.
    pub fn open(&self, prompt: &'a Prompt, journal: &Journal) -> Result<Conversation<'a>, DistillError> {
        let transcript = self.renderer.transcript_with(prompt.system.as_deref(), prompt.tools.as_ref());
        // Without a template there is no system prompt to be had; the prompts were checked for that.
        let transcript = match transcript {
            Ok(transcript) => transcript,
            Err(_) => self.renderer.transcript(None).map_err(|e| wrong(prompt, &e))?,
        };
        let mut conversation =
            Conversation { prompt, transcript, turn: 0, made_up: vec![], asking: false, last_end: END_TOKEN };
        for answer in journal.answers(prompt.row) {
            conversation.made_up.extend(answer.user.clone());
            let Some(user) = conversation.user(conversation.turn).map(str::to_owned) else { break };
            let (transcript, calls) = (&mut conversation.transcript, prompt.calls(conversation.turn));
            if transcript.ask_with(&user, calls).and_then(|()| transcript.answer_ids(&answer.ids)).is_err() {
                break;
            }
            conversation.last_end = if answer.end == LENGTH { LENGTH } else { END_TOKEN };
            conversation.turn += 1;
        }
        Ok(conversation)
    }

    /// The next answer (or user's turn to be made up) of a conversation.
    pub fn next(&self, conversation: &mut Conversation<'a>) -> Next {
        // An answer that was cut off leaves nothing to reply to.
        if conversation.last_end == LENGTH {
            return Err(None);
        }
        let turn = conversation.turn;
        let user = conversation.user(turn).map(str::to_owned);
        let last_turn = conversation.prompt.users.len() + self.answering.self_talk_turns;
        let opening = match &user {
            Some(user) => conversation.transcript.ask_with(user, conversation.prompt.calls(turn)).map(|()| vec![]),
            None if turn < last_turn => conversation.transcript.user_opening(),
            None => return Err(None),
        };
        let opening = opening.map_err(|error| Some(error.to_string()))?;
        let text = [&conversation.transcript.example().ids[..], &opening].concat();
        let room = self.capacity.saturating_sub(text.len());
        if room == 0 {
            return Err(Some(format!("no room for turn {} in {} tokens", turn + 1, self.capacity)));
        }
        conversation.asking = user.is_none();
        let limits = Limits {
            max_new_tokens: self.answering.max_new_tokens.min(room),
            end_tokens: self.renderer.end_tokens().to_vec(),
        };
        Ok(Request { rule: None, drafts: true, text, limits, random: Box::new(self.random(conversation)) })
    }

    /// The random source of a conversation's next continuation. It depends on the seed, the record and the turn alone.
    pub fn random(&self, conversation: &Conversation<'_>) -> SeededRandom {
        let turn = (conversation.turn as u64) << 1 | u64::from(conversation.asking);
        SeededRandom::sequence(self.answering.seed, conversation.prompt.key, turn, 0)
    }

    /// Takes over a continuation.
    pub fn finish(
        &self,
        conversation: &mut Conversation<'_>,
        mut ids: Vec<Token>,
        finish: Finish,
        journal: &mut Journal,
        observe: &mut dyn FnMut(Event),
    ) -> Result<(), DistillError> {
        let prompt = conversation.prompt;
        let end = if finish == Finish::EndToken { END_TOKEN } else { LENGTH };
        if conversation.asking {
            ids.truncate(ids.len() - usize::from(end == END_TOKEN));
            let text = self.renderer.text().decode(&ids, true).map_err(|e| wrong(prompt, &e.into()))?;
            conversation.asking = false;
            match text.trim() {
                "" => conversation.last_end = LENGTH,
                text => conversation.made_up.push(text.to_owned()),
            }
            return Ok(());
        }
        conversation.transcript.answer_ids(&ids).map_err(|error| wrong(prompt, &error))?;
        observe(Event::Answer { row: prompt.row, tokens: ids.len() });
        let turn = conversation.turn;
        let user = turn.checked_sub(prompt.users.len()).and_then(|i| conversation.made_up.get(i)).cloned();
        journal.answer(Answer { row: prompt.row, turn, ids, end: end.into(), user, retokenised: false })?;
        (conversation.turn, conversation.last_end) = (turn + 1, end);
        Ok(())
    }
}
