//! Merges of a SentencePiece vocabulary.

use std::collections::HashMap;

/// Work and results at most: characters that are looked at, and bytes of all merges. Published vocabularies of 256,000
/// tokens take a fiftieth.
const MOST_STEPS: usize = 1 << 32;
const MOST_BYTES: usize = 256 << 20;

/// The merges of a vocabulary whose pairs are merged by the score of the token they make, best first.
///
/// Each token is cut wherever both parts are tokens. Pairs are ordered by the score of the whole; of equal ones those
/// with the longer first part come first. This is what the converter of `transformers` does
/// (`convert_slow_tokenizer.py`, `generate_merges`).
pub fn of_scores<'a>(
    tokens: &'a [String],
    scores: &[f64],
    ids: &HashMap<&str, usize>,
) -> Result<Vec<[&'a str; 2]>, String> {
    struct Merge<'a> {
        score: f64,
        parts: [&'a str; 2],
        ids: [usize; 2],
    }
    let steps = tokens.iter().try_fold(0usize, |sum, token| sum.checked_add(token.len().checked_mul(token.len())?));
    if steps.is_none_or(|steps| steps > MOST_STEPS) {
        return Err("the tokens are too long for merges to be derived from them".into());
    }
    let mut merges: Vec<Merge<'a>> = vec![];
    let mut bytes = 0;
    for (token, score) in tokens.iter().zip(scores) {
        for (cut, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(cut);
            let (Some(&a), Some(&b)) = (ids.get(left), ids.get(right)) else { continue };
            bytes += token.len() + 48;
            if bytes > MOST_BYTES {
                return Err(format!("the tokens have merges of more than {MOST_BYTES} bytes"));
            }
            merges.push(Merge { score: *score, parts: [left, right], ids: [a, b] });
        }
    }
    let length = |text: &str| text.chars().count();
    merges.sort_by(|a, b| {
        let lengths = |merge: &Merge<'_>| merge.parts.map(length);
        b.score.total_cmp(&a.score).then_with(|| lengths(b).cmp(&lengths(a))).then_with(|| a.ids.cmp(&b.ids))
    });
    Ok(merges.into_iter().map(|merge| merge.parts).collect())
}
