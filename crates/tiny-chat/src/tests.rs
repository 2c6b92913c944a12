//! Every kind is drawn many times, in both splits.

use super::*;
use crate::dialogue::Exchange;
use std::collections::{BTreeSet, HashSet};

const PROSE: [&[Kind]; 8] = [
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
    (0..300).map(|index| (kind.write)(&mut Writer::new(7, split, index))).collect()
}

fn openings(dialogues: &[Dialogue]) -> BTreeSet<&str> {
    dialogues.iter().map(|d| d.exchanges[0].user.as_str()).collect()
}

fn holds(exchange: &Exchange) -> bool {
    exchange.check.as_ref().is_none_or(|check| check.passes(&exchange.assistant))
}

#[test]
fn every_kind_writes_answers_that_pass_their_own_checks() {
    for kind in PROSE.iter().copied().flatten() {
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
    for kind in PROSE.iter().copied().flatten() {
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

/// Answers pass their own checks, most other answers fail them, and no prompt
/// is in both splits.
fn verify(kinds: &[Kind]) {
    for kind in kinds {
        let draw = |split| (0..500).map(|i| (kind.write)(&mut Writer::new(7, split, i))).collect::<Vec<_>>();
        let [train, held] = [Split::Train, Split::HeldOut].map(draw);
        for half in [&train, &held] {
            let exchanges: Vec<_> = half.iter().flat_map(|dialogue| &dialogue.exchanges).collect();
            let mut wrong_passes = 0;
            for (i, exchange) in exchanges.iter().enumerate() {
                let check = exchange.check.as_ref().expect("checkable");
                assert!(check.passes(&exchange.assistant), "{}: {exchange:?}", kind.name);
                assert!(!exchange.user.contains(['{', '}']), "{}: {}", kind.name, exchange.user);
                wrong_passes += usize::from(check.passes(&exchanges[(i + 1) % exchanges.len()].assistant));
            }
            assert!(wrong_passes * 10 < exchanges.len() * 6, "{}: {wrong_passes} wrong answers pass", kind.name);
        }
        assert!(train.iter().chain(&held).all(|dialogue| dialogue.kind == kind.name), "{}", kind.name);
        let users = |half: &[Dialogue]| half.iter().map(|d| d.exchanges[0].user.clone()).collect::<HashSet<_>>();
        let shared: Vec<_> = users(&train).intersection(&users(&held)).cloned().collect();
        assert!(shared.is_empty(), "{}: {shared:?}", kind.name);
    }
}

#[test]
fn arithmetic_hold() {
    verify(arithmetic::KINDS);
}

#[test]
fn lists_hold() {
    verify(lists::KINDS);
}

#[test]
fn tables_hold() {
    verify(tables::KINDS);
}

#[test]
fn strings_hold() {
    verify(strings::KINDS);
}

#[test]
fn units_hold() {
    verify(units::KINDS);
}
