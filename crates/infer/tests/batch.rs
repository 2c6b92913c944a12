//! A batch decodes every sequence as if it were alone, plainly and with any drafter, however slots are refilled.

mod every_drafter;

use every_drafter::{builders, drafters, eagle};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, RuleChoice};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, FixedTree, TreeShape};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use gorgon_draft::ngram::NgramDrafter;
use gorgon_infer::{Batch, DecodeError, Drafts, Event, Feed, Generation, Limits, Method, Request, Session, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, Target};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tokens of a sequence at most.
const TOKENS: usize = 90;
/// Tokens of an answer at most.
const NEW_TOKENS: usize = 17;
/// Tokens that end an answer.
const END: [Token; 12] = [3, 17, 40, 77, 90, 111, 140, 171, 199, 230, 255, 290];

/// A sequence: what is asked, turn by turn.
fn questions(n: usize) -> Vec<Vec<Vec<Token>>> {
    let question = |i: usize, turn: usize| {
        let length = 1 + (i * 5 + turn * 3) % 11;
        (0..length).map(|t| ((i * 31 + turn * 7 + t * t) % 60) as Token).collect()
    };
    (0..n).map(|i| (0..1 + i % 3).map(|turn| question(i, turn)).collect()).collect()
}

fn rule(temperature: f64) -> Box<dyn AcceptanceRule + Send + Sync> {
    RuleChoice::Auto.rule(transform(temperature))
}

fn transform(temperature: f64) -> Transform {
    Transform::new(temperature, None, None).unwrap()
}

/// Chance of an answer.
fn chance(sequence: usize, turn: usize) -> SeededRandom {
    SeededRandom::stream(9, (sequence * 16 + turn) as u64)
}

/// How much an answer after so many tokens may have.
fn room(read: usize) -> usize {
    NEW_TOKENS.min(TOKENS - read)
}

/// A sequence in a slot.
struct Talk {
    index: usize,
    /// What was asked and answered.
    ids: Vec<Token>,
    /// Tokens of `ids` when the last question was asked.
    asked: usize,
    answers: Vec<Vec<Token>>,
    events: Vec<Token>,
}

/// Sequences as requests, those that are left to the slots that are free.
struct Talks<'q> {
    all: &'q [Vec<Vec<Token>>],
    begun: usize,
    active: Vec<Option<Talk>>,
    answers: Vec<Vec<Vec<Token>>>,
    /// Tokens that came beyond one a step.
    beyond: usize,
}

impl<'q> Talks<'q> {
    fn new(all: &'q [Vec<Vec<Token>>], slots: usize) -> Self {
        let active = (0..slots).map(|_| None).collect();
        Self { all, begun: 0, active, answers: vec![vec![]; all.len()], beyond: 0 }
    }
}

impl Feed<'static> for Talks<'_> {
    type Error = DecodeError;

    fn next(&mut self, slot: usize, read: usize) -> Result<Option<Request<'static>>, DecodeError> {
        loop {
            let mut talk = match self.active[slot].take() {
                Some(talk) => {
                    // The slot holds the talk: all but the last token of the last answer, whatever ended it.
                    assert_eq!(read, talk.ids.len() - 1);
                    talk
                }
                None if self.begun < self.all.len() => {
                    self.begun += 1;
                    Talk { index: self.begun - 1, ids: vec![], asked: 0, answers: vec![], events: vec![] }
                }
                None => return Ok(None),
            };
            let turn = talk.answers.len();
            match self.all[talk.index].get(turn) {
                Some(question) => {
                    talk.ids.extend(question);
                    talk.asked = talk.ids.len();
                    let limits = Limits { max_new_tokens: room(talk.ids.len()), end_tokens: END.to_vec() };
                    let request = Request::new(&talk.ids, &limits, chance(talk.index, turn));
                    self.active[slot] = Some(talk);
                    return Ok(Some(request));
                }
                None => self.answers[talk.index] = talk.answers,
            }
        }
    }

    fn event(&mut self, slot: usize, event: Event) -> ControlFlow<()> {
        self.active[slot].as_mut().unwrap().events.extend(event.token());
        ControlFlow::Continue(())
    }

    fn finished(&mut self, slot: usize, generation: Generation) -> Result<(), DecodeError> {
        let talk = self.active[slot].as_mut().unwrap();
        assert_eq!(std::mem::take(&mut talk.events), generation.ids);
        if !talk.answers.is_empty() {
            // Nothing is read twice: the last token that was emitted, and the question.
            let turn = talk.answers.len();
            assert_eq!(generation.read, 1 + self.all[talk.index][turn].len());
        }
        self.beyond += generation.ids.len() - 1 - generation.accepted.len();
        talk.ids.extend(&generation.ids);
        talk.answers.push(generation.ids);
        Ok(())
    }

    fn failed(&mut self, error: DecodeError) -> DecodeError {
        error
    }
}

/// The answers of all sequences in a batch, and the tokens that came beyond one a step.
fn together(
    batch: &mut Batch<'_>,
    all: &[Vec<Vec<Token>>],
    rule: &dyn AcceptanceRule,
) -> (Vec<Vec<Vec<Token>>>, usize) {
    let mut talks = Talks::new(all, batch.slots());
    batch.serve(rule, &mut talks).unwrap();
    (talks.answers, talks.beyond)
}

/// The same, sequence by sequence and turn by turn, each read from its first token on.
fn alone(
    decoder: &Arc<Decoder>,
    with: Option<Drafts<'_>>,
    all: &[Vec<Vec<Token>>],
    rule: &dyn AcceptanceRule,
) -> Vec<Vec<Vec<Token>>> {
    let mut go_on = |_| ControlFlow::Continue(());
    let sequence = |(index, questions): (usize, &Vec<Vec<Token>>)| {
        let mut ids = vec![];
        let mut answers = vec![];
        for (turn, question) in questions.iter().enumerate() {
            ids.extend(question);
            let limits = Limits { max_new_tokens: room(ids.len()), end_tokens: END.to_vec() };
            let random = &mut chance(index, turn);
            let answer = match with {
                None => {
                    let mut target = DecoderTarget::new(decoder.clone(), TOKENS, Hooks::none());
                    decode(&mut target, &ids, rule, random, &limits, &mut go_on).unwrap().ids
                }
                Some(Drafts { drafter, tree }) => {
                    let mut drafter = drafter();
                    let hooks = drafter.needs().hooks;
                    let mut target = DecoderTarget::new(decoder.clone(), TOKENS, hooks);
                    let (target, drafter) = (&mut target, drafter.as_mut());
                    Session::new(target, drafter)
                        .generate(Method { tree, rule }, Request::new(&ids, &limits, random), &mut go_on)
                        .unwrap()
                        .ids
                }
            };
            ids.extend(&answer);
            answers.push(answer);
        }
        answers
    };
    all.iter().enumerate().map(sequence).collect()
}

#[test]
fn plain_decoding_in_a_batch_is_plain_decoding() {
    let (decoder, all) = (eagle::decoder(), questions(20));
    for temperature in [0.0, 1.0] {
        let rule = rule(temperature);
        let want = alone(&decoder, None, &all, rule.as_ref());
        // Some answers end by themselves and others do not, or the test would say little.
        let ends = want.iter().flatten().filter(|answer| answer.last().is_some_and(|last| END.contains(last))).count();
        assert!(ends > 3 && ends < want.iter().flatten().count() - 3, "{ends}");
        for slots in [1, 3, 16] {
            let mut batch = Batch::new(&decoder, slots, TOKENS, None).unwrap();
            let (found, beyond) = together(&mut batch, &all, rule.as_ref());
            assert_eq!((found, beyond), (want.clone(), 0), "{slots} slots at temperature {temperature}");
        }
    }
}

#[test]
fn drafted_decoding_in_a_batch_is_that_of_each_sequence_alone() {
    let (decoder, all) = (eagle::decoder(), questions(8));
    for temperature in [0.0, 1.0] {
        let rule = rule(temperature);
        let plain = alone(&decoder, None, &all, rule.as_ref());
        for (name, drafter) in drafters(&decoder, temperature) {
            for builder in builders() {
                let drafts = Drafts { drafter: drafter.as_ref(), tree: builder.as_ref() };
                let want = alone(&decoder, Some(drafts), &all, rule.as_ref());
                assert!(temperature > 0.0 || want == plain, "{name} changes greedy text");
                for slots in [3, 16] {
                    let mut batch = Batch::new(&decoder, slots, TOKENS, Some(drafts)).unwrap();
                    let (found, beyond) = together(&mut batch, &all, rule.as_ref());
                    assert_eq!(found, want, "{name}, {slots} slots at temperature {temperature}");
                    assert!(beyond > 0 || name != "model", "nothing was accepted");
                }
            }
        }
    }
}

/// One request for each slot that has one.
struct Each<'q> {
    texts: Vec<Option<&'q [Token]>>,
    limits: Limits,
    found: Vec<Option<Generation>>,
}

impl<'q> Each<'q> {
    fn new(texts: &[Option<&'q [Token]>], new: usize) -> Self {
        let limits = Limits { max_new_tokens: new, end_tokens: vec![] };
        Self { texts: texts.to_vec(), limits, found: vec![None; texts.len()] }
    }
}

impl Feed<'static> for Each<'_> {
    type Error = DecodeError;

    fn next(&mut self, slot: usize, _: usize) -> Result<Option<Request<'static>>, DecodeError> {
        Ok(self.texts[slot].take().map(|text| Request::new(text, &self.limits, chance(slot, 0))))
    }

    fn event(&mut self, _: usize, _: Event) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn finished(&mut self, slot: usize, generation: Generation) -> Result<(), DecodeError> {
        self.found[slot] = Some(generation);
        Ok(())
    }

    fn failed(&mut self, error: DecodeError) -> DecodeError {
        error
    }
}

/// A target whose scores are no numbers is an error that names the slot; nothing stays in flight. (Steps of such a
/// target are looked at where steps are.)
#[test]
fn scores_that_are_no_numbers_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    eagle::SHAPE.write(dir.path(), FloatFormat::F32, 3).unwrap();
    let path = dir.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[data..].chunks_exact_mut(4).for_each(|place| place.copy_from_slice(&f32::NAN.to_le_bytes()));
    std::fs::write(&path, bytes).unwrap();
    let broken = Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
    let (chain, drafter) = (ChainTree::new(2).unwrap(), || Box::new(NgramDrafter::new(2)) as Box<dyn Drafter>);
    let drafts = Drafts { drafter: &drafter, tree: &chain };
    let mut batch = Batch::new(&broken, 3, TOKENS, Some(drafts)).unwrap();
    let rule = rule(0.0);
    for _ in 0..2 {
        let mut feed = Each::new(&[None, Some(&[1, 2]), None], 5);
        let error = batch.serve(rule.as_ref(), &mut feed).unwrap_err();
        assert!(matches!(error, DecodeError::NonFinite { slot: 1, position: 2 }), "{error}");
        assert_eq!([0, 1, 2].map(|slot| batch.session(slot).len()), [0, 2, 0]);
        assert_eq!([0, 1, 2].map(|slot| batch.session(slot).target().len()), [0, 2, 0]);
    }
}

/// Where a drafter fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Draft,
    Observe,
}

/// Fails once, after some steps.
struct Failing {
    inner: NgramDrafter,
    fault: Option<Fault>,
    /// Steps until then.
    left: usize,
}

impl Failing {
    fn fail(&mut self, here: Fault) -> Result<(), DraftError> {
        if self.fault != Some(here) {
            return Ok(());
        }
        if self.left > 0 {
            self.left -= 1;
            return Ok(());
        }
        self.fault = None;
        Err(DraftError::Hooks { wanted: 7, found: 0 })
    }
}

impl Drafter for Failing {
    fn name(&self) -> &str {
        "failing"
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn reset(&mut self) {
        self.inner.reset();
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.inner.truncate(length)
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if pass.verified.is_some() {
            self.fail(Fault::Observe)?;
        }
        self.inner.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        self.fail(Fault::Draft)?;
        self.inner.draft(root, context)
    }
}

/// A drafter that fails in one slot ends the batch's run and leaves nothing in flight in any: all slots go on from what
/// they have read.
#[test]
fn after_a_drafter_that_fails_the_batch_can_be_used() {
    let (decoder, rule) = (eagle::decoder(), rule(0.0));
    let tree = FixedTree::new(TreeShape::cartesian(&[2, 2]).unwrap());
    // Text that repeats itself, so that there are drafts.
    let texts: [&[Token]; 4] = [&[5, 6, 5, 6, 5], &[7, 7, 7], &[1, 2, 3, 1, 2, 3, 1], &[9, 8, 9, 8]];
    let texts = texts.map(Some);
    let plain = |text: &[Token]| {
        let mut target = DecoderTarget::new(decoder.clone(), TOKENS, Hooks::none());
        let limits = Limits { max_new_tokens: 30, end_tokens: vec![] };
        let go_on = &mut |_| ControlFlow::Continue(());
        decode(&mut target, text, rule.as_ref(), &mut chance(0, 0), &limits, go_on).unwrap().ids
    };
    let want: Vec<Vec<Token>> = texts.iter().flatten().map(|text| plain(text)).collect();
    for (fault, slots) in [(Fault::Draft, 4), (Fault::Observe, 4), (Fault::Draft, 1), (Fault::Observe, 1)] {
        for failing in 0..slots {
            let made = AtomicUsize::new(0);
            let drafter = || {
                let fault = Some(fault).filter(|_| made.fetch_add(1, Ordering::Relaxed) == failing);
                Box::new(Failing { inner: NgramDrafter::new(2), fault, left: 3 }) as Box<dyn Drafter>
            };
            let drafts = Drafts { drafter: &drafter, tree: &tree };
            let mut batch = Batch::new(&decoder, slots, TOKENS, Some(drafts)).unwrap();
            let error = batch.serve(rule.as_ref(), &mut Each::new(&texts[..slots], 30)).unwrap_err();
            let what = format!("{fault:?} of slot {failing} of {slots}");
            assert!(matches!(error, DecodeError::Draft(DraftError::Hooks { wanted: 7, found: 0 })), "{what}: {error}");
            for slot in 0..slots {
                let (session, prompt) = (batch.session(slot), texts[slot].unwrap().len());
                assert_eq!(session.len(), session.target().len(), "{what}: slot {slot}");
                // Where a drafter failed to take note of what was committed, all is forgotten.
                let forgot = fault == Fault::Observe && slot == failing;
                assert!(if forgot { session.is_empty() } else { session.len() > prompt }, "{what}: slot {slot}");
            }
            // A second reservation would be an error.
            let mut feed = Each::new(&texts[..slots], 30);
            batch.serve(rule.as_ref(), &mut feed).unwrap();
            let found: Vec<Vec<Token>> = feed.found.into_iter().map(|found| found.unwrap().ids).collect();
            assert_eq!(found, want[..slots], "{what}");
        }
    }
}

/// Runs layers of the target.
struct Lent;

impl Drafter for Lent {
    fn name(&self) -> &str {
        "lent"
    }

    fn needs(&self) -> Needs {
        Needs { lends_target: true, ..Needs::default() }
    }

    fn reset(&mut self) {}

    fn observe(&mut self, _: VerifiedPass<'_>) -> Result<(), DraftError> {
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        assert!(context.target.is_some());
        Ok(Proposal::root(root))
    }
}

/// The target is lent to one sequence, not to one of several.
#[test]
fn a_drafter_that_borrows_the_target_is_refused_by_a_batch_of_several() {
    let (decoder, rule) = (eagle::decoder(), rule(0.0));
    let drafter = || Box::new(Lent) as Box<dyn Drafter>;
    let drafts = Drafts { drafter: &drafter, tree: &ChainTree::new(2).unwrap() };
    let error = Batch::new(&decoder, 2, TOKENS, Some(drafts)).map(|_| ()).unwrap_err();
    assert!(matches!(error, DecodeError::Draft(DraftError::NotLent { .. })), "{error}");
    let mut batch = Batch::new(&decoder, 1, TOKENS, Some(drafts)).unwrap();
    let mut feed = Each::new(&[Some(&[1, 2])], 4);
    batch.serve(rule.as_ref(), &mut feed).unwrap();
    assert_eq!(feed.found[0].as_ref().unwrap().ids.len(), 4);
}
