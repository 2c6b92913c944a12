//! Results go to standard output, messages to standard error.

use crate::args::Global;
use gorgon_runs::table::Table;
use gorgon_runs::visible;
use gorgon_workflows::failure::{Failure, FailureKind};
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

/// How results and errors are printed.
pub struct Style {
    colour: clap::ColorChoice,
    /// Errors tell their causes.
    causes: bool,
    json: bool,
}

static STYLE: OnceLock<Style> = OnceLock::new();

impl Style {
    /// Style that `--color` and `NO_COLOR` choose.
    pub fn new(global: &Global) -> Self {
        Self { colour: global.color, causes: global.verbose, json: global.json }
    }

    /// For one JSON document, when the options are wrong.
    pub fn of_wrong_usage() -> Self {
        Self { colour: clap::ColorChoice::Never, causes: false, json: true }
    }

    /// Whether the causes of an error are printed.
    #[cfg(test)]
    pub fn tells_causes(&self) -> bool {
        self.causes
    }

    /// Whether colours are wanted on a stream. `NO_COLOR` counts unless `--color` says otherwise.
    pub fn colours(&self, stream: &impl IsTerminal) -> bool {
        match self.colour {
            clap::ColorChoice::Always => true,
            clap::ColorChoice::Never => false,
            clap::ColorChoice::Auto => {
                std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && stream.is_terminal()
            }
        }
    }
}

/// Decides how everything is printed, once.
pub fn set_up(style: Style) {
    let _ = STYLE.set(style);
}

/// Whether colours are wanted on a stream.
pub fn colour_wanted(stream: &impl IsTerminal) -> bool {
    const UNSET: Style = Style { colour: clap::ColorChoice::Auto, causes: false, json: false };
    STYLE.get().unwrap_or(&UNSET).colours(stream)
}

/// The word that begins a line of a message, and its colour.
const MARKS: [(&str, &str); 4] =
    [("error:", "\x1b[1;31m"), ("warning:", "\x1b[1;33m"), ("hint:", "\x1b[1;36m"), ("note:", "\x1b[1;33m")];

/// Characters of a line of a message, at most.
const LONGEST: usize = 2_000;

/// A message with its first word in colour.
fn marked(text: &str) -> String {
    match MARKS.iter().find_map(|(word, colour)| Some((*word, *colour, text.strip_prefix(word)?))) {
        Some((word, colour, rest)) if colour_wanted(&std::io::stderr()) => format!("{colour}{word}\x1b[0m{rest}"),
        _ => text.to_owned(),
    }
}

/// Writes a line of results for people.
pub fn line(text: &str) {
    piece(&(visible::line(text) + "\n"));
}

/// Writes a JSON document and ends its line.
pub fn document(text: &str) {
    piece(&(visible::json(text) + "\n"));
}

/// Writes a piece of the results at once, as it is. A reader that has gone away is no error: it has seen enough. Any other
/// failure ends the program, since the results are what it was run for.
pub fn piece(text: &str) {
    let mut out = std::io::stdout().lock();
    let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    complain(&format!("error: standard output: {error}"));
    std::process::exit(1);
}

/// Writes a table, no wider than the terminal if standard output is one.
pub fn table(table: &Table) {
    let width = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0);
    piece(&table.to_text(width));
}

/// Writes text that a model made: to a terminal without control characters, which could move the cursor, or worse.
pub fn untrusted(text: &str) {
    if std::io::stdout().is_terminal() {
        piece(&without_controls(text));
    } else {
        piece(text);
    }
}

/// Writes text that a model made, in colour if asked to.
pub fn painted(text: &str, in_colour: bool) {
    if !in_colour || text.is_empty() {
        return untrusted(text);
    }
    piece(&accepted(&without_controls(text)));
}

/// Text in the colour of accepted drafts.
pub fn accepted(text: &str) -> String {
    format!("\x1b[32m{text}\x1b[0m")
}

/// Writes a line of numbers about a result to stderr, fainter than the result.
pub fn faint(text: &str) {
    let text = visible::lines(text);
    let text = if colour_wanted(&std::io::stderr()) { format!("\x1b[2m{text}\x1b[0m") } else { text };
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Writes lines to standard error, if anybody reads them.
pub fn complain(text: &str) {
    let lines: Vec<String> = text.split('\n').map(|line| visible::lines(&visible::clipped(line, LONGEST))).collect();
    let _ = writeln!(std::io::stderr(), "{}", marked(&lines.join("\n")));
}

/// Text that a model made with line breaks and tabs, but nothing else that a terminal acts on.
pub fn without_controls(text: &str) -> String {
    let harmless = |c: char| !visible::is_command(c) || c == '\n' || c == '\t';
    text.chars().map(|c| if harmless(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Reports a failure: as a JSON document on stdout, or as lines on stderr.
pub fn failure(failure: &Failure) -> ExitCode {
    let (json, causes) = STYLE.get().map_or((false, false), |style| (style.json, style.causes));
    if json {
        let message = visible::clipped(&failure.message().replace('\n', "; "), LONGEST);
        let mut document = serde_json::json!({ "error": message });
        if let Some(hint) = failure.advice() {
            document["hint"] = hint.into();
        }
        if !failure.causes().is_empty() {
            document["causes"] = failure.causes().into();
        }
        // The exit code is the failure's own, whether the document can be written or not.
        let _ = writeln!(std::io::stdout(), "{}", visible::json(&document.to_string()));
    } else {
        failure.message().split('\n').for_each(|line| complain(&format!("error: {line}")));
        failure.causes().iter().filter(|_| causes).for_each(|cause| complain(&format!("caused by: {cause}")));
        if let Some(hint) = failure.advice() {
            complain(&format!("hint: {hint}"));
        }
    }
    match failure.kind() {
        FailureKind::Input => ExitCode::from(2),
        FailureKind::Run => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests;
