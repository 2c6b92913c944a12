//! Cascades.

use crate::composed::law;
use crate::composed::models::{Cascade, DRAFT, TARGET, TINY, Then, decoder, draft_model, generate, rule};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, RandomSource, SamplingScheme};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{Candidate, ChainTree, DraftTree, TreeBuilder};
use gorgon_draft::coupled::CoupledTree;
use gorgon_draft::draft_model::DraftModelDrafter;
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, Target};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn chain(drafts: usize) -> ChainTree {
    ChainTree::new(drafts).unwrap()
}

/// Target, mid and small model over three tokens. Two output tokens come of drafted steps.
#[test]
fn cascades_emit_the_targets_law() {
    let (target, mid, small) = (decoder(TINY, 1), decoder(TINY, 2), decoder(TINY, 3));
    let all = Transform::new(0.8, None, None).unwrap();
    let two = Transform::new(1.3, Some(2), None).unwrap();
    let of = |then: &Then, ahead, tail| Cascade { model: mid.clone(), then: then.clone(), ahead, tail };
    let model = Then::Model(small);
    // A cascade, the drafts of its chain, the transform and the rule.
    let cases = [
        (of(&model, 1, 0), 2, all, "sampling"),
        (of(&model, 2, 0), 3, two, "sampling"),
        (of(&model, 1, 1), 2, all, "sampling"),
        (of(&model, 2, 1), 3, two, "sampling"),
        (of(&Then::Ngram, 2, 1), 3, two, "sampling"),
        (of(&Then::Suffix, 2, 0), 3, two, "sampling"),
        (of(&Then::Suffix, 2, 1), 3, two, "sampling"),
        (of(&Then::Suffix, 1, 1), 2, all, "traversal"),
        (of(&Then::Suffix, 2, 1), 3, two, "coupled"),
        (of(&Then::Nothing, 0, 0), 2, all, "sampling"),
        (of(&model, 2, 0), 3, two, "k-seq"),
        (of(&model, 1, 1), 2, two, "block"),
        (of(&model, 1, 1), 2, two, "traversal"),
        (of(&model, 2, 1), 3, two, "coupled"),
    ];
    for (number, (cascade, drafts, transform, name)) in cases.into_iter().enumerate() {
        let (rule, sampling) = rule(name, transform);
        let mut drafter = cascade.drafter(&target, sampling);
        let found = law::error(&target, &mut drafter, &chain(drafts), (rule.as_ref(), &transform));
        assert!(found < 1e-12, "case {number}: {found:e}");
    }
}

/// Drops a draft that its source is unsure of after it was drawn.
struct DropsUnsure<D>(D);

impl<D: Drafter> Drafter for DropsUnsure<D> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.0.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let proposal = self.0.draft(root, context)?;
        let (tree, rows) = (proposal.draft.tree(), proposal.sources[0].rows.as_ref().unwrap());
        let sure = |node: &usize| {
            let row = &rows[(node - 1) * TINY.vocab_size..node * TINY.vocab_size];
            !row.iter().any(|&logit| logit > row[tree.token(*node) as usize])
        };
        let mut draft = DraftTree::root(root);
        for node in (1..tree.len()).take_while(sure) {
            draft.push(node - 1, Candidate { token: tree.token(node), probability: 1.0 });
        }
        let rows = rows[..draft.tree().len() * TINY.vocab_size].into();
        Ok(Proposal::drawn(draft, Some(rows), proposal.sources[0].scheme))
    }
}

/// The negative control.
#[test]
fn drafts_that_are_dropped_once_drawn_change_the_law() {
    let (target, mid, small) = (decoder(TINY, 1), decoder(TINY, 2), decoder(TINY, 3));
    let transform = Transform::new(0.8, None, None).unwrap();
    let (rule, sampling) = rule("sampling", transform);
    let cascade = Cascade { model: mid, then: Then::Model(small), ahead: 1, tail: 0 };
    let mut drafter = DropsUnsure(cascade.drafter(&target, sampling));
    let found = law::error(&target, &mut drafter, &chain(2), (rule.as_ref(), &transform));
    assert!(found > 1e-3, "{found:e}");
}

/// With an inner drafter that drafts nothing, the drafter is the plain draft model's, token for token.
#[test]
fn without_an_inner_drafter_a_cascade_is_its_draft_model() {
    let (target, model) = (decoder(TARGET, 3), decoder(DRAFT, 5));
    let cascade = Cascade { model: model.clone(), then: Then::Nothing, ahead: 0, tail: 0 };
    for temperature in [0.0, 0.7, 1.0] {
        let transform = Transform::new(temperature, None, Some(0.95)).unwrap();
        for name in ["auto", "sampling", "k-seq", "block", "lossy:0.2", "opt:0.3", "typical", "bild:0.004,3"] {
            let (rule, sampling) = rule(name, transform);
            for drafts in [1, 5] {
                let run = |drafter: &mut dyn Drafter| {
                    let random = &mut SeededRandom::new(4);
                    generate(&target, drafter, (&chain(drafts), rule.as_ref()), (&[256, 72, 105], 40), random)
                };
                let found = run(&mut cascade.drafter(&target, sampling));
                let plain = run(&mut DraftModelDrafter::new(draft_model(&model, &target), sampling));
                assert_eq!(found.ids, plain.ids, "{name} at {temperature}");
                assert_eq!((found.accepted, found.nodes), (plain.accepted, plain.nodes), "{name} at {temperature}");
            }
        }
    }
}

fn draft(drafter: &mut dyn Drafter, root: Token, tree: &dyn TreeBuilder, random: &mut dyn RandomSource) -> Proposal {
    drafter.draft(root, &mut DraftContext { tree: CoupledTree::plain(tree), random, target: None }).unwrap()
}

/// Rows are those of the draft model reading the text at once, whatever was drafted, rejected and taken back before;
/// those of the tail are the inner model's.
#[test]
fn rows_are_the_models_own_and_rejected_drafts_leave_no_trace() {
    let (target, mid, small) = (decoder(TARGET, 3), decoder(DRAFT, 5), decoder(DRAFT, 6));
    let (_, sampling) = rule("sampling", Transform::new(0.8, None, None).unwrap());
    let cascade = Cascade { model: mid.clone(), then: Then::Model(small.clone()), ahead: 3, tail: 2 };
    let text: Vec<Token> = (0..90).map(|i| (i * 37 + 11) % 300).collect();
    let output = DecoderTarget::new(target.clone(), 100, Hooks::none()).prefill(&text).unwrap();
    let mut drafter = cascade.drafter(&target, sampling);
    let observe = |drafter: &mut dyn Drafter, from: usize, to: usize| {
        let rows: Vec<usize> = (from..to).collect();
        drafter.observe(VerifiedPass::prompt(&text[from..to], &output, &rows)).unwrap();
    };
    let mut at = 0;
    // Tokens that are committed, or with a minus taken back.
    for step in [41, 1, 3, -2, 1, -30, 2, 40, 1] {
        if step < 0 {
            at -= (-step) as usize;
            assert!(drafter.truncate(at));
        } else {
            observe(&mut drafter, at, at + step as usize);
            at += step as usize;
        }
        let root = text[at];
        draft(&mut drafter, root ^ 1, &chain(7), &mut SeededRandom::new(9));
        let found = draft(&mut drafter, root, &chain(7), &mut SeededRandom::new(at as u64));
        assert!((at + 1..=at + 7).contains(&drafter.read()), "{} read after {at}", drafter.read());
        let mut fresh = cascade.drafter(&target, sampling);
        observe(&mut fresh, 0, at);
        let again = draft(&mut fresh, root, &chain(7), &mut SeededRandom::new(at as u64));
        assert_eq!(found.draft, again.draft, "after {at}");
        check_rows(&found, [&mid, &small], &text[..at]);
    }
}

/// Five drafts of the first model and two of the second one, each with the row that its model has there.
fn check_rows(found: &Proposal, models: [&Arc<Decoder>; 2], text: &[Token]) {
    let tree = found.draft.tree();
    let tail = found.sources[1].scheme;
    assert_eq!((tree.len(), found.sources.len(), tail), (8, 2, SamplingScheme::WithoutReplacement));
    for entry in found.draft.entries().unwrap() {
        assert_eq!(entry.source, usize::from(entry.child > 5));
        let node = entry.child - 1;
        let path = tree.path(node);
        let context: Vec<Token> = text.iter().copied().chain(path.iter().map(|&on| tree.token(on))).collect();
        let mut alone = DecoderTarget::new(models[entry.source].clone(), 100, Hooks::none());
        let hidden = alone.prefill(&context).unwrap().hidden.narrow(context.len() - 1, 1);
        let rows = found.sources[entry.source].rows.as_ref().unwrap();
        assert_eq!(alone.logits(&hidden), rows[node * 300..(node + 1) * 300], "node {node} after {}", text.len());
    }
}

/// A model that drafts for itself, and drafts for a target that is itself: all is accepted on both levels.
#[test]
fn a_model_that_is_all_three_is_always_right() {
    let target = decoder(TARGET, 3);
    for temperature in [0.0, 0.8] {
        let transform = Transform::new(temperature, None, Some(0.9)).unwrap();
        let (rule, sampling) = rule("sampling", transform);
        for (drafts, ahead, tail, passes) in [(6, 3, 2, 2), (7, 2, 0, 2), (6, 5, 0, 1), (4, 1, 1, 2)] {
            let count = Arc::new(AtomicUsize::new(0));
            let then = Then::Counted(target.clone(), count.clone());
            let mut drafter = Cascade { model: target.clone(), then, ahead, tail }.drafter(&target, sampling);
            let random = &mut SeededRandom::new(4);
            let ways = (&chain(drafts) as &dyn TreeBuilder, rule.as_ref() as &dyn AcceptanceRule);
            let found = generate(&target, &mut drafter, ways, (&[256, 72, 105], 40), random);
            assert!(found.accepted.iter().all(|&accepted| accepted == drafts), "{:?}", found.accepted);
            // A pass of the draft model brings `ahead + 1` tokens, and the tail takes one more draft. For a single token
            // nothing is drafted.
            let counted = count.load(Ordering::Relaxed);
            assert_eq!(counted, passes * found.accepted.len(), "{drafts} drafts, {ahead} ahead, {tail} alone");
        }
    }
}
