//! Turns of a session: what is read, and what is answered.

use crate::every_drafter::eagle;
use crate::session::kinds::{NEW_TOKENS, PROMPT, for_each_kind, go_on, limits, plain};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, Greedy, RuleChoice};
use gorgon_core::dist::Transform;
use gorgon_infer::{DecodeError, Finish, Method, Request};
use gorgon_model::decoder::ModelError;
use gorgon_model::target::Target;
use std::ops::ControlFlow;

/// Drafters that forget the end of a text without reading its beginning again.
const GO_BACK: [&str; 8] = ["none", "ngram", "medusa", "model", "block", "ppd", "pass", "space"];

fn rule(temperature: f64) -> Box<dyn AcceptanceRule> {
    RuleChoice::Auto.rule(Transform::new(temperature, None, None).unwrap())
}

/// Text that extends what a session knows is read from there on, and the answer is that of a session that read it all.
#[test]
fn a_further_turn_reads_only_its_new_tokens() {
    let decoder = eagle::decoder();
    for temperature in [0.0, 1.0] {
        let rule = rule(temperature);
        for_each_kind(&decoder, temperature, |kind| {
            let mut session = kind.session(&decoder, 96);
            let (mut text, mut known) = (PROMPT.to_vec(), 0);
            // The third turn adds nothing: the last token that was emitted is read, and no more.
            for (turn, question) in [&[][..], &[5, 6, 7], &[], &[72]].into_iter().enumerate() {
                text.extend(question);
                let (name, limits) = (kind.name, limits(NEW_TOKENS, &[]));
                let found = go_on(&mut session, kind.tree, rule.as_ref(), &text, &limits, 3).unwrap();
                assert_eq!(found.read, text.len() - known, "{name}: turn {turn}");
                let mut fresh = kind.session(&decoder, 96);
                let want = go_on(&mut fresh, kind.tree, rule.as_ref(), &text, &limits, 3).unwrap();
                assert_eq!(want.read, text.len());
                assert_eq!((found.ids.len(), &found.ids), (NEW_TOKENS, &want.ids), "{name}: turn {turn}");
                assert_eq!(found.accepted, want.accepted, "{name}: turn {turn}");
                text.extend(&found.ids);
                known = text.len() - 1;
                assert_eq!((session.len(), session.target().len()), (known, known), "{name}: turn {turn}");
            }
        });
    }
}

/// Text that leaves what a session knows is read from where it does, or anew where the drafter cannot go back.
#[test]
fn a_diverging_text_is_answered_as_if_it_were_the_first() {
    let decoder = eagle::decoder();
    for temperature in [0.0, 1.0] {
        let rule = rule(temperature);
        for_each_kind(&decoder, temperature, |kind| {
            let (name, limits) = (kind.name, limits(NEW_TOKENS, &[]));
            let mut session = kind.session(&decoder, 96);
            let first = go_on(&mut session, kind.tree, rule.as_ref(), &PROMPT, &limits, 3).unwrap();
            let whole = [&PROMPT[..], &first.ids].concat();
            // Tokens in common, and tokens behind them.
            for (common, behind) in [(9, 4), (0, 5), (1, 9), (PROMPT.len(), 1), (12, 0), (whole.len() - 1, 2), (0, 1)] {
                session.reset();
                go_on(&mut session, kind.tree, rule.as_ref(), &PROMPT, &limits, 3).unwrap();
                assert_eq!(session.len(), whole.len() - 1);
                let other = |i: usize| (whole.get(common + i).map_or(11, |&token| (token + 13) % 300), i);
                let text: Vec<Token> = whole[..common].iter().copied().chain((0..behind).map(|i| other(i).0)).collect();
                let found = go_on(&mut session, kind.tree, rule.as_ref(), &text, &limits, 4).unwrap();
                let mut fresh = kind.session(&decoder, 96);
                let want = go_on(&mut fresh, kind.tree, rule.as_ref(), &text, &limits, 4).unwrap();
                let what = format!("{name} at {temperature}: {common} tokens in common, {behind} behind them");
                assert_eq!((&found.ids, &found.accepted), (&want.ids, &want.accepted), "{what}");
                let kept = common.min(text.len() - 1);
                let kept = if GO_BACK.contains(&name) || kept == whole.len() - 1 { kept } else { 0 };
                assert_eq!(found.read, text.len() - kept, "{what}");
                assert_eq!(session.len(), text.len() + NEW_TOKENS - 1, "{what}");
            }
        });
    }
}

/// The remainder after a truncation is reported, and it is a text's beginning or nothing.
#[test]
fn a_session_says_how_much_a_truncation_left() {
    let decoder = eagle::decoder();
    for_each_kind(&decoder, 0.0, |kind| {
        let mut session = kind.session(&decoder, 96);
        let want = go_on(&mut session, kind.tree, &Greedy, &PROMPT, &limits(NEW_TOKENS, &[]), 3).unwrap().ids;
        let most = session.len();
        session.truncate(most + 3);
        session.truncate(most);
        assert_eq!(session.len(), most);
        session.truncate(4);
        let left = if GO_BACK.contains(&kind.name) { 4 } else { 0 };
        assert_eq!((session.len(), session.target().len()), (left, left), "{}", kind.name);
        let found = go_on(&mut session, kind.tree, &Greedy, &PROMPT, &limits(NEW_TOKENS, &[]), 3).unwrap();
        assert_eq!((found.read, found.ids), (PROMPT.len() - left, want), "{}", kind.name);
        session.truncate(0);
        assert!(session.is_empty() && session.target().is_empty());
    });
}

/// A caller that stops within a step's tokens has got fewer than were kept; the next turn goes by what it was given.
#[test]
fn a_text_that_was_stopped_goes_on() {
    let decoder = eagle::decoder();
    let text = plain(&decoder, &PROMPT, NEW_TOKENS);
    for_each_kind(&decoder, 0.0, |kind| {
        for stop in 1..NEW_TOKENS {
            let (mut session, mut seen) = (kind.session(&decoder, 96), vec![]);
            let limits = limits(NEW_TOKENS, &[]);
            let found = session
                .generate(
                    Method { tree: kind.tree, rule: &Greedy },
                    Request::new(&PROMPT, &limits, SeededRandom::new(0)),
                    &mut |event| {
                        seen.extend(event.token());
                        if seen.len() < stop { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                    },
                )
                .unwrap();
            assert_eq!((&found.ids[..], &seen[..], found.finish), (&text[..stop], &text[..stop], Finish::Stopped));
            assert_eq!(session.len(), session.target().len());
            let other = [&PROMPT[..], &text[..stop], &[33, 44]].concat();
            let found = go_on(&mut session, kind.tree, &Greedy, &other, &limits, 0).unwrap();
            assert_eq!(found.ids, plain(&decoder, &other, NEW_TOKENS), "{} stopped at {stop}", kind.name);
        }
    });
}

/// A text that cannot be read is an error, and the session answers the next one.
#[test]
fn a_text_that_cannot_be_read_leaves_the_session_usable() {
    let decoder = eagle::decoder();
    let text = plain(&decoder, &PROMPT, NEW_TOKENS);
    for_each_kind(&decoder, 0.0, |kind| {
        let mut session = kind.session(&decoder, 96);
        let mut ask = |text: &[Token]| go_on(&mut session, kind.tree, &Greedy, text, &limits(NEW_TOKENS, &[]), 0);
        for _ in 0..2 {
            let error = ask(&[]).unwrap_err();
            assert!(matches!(error, DecodeError::Model(ModelError::EmptyPrompt)), "{error}");
            assert!(ask(&[256, 72, 300]).is_err(), "300 is no token");
            assert_eq!(ask(&PROMPT).unwrap().ids, text, "{}", kind.name);
        }
    });
}
