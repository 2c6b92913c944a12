//! A conversation and its prompt: whole turns, the oldest of which are left out where they do not fit the context.

use crate::failure::Failure;
use gorgon_core::Token;
use gorgon_data::render::{RenderError, Renderer};
use gorgon_text::template::message;
use serde_json::Value;

/// A user's message and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The message.
    pub user: String,
    /// The answer's text, without special tokens.
    pub assistant: String,
}

/// A conversation.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    system: Option<String>,
    exchanges: Vec<Exchange>,
    /// Oldest exchanges that the prompt leaves out.
    left_out: usize,
    prompt: Prompt,
}

impl Conversation {
    /// An empty conversation.
    pub fn new(system: Option<String>) -> Self {
        Self { system, ..Self::default() }
    }

    /// A conversation that was held before.
    pub fn resumed(system: Option<String>, exchanges: Vec<Exchange>) -> Self {
        Self { system, exchanges, ..Self::default() }
    }

    /// The system message.
    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// Changes the system message, from the next message on.
    pub fn set_system(&mut self, system: Option<String>) {
        self.system = system;
    }

    /// All exchanges, those that the prompt leaves out included.
    pub fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// How many of the oldest exchanges the prompt leaves out.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Takes the last exchange back.
    pub fn pop(&mut self) -> Option<Exchange> {
        let last = self.exchanges.pop();
        self.left_out = self.left_out.min(self.exchanges.len());
        last
    }

    /// The prompt of a message after this conversation, with room for `new_tokens` of an answer.
    ///
    /// Where it does not fit into `context` tokens, of the model's `positions`, the oldest exchanges are left out until
    /// half of the context is free: whatever is left is read anew, so this should be rare.
    ///
    /// # Errors
    /// When the message does not fit alone or the template refuses it; the conversation is unchanged then.
    pub fn ask(
        &mut self,
        user: &str,
        renderer: &Renderer,
        (context, positions): (usize, usize),
        new_tokens: usize,
    ) -> Result<Vec<Token>, Failure> {
        let (mut prompt, mut left_out) = (self.prompt.clone(), self.left_out);
        // Answers shorter than a quarter of the context are no reason to keep everything.
        let room = new_tokens.min(context / 4).max(1);
        prompt.follow(self.rendered(user, left_out, renderer)?, renderer)?;
        if prompt.ids.len() + room > context {
            while left_out < self.exchanges.len() && prompt.ids.len() > (context / 2).min(context - room) {
                left_out += 1;
                prompt.follow(self.rendered(user, left_out, renderer)?, renderer)?;
            }
        }
        if prompt.ids.len() >= context {
            let tokens = prompt.ids.len();
            let message = format!("the message is too long: its prompt has {tokens} tokens, and the context {context}");
            let greater = format!(", or begin the chat with a greater --context, {positions} at most");
            let greater = if context < positions { greater } else { String::new() };
            return Err(Failure::input(message).hint(format!("shorten the message{greater}")));
        }
        (self.prompt, self.left_out) = (prompt, left_out);
        Ok(self.prompt.ids.clone())
    }

    /// Appends the answer to the message that was asked last, as its tokens are.
    ///
    /// # Errors
    /// When they cannot be decoded.
    pub fn answer(&mut self, user: &str, ids: &[Token], renderer: &Renderer) -> Result<(), RenderError> {
        let ended = ids.last().is_some_and(|last| renderer.end_tokens().contains(last));
        let said = &ids[..ids.len() - usize::from(ended)];
        let assistant = renderer.text().decode(said, true)?;
        let written = renderer.text().decode(ids, false)?;
        self.prompt.append(&written, ids);
        self.exchanges.push(Exchange { user: user.to_owned(), assistant });
        Ok(())
    }

    /// The messages, without those of exchanges that are left out.
    pub fn messages(&self, left_out: usize) -> Vec<Value> {
        let system = self.system.iter().map(|system| message("system", system));
        let both = |turn: &Exchange| [message("user", &turn.user), message("assistant", &turn.assistant)];
        system.chain(self.exchanges[left_out..].iter().flat_map(both)).collect()
    }

    fn rendered(&self, user: &str, left_out: usize, renderer: &Renderer) -> Result<String, RenderError> {
        let mut messages = self.messages(left_out);
        messages.push(message("user", user));
        renderer.render(&messages, None, true)
    }
}

/// The tokens of a prompt, which grow with a rendered text. Answers stay the tokens that they were sampled as, so a
/// session finds them in its cache, up to where the template writes earlier turns in another way.
#[derive(Clone, Debug, Default)]
struct Prompt {
    text: String,
    ids: Vec<Token>,
    /// Lengths of text and ids after each part that was appended.
    parts: Vec<(usize, usize)>,
}

impl Prompt {
    /// Becomes the tokens of a text. Of the parts, those that the text begins with stay.
    fn follow(&mut self, rendered: String, renderer: &Renderer) -> Result<(), RenderError> {
        let kept = |&&(text, _): &&(usize, usize)| rendered.starts_with(&self.text[..text]);
        let count = self.parts.iter().take_while(kept).count();
        let (text, ids) = count.checked_sub(1).map_or((0, 0), |last| self.parts[last]);
        // The template writes the special tokens itself.
        let new = renderer.text().encode(&rendered[text..], false)?;
        self.parts.truncate(count);
        self.text.truncate(text);
        self.ids.truncate(ids);
        self.append(&rendered[text..], &new);
        Ok(())
    }

    fn append(&mut self, text: &str, ids: &[Token]) {
        self.text.push_str(text);
        self.ids.extend_from_slice(ids);
        self.parts.push((self.text.len(), self.ids.len()));
    }
}

#[cfg(test)]
mod tests;
