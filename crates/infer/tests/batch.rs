//! A batch decodes every sequence as if it were alone, plainly and with any drafter, however slots are refilled.

#[path = "../../draft/tests/eagle/random.rs"]
#[allow(dead_code)] // the drafter's own tests use the rest
mod eagle;
#[path = "../../draft/tests/hydra/random.rs"]
#[allow(dead_code)] // the drafter's own tests use the rest
mod hydra;
#[path = "../../draft/tests/mtp/random.rs"]
#[allow(dead_code)] // the drafter's own tests use the rest
mod mtp;
mod random_medusa;

use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, RuleChoice};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, TreeBuilder, TreeShape};
use gorgon_draft::draft_model::{DraftModel, DraftModelDrafter, DraftSampling};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::eagle::{EagleDrafter, EagleShape};
use gorgon_draft::hydra::HydraDrafter;
use gorgon_draft::medusa::MedusaDrafter;
use gorgon_draft::mtp::MtpDrafter;
use gorgon_draft::ngram::NgramDrafter;
use gorgon_infer::batch::{Batch, BatchError, Choosing, Drafts, Turn};
use gorgon_infer::{Limits, Method, Request, Session, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, Target};
use std::ops::ControlFlow;
use std::sync::Arc;

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
struct Talk<'a> {
    index: usize,
    questions: &'a [Vec<Token>],
    turn: usize,
    ids: Vec<Token>,
    answered: Vec<Vec<Token>>,
    answer: Vec<Token>,
    random: SeededRandom,
}

impl<'a> Talk<'a> {
    fn new(index: usize, questions: &'a [Vec<Token>]) -> Self {
        let (ids, answered, answer) = (vec![], vec![], vec![]);
        Self { index, questions, turn: 0, ids, answered, answer, random: chance(index, 0) }
    }

    /// Asks the next question. False if there is none.
    fn ask(&mut self, slot: usize, batch: &mut Batch<'_>, rule: &dyn AcceptanceRule) -> bool {
        let Some(question) = self.questions.get(self.turn) else { return false };
        self.ids.extend(question);
        self.random = chance(self.index, self.turn);
        let unread = self.ids[batch.len(slot)..].to_vec();
        self.answer = vec![batch.prefill(slot, &unread, rule, &mut self.random).unwrap()];
        true
    }

    /// Ends the answer if it is at its end; then true.
    fn ended(&mut self) -> bool {
        let done =
            self.answer.last().is_some_and(|last| END.contains(last)) || self.answer.len() >= room(self.ids.len());
        if done {
            self.ids.extend(&self.answer);
            self.answered.push(std::mem::take(&mut self.answer));
            self.turn += 1;
        }
        done
    }
}

/// The answers of all sequences with so many slots, and the tokens that came beyond one a step.
fn together(
    mut batch: Batch<'_>,
    all: &[Vec<Vec<Token>>],
    rule: &(dyn AcceptanceRule + Sync),
) -> (Vec<Vec<Vec<Token>>>, usize) {
    let choosing = Choosing { rule, end_tokens: &END };
    let (mut answers, mut next, mut beyond) = (vec![vec![]; all.len()], 0, 0);
    let mut active: Vec<Option<Talk<'_>>> = (0..batch.slots()).map(|_| None).collect();
    loop {
        for (slot, place) in active.iter_mut().enumerate() {
            while place.is_none() && next < all.len() {
                let mut talk = Talk::new(next, &all[next]);
                next += 1;
                batch.reset(slot);
                while talk.ask(slot, &mut batch, rule) && talk.ended() {}
                match talk.answer.is_empty() {
                    true => answers[talk.index] = talk.answered,
                    false => *place = Some(talk),
                }
            }
        }
        let going = active.iter_mut().enumerate();
        let mut turns: Vec<Turn<'_>> = going
            .filter_map(|(slot, talk)| {
                let talk = talk.as_mut()?;
                let left = room(talk.ids.len()) - talk.answer.len();
                Some(Turn { slot, root: *talk.answer.last()?, left, random: &mut talk.random })
            })
            .collect();
        if turns.is_empty() {
            return (answers, beyond);
        }
        let outcomes = batch.step(&mut turns, choosing).unwrap();
        let slots: Vec<usize> = turns.iter().map(|turn| turn.slot).collect();
        for (slot, outcome) in slots.into_iter().zip(outcomes) {
            let Some(mut talk) = active[slot].take() else { continue };
            beyond += outcome.tokens.len() - 1;
            talk.answer.extend_from_slice(&outcome.tokens);
            while talk.ended() && talk.ask(slot, &mut batch, rule) {}
            match talk.answer.is_empty() {
                true => answers[talk.index] = talk.answered,
                false => active[slot] = Some(talk),
            }
        }
    }
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
                Some(Drafts { drafter, builder }) => {
                    let mut drafter = drafter();
                    let hooks = drafter.needs().hooks;
                    let mut target = DecoderTarget::new(decoder.clone(), TOKENS, hooks);
                    let (target, drafter) = (&mut target, drafter.as_mut());
                    Session::new(target, drafter)
                        .generate(Method { tree: builder, rule }, Request::new(&ids, &limits, random), &mut go_on)
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

type Make = Box<dyn Fn() -> Box<dyn Drafter>>;

/// Every kind of drafter, heads with random weights.
fn drafters(decoder: &Arc<Decoder>, temperature: f64) -> Vec<(&'static str, Make)> {
    let mut all: Vec<(&'static str, Make)> = vec![("ngram", Box::new(|| Box::new(NgramDrafter::new(3))))];
    for damage in [None, Some(f32::NAN)] {
        let model = Arc::new(random_medusa::model(decoder, false, damage));
        all.push(("medusa", Box::new(move || Box::new(MedusaDrafter::sharing(model.clone())))));
    }
    // Where one value of the layer is no number, all that it guesses is none.
    let broken = tempfile::tempdir().unwrap();
    let shape = EagleShape::of(decoder.config(), true);
    eagle::write(broken.path(), &shape, |tensors, _| tensors[0].2[5] = f32::NAN);
    let broken = Arc::new(eagle::load(broken.path(), decoder).unwrap());
    all.push(("eagle", Box::new(move || Box::new(EagleDrafter::sharing(broken.clone())))));
    let one = Arc::new(eagle::model(decoder, true));
    all.push(("eagle", Box::new(move || Box::new(EagleDrafter::sharing(one.clone())))));
    let three = Arc::new(eagle::model_three(decoder));
    all.push(("eagle3", Box::new(move || Box::new(EagleDrafter::sharing(three.clone())))));
    for config in hydra::kinds() {
        let model = Arc::new(hydra::model(decoder, config));
        all.push(("hydra", Box::new(move || Box::new(HydraDrafter::sharing(model.clone())))));
    }
    let modules = Arc::new(mtp::model(decoder, 3));
    all.push(("mtp", Box::new(move || Box::new(MtpDrafter::sharing(modules.clone())))));
    // The target drafts for itself, so that much is accepted.
    let law = DraftSampling::of(RuleChoice::Auto, transform(temperature));
    let model = DraftModel::new("model:itself".into(), decoder.clone(), decoder.config());
    all.push(("model", Box::new(move || Box::new(DraftModelDrafter::new(model.clone(), law)))));
    all
}

fn builders() -> Vec<Box<dyn TreeBuilder>> {
    vec![
        Box::new(FixedTree::new(TreeShape::cartesian(&[3, 2, 2]).unwrap())),
        Box::new(DynamicTree::new(14, 3, 4).unwrap()),
    ]
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
            let (found, beyond) = together(Batch::new(decoder.clone(), slots, TOKENS), &all, rule.as_ref());
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
                let drafts = Drafts { drafter: drafter.as_ref(), builder: builder.as_ref() };
                let want = alone(&decoder, Some(drafts), &all, rule.as_ref());
                assert!(temperature > 0.0 || want == plain, "{name} changes greedy text");
                for slots in [3, 16] {
                    let batch = Batch::with_drafts(decoder.clone(), slots, TOKENS, drafts);
                    let (found, beyond) = together(batch, &all, rule.as_ref());
                    assert_eq!(found, want, "{name}, {slots} slots at temperature {temperature}");
                    assert!(beyond > 0 || name != "model", "nothing was accepted");
                }
            }
        }
    }
}

/// A target whose scores are no numbers is an error that names the slot; nothing stays in flight.
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
    let drafts = Drafts { drafter: &drafter, builder: &chain };
    let mut batch = Batch::with_drafts(broken, 3, TOKENS, drafts);
    let (rule, mut random) = (rule(0.0), (chance(0, 0), chance(1, 0)));
    let error = batch.prefill(1, &[1, 2], rule.as_ref(), &mut random.0).unwrap_err();
    assert!(matches!(error, BatchError::NonFinite { slot: 1 }), "{error}");
    let choosing = Choosing { rule: rule.as_ref(), end_tokens: &[] };
    for _ in 0..2 {
        let mut turns = [
            Turn { slot: 1, root: 1, left: 5, random: &mut random.0 },
            Turn { slot: 2, root: 1, left: 5, random: &mut random.1 },
        ];
        let error = batch.step(&mut turns, choosing).unwrap_err();
        assert!(matches!(error, BatchError::NonFinite { slot: 1 }), "{error}");
        assert_eq!((batch.len(1), batch.len(2)), (2, 0));
    }
}
