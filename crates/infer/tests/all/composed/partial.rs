//! The target, which drafts for itself over a part of its cache.

use crate::composed::law;
use crate::composed::models::{DRAFT, Misstating, TARGET, TINY, as_draws, decoder, generate, plain, rule};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, SamplingScheme};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, FixedTree, TreeBuilder, TreeShape};
use gorgon_draft::draft_model::DraftSampling;
use gorgon_draft::partial::PartialDrafter;
use gorgon_infer::{Limits, Method, Request, Session};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::{Picked, Retrieval, RetrievedCache};
use gorgon_model::hidden_states::read;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::PassPlan;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target};
use std::ops::ControlFlow;

fn retrieval(rows: usize, chunk: usize) -> Retrieval {
    Retrieval { rows, chunk, picked: Picked::Score }
}

fn at_random(rows: usize, chunk: usize) -> Retrieval {
    Retrieval { picked: Picked::Random(3), ..retrieval(rows, chunk) }
}

fn chain(drafts: usize) -> ChainTree {
    ChainTree::new(drafts).unwrap()
}

/// A part of at least as many rows as the context is the whole cache: rows bit for bit, and every draft is accepted.
#[test]
fn a_part_that_is_the_whole_is_always_right() {
    let target = decoder(TARGET, 3);
    let text: Vec<Token> = (0..70).map(|i| (i * 37 + 11) % 300).collect();
    for chunk in [1, 4, 16] {
        let mut whole = DecoderTarget::new(target.clone(), 160, Hooks::none());
        whole.prefill(&text[..50]).unwrap();
        let mut part = RetrievedCache::new(retrieval(80, chunk));
        let mut known = 50;
        for steps in [1, 3, 5] {
            whole.retrieve(&mut part).unwrap();
            let tree = TreeShape::cartesian(&[2, 2]).unwrap();
            let mut drafts = gorgon_core::tree::TokenTree::root(9);
            for path in tree.paths() {
                let at = path[..path.len() - 1].iter().fold(0, |at, &rank| drafts.children(at).nth(rank).unwrap());
                drafts.push(at, (path.len() * 7 + path[path.len() - 1]) as Token);
            }
            let mask = AttentionMask::in_tree(drafts.parents());
            let plan = PassPlan::of_tokens(drafts.tokens(), &mask);
            let all = read(whole.verify(&plan).unwrap().hidden.into_tensor());
            whole.roll_back();
            let some = read(whole.verify_retrieved(&mut part, &plan).unwrap().hidden.into_tensor());
            part.roll_back();
            assert_eq!(all, some, "{chunk} after {known}");
            for _ in 0..steps {
                whole.extend(&text[known..known + 1]).unwrap();
                known += 1;
            }
        }
        for temperature in [0.0, 0.8] {
            let (rule, sampling) = rule("sampling", Transform::new(temperature, None, Some(0.9)).unwrap());
            let mut drafter = PartialDrafter::new(retrieval(160, chunk), sampling);
            let ways = (&chain(5) as &dyn TreeBuilder, rule.as_ref() as &dyn AcceptanceRule);
            let random = &mut SeededRandom::new(4);
            let found = generate(&target, &mut drafter, ways, (&text[..30], 40), random);
            assert!(found.accepted.iter().all(|&accepted| accepted == 5), "{:?}", found.accepted);
        }
    }
}

/// Greedy and coupled text is plain text whatever is retrieved: parts much shorter than the text, prompts that are no
/// multiple of a chunk, chunks at random, texts that go on for longer than the part.
#[test]
fn what_is_retrieved_changes_no_text() {
    let target = decoder(TARGET, 3);
    let prompt: Vec<Token> = (0..45).map(|i| (i * i * 31 + 7) % 300).collect();
    for (name, temperature) in [("greedy", 0.0), ("sampling", 0.0), ("coupled", 0.7)] {
        let transform = Transform::new(temperature, None, Some(0.95)).unwrap();
        let (rule, sampling) = rule(name, transform);
        for prompt in [&prompt[..], &prompt[..32], &prompt[..1], &prompt[..5]] {
            let text = plain(&target, rule.as_ref(), prompt, 90);
            for part in [retrieval(16, 4), retrieval(9, 1), retrieval(2, 1), at_random(12, 5), at_random(40, 8)] {
                let trees: [&dyn TreeBuilder; 2] =
                    [&chain(4), &FixedTree::new(TreeShape::cartesian(&[2, 2, 1]).unwrap())];
                for tree in trees {
                    let mut drafter = PartialDrafter::new(part, sampling);
                    let random = &mut SeededRandom::new(1);
                    let found = generate(&target, &mut drafter, (tree, rule.as_ref()), (prompt, 90), random);
                    assert_eq!(found.ids, text, "{part:?} after {}, {name}", prompt.len());
                    assert!(drafter.part().len() <= part.rows);
                }
            }
        }
    }
}

/// Every outcome of two drafted tokens, with parts that leave out some of the prompt.
#[test]
fn the_law_is_the_targets_whatever_is_retrieved() {
    let target = decoder(TINY, 1);
    let two = Transform::new(0.8, Some(2), None).unwrap();
    let all = Transform::new(1.0, None, None).unwrap();
    for (name, transform) in
        [("sampling", all), ("sampling", two), ("block", two), ("traversal", two), ("k-seq", two), ("coupled", two)]
    {
        let (rule, sampling) = rule(name, transform);
        for part in [retrieval(4, 2), retrieval(2, 1), at_random(3, 1), retrieval(64, 2)] {
            let mut drafter = PartialDrafter::new(part, sampling);
            let found = law::error(&target, &mut drafter, &chain(2), (rule.as_ref(), &transform));
            assert!(found < 1e-12, "{name}, {part:?}: {found:e}");
        }
        if name == "sampling" {
            let tree = FixedTree::new(TreeShape::cartesian(&[2]).unwrap());
            let mut drafter = PartialDrafter::new(retrieval(4, 2), sampling);
            let found = law::error(&target, &mut drafter, &tree, (rule.as_ref(), &transform));
            assert!(found < 1e-12, "{name}: {found:e}");
        }
    }
}

/// The negative control.
#[test]
fn likely_drafts_that_count_as_draws_change_the_law() {
    let target = decoder(TINY, 1);
    let transform = Transform::new(1.0, None, None).unwrap();
    let (rule, sampling) = rule("sampling", transform);
    let likely = DraftSampling { children: SamplingScheme::Deterministic, rows: true, ..sampling };
    let mut drafter = Misstating(PartialDrafter::new(retrieval(4, 2), likely), as_draws);
    let found = law::error(&target, &mut drafter, &chain(2), (rule.as_ref(), &transform));
    assert!(found > 1e-3, "{found:e}");
}

/// Drafted rows leave the whole cache as it is, and a conversation goes on where it was.
#[test]
fn a_conversation_goes_on_over_its_parts() {
    let target = decoder(TARGET, 3);
    let limits = Limits { max_new_tokens: 12, end_tokens: vec![] };
    let (rule, sampling) = rule("coupled", Transform::new(0.7, None, None).unwrap());
    let tree = chain(4);
    let method = Method { tree: &tree, rule: rule.as_ref() };
    let drafter = PartialDrafter::new(retrieval(12, 4), sampling);
    let mut session = Session::new(DecoderTarget::new(target.clone(), 120, Hooks::none()), drafter);
    let mut text: Vec<Token> = (0..25).collect();
    for turn in 0..5 {
        if turn == 2 {
            text.truncate(9);
        }
        let request = Request::new(&text, &limits, SeededRandom::new(1));
        let found = session.generate(method, request, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(found.ids, plain(&target, rule.as_ref(), &text, 12), "turn {turn}");
        text.extend(&found.ids);
        text.extend([7, 8, 7 + turn]);
    }
}

/// A row over a part is bit for bit a row of one pass over the whole text that sees the retrieved rows alone, at their
/// own positions.
#[test]
fn rows_over_a_part_see_the_part_alone() {
    let target = decoder(LlamaShape { kv_heads: 1, ..DRAFT }, 3);
    let text: Vec<Token> = (0..90).map(|i| (i * 37 + 11) % 300).collect();
    let mut whole = DecoderTarget::new(target.clone(), 160, Hooks::none());
    whole.prefill(&text).unwrap();
    let mut all = RetrievedCache::new(retrieval(160, 1));
    whole.retrieve(&mut all).unwrap();
    for (rows, chunk) in [(64, 8), (20, 4), (7, 1), (90, 8), (40, 16)] {
        let mut part = RetrievedCache::new(retrieval(rows, chunk));
        whole.retrieve(&mut part).unwrap();
        let position = |slot| (0..text.len()).find(|&at| all.row(0, 0, at) == part.row(0, 0, slot)).unwrap();
        let mut seen: Vec<usize> = (0..part.len()).map(position).collect();
        assert!(seen.is_sorted() && seen.len() <= rows && seen.len() + chunk > rows.min(text.len()));
        let mask = AttentionMask::in_tree(&[0]);
        let found = whole.verify_retrieved(&mut part, &PassPlan::of_tokens(&[5], &mask)).unwrap();
        // All of the text as one pass, of which the last row sees what was retrieved, and itself.
        seen.push(text.len());
        let paths = (0..text.len()).map(|row| (0..=row).collect()).chain([seen]);
        let mask = AttentionMask::from_paths(paths.collect::<Vec<Vec<usize>>>());
        let (tokens, positions) = ([&text[..], &[5]].concat(), (0..=text.len()).collect::<Vec<_>>());
        let plan = PassPlan { positions: Some(&positions), ..PassPlan::of_tokens(&tokens, &mask) };
        let want = DecoderTarget::new(target.clone(), 160, Hooks::none()).verify(&plan).unwrap();
        let last = want.hidden.narrow(text.len(), 1);
        assert_eq!(read(found.hidden.into_tensor()), read(last.into_tensor()), "{rows} rows, chunks of {chunk}");
    }
}
