//! A chat as one JSON document.

use crate::printer;
use gorgon_workflows::chat::{Answer, Chat, Comparison};
use gorgon_workflows::failure::Failure;
use serde_json::{Value, json};

/// The document as it grows.
pub struct Document {
    model: String,
    turns: Vec<Value>,
}

impl Document {
    /// An empty document.
    pub fn new(model: &str) -> Self {
        Self { model: model.to_owned(), turns: vec![] }
    }

    /// Adds a turn. Without a message, the last one was answered anew.
    pub fn add(&mut self, message: Option<&str>, answer: &Result<Answer, Failure>) {
        let user = message.map_or_else(|| self.last_message(), Value::from);
        let mut turn = match answer {
            Ok(answer) => answer.document(),
            Err(failure) => json!({ "error": failure.message() }),
        };
        turn["user"] = user;
        self.turns.push(turn);
    }

    /// Adds a comparison.
    pub fn compared(&mut self, message: Option<&str>, comparison: &Comparison) {
        let user = message.map_or_else(|| self.last_message(), Value::from);
        self.turns.push(json!({ "user": user, "comparison": comparison.document() }));
    }

    fn last_message(&self) -> Value {
        self.turns.last().map_or(Value::Null, |turn| turn["user"].clone())
    }

    /// Prints it.
    pub fn print(self, chat: &Chat<'_>) {
        let (drafter, tree, accept) = chat.method();
        let document = json!({
            "model": self.model,
            "context": chat.context(),
            "drafter": drafter,
            "tree": tree,
            "accept": accept,
            "lossless": chat.is_lossless(),
            "messages": chat.conversation().messages(0),
            "turns": self.turns,
        });
        printer::document(&document.to_string());
    }
}
