//! Standard output is data, standard error is talk.

use std::io::{ErrorKind, IsTerminal, Write};

/// Writes a line of data for people: what files say cannot move their cursor.
pub fn line(text: &str) {
    document(&without_controls(text));
}

/// Writes a line of data as it is.
pub fn document(text: &str) {
    piece(text);
    piece("\n");
}

/// Writes a piece of data at once. A reader that has gone away is no error: it has seen enough. Any other failure is,
/// since the data is what this program was asked for.
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

/// Writes a line to standard error, if anybody listens.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", without_controls(text));
}

/// Text with line breaks and tabs, but no other control characters.
fn without_controls(text: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(shown).collect()
}

/// How much to say.
#[derive(Clone, Copy, Debug)]
pub struct Talk {
    quiet: bool,
    verbose: bool,
}

impl Talk {
    pub fn new(quiet: bool, verbose: bool) -> Self {
        Self { quiet, verbose }
    }

    /// Something a person wants to know.
    pub fn say(self, text: impl std::fmt::Display) {
        if !self.quiet {
            complain(&text.to_string());
        }
    }

    /// Something for the curious.
    pub fn detail(self, text: impl std::fmt::Display) {
        if self.verbose {
            complain(&text.to_string());
        }
    }
}

/// A size in bytes as people write it.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A count as people write it.
pub fn count(n: u128) -> String {
    match n {
        0..=9_999 => n.to_string(),
        10_000..=999_999 => format!("{:.1} K", n as f64 / 1e3),
        1_000_000..=999_999_999 => format!("{:.1} M", n as f64 / 1e6),
        _ => format!("{:.2} B", n as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests;
