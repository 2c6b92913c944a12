//! Tests of `ngram_counts`.

use super::*;

fn counted(text: &[Token]) -> NgramCounts {
    let mut counts = NgramCounts::new();
    text.iter().for_each(|&token| counts.push(token));
    counts
}

/// The definition, by counting in the text.
fn defined(text: &[Token], [a, b]: [Token; 2], x: Token) -> f64 {
    let count = |run: &[Token]| text.windows(run.len()).filter(|window| *window == run).count() as f64;
    let followed = |run: &[Token]| text.windows(run.len() + 1).filter(|window| window.starts_with(run)).count() as f64;
    let different = text.iter().collect::<std::collections::BTreeSet<_>>().len() as f64;
    let alone = (count(&[x]) + 0.5) / (text.len() as f64 + 0.5 * (different + 1.0));
    let pair = (count(&[b, x]) + alone) / (followed(&[b]) + 1.0);
    let triple = (count(&[a, b, x]) + pair) / (followed(&[a, b]) + 1.0);
    (triple / alone).ln()
}

#[test]
fn counts_follow_the_definition() {
    let text = [1, 2, 3, 1, 2, 4, 1, 2, 3, 5, 2, 3, 1];
    let counts = counted(&text);
    for a in 0..7 {
        for b in 0..7 {
            for x in 0..7 {
                let (found, wanted) = (counts.after([a, b]).evidence(x), defined(&text, [a, b], x));
                assert!((found - wanted).abs() < 1e-12, "{a} {b} {x}: {found} {wanted}");
            }
        }
    }
}

#[test]
fn going_back_leaves_no_trace() {
    let text: Vec<Token> = (0..200u32).map(|i| i * i % 17).collect();
    let mut counts = counted(&text);
    for length in [150, 150, 60, 2, 0] {
        counts.truncate(length);
        let fresh = counted(&text[..length]);
        assert_eq!((counts.len(), counts.last(), counts.different), (length, fresh.last(), fresh.different));
        for before in [[0, 1], [1, 4], [4, 9], [16, 2]] {
            for x in 0..17 {
                let (found, wanted) = (counts.after(before).evidence(x), fresh.after(before).evidence(x));
                assert!((found - wanted).abs() < 1e-12);
            }
        }
    }
    counts.push(3);
    counts.clear();
    assert!(counts.is_empty() && counts.after([1, 2]).evidence(3) == 0.0);
}
