//! Small pieces of English: filled templates, articles, lists, capitals.

use crate::writer::Writer;

/// The template with each `{slot}` replaced.
pub(crate) fn fill(template: &str, slots: &[(&str, &str)]) -> String {
    slots.iter().fold(template.to_owned(), |text, (slot, value)| text.replace(&format!("{{{slot}}}"), value))
}

/// The word with its first letter in upper case.
pub(crate) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The text with the first letter of each sentence in upper case.
pub(crate) fn sentences(text: &str) -> String {
    let (mut start, mut stop) = (true, false);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        start |= stop && c.is_whitespace();
        stop = matches!(c, '.' | '!' | '?');
        if start && c.is_alphanumeric() {
            out.extend(c.to_uppercase());
            start = false;
        } else {
            out.push(c);
        }
    }
    out
}

/// The noun with `a` or `an` before it.
pub(crate) fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {noun}")
}

/// `a, b and c`.
pub(crate) fn and_list<T: AsRef<str>>(items: &[T]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    match items.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

/// Any element of a list of plain values.
pub(crate) fn one<T: Copy>(writer: &mut Writer, from: &[T]) -> T {
    from[writer.below(from.len())]
}

/// Owned copies, for a check.
pub(crate) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
mod tests;
