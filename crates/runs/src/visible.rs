//! Text from outside on its way to a person: nothing in it commands a terminal, and no list is endless.

use std::fmt::Write;

/// Names that a message lists at most.
const LISTED: usize = 8;
/// Lines of a list that are shown.
const LINES: usize = 50;

/// Whether a terminal, or a reader of lines, acts on this character: C0 and C1 controls, line and paragraph separators,
/// and those that reorder the text around them.
#[must_use]
pub fn is_command(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text in one line: all commands are escaped, as in `\n` and `\u{1b}`.
#[must_use]
pub fn line(text: &str) -> String {
    escaped(text, "")
}

/// Text with its line breaks and tabs: all other commands are escaped.
#[must_use]
pub fn lines(text: &str) -> String {
    escaped(text, "\n\t")
}

fn escaped(text: &str, kept: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_command(c) && !kept.contains(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// A path or another text as a word of a command that can be typed: quoted where a shell needs that.
#[must_use]
pub fn word(text: &(impl AsRef<std::ffi::OsStr> + ?Sized)) -> String {
    let text = line(&text.as_ref().to_string_lossy());
    // No text of one line has the null character, which cannot be quoted.
    shlex::try_quote(&text).map_or_else(|_| text.clone(), std::borrow::Cow::into_owned)
}

/// A JSON document that says the same: commands in its strings are escaped the way of JSON.
#[must_use]
pub fn json(document: &str) -> String {
    let mut out = String::with_capacity(document.len());
    for c in document.chars() {
        // Writers of JSON escape the controls below U+0020 inside strings, so those that are left lie between values.
        if is_command(c) && c > ' ' {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// The first characters of a text, and how many more there are.
#[must_use]
pub fn clipped(text: &str, most: usize) -> String {
    // No text has more characters than bytes.
    let more = if text.len() <= most { 0 } else { text.chars().count().saturating_sub(most) };
    match more {
        0 => text.to_owned(),
        more => format!("{}… ({more} more characters)", text.chars().take(most).collect::<String>()),
    }
}

/// The first names of a list, and how many more there are.
#[must_use]
pub fn listed<T: AsRef<str>>(names: &[T]) -> String {
    let shown = names.iter().take(LISTED).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The first lines of a list, and one that says how many more there are.
#[must_use]
pub fn few(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(LINES);
    if more > 0 {
        lines.truncate(LINES);
        lines.push(format!("and {more} more"));
    }
    lines
}

#[cfg(test)]
mod tests;
