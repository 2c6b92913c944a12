//! How a chat looks.

use super::columns;
use crate::printer;
use crate::settings::Settings;
use gorgon_workflows::chat::{Answer, Chat, Comparison, Piece};
use gorgon_workflows::failure::Failure;
use std::fmt::Display;

/// Shows answers on stdout and everything about them on stderr.
pub struct Screen<'a> {
    settings: &'a Settings,
    colour: bool,
}

impl<'a> Screen<'a> {
    pub fn new(settings: &'a Settings) -> Self {
        Self { settings, colour: printer::colour_wanted(&std::io::stdout()) }
    }

    /// A message about the chat.
    pub fn say(&self, text: impl Display) {
        self.settings.console.say(text);
    }

    /// Prints a failure and its hint.
    pub fn failed(&self, failure: &Failure) {
        failure.message().split('\n').for_each(|line| printer::complain(&format!("error: {line}")));
        if let Some(hint) = failure.advice() {
            printer::complain(&format!("hint: {hint}"));
        }
    }

    /// A piece of an answer as it comes; accepted drafts in colour.
    pub fn piece(&self, piece: &Piece) {
        if !self.settings.json {
            printer::painted(&piece.text, self.colour && piece.drafted);
        }
    }

    /// Ends an answer: the status line, and turns that were left out since `left_out` of them were.
    pub fn answered(&self, answer: &Answer, left_out: usize) {
        if !self.settings.json {
            printer::line("");
        }
        if answer.finish == gorgon_infer::Finish::Stopped {
            self.say("stopped; the answer so far stays in the conversation");
        }
        if answer.trimmed_turns > left_out {
            self.say(format!(
                "note: the context of {} tokens is full: the oldest {} turns are left out",
                answer.context, answer.trimmed_turns
            ));
        }
        self.status(answer);
    }

    fn status(&self, status: &impl Display) {
        if !self.settings.quiet {
            printer::faint(&status.to_string());
        }
    }

    /// Two answers side by side.
    pub fn compared(&self, comparison: &Comparison) {
        if !self.settings.json {
            let heading = |name: &str, answer: &Answer| format!("{name}, {:.3} s", answer.step_time.as_secs_f64());
            let left = (heading("plain", &comparison.plain), comparison.plain.pieces.as_slice());
            let right = (heading("drafted", &comparison.drafted), comparison.drafted.pieces.as_slice());
            columns::side_by_side(left, right, self.colour).iter().for_each(|row| printer::piece(&format!("{row}\n")));
        }
        self.status(comparison);
    }

    /// The settings that hold.
    pub fn settings(&self, chat: &Chat<'_>) {
        let options = chat.options();
        let (drafter, tree, accept) = chat.method();
        let or = |value: Option<String>| value.unwrap_or_else(|| "none".into());
        self.say(format!(
            "temperature {}, top_p {}, top_k {}, max_new_tokens {}, seed {}\n\
             drafter {drafter}, tree {tree}, accept {accept}; context of {} tokens",
            options.temperature,
            or(options.top_p.map(|p| p.to_string())),
            or(options.top_k.map(|k| k.to_string())),
            options.max_new_tokens,
            options.seed,
            chat.context()
        ));
    }
}
