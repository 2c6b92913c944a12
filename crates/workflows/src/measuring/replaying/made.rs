//! Answers that are made from prompts: quotations, and texts with small edits.

use gorgon_core::accept::random::SeededRandom;

/// Words of a text that can be quoted from.
const LEAST_WORDS: usize = 8;
/// Words of a quotation at most.
const MOST_WORDS: usize = 128;
/// The share of lines that are edited.
const EDITED: f64 = 1.0 / 16.0;

/// A whole number below `limit`.
fn below(random: &mut SeededRandom, limit: usize) -> usize {
    ((random.uniform() * limit as f64) as usize).min(limit.saturating_sub(1))
}

/// The words of a text, each with where it begins.
fn words(text: &str) -> Vec<(usize, &str)> {
    let start = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text.split_whitespace().map(|word| (start(word), word)).collect()
}

/// A part of a text, word for word: half of its words, 128 at most, from a random place on. `None` of a text with fewer
/// than eight words.
pub(super) fn quotation<'a>(text: &'a str, random: &mut SeededRandom) -> Option<&'a str> {
    let words = words(text);
    if words.len() < LEAST_WORDS {
        return None;
    }
    let count = (words.len() / 2).min(MOST_WORDS);
    let first = below(random, words.len() - count + 1);
    let (end, word) = words[first + count - 1];
    Some(&text[words[first].0..end + word.len()])
}

/// A text of which each line is edited with a probability of one in sixteen: left out, written twice, or with another
/// word of the text in the place of one of its words.
pub(super) fn edited(text: &str, random: &mut SeededRandom) -> String {
    let all = words(text);
    let mut edited = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let own = words(line);
        if own.is_empty() || random.uniform() >= EDITED {
            edited.push_str(line);
            continue;
        }
        match below(random, 3) {
            0 => {}
            1 => {
                edited.push_str(line);
                edited.push_str(line);
            }
            _ => {
                let (start, word) = own[below(random, own.len())];
                edited.push_str(&line[..start]);
                edited.push_str(all[below(random, all.len())].1);
                edited.push_str(&line[start + word.len()..]);
            }
        }
    }
    edited
}
