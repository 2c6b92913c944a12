//! A file's own words in messages.

/// How many characters of a file's own words a message quotes.
const QUOTED: usize = 60;

/// The start of `text`, with nothing in it that a terminal would act on.
pub(super) fn clip(text: &str) -> String {
    let mut clipped = String::new();
    for character in text.chars().take(QUOTED) {
        if character.is_control() {
            clipped.extend(character.escape_default());
        } else {
            clipped.push(character);
        }
    }
    if text.chars().nth(QUOTED).is_some() {
        clipped.push('…');
    }
    clipped
}
