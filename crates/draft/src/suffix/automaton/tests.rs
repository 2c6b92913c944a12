//! Tests of `automaton` against a search of the whole text.

use super::*;
use gorgon_core::accept::random::SeededRandom;

/// End positions before the last at which the last `length` tokens end.
fn earlier(text: &[Token], length: usize) -> Vec<usize> {
    let suffix = &text[text.len() - length..];
    (length.max(1) - 1..text.len() - 1).filter(|&end| text[..=end].ends_with(suffix)).collect()
}

fn check(automaton: &mut SuffixAutomaton, text: &[Token]) {
    let longest = (1..text.len()).rev().find(|&length| !earlier(text, length).is_empty()).unwrap_or(0);
    let (state, length) = automaton.matched();
    assert_eq!(length, longest, "{text:?}");
    assert!(automaton.states() <= 2 * text.len().max(1), "{text:?}");
    if longest == 0 {
        return;
    }
    let ends = earlier(text, longest);
    let mut want: Vec<(Token, u32, u32)> = vec![];
    for end in ends {
        match want.iter_mut().find(|(token, ..)| *token == text[end + 1]) {
            Some((_, count, latest)) => (*count, *latest) = (*count + 1, end as u32 + 1),
            None => want.push((text[end + 1], 1, end as u32 + 1)),
        }
    }
    let mut found: Vec<_> = automaton.following(state).map(|next| (next.token, next.count, next.latest)).collect();
    want.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, want, "{text:?}");
}

#[test]
fn matches_and_counts_are_those_of_a_search() {
    for seed in 0..3000 {
        let mut random = SeededRandom::new(seed);
        let mut below = |limit: usize| (random.uniform() * limit as f64) as usize;
        let (symbols, length, every) = (2 + below(3), 1 + below(70), 1 + below(20));
        let repeat = below(3) == 0;
        let mut text: Vec<Token> = vec![];
        let mut automaton = SuffixAutomaton::new();
        while text.len() < length {
            let token = if repeat && text.len() > 6 { text[text.len() - 6] } else { below(symbols) as Token };
            let token = if below(15) == 0 { below(symbols) as Token } else { token };
            text.push(token);
            automaton.push(token);
            // Counts are asked for after every token, or after many.
            if text.len().is_multiple_of(every) {
                check(&mut automaton, &text);
            }
        }
        check(&mut automaton, &text);
    }
}

/// One sweep counts as links do, and texts that repeat one phrase are no worse than others.
#[test]
fn many_ends_are_counted_at_once() {
    for period in [1usize, 2, 7, 4000] {
        let text: Vec<Token> = (0..4000).map(|i| (i % period * 7919 % 101) as Token).collect();
        let (mut swept, mut along) = (SuffixAutomaton::new(), SuffixAutomaton::new());
        for &token in &text {
            swept.push(token);
            along.push(token);
            along.count();
        }
        swept.count();
        let all = |automaton: &SuffixAutomaton| -> Vec<_> {
            automaton.states.iter().map(|state| (state.length, state.link, state.count, state.latest)).collect()
        };
        assert_eq!(all(&swept), all(&along), "period {period}");
    }
}

#[test]
fn memory_is_bounded_and_serves_again() {
    let mut automaton = SuffixAutomaton::new();
    let text: Vec<Token> = (0..5000u64).map(|i| (i * i % 613 * i % 97) as Token).collect();
    text.iter().for_each(|&token| automaton.push(token));
    let (states, bytes) = (automaton.states(), automaton.bytes());
    assert!(states <= 2 * text.len() && bytes <= 160 * text.len(), "{states} {bytes}");
    automaton.clear();
    assert!(automaton.is_empty() && automaton.matched() == (ROOT, 0));
    text.iter().for_each(|&token| automaton.push(token));
    assert_eq!((automaton.states(), automaton.len()), (states, text.len()));
}
