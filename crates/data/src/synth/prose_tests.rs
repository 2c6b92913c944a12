//! Every kind of prose is drawn many times, in both splits.

use super::*;
use std::collections::BTreeSet;

const KINDS: [&[Kind]; 8] = [
    stories::KINDS,
    recipes::KINDS,
    agendas::KINDS,
    code::KINDS,
    talk::KINDS,
    follow_ups::KINDS,
    systems::KINDS,
    mixed::KINDS,
];

fn drawn(kind: &Kind, split: Split) -> Vec<Dialogue> {
    (0..300).map(|index| (kind.write)(&mut Pen::new(7, split, index))).collect()
}

fn openings(dialogues: &[Dialogue]) -> BTreeSet<&str> {
    dialogues.iter().map(|d| d.exchanges[0].user.as_str()).collect()
}

fn holds(exchange: &Exchange) -> bool {
    exchange.check.as_ref().is_none_or(|check| check.passes(&exchange.assistant))
}

#[test]
fn every_kind_writes_answers_that_pass_their_own_checks() {
    for kind in KINDS.iter().copied().flatten() {
        for split in [Split::Train, Split::HeldOut] {
            for dialogue in drawn(kind, split) {
                assert_eq!(dialogue.kind, kind.name);
                for exchange in &dialogue.exchanges {
                    assert!(holds(exchange), "{}: {exchange:?}", kind.name);
                    let text = format!("{}{}", exchange.user, exchange.assistant);
                    assert!(text.contains("```") || !text.contains(['{', '}']), "{exchange:?}");
                }
            }
        }
    }
}

#[test]
fn no_opening_is_in_both_splits() {
    for kind in KINDS.iter().copied().flatten() {
        let (train, held_out) = (drawn(kind, Split::Train), drawn(kind, Split::HeldOut));
        assert!(openings(&train).is_disjoint(&openings(&held_out)), "{}", kind.name);
    }
}

#[test]
fn stories_differ() {
    let told: BTreeSet<String> =
        drawn(&stories::KINDS[0], Split::Train).into_iter().map(|d| d.exchanges[0].assistant.clone()).collect();
    assert!(told.len() >= 250);
}
