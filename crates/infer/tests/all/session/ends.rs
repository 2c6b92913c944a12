//! Ends of texts and of contexts.

use crate::every_drafter::eagle;
use crate::session::kinds::{NEW_TOKENS, PROMPT, for_each_kind, go_on, limits, plain};
use gorgon_core::Token;
use gorgon_core::accept::Greedy;
use gorgon_core::accept::random::SeededRandom;
use gorgon_infer::{Batch, DecodeError, Drafts, Event, Feed, Finish, Generation, Request};
use gorgon_model::target::Target;
use std::ops::ControlFlow;

/// One request and its result.
struct Once<'q> {
    text: Option<&'q [Token]>,
    new: usize,
    slot: usize,
    found: Option<Generation>,
}

impl Feed<'static> for Once<'_> {
    type Error = DecodeError;

    fn next(&mut self, slot: usize, _: usize) -> Result<Option<Request<'static>>, DecodeError> {
        let text = self.text.take_if(|_| slot == self.slot);
        Ok(text.map(|text| Request::new(text, &limits(self.new, &[]), SeededRandom::new(0))))
    }

    fn event(&mut self, _: usize, _: Event) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn finished(&mut self, _: usize, generation: Generation) -> Result<(), DecodeError> {
        self.found = Some(generation);
        Ok(())
    }

    fn failed(&mut self, error: DecodeError) -> DecodeError {
        error
    }
}

/// A text may fill its context to the last token, which is emitted but not read; one more is refused. Trees may reach
/// beyond it.
#[test]
fn contexts_are_exact_to_the_token() {
    let decoder = eagle::decoder();
    // Less than the model's context, and all of it.
    for context in [24usize, 96] {
        for prompt in [1, 5, context - 1, context, context + 1] {
            let text: Vec<Token> = (0..prompt).map(|i| (i * 37 + 11) as Token % 300).collect();
            let most = (context + 1).saturating_sub(prompt);
            let want = if most > 0 { plain(&decoder, &text, most) } else { vec![] };
            let is_refused = |error: &DecodeError, asked: usize| match *error {
                DecodeError::Context { prompt: p, new, context: c } => (p, new, c) == (prompt, asked, context),
                _ => false,
            };
            for_each_kind(&decoder, 0.0, |kind| {
                let what = format!("{}: {prompt} tokens of {context}", kind.name);
                let drafts = Drafts { drafter: kind.make, tree: kind.tree };
                let drafts = Some(drafts).filter(|_| kind.name != "none");
                let mut batch = Batch::new(&decoder, 3, context, drafts).unwrap();
                let mut session = kind.session(&decoder, context);
                for new in [0, most + 1] {
                    let error = go_on(&mut session, kind.tree, &Greedy, &text, &limits(new, &[]), 0).unwrap_err();
                    assert!(is_refused(&error, new), "{what}: {error}");
                    let mut feed = Once { text: Some(&text), new, slot: 1, found: None };
                    let error = batch.serve(&Greedy, &mut feed).unwrap_err();
                    assert!(is_refused(&error, new), "{what}: {error}");
                }
                assert!(session.is_empty(), "{what}: read before it was refused");
                if most > 0 {
                    let found = go_on(&mut session, kind.tree, &Greedy, &text, &limits(most, &[]), 0).unwrap();
                    assert_eq!((found.ids, found.finish), (want.clone(), Finish::Length), "{what}");
                    assert_eq!(session.len(), context, "{what}");
                    let mut feed = Once { text: Some(&text), new: most, slot: 1, found: None };
                    batch.serve(&Greedy, &mut feed).unwrap();
                    assert_eq!(feed.found.unwrap().ids, want, "{what}, in a batch");
                    assert_eq!(batch.session(1).len(), context, "{what}, in a batch");
                }
            });
        }
    }
}

/// Nothing beyond the last emitted token is kept, whatever ended the text: the root of a next step that never comes is
/// not read either.
#[test]
fn nothing_is_committed_beyond_the_end() {
    let decoder = eagle::decoder();
    let text = plain(&decoder, &PROMPT, NEW_TOKENS);
    for_each_kind(&decoder, 0.0, |kind| {
        for at in 0..NEW_TOKENS {
            // Behind an end token, and where no token is left.
            let end = text.iter().position(|&token| token == text[at]).unwrap() + 1;
            let ends = [
                (limits(NEW_TOKENS + 5, &[text[at]]), end, Finish::EndToken),
                (limits(at + 1, &[]), at + 1, Finish::Length),
                (limits(end, &[text[at]]), end, Finish::EndToken),
            ];
            for (limits, emitted, finish) in ends {
                let what = format!("{}: {limits:?}", kind.name);
                let mut session = kind.session(&decoder, 96);
                let found = go_on(&mut session, kind.tree, &Greedy, &PROMPT, &limits, 0).unwrap();
                assert_eq!((&found.ids[..], found.finish), (&text[..emitted], finish), "{what}");
                let kept = PROMPT.len() + emitted - 1;
                assert_eq!((session.len(), session.target().len()), (kept, kept), "{what}");
            }
        }
        // The drafter kept no more either: the text continues as it would have.
        for at in 1..NEW_TOKENS {
            let mut session = kind.session(&decoder, 96);
            go_on(&mut session, kind.tree, &Greedy, &PROMPT, &limits(at, &[]), 0).unwrap();
            let so_far = [&PROMPT[..], &text[..at]].concat();
            let found = go_on(&mut session, kind.tree, &Greedy, &so_far, &limits(NEW_TOKENS - at, &[]), 0).unwrap();
            assert_eq!((found.read, &found.ids[..]), (1, &text[at..]), "{}", kind.name);
        }
    });
}
