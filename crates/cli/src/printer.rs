//! Results go to standard output, messages to standard error.

use gorgon_workflows::failure::{Failure, FailureKind};
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

/// Writes a line of results for people, without control characters, which could move their cursor.
pub fn line(text: &str) {
    document(&without_controls(text));
}

/// Writes a line of results as it is.
pub fn document(text: &str) {
    piece(text);
    piece("\n");
}

/// Writes a piece of the results at once. A reader that has gone away is no error: it has seen enough. Any other
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
    piece(&format!("\x1b[32m{}\x1b[0m", without_controls(text)));
}

/// Writes a line to standard error, if anybody reads it.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", without_controls(text));
}

/// Text with line breaks and tabs, but no other control characters.
fn without_controls(text: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(shown).collect()
}

/// Reports a failure: as a JSON document on standard output, or as lines on standard error.
pub fn failure(failure: &Failure, json: bool) -> ExitCode {
    if json {
        let mut document = serde_json::json!({ "error": failure.message().replace('\n', "; ") });
        if let Some(hint) = failure.advice() {
            document["hint"] = hint.into();
        }
        // The exit code is the failure's own, whether the document can be written or not.
        let _ = writeln!(std::io::stdout(), "{document}");
    } else {
        failure.message().split('\n').for_each(|line| complain(&format!("error: {line}")));
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
