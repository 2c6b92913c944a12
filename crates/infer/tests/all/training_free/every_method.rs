//! Properties that hold for every method.

use crate::planted::decoder;
use crate::shared;
use crate::training_free::kinds::{methods, trees};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{Greedy, RuleChoice};
use gorgon_core::dist::Transform;
use gorgon_core::tree::TreeBuilder;
use gorgon_draft::draft_model::DraftSampling;
use gorgon_draft::training_free::TrainingFree;
use gorgon_infer::{Generation, Limits, Method, Request, Session, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NEW_TOKENS: usize = 40;

fn backbones(test: &str) -> Vec<PathBuf> {
    let Some(root) = shared::shared("fixtures/backbones", test) else { return vec![] };
    let mut all: Vec<PathBuf> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn drafted(
    decoder: &Arc<Decoder>,
    method: &TrainingFree,
    tree: &dyn TreeBuilder,
    prompt: &[Token],
    transform: Transform,
) -> Generation {
    let target = DecoderTarget::new(decoder.clone(), prompt.len() + NEW_TOKENS, Hooks::none());
    let limits = Limits { max_new_tokens: NEW_TOKENS, end_tokens: vec![] };
    let rule = RuleChoice::Auto.rule(transform);
    let request = Request::new(prompt, &limits, SeededRandom::new(3));
    Session::new(target, method.drafter())
        .generate(Method { tree, rule: rule.as_ref() }, request, &mut |_| ControlFlow::Continue(()))
        .unwrap()
}

#[test]
fn greedy_text_is_plain_text_on_every_architecture() {
    for dir in backbones("training_free") {
        let decoder = decoder(&dir);
        let vocab = decoder.config().vocab_size as Token;
        let prompt: Vec<Token> = (0..21).map(|i| (i % 7 * 29 + 3) % vocab).collect();
        let limits = Limits { max_new_tokens: NEW_TOKENS, end_tokens: vec![] };
        let mut target = DecoderTarget::new(decoder.clone(), 128, Hooks::none());
        let random = &mut SeededRandom::new(0);
        let plain = decode(&mut target, &prompt, &Greedy, random, &limits, &mut |_| ControlFlow::Continue(()));
        let plain = plain.unwrap().ids;
        for method in methods().into_iter().filter(|method| method.check(decoder.config()).is_ok()) {
            for tree in trees(&method) {
                let found = drafted(&decoder, &method, tree.as_ref(), &prompt, Transform::GREEDY);
                assert_eq!(found.ids, plain, "{} with {method} and {:?}", dir.display(), tree.kind());
            }
        }
    }
}

/// Sampled text has the model's own distribution: over many seeds, third tokens are as frequent as plain decoding's.
#[test]
fn sampled_text_keeps_its_distribution() {
    for dir in backbones("training_free") {
        // Two samples of 600 over at most 27 tokens are about 0.1 apart, of a quarter as many twice as far; seeds are
        // fixed, so this is no matter of luck.
        let (seeds, bound) = if dir.ends_with("llama_mha") { (600, 0.17) } else { (150, 0.34) };
        sampled_text_is_plain_text(&dir, (seeds, bound), RuleChoice::Auto);
    }
}

/// As [`sampled_text_keeps_its_distribution`], under the rule that tests drafts against their probabilities.
#[test]
fn sampled_text_keeps_its_distribution_under_rejections() {
    let Some(dir) = backbones("training_free").into_iter().find(|dir| dir.ends_with("llama_mha")) else { return };
    sampled_text_is_plain_text(&dir, (600, 0.17), RuleChoice::Sampling);
}

/// Shares of the third token of texts from some seeds.
fn shares(seeds: u64, generate: &mut dyn FnMut(u64) -> Vec<Token>) -> BTreeMap<Token, f64> {
    let mut shares = BTreeMap::<Token, f64>::new();
    (0..seeds).for_each(|seed| *shares.entry(generate(seed)[2]).or_default() += 1.0 / seeds as f64);
    shares
}

fn sampled_text_is_plain_text(dir: &Path, (seeds, bound): (u64, f64), choice: RuleChoice) {
    let decoder = decoder(dir);
    let transform = Transform::new(1.0, Some(3), None).unwrap();
    let (rule, sampling) = (choice.rule(transform), DraftSampling::of(choice, transform));
    let (prompt, limits) = ([1, 5, 9, 5, 9, 5], Limits { max_new_tokens: 3, end_tokens: vec![] });
    let mut target = DecoderTarget::new(decoder.clone(), 64, Hooks::none());
    let want = shares(seeds, &mut |seed| {
        let random = &mut SeededRandom::new(seed);
        decode(&mut target, &prompt, rule.as_ref(), random, &limits, &mut |_| ControlFlow::Continue(())).unwrap().ids
    });
    for method in methods().into_iter().filter(|method| method.check(decoder.config()).is_ok()) {
        let tree = trees(&method).remove(0);
        let method_of = Method { tree: tree.as_ref(), rule: rule.as_ref() };
        let mut session =
            Session::new(DecoderTarget::new(decoder.clone(), 64, Hooks::none()), method.drafter_for(sampling));
        let found = shares(seeds, &mut |seed| {
            session.reset();
            let request = Request::new(&prompt, &limits, SeededRandom::new(seed + 10_000));
            session.generate(method_of, request, &mut |_| ControlFlow::Continue(())).unwrap().ids
        });
        let tokens: BTreeSet<Token> = want.keys().chain(found.keys()).copied().collect();
        let of = |shares: &BTreeMap<Token, f64>, token| shares.get(&token).copied().unwrap_or(0.0);
        let apart: f64 = tokens.iter().map(|&token| (of(&want, token) - of(&found, token)).abs()).sum::<f64>() / 2.0;
        assert!(apart < bound, "{} with {method}: {apart}", dir.display());
    }
}

/// A session that drafted, was rejected and continues answers as one that reads the text at once.
#[test]
fn rejected_drafts_leave_no_trace() {
    let Some(dir) = backbones("training_free").into_iter().find(|dir| dir.ends_with("llama_mha")) else { return };
    let decoder = decoder(&dir);
    let limits = Limits { max_new_tokens: 12, end_tokens: vec![] };
    for method in methods().into_iter().filter(|method| method.check(decoder.config()).is_ok()) {
        let tree = trees(&method).remove(0);
        let way = Method { tree: tree.as_ref(), rule: &Greedy };
        let mut session = Session::new(DecoderTarget::new(decoder.clone(), 96, Hooks::none()), method.drafter());
        let mut text: Vec<Token> = vec![1, 5, 9];
        for turn in 0..3 {
            let request = Request::new(&text, &limits, SeededRandom::new(0));
            let known = session.len();
            let found = session.generate(way, request, &mut |_| ControlFlow::Continue(())).unwrap();
            assert_eq!(found.read, text.len() - known, "{method}: a turn reads its new tokens only");
            let mut target = DecoderTarget::new(decoder.clone(), 96, Hooks::none());
            let random = &mut SeededRandom::new(0);
            let plain = decode(&mut target, &text, &Greedy, random, &limits, &mut |_| ControlFlow::Continue(()));
            assert_eq!(found.ids, plain.unwrap().ids, "{method}: turn {turn}");
            text.extend(&found.ids);
            text.extend([7, 8, 7 + turn]);
        }
    }
}
