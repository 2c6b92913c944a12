//! Properties of all of them.

mod feed;

use crate::composed::models::{
    Cascade, DRAFT, TARGET, Then, damaged, decoder, generate, ouroboros, phrases, plain, rule, specinfer,
};
use gorgon_core::Token;
use gorgon_core::accept::AcceptanceRule;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, OwnTree, TreeBuilder, TreeShape, TrellisTree};
use gorgon_draft::draft_model::DraftSampling;
use gorgon_draft::drafter::Drafter;
use gorgon_infer::{Batch, Drafts, Limits, Method, Request, Session};
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
use std::ops::ControlFlow;
use std::sync::Arc;

const NEW: usize = 30;
const PROMPT: &[Token] = &[256, 1, 2, 3, 1, 2, 3, 1, 2];

type Make<'a> = Box<dyn Fn(DraftSampling) -> Box<dyn Drafter> + 'a>;
/// A drafter by name, and the trees that it takes.
type Named<'a> = (String, Make<'a>, Vec<Box<dyn TreeBuilder>>);

/// Draft models of all kinds: sound, of other sizes, damaged.
fn models(target: &Arc<Decoder>) -> Vec<Arc<Decoder>> {
    vec![
        target.clone(),
        decoder(DRAFT, 5),
        decoder(LlamaShape { vocab_size: 320, ..DRAFT }, 5),
        decoder(LlamaShape { vocab_size: 260, ..DRAFT }, 5),
        decoder(LlamaShape { max_positions: 20, ..DRAFT }, 5),
        damaged(f32::NAN, 0.0),
        damaged(f32::NAN, 0.8),
        damaged(f32::INFINITY, 0.5),
        damaged(-1e30, 0.9),
    ]
}

/// Drafters, and the trees that they take.
fn drafters<'a>(target: &'a Arc<Decoder>, models: &'a [Arc<Decoder>]) -> Vec<Named<'a>> {
    let mut all: Vec<Named<'a>> = vec![];
    for (number, model) in models.iter().enumerate() {
        let chains = || [1, 6].map(|drafts| Box::new(ChainTree::new(drafts).unwrap()) as Box<dyn TreeBuilder>).into();
        let thens =
            [Then::Nothing, Then::Ngram, Then::Suffix, Then::Model(models[(number + 1) % models.len()].clone())];
        for (kind, then) in thens.into_iter().enumerate() {
            let tail = if kind > 0 { number % 2 } else { 0 };
            let cascade = Cascade { model: model.clone(), then, ahead: 3, tail };
            let make: Make<'a> = Box::new(move |sampling| Box::new(cascade.drafter(target, sampling)));
            all.push((format!("cascade {number}, {kind}"), make, chains()));
        }
        let make: Make<'a> =
            Box::new(move |sampling| Box::new(ouroboros(model, target, sampling, phrases([4, 2, 3, 4, 3]))));
        let trees: Vec<Box<dyn TreeBuilder>> =
            vec![Box::new(OwnTree::new(11, 7).unwrap()), Box::new(OwnTree::new(64, 8).unwrap())];
        all.push((format!("ouroboros {number}"), make, trees));
        let both = [model.clone(), models[(number + 1) % models.len()].clone()];
        let make: Make<'a> = Box::new(move |sampling| Box::new(specinfer(&both, target, sampling, &[1, 2, 2])));
        let trees: Vec<Box<dyn TreeBuilder>> = vec![
            Box::new(OwnTree::new(64, 8).unwrap()),
            Box::new(TrellisTree::new(64, 8).unwrap()),
            Box::new(ChainTree::new(3).unwrap()),
            Box::new(FixedTree::new(TreeShape::cartesian(&[3, 2]).unwrap())),
            Box::new(DynamicTree::new(14, 3, 4).unwrap()),
        ];
        all.push((format!("specinfer {number}"), make, trees));
    }
    all
}

/// Greedy text is plain text, and so is coupled text at any temperature.
#[test]
fn no_draft_changes_greedy_or_coupled_text() {
    let target = decoder(TARGET, 3);
    let models = models(&target);
    let all = drafters(&target, &models);
    for temperature in [0.0, 0.7, 1.3] {
        let transform = Transform::new(temperature, None, Some(0.95)).unwrap();
        let names: &[&str] = if temperature == 0.0 { &["greedy", "sampling"] } else { &["coupled"] };
        for name in names {
            let (rule, sampling) = rule(name, transform);
            let text = plain(&target, rule.as_ref(), PROMPT, NEW);
            let mut accepted = 0;
            for (drafter, make, trees) in &all {
                let mut one = make(sampling);
                for tree in trees {
                    let random = &mut SeededRandom::new(1);
                    let found = generate(&target, one.as_mut(), (tree.as_ref(), rule.as_ref()), (PROMPT, NEW), random);
                    assert_eq!(found.ids, text, "{drafter} at {temperature}, {:?}", tree.kind());
                    accepted += found.accepted.iter().sum::<usize>();
                }
            }
            assert!(accepted > 200, "{accepted} drafts accepted: the target drafts for itself");
        }
    }
}

/// Every rule runs with them, damaged ones included.
#[test]
fn every_rule_takes_their_drafts() {
    let target = decoder(TARGET, 3);
    let models = models(&target);
    let transform = Transform::new(0.8, None, None).unwrap();
    for (_, make, trees) in drafters(&target, &models) {
        for name in ["sampling", "k-seq", "block", "traversal", "lossy:0.2", "opt:0.3", "bild:0.1,2", "top-beta:3,2"] {
            let (rule, sampling) = rule(name, transform);
            let random = &mut SeededRandom::new(1);
            let rule: &dyn AcceptanceRule = rule.as_ref();
            let ways = (trees[1].as_ref(), rule);
            assert_eq!(generate(&target, make(sampling).as_mut(), ways, (PROMPT, NEW), random).ids.len(), NEW);
        }
    }
}

/// A session that drafted, was rejected and goes on answers as one that reads the text at once.
#[test]
fn a_conversation_goes_on_where_it_was() {
    let target = decoder(TARGET, 3);
    let models = [decoder(DRAFT, 5), decoder(DRAFT, 6)];
    let limits = Limits { max_new_tokens: 12, end_tokens: vec![] };
    let transform = Transform::new(0.7, None, None).unwrap();
    let (rule, sampling) = rule("coupled", transform);
    for (name, make, trees) in drafters(&target, &models) {
        let method = Method { tree: trees[1].as_ref(), rule: rule.as_ref() };
        let mut session = Session::new(DecoderTarget::new(target.clone(), 120, Hooks::none()), make(sampling));
        let mut text: Vec<Token> = vec![1, 5, 9];
        for turn in 0..4 {
            if turn == 2 {
                // The user changes what was said before.
                text.truncate(7);
            }
            let known = session.text().iter().zip(&text).take_while(|(a, b)| a == b).count().min(text.len() - 1);
            let request = Request::new(&text, &limits, SeededRandom::new(1));
            let found = session.generate(method, request, &mut |_| ControlFlow::Continue(())).unwrap();
            assert_eq!(found.read, text.len() - known, "{name}: a turn reads its new tokens only");
            assert_eq!(found.ids, plain(&target, rule.as_ref(), &text, 12), "{name}: turn {turn}");
            text.extend(&found.ids);
            text.extend([7, 8, 7 + turn]);
        }
    }
}

/// Several sequences at a time, each with a drafter of its own.
#[test]
fn batches_draft_as_single_sequences() {
    let target = decoder(TARGET, 3);
    let models = [decoder(DRAFT, 5), decoder(DRAFT, 6)];
    let (rule, sampling) = rule("coupled", Transform::new(0.7, None, None).unwrap());
    let prompts: [&[Token]; 3] = [PROMPT, &[256, 72, 105], &[7, 8, 9, 10]];
    for (name, make, trees) in drafters(&target, &models) {
        let drafts = Drafts { drafter: &|| make(sampling), tree: trees[1].as_ref() };
        let mut batch = Batch::new(&target, 2, 64, Some(drafts)).unwrap();
        let mut feed = feed::Prompts::new(&prompts);
        batch.serve(rule.as_ref(), &mut feed).unwrap();
        for (prompt, ids) in prompts.iter().zip(feed.answers) {
            assert_eq!(ids, plain(&target, rule.as_ref(), prompt, feed::NEW), "{name}");
        }
    }
}
