//! Matches and counts of the automaton and of stores against the fixtures.

use crate::shared;
use gorgon_core::Token;
use gorgon_draft::store::{Store, StoreBuilder};
use gorgon_draft::suffix::automaton::SuffixAutomaton;
use serde_json::Value;

fn tokens(list: &Value) -> Vec<Token> {
    list.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as Token).collect()
}

fn counts(list: &Value) -> Vec<(Token, usize)> {
    let number = |value: &Value| value.as_u64().unwrap() as usize;
    list.as_array().unwrap().iter().map(|pair| (number(&pair[0]) as Token, number(&pair[1]))).collect()
}

#[test]
fn matches_and_counts_are_those_of_the_fixtures() {
    let Some(path) = shared::shared("fixtures/suffix/suffix.json", "training_free") else { return };
    let fixture: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let cases = fixture["cases"].as_array().unwrap();
    assert!(cases.len() >= 30);
    let folder = tempfile::tempdir().unwrap();
    for (number, case) in cases.iter().enumerate() {
        let text = tokens(&case["text"]);
        let store = case.get("static").map(|text| {
            let path = folder.path().join(number.to_string());
            let mut builder = StoreBuilder::default();
            builder.add(&tokens(text)).unwrap();
            builder.write(&path, &"0".repeat(64)).unwrap();
            Store::open(&path).unwrap()
        });
        let mut automaton = SuffixAutomaton::new();
        for (t, row) in case["rows"].as_array().unwrap().iter().enumerate() {
            automaton.push(text[t]);
            let what = format!("case {number}, token {t}");
            own(&mut automaton, row, t, &what);
            if let Some(store) = &store {
                let found = store.longest(&text[..=t]);
                let next: Vec<_> = store.followers(found).map(|(token, run)| (token, run.count())).collect();
                assert_eq!(Some(found.length as u64), row[4].as_u64(), "{what}");
                assert_eq!(Some(found.count() as u64), row[5].as_u64(), "{what}");
                assert_eq!(next, counts(&row[6]), "{what}");
            }
        }
        if let Some(states) = case.get("automaton_states") {
            assert_eq!(Some(automaton.states() as u64), states.as_u64(), "case {number}");
        }
    }
}

/// Compares a row of the text's own match.
fn own(automaton: &mut SuffixAutomaton, row: &Value, t: usize, what: &str) {
    let (state, length) = automaton.matched();
    let mut followers: Vec<_> = automaton.following(state).collect();
    followers.sort_by_key(|follower| follower.token);
    let next: Vec<_> = followers.iter().map(|follower| (follower.token, follower.count as usize)).collect();
    assert_eq!(Some(length as u64), row[0].as_u64(), "{what}");
    assert_eq!(next, counts(&row[3]), "{what}");
    if length > 0 {
        let latest = followers.iter().map(|follower| follower.latest).max().unwrap();
        assert_eq!(Some(i64::from(latest) - 1), row[2].as_i64(), "{what}");
        assert_eq!(Some(next.iter().map(|(_, count)| *count as u64).sum()), row[1].as_u64(), "{what}");
    } else {
        assert_eq!(next.iter().map(|(_, count)| count).sum::<usize>(), t + 1, "{what}");
    }
}
