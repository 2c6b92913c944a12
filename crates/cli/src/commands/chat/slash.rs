//! Commands that the line editor completes, and blocks whose end it waits for.

use gorgon_workflows::chat::command::COMMANDS;
use gorgon_workflows::chat::input::{Block, block};
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

/// Completes commands, and waits for the end of a block.
pub struct Slash;

impl Helper for Slash {}
impl Hinter for Slash {
    type Hint = String;
}
impl Highlighter for Slash {}

impl Validator for Slash {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match block(context.input()) {
            Block::Open => ValidationResult::Incomplete,
            Block::Plain | Block::Closed(_) => ValidationResult::Valid(None),
        })
    }
}

impl Completer for Slash {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..at];
        let known = COMMANDS.iter().filter(|name| typed.starts_with('/') && name.starts_with(typed));
        Ok((0, known.map(|name| format!("{name} ")).collect()))
    }
}
