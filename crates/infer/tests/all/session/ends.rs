//! Ends of texts and of contexts.

use crate::every_drafter::eagle;
use crate::session::kinds::{
    Kind, NEW_TOKENS, PROMPT, deep, for_each_kind, for_each_training_free, go_on, limits, plain,
};
use gorgon_core::Token;
use gorgon_core::accept::Greedy;
use gorgon_core::accept::random::SeededRandom;
use gorgon_infer::{Batch, DecodeError, Drafts, Event, Feed, Finish, Generation, Request};
use gorgon_model::decoder::Decoder;
use gorgon_model::target::Target;
use std::ops::ControlFlow;
use std::sync::Arc;

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

/// A text that fills its context, and the prompt in front of it.
struct Filling {
    decoder: Arc<Decoder>,
    context: usize,
    prompt: Vec<Token>,
    /// Tokens that fit behind the prompt, the last of which is emitted but not read.
    most: usize,
    want: Vec<Token>,
}

impl Filling {
    fn new(decoder: &Arc<Decoder>, context: usize, prompt: usize) -> Self {
        let text: Vec<Token> = (0..prompt).map(|i| (i * 37 + 11) as Token % 300).collect();
        let most = (context + 1).saturating_sub(prompt);
        let want = if most > 0 { plain(decoder, &text, most) } else { vec![] };
        Self { decoder: decoder.clone(), context, prompt: text, most, want }
    }

    /// Less than the model's context, and all of it.
    fn all(decoder: &Arc<Decoder>) -> Vec<Self> {
        let of = |context: usize| [1, 5, context - 1, context, context + 1].map(|prompt| (context, prompt));
        let all = [24, 96].into_iter().flat_map(of);
        all.map(|(context, prompt)| Self::new(decoder, context, prompt)).collect()
    }

    fn is_refused(&self, error: &DecodeError, asked: usize) -> bool {
        let DecodeError::Context { prompt, new, context } = *error else { return false };
        (prompt, new, context) == (self.prompt.len(), asked, self.context)
    }

    fn check(&self, kind: &Kind<'_>) {
        let (what, most) = (format!("{}: {} tokens of {}", kind.name, self.prompt.len(), self.context), self.most);
        let drafts = Drafts { drafter: kind.make, tree: kind.tree };
        let drafts = Some(drafts).filter(|_| kind.name != "none");
        let (slots, slot) = (kind.slots(), kind.slots() / 2);
        let mut batch = Batch::new(&self.decoder, slots, self.context, drafts).unwrap();
        let mut session = kind.session(&self.decoder, self.context);
        for new in [0, most + 1] {
            let error = go_on(&mut session, kind.tree, &Greedy, &self.prompt, &limits(new, &[]), 0).unwrap_err();
            assert!(self.is_refused(&error, new), "{what}: {error}");
            let mut feed = Once { text: Some(&self.prompt), new, slot, found: None };
            let error = batch.serve(&Greedy, &mut feed).unwrap_err();
            assert!(self.is_refused(&error, new), "{what}: {error}");
        }
        assert!(session.is_empty(), "{what}: read before it was refused");
        if most > 0 {
            let found = go_on(&mut session, kind.tree, &Greedy, &self.prompt, &limits(most, &[]), 0).unwrap();
            assert_eq!((&found.ids, found.finish), (&self.want, Finish::Length), "{what}");
            assert_eq!(session.len(), self.context, "{what}");
            let mut feed = Once { text: Some(&self.prompt), new: most, slot, found: None };
            batch.serve(&Greedy, &mut feed).unwrap();
            assert_eq!(feed.found.unwrap().ids, self.want, "{what}, in a batch");
            assert_eq!(batch.session(slot).len(), self.context, "{what}, in a batch");
        }
    }
}

/// A text may fill its context to the last token, which is emitted but not read; one more is refused. Trees may reach
/// beyond it.
#[test]
fn contexts_are_exact_to_the_token() {
    let decoder = eagle::decoder();
    for filling in Filling::all(&decoder) {
        for_each_kind(&decoder, 0.0, |kind| filling.check(kind));
    }
}

/// As [`contexts_are_exact_to_the_token`], where guesses are kept beside the text, or layers of the target draft.
#[test]
fn contexts_are_exact_without_weights_of_the_drafters_own() {
    let decoder = deep();
    for filling in Filling::all(&decoder) {
        for_each_training_free(|kind| filling.check(kind));
    }
}

/// Nothing beyond the last emitted token is kept, whatever ended the text: the root of a next step that never comes is
/// not read either.
#[test]
fn nothing_is_committed_beyond_the_end() {
    let (shallow, deep) = (eagle::decoder(), deep());
    for_each_kind(&shallow, 0.0, |kind| nothing_is_kept_beyond(&shallow, kind));
    for_each_training_free(|kind| nothing_is_kept_beyond(&deep, kind));
}

fn nothing_is_kept_beyond(decoder: &Arc<Decoder>, kind: &Kind<'_>) {
    let text = plain(decoder, &PROMPT, NEW_TOKENS);
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
            let mut session = kind.session(decoder, 96);
            let found = go_on(&mut session, kind.tree, &Greedy, &PROMPT, &limits, 0).unwrap();
            assert_eq!((&found.ids[..], found.finish), (&text[..emitted], finish), "{what}");
            let kept = PROMPT.len() + emitted - 1;
            assert_eq!((session.len(), session.target().len()), (kept, kept), "{what}");
        }
    }
    // The drafter kept no more either: the text continues as it would have.
    for at in 1..NEW_TOKENS {
        let mut session = kind.session(decoder, 96);
        go_on(&mut session, kind.tree, &Greedy, &PROMPT, &limits(at, &[]), 0).unwrap();
        let so_far = [&PROMPT[..], &text[..at]].concat();
        let found = go_on(&mut session, kind.tree, &Greedy, &so_far, &limits(NEW_TOKENS - at, &[]), 0).unwrap();
        assert_eq!((found.read, &found.ids[..]), (1, &text[at..]), "{}", kind.name);
    }
}
