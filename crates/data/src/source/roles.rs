//! Who says what: from a list of messages to turns.

use std::collections::BTreeSet;

use super::{
    Turn,
    clip::clip,
    reason::{Reason, Repair},
    tools,
};
use serde_json::Value;

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// Nobody: instructions.
    System,
    /// The model: a tool call as text.
    Call,
    /// A tool.
    Result,
}

impl Role {
    /// The role called `name` at `place`, and whether that is another spelling of it.
    pub(super) fn named(name: &str, place: &str) -> Result<(Self, bool), Reason> {
        let lower = name.to_ascii_lowercase();
        let (role, usual) = match lower.as_str() {
            "user" | "human" => (Self::User, true),
            "assistant" | "gpt" => (Self::Assistant, true),
            "system" => (Self::System, true),
            "prompter" => (Self::User, false),
            "chatgpt" | "bing" | "bard" | "gemini" | "claude" | "model" | "bot" | "ai" => (Self::Assistant, false),
            "developer" => (Self::System, false),
            "function_call" | "tool_call" => (Self::Call, true),
            "tool" | "tools" | "tool_response" | "function" | "function_response" | "observation" | "ipython" => {
                (Self::Result, true)
            }
            _ => return Err(Reason::UnknownRole { place: place.to_owned(), role: clip(name) }),
        };
        Ok((role, !usual || lower != name))
    }

    /// Whether it takes part in the use of a tool.
    pub(super) fn is_of_tools(self) -> bool {
        matches!(self, Self::Call | Self::Result)
    }
}

/// Folds messages, one by one, into turns.
#[derive(Debug, Default)]
pub(super) struct Fold {
    /// The system prompt, if there was one that is not blank.
    pub system: Option<String>,
    /// The turns so far.
    pub turns: Vec<Turn>,
    last: Option<Role>,
}

impl Fold {
    /// Adds what `role` says at `place`.
    pub(super) fn add(
        &mut self,
        role: Role,
        text: String,
        place: &str,
        repairs: &mut BTreeSet<Repair>,
    ) -> Result<(), Reason> {
        match role {
            Role::System if self.last.is_some() => return Err(Reason::LateSystem { place: place.to_owned() }),
            Role::System => self.system = not_blank(text),
            Role::User if text.trim().is_empty() => return Err(Reason::EmptyUser { place: place.to_owned() }),
            Role::User => self.user(text, repairs),
            Role::Assistant => self.assistant(text, repairs),
            Role::Call | Role::Result => return Err(tool_turn(place)),
        }
        self.last = Some(role);
        Ok(())
    }

    /// Adds tool calls that an assistant makes at `place`, with what it says there.
    pub(super) fn call(&mut self, said: String, calls: Vec<Value>, place: &str) -> Result<(), Reason> {
        let turn = self.turns.last_mut().ok_or_else(|| tool_turn(place))?;
        // What was said just before belongs to the call.
        let mut content = turn.assistant.take().unwrap_or_default();
        if !content.is_empty() && !said.is_empty() {
            content.push_str("\n\n");
        }
        turn.calls.push(tools::calling(&(content + &said), calls));
        self.last = Some(Role::Call);
        Ok(())
    }

    /// Adds the result of a call.
    pub(super) fn result(&mut self, message: Value, place: &str) -> Result<(), Reason> {
        match self.turns.last_mut() {
            Some(turn) if matches!(self.last, Some(Role::Call | Role::Result)) => turn.calls.push(message),
            _ => return Err(tool_turn(place)),
        }
        self.last = Some(Role::Result);
        Ok(())
    }

    fn user(&mut self, text: String, repairs: &mut BTreeSet<Repair>) {
        match self.turns.last_mut() {
            Some(turn) if self.last == Some(Role::User) => {
                repairs.insert(Repair::JoinedUsers);
                join(&mut turn.user, &text);
            }
            _ => self.turns.push(Turn { user: text, calls: vec![], assistant: None }),
        }
    }

    fn assistant(&mut self, text: String, repairs: &mut BTreeSet<Repair>) {
        let Some(turn) = self.turns.last_mut() else {
            repairs.insert(Repair::LeadingAssistant);
            return;
        };
        if self.last == Some(Role::Assistant) {
            repairs.insert(Repair::JoinedAssistants);
        }
        let Some(text) = not_blank(text) else {
            repairs.insert(Repair::EmptyAnswer);
            return;
        };
        match &mut turn.assistant {
            Some(answer) => join(answer, &text),
            None => turn.assistant = Some(text),
        }
    }

    /// The system prompt and the turns, once all messages were added.
    pub(super) fn finish(mut self, repairs: &mut BTreeSet<Repair>) -> Result<(Option<String>, Vec<Turn>), Reason> {
        for turn in &mut self.turns {
            // A call that nothing came back from: the model answers in its place.
            while turn.calls.pop_if(|message| message["role"] == "assistant").is_some() {
                repairs.insert(Repair::OpenCall);
            }
        }
        if self.turns.is_empty() {
            return Err(Reason::NoUser);
        }
        if self.last == Some(Role::User) {
            repairs.insert(Repair::OpenEnd);
        }
        Ok((self.system, self.turns))
    }
}

fn tool_turn(place: &str) -> Reason {
    Reason::ToolTurn { place: place.to_owned(), role: "a tool without a call, or before the user".into() }
}

/// `text` unless it is blank.
pub(super) fn not_blank(text: String) -> Option<String> {
    (!text.trim().is_empty()).then_some(text)
}

/// Appends `more` to `text`, with a blank line between them.
pub(super) fn join(text: &mut String, more: &str) {
    text.push_str("\n\n");
    text.push_str(more);
}
