//! Tests of `ngram_table`.

use super::*;
use crate::tree::NgramCounts;

#[test]
fn marked_tokens_are_counted_with_those_before_them() {
    let mut table = NgramTable::default();
    table.add(&[7, 1, 2, 1, 2], &[false, true, true, false, true]);
    let table = table.finish();
    assert_eq!(
        [[1].as_slice(), &[2], &[7, 1], &[1, 2], &[7, 1, 2], &[2, 1, 2]].map(|run| table.count(run)),
        [1.0, 2.0, 1.0, 2.0, 1.0, 1.0]
    );
    assert_eq!([[7].as_slice(), &[2, 1]].map(|run| table.count(run)), [0.0, 0.0]);
    assert_eq!([[1].as_slice(), &[2], &[7], &[7, 1]].map(|run| table.followed(run)), [2.0, 0.0, 1.0, 1.0]);
    assert_eq!((table.tokens(), table.different()), (3.0, 2.0));
}

#[test]
fn a_table_survives_as_numbers() {
    let mut table = NgramTable::default();
    let text: Vec<Token> = (0..500u32).map(|i| i * i % 23).collect();
    table.add(&text, &[true; 500]);
    let entries = table.entries();
    assert!(entries.counts.is_sorted() && entries.followed.is_sorted());
    assert_eq!(NgramTable::from_entries(&entries).entries(), entries);
}

#[test]
fn a_table_of_too_many_runs_loses_the_rarest() {
    let mut table = NgramTable::default();
    for round in 0..3u32 {
        let text: Vec<Token> = (0..700_000).map(|i| if i % 2 == 0 { 5 } else { round * 1_000_000 + i }).collect();
        table.add(&text, &vec![true; text.len()]);
    }
    let table = table.finish();
    let entries = table.entries();
    assert!(entries.counts.len() + entries.followed.len() <= MOST_RUNS);
    assert!(table.count(&[5]) > 1_000_000.0);
}

/// The text's own counts are weighed against the table's as one token of the latter.
#[test]
fn a_text_begins_with_the_table() {
    let mut table = NgramTable::default();
    table.add(&[1, 2, 3, 1, 2, 3, 1, 2, 4], &[true; 9]);
    let table = table.finish();
    let mut counts = NgramCounts::starting_at(Some(table));
    let alone = |seen: f64, tokens: f64| (seen + 0.5) / (tokens + 0.5 * 5.0);
    // In the table, 3 follows both 2 and (1, 2) twice of three times.
    let expected = {
        let alone = alone(2.0, 9.0);
        let pair = (2.0 + alone) / 4.0;
        ((2.0 + pair) / 4.0 / alone).ln()
    };
    assert!((counts.after([1, 2]).evidence(3) - expected).abs() < 1e-12);
    [1, 2, 4].into_iter().for_each(|token| counts.push(token));
    // Of the twelve tokens 4 is two, and once it followed both contexts in the text itself.
    let found = counts.after([1, 2]).evidence(4);
    let expected = {
        let alone = alone(2.0, 12.0);
        let pair = (1.0 + alone) / 4.0;
        let triple = (1.0 + pair) / 4.0;
        let own = (1.0 + triple) / 2.0;
        ((1.0 + own) / 2.0 / alone).ln()
    };
    assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    counts.clear();
    assert!(counts.after([1, 2]).evidence(3) > 0.0, "the table stays");
}
