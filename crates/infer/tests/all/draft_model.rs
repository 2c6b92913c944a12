//! A separate draft model in the decode loop: whatever it is, it changes no text; what it says is what the rules are
//! told.

use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, Greedy, RuleChoice, SamplingScheme};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, PublishedTree, TreeBuilder, TreeShape};
use gorgon_draft::coupled::CoupledTree;
use gorgon_draft::draft_model::{DraftModel, DraftModelDrafter, DraftModelError, DraftSampling};
use gorgon_draft::drafter::{DraftContext, Drafter, Proposal, VerifiedPass};
use gorgon_infer::{Generation, Limits, Method, Request, Session, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

const TARGET: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 48,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 160,
};
const DRAFT: LlamaShape = LlamaShape { hidden_size: 16, intermediate_size: 24, layers: 1, heads: 2, ..TARGET };
const NEW_TOKENS: usize = 40;
const PROMPTS: [&[Token]; 3] = [&[256, 72, 105], &[256], &[256, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]];

fn decoder(shape: LlamaShape, seed: u64) -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    shape.write(dir.path(), FloatFormat::F32, seed).unwrap();
    load(dir.path())
}

fn load(dir: &Path) -> Arc<Decoder> {
    Arc::new(Decoder::load(dir, &Compute::cpu(FloatFormat::F32)).unwrap())
}

/// A draft model whose weights are `value` from the given share of the file on.
fn damaged(value: f32, from: f64) -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    DRAFT.write(dir.path(), FloatFormat::F32, 5).unwrap();
    let path = dir.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let first = (((bytes.len() - data) / 4) as f64 * from) as usize;
    bytes[data..].chunks_exact_mut(4).skip(first).for_each(|place| place.copy_from_slice(&value.to_le_bytes()));
    std::fs::write(&path, bytes).unwrap();
    load(dir.path())
}

fn drafter(draft: Arc<Decoder>, target: &Decoder, sampling: DraftSampling) -> DraftModelDrafter {
    DraftModelDrafter::new(DraftModel::new("model:somewhere".into(), draft, target.config()), sampling)
}

/// Drafts under the random source of a seed.
fn draft(drafter: &mut DraftModelDrafter, root: Token, tree: &dyn TreeBuilder, seed: u64) -> Proposal {
    let random = &mut SeededRandom::new(seed);
    drafter.draft(root, &mut DraftContext { tree: CoupledTree::plain(tree), random, target: None }).unwrap()
}

fn builders() -> Vec<Box<dyn TreeBuilder>> {
    let published: PublishedTree = "mc_sim_7b_63".parse().unwrap();
    vec![
        Box::new(ChainTree::new(1).unwrap()),
        Box::new(ChainTree::new(6).unwrap()),
        Box::new(FixedTree::new(TreeShape::cartesian(&[3, 2, 2]).unwrap())),
        Box::new(FixedTree::new(published.shape().clone())),
        Box::new(DynamicTree::new(20, 3, 4).unwrap()),
    ]
}

fn run(
    target: &Arc<Decoder>,
    drafter: &mut dyn Drafter,
    builder: &dyn TreeBuilder,
    rule: &dyn AcceptanceRule,
    prompt: &[Token],
) -> Generation {
    let tokens = prompt.len() + NEW_TOKENS;
    let mut target = DecoderTarget::new(target.clone(), tokens, Hooks::none());
    let limits = Limits { max_new_tokens: NEW_TOKENS, end_tokens: vec![] };
    let random = &mut SeededRandom::new(1);
    Session::new(&mut target, drafter)
        .generate(Method { tree: builder, rule }, Request::new(prompt, &limits, random), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap()
}

fn plain(target: &Arc<Decoder>, prompt: &[Token]) -> Vec<Token> {
    let mut target = DecoderTarget::new(target.clone(), prompt.len() + NEW_TOKENS, Hooks::none());
    let limits = Limits { max_new_tokens: NEW_TOKENS, end_tokens: vec![] };
    let mut go_on = |_| ControlFlow::Continue(());
    decode(&mut target, prompt, &Greedy, &mut SeededRandom::new(0), &limits, &mut go_on).unwrap().ids
}

#[test]
fn no_draft_model_changes_greedy_text() {
    let target = decoder(TARGET, 3);
    let wide = LlamaShape { vocab_size: 320, ..DRAFT };
    let narrow = LlamaShape { vocab_size: 260, ..DRAFT };
    let short = LlamaShape { max_positions: 20, ..DRAFT };
    let drafts = [
        decoder(DRAFT, 5),
        decoder(wide, 5),
        decoder(narrow, 5),
        decoder(short, 5),
        damaged(f32::NAN, 0.0),
        damaged(f32::NAN, 0.8),
        damaged(f32::INFINITY, 0.5),
        damaged(-1e30, 0.9),
    ];
    let longest: Vec<Token> = (0..=(TARGET.max_positions - NEW_TOKENS) as Token).collect();
    for prompt in PROMPTS.into_iter().chain([&longest[..]]) {
        let text = plain(&target, prompt);
        for (number, draft) in drafts.iter().enumerate() {
            let mut drafter = drafter(draft.clone(), &target, DraftSampling::GREEDY);
            for builder in builders() {
                let generation = run(&target, &mut drafter, builder.as_ref(), &Greedy, prompt);
                assert_eq!(generation.ids, text, "draft model {number}");
            }
        }
    }
}

/// The target as its own draft model: the first child of every node is right, at temperature 0 and above, since
/// `p = q`. (A coupled rule above temperature 0 is another thing: its drafts are ranked by a sharpened `q`.)
#[test]
fn a_model_that_drafts_for_itself_is_always_right() {
    let target = decoder(TARGET, 3);
    // The length of the path of first children in each of the trees.
    let first_paths = [1, 6, 3, 4];
    for temperature in [0.0, 0.7, 1.0] {
        let transform = Transform::new(temperature, None, Some(0.9)).unwrap();
        for rule in ["sampling", "k-seq", "lossy:0", "chow:0.1"] {
            let choice: RuleChoice = rule.parse().unwrap();
            let (sampling, rule) = (DraftSampling::of(choice, transform), choice.rule(transform));
            for (builder, length) in builders().iter().zip(first_paths) {
                let mut drafter = drafter(target.clone(), &target, sampling);
                let generation = run(&target, &mut drafter, builder.as_ref(), rule.as_ref(), PROMPTS[0]);
                assert!(generation.accepted.iter().all(|&n| n == length), "{choice}: {:?}", generation.accepted);
            }
        }
    }
}

/// The cache holds emitted tokens only, and what is read in pieces, after rejections or again is what is read at once.
#[test]
fn only_emitted_tokens_are_kept_and_rows_are_the_models_own() {
    let (target, model) = (decoder(TARGET, 3), decoder(DRAFT, 5));
    let transform = Transform::new(0.8, None, None).unwrap();
    let sampling = DraftSampling::of(RuleChoice::Sampling, transform);
    let text: Vec<Token> = (0..90).map(|i| (i * 37 + 11) % 300).collect();
    let builder = FixedTree::new(TreeShape::cartesian(&[2, 2]).unwrap());
    let mut whole_target = DecoderTarget::new(target.clone(), 100, Hooks::none());
    let output = whole_target.prefill(&text).unwrap();
    let mut drafter = drafter(model.clone(), &target, sampling);
    let mut at = 0;
    for length in [41, 1, 3, 1, 1, 2, 40] {
        let rows: Vec<usize> = (at..at + length).collect();
        let committed = VerifiedPass::prompt(&text[at..at + length], &output, &rows);
        drafter.observe(committed).unwrap();
        at += length;
        let Some(&root) = text.get(at) else { break };
        // A root that is not emitted after all leaves no trace.
        draft(&mut drafter, root ^ 1, &builder, 9);
        let first = draft(&mut drafter, root, &builder, at as u64);
        assert_eq!(drafter.cached(), at + 1);
        let again = draft(&mut drafter, root, &builder, at as u64);
        assert_eq!((first.draft.tree(), &first.sources[0].rows), (again.draft.tree(), &again.sources[0].rows));
        assert_eq!(first.sources[0].scheme, SamplingScheme::WithoutReplacement);
        let rows = first.sources[0].rows.clone().unwrap();
        let tree = first.draft.tree();
        for node in (0..tree.len()).filter(|&node| tree.children(node).next().is_some()) {
            let path = tree.path(node);
            let path = path.iter().map(|&on| tree.token(on));
            let context: Vec<Token> = text[..at].iter().copied().chain(path).collect();
            let mut alone = DecoderTarget::new(model.clone(), 100, Hooks::none());
            let hidden = alone.prefill(&context).unwrap().hidden.narrow(context.len() - 1, 1);
            assert_eq!(alone.logits(&hidden), rows[node * 300..(node + 1) * 300], "node {node} after {at}");
        }
    }
}

/// Trees that keep the best of what they are offered, and shapes that leave a rank out, get no draws.
#[test]
fn draws_are_claimed_only_where_they_stay_draws() {
    let (target, model) = (decoder(TARGET, 3), decoder(DRAFT, 5));
    let sampling = DraftSampling::of(RuleChoice::Sampling, Transform::new(1.0, None, None).unwrap());
    let mut whole_target = DecoderTarget::new(target.clone(), 100, Hooks::none());
    let output = whole_target.prefill(&[1, 2]).unwrap();
    let gap = TreeShape::new(vec![vec![0], vec![2]]).unwrap();
    let cases: [(Box<dyn TreeBuilder>, SamplingScheme); 4] = [
        (Box::new(ChainTree::new(3).unwrap()), SamplingScheme::WithoutReplacement),
        (Box::new(FixedTree::new(TreeShape::cartesian(&[3, 2]).unwrap())), SamplingScheme::WithoutReplacement),
        (Box::new(FixedTree::new(gap)), SamplingScheme::Deterministic),
        (Box::new(DynamicTree::new(20, 3, 4).unwrap()), SamplingScheme::Deterministic),
    ];
    for (builder, expected) in cases {
        let [mut drawing, mut listing] =
            [sampling, DraftSampling::GREEDY].map(|sampling| drafter(model.clone(), &target, sampling));
        drawing.observe(VerifiedPass::prompt(&[1, 2], &output, &[0, 1])).unwrap();
        let proposal = draft(&mut drawing, 3, builder.as_ref(), 1);
        assert_eq!(proposal.sources[0].scheme, expected);
        assert_eq!(proposal.sources[0].rows.as_ref().map(|rows| rows.len()), Some(proposal.draft.tree().len() * 300));
        let (alone, seeded) =
            (drawing.propose(3, builder.as_ref()).unwrap(), draft(&mut drawing, 3, builder.as_ref(), 0));
        assert_eq!((alone.sources[0].scheme, alone.draft.tree()), (expected, seeded.draft.tree()));
        listing.observe(VerifiedPass::prompt(&[1, 2], &output, &[0, 1])).unwrap();
        let listed = [1, 2].map(|seed| draft(&mut listing, 3, builder.as_ref(), seed));
        assert_eq!(listed[0].sources[0].scheme, SamplingScheme::Deterministic, "a list has no draws");
        assert_eq!(listed[0].draft.tree(), listed[1].draft.tree());
    }
}

/// BiLD's fallback: nothing is drafted after a node whose top-1 token is not likely enough.
#[test]
fn drafting_stops_where_the_draft_model_is_unsure() {
    let (target, draft) = (decoder(TARGET, 3), decoder(DRAFT, 5));
    let chain = ChainTree::new(6).unwrap();
    let drafted = |fallback: f64| {
        let choice: RuleChoice = format!("bild:{fallback},3").parse().unwrap();
        let mut drafter = drafter(draft.clone(), &target, DraftSampling::of(choice, Transform::GREEDY));
        let rule = choice.rule(Transform::GREEDY);
        let generation = run(&target, &mut drafter, &chain, rule.as_ref(), PROMPTS[0]);
        generation.nodes - generation.accepted.len()
    };
    let (all, none) = (drafted(0.0), drafted(1.0));
    assert_eq!(none, 0);
    // Somewhere between, some drafts are likely enough and some are not.
    let some: Vec<usize> = (1..12).map(|i| drafted(0.01 * f64::from(i))).collect();
    assert!(some.iter().any(|&n| 0 < n && n < all), "{some:?} of {all}");
    let mut damaged =
        drafter(damaged(f32::NAN, 0.0), &target, DraftSampling { stop: Some(0.1), ..DraftSampling::GREEDY });
    let generation = run(&target, &mut damaged, &chain, &Greedy, PROMPTS[0]);
    assert_eq!(generation.nodes, generation.accepted.len(), "what is no number is not likely");
}

#[test]
fn other_tokens_are_refused_with_both_folders() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    TARGET.write(a.path(), FloatFormat::F32, 1).unwrap();
    DRAFT.write(b.path(), FloatFormat::F32, 1).unwrap();
    DraftModel::check_vocabulary(b.path(), a.path()).unwrap();
    let text = std::fs::read_to_string(b.path().join("tokenizer.json")).unwrap();
    // Two bytes swap their ids.
    let mut tokenizer: serde_json::Value = serde_json::from_str(&text).unwrap();
    (tokenizer["model"]["vocab"]["A"], tokenizer["model"]["vocab"]["B"]) = (66.into(), 65.into());
    std::fs::write(b.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    let error = DraftModel::check_vocabulary(b.path(), a.path()).unwrap_err();
    assert!(matches!(error, DraftModelError::Tokenizer { id: 65, .. }), "{error}");
    for path in [a.path(), b.path()] {
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    // Without a tokenizer the sizes have to be equal.
    std::fs::remove_file(b.path().join("tokenizer.json")).unwrap();
    DraftModel::check_vocabulary(b.path(), a.path()).unwrap();
    LlamaShape { vocab_size: 280, ..DRAFT }.write(b.path(), FloatFormat::F32, 1).unwrap();
    DraftModel::check_vocabulary(b.path(), a.path()).unwrap();
    std::fs::remove_file(b.path().join("tokenizer.json")).unwrap();
    let error = DraftModel::check_vocabulary(b.path(), a.path()).unwrap_err();
    assert!(matches!(error, DraftModelError::Vocabulary { theirs: 280, ours: 300, .. }), "{error}");
}
