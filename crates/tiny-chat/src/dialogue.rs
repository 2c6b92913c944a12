//! Dialogues: turns, answers and how to check them.

use crate::check::Check;

/// Which half of the corpus a dialogue belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// For training.
    Train,
    /// Never trained on.
    HeldOut,
}

/// A user's turn and its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// User message.
    pub user: String,
    /// A right answer.
    pub assistant: String,
    /// How to tell whether another answer is right; `None` where there is no right or wrong.
    pub check: Option<Check>,
}

/// A conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Dialogue {
    /// The kind's name.
    pub kind: &'static str,
    /// The system prompt, if there is one.
    pub system: Option<String>,
    /// The turns.
    pub exchanges: Vec<Exchange>,
}

impl Exchange {
    /// An exchange whose answer can be checked.
    pub fn checked(user: impl Into<String>, assistant: impl Into<String>, check: Check) -> Self {
        Self { user: user.into(), assistant: assistant.into(), check: Some(check) }
    }

    /// An exchange without a right or wrong answer.
    pub fn open(user: impl Into<String>, assistant: impl Into<String>) -> Self {
        Self { user: user.into(), assistant: assistant.into(), check: None }
    }
}

impl Dialogue {
    /// A dialogue of one exchange.
    pub fn single(kind: &'static str, exchange: Exchange) -> Self {
        Self { kind, system: None, exchanges: vec![exchange] }
    }
}
