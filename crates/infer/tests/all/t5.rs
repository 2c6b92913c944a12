//! Encoder-decoder models in the decode loop: whatever drafts, trees change no text, and each model reads the source
//! with an encoder of its own.

mod law;

use gorgon_core::Token;
use gorgon_core::accept::RuleChoice;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, OwnTree, TreeBuilder, TreeShape, TrellisTree};
use gorgon_draft::choice::DrafterChoice;
use gorgon_draft::draft_model::{DraftModel, DraftModelDrafter, DraftSampling};
use gorgon_draft::drafter::{Drafter, NoDrafter};
use gorgon_draft::specinfer::SpecInferDrafter;
use gorgon_infer::cascade::{CascadeDrafter, Inner, inner_sampling};
use gorgon_infer::{Batch, Drafts, Event, Feed, Generation, Limits, Method, Request, Session};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::{LlamaShape, T5Shape};
use gorgon_model::target::DecoderTarget;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

const TARGET: T5Shape = T5Shape {
    hidden_size: 32,
    intermediate_size: 48,
    encoder_layers: 2,
    layers: 3,
    heads: 4,
    head_dim: 12,
    vocab_size: 300,
    gated: true,
};
const DRAFT: T5Shape = T5Shape { hidden_size: 16, layers: 1, heads: 2, gated: false, ..TARGET };
/// A decoder-only model, which reads a source as text.
const PLAIN_DRAFT: LlamaShape = LlamaShape {
    hidden_size: 16,
    intermediate_size: 24,
    layers: 1,
    heads: 2,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 400,
};
const NEW_TOKENS: usize = 24;
const START: Token = 256;

fn load(dir: &Path) -> Arc<Decoder> {
    Arc::new(Decoder::load(dir, &Compute::cpu(FloatFormat::F32)).unwrap())
}

fn decoder(shape: T5Shape, seed: u64) -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    shape.write(dir.path(), seed).unwrap();
    load(dir.path())
}

fn decoder_only(seed: u64) -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    PLAIN_DRAFT.write(dir.path(), FloatFormat::F32, seed).unwrap();
    load(dir.path())
}

/// A draft model of which every weight from a share of the file on is `value`.
fn damaged(value: f32, from: f64) -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    DRAFT.write(dir.path(), 5).unwrap();
    let path = dir.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let first = (((bytes.len() - data) / 4) as f64 * from) as usize;
    bytes[data..].chunks_exact_mut(4).skip(first).for_each(|place| place.copy_from_slice(&value.to_le_bytes()));
    std::fs::write(&path, bytes).unwrap();
    load(dir.path())
}

/// Sources and the token that the decoder begins with; the longest reaches beyond the distances with a term of their own.
fn prompts() -> Vec<Vec<Token>> {
    let text = |length: u32| (0..length).map(|i| (i % 7 * 29 + i % 3 + 3) % 256).chain([257, START]).collect();
    vec![text(1), text(9), text(170)]
}

fn draft_model(draft: &Arc<Decoder>, target: &Decoder) -> DraftModel {
    DraftModel::new("model:somewhere".into(), draft.clone(), target.config())
}

fn generate(
    target: &Arc<Decoder>,
    drafter: &mut dyn Drafter,
    (tree, rule, transform): (&dyn TreeBuilder, RuleChoice, Transform),
    prompt: &[Token],
) -> Generation {
    let limits = Limits { max_new_tokens: NEW_TOKENS, end_tokens: vec![] };
    let target = DecoderTarget::new(target.clone(), prompt.len() + NEW_TOKENS, drafter.needs().hooks);
    let rule = rule.rule(transform);
    let request = Request::new(prompt, &limits, SeededRandom::new(1));
    let method = Method { tree, rule: rule.as_ref() };
    Session::new(target, drafter).generate(method, request, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn trees() -> Vec<Box<dyn TreeBuilder>> {
    vec![
        Box::new(ChainTree::new(4).unwrap()),
        Box::new(FixedTree::new(TreeShape::cartesian(&[3, 2, 2]).unwrap())),
        Box::new(DynamicTree::new(14, 3, 4).unwrap()),
        Box::new(TrellisTree::new(12, 4).unwrap()),
    ]
}

/// Rules under which drafted text is plain text, token for token.
fn exact() -> [(RuleChoice, Transform); 3] {
    [
        (RuleChoice::Greedy, Transform::GREEDY),
        (RuleChoice::Sampling, Transform::GREEDY),
        (RuleChoice::Coupled, Transform::new(0.9, None, Some(0.95)).unwrap()),
    ]
}

#[test]
fn no_draft_model_changes_text() {
    let target = decoder(TARGET, 3);
    let drafts = [
        decoder(DRAFT, 5),
        target.clone(),
        decoder(T5Shape { vocab_size: 320, ..DRAFT }, 6),
        decoder(T5Shape { vocab_size: 258, ..DRAFT }, 6),
        decoder_only(7),
        damaged(f32::NAN, 0.0),
        damaged(f32::NAN, 0.7),
        damaged(-1e30, 0.9),
    ];
    for prompt in prompts() {
        for (rule, transform) in exact() {
            let plain = generate(&target, &mut NoDrafter, (&ChainTree::ROOT, rule, transform), &prompt).ids;
            for (number, draft) in drafts.iter().enumerate() {
                for tree in trees() {
                    let sampling = DraftSampling::of(rule, transform);
                    let mut drafter = DraftModelDrafter::new(draft_model(draft, &target), sampling);
                    let found = generate(&target, &mut drafter, (tree.as_ref(), rule, transform), &prompt);
                    assert_eq!(found.ids, plain, "draft model {number}, {rule}, {:?}", tree.kind());
                }
            }
        }
    }
}

/// A model that drafts for itself is always right: its encoder and its cache are those of the target, after every step.
#[test]
fn the_target_as_its_own_draft_is_always_right() {
    let target = decoder(TARGET, 3);
    for temperature in [0.0, 0.7, 1.0] {
        let transform = Transform::new(temperature, None, Some(0.9)).unwrap();
        for name in ["sampling", "k-seq", "lossy:0", "chow:0.1", "diff:0.2", "opt:0.2"] {
            let rule: RuleChoice = name.parse().unwrap();
            let mut drafter = DraftModelDrafter::new(draft_model(&target, &target), DraftSampling::of(rule, transform));
            for prompt in prompts() {
                let tree = ChainTree::new(4).unwrap();
                let found = generate(&target, &mut drafter, (&tree, rule, transform), &prompt);
                assert!(found.accepted.iter().all(|&n| n == 4), "{name} {temperature}: {:?}", found.accepted);
            }
        }
    }
}

/// Under every rule, lossy ones included, drafts that are rejected leave no trace: a prompt's text is the same after
/// others and alone.
#[test]
fn rules_that_mix_both_models_run_on_it() {
    let (target, draft) = (decoder(TARGET, 3), decoder(DRAFT, 5));
    let names = [
        "lossy:0.3",
        "chow:0.3",
        "diff:0.3",
        "opt:0.3",
        "token-v1:0.3",
        "token-v2:0.3",
        "token-v3:0.3",
        "bild:0.3,2",
        "typical",
        "top-beta:3,2",
        "block",
        "traversal",
    ];
    for temperature in [0.0, 1.0] {
        let transform = Transform::new(temperature, None, None).unwrap();
        for name in names {
            let Ok(rule) = name.parse::<RuleChoice>() else { panic!("{name}") };
            let tree = ChainTree::new(3).unwrap();
            let new = || DraftModelDrafter::new(draft_model(&draft, &target), DraftSampling::of(rule, transform));
            let mut kept = new();
            for prompt in prompts() {
                let found = generate(&target, &mut kept, (&tree, rule, transform), &prompt);
                let alone = generate(&target, &mut new(), (&tree, rule, transform), &prompt);
                assert_eq!((found.ids, found.accepted), (alone.ids, alone.accepted), "{name} at {temperature}");
            }
        }
    }
}

/// The source is text to drafters that look tokens up.
#[test]
fn training_free_drafters_change_no_text() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sublayers.json");
    std::fs::write(&file, r#"{"attention": [1], "mlp": [0]}"#).unwrap();
    let skip = format!("skip:{}", file.display());
    let names = [
        "suffix",
        "ngram:2",
        "jacobi:5",
        "lookahead:4,3,3",
        "early-exit:1",
        "early-exit:2",
        "pipelined:1,3",
        "recycle:3",
        &skip,
    ];
    for target in [decoder(TARGET, 3), decoder(T5Shape { gated: false, ..TARGET }, 4)] {
        for prompt in prompts() {
            for (rule, transform) in exact() {
                let plain = generate(&target, &mut NoDrafter, (&ChainTree::ROOT, rule, transform), &prompt).ids;
                for name in names {
                    let Ok(DrafterChoice::TrainingFree(method)) = name.parse() else { panic!("{name}") };
                    method.check(target.config()).unwrap();
                    let own: Box<dyn TreeBuilder> = Box::new(OwnTree::new(40, 20).unwrap());
                    let taken: Vec<_> = trees()
                        .into_iter()
                        .chain([own])
                        .filter(|tree| method.check_tree(&tree.kind()).is_ok())
                        .collect();
                    assert!(!taken.is_empty() || name.starts_with("pipelined"), "{name}");
                    for tree in taken {
                        let mut drafter = method.drafter();
                        let found = generate(&target, drafter.as_mut(), (tree.as_ref(), rule, transform), &prompt);
                        assert_eq!(found.ids, plain, "{name}, {rule}, {:?}", tree.kind());
                    }
                }
            }
        }
    }
}

/// Several drafts in one tree, and a draft that is itself decoded with drafts.
#[test]
fn composed_drafters_change_no_text() {
    let (target, draft, other) = (decoder(TARGET, 3), decoder(DRAFT, 5), decoder_only(7));
    for prompt in prompts() {
        for (rule, transform) in exact() {
            let sampling = DraftSampling::of(rule, transform);
            let plain = generate(&target, &mut NoDrafter, (&ChainTree::ROOT, rule, transform), &prompt).ids;
            let of = |model: &Arc<Decoder>| DraftModelDrafter::new(draft_model(model, &target), sampling);
            for sources in [vec![of(&draft), of(&target)], vec![of(&draft), of(&other)]] {
                let shape = TreeShape::cartesian(&[2, 1, 1]).unwrap();
                let mut several = SpecInferDrafter::new("specinfer".into(), sources, shape);
                let tree = OwnTree::new(7, 3).unwrap();
                let found = generate(&target, &mut several, (&tree, rule, transform), &prompt);
                assert_eq!(found.ids, plain, "{rule}");
            }
            for (model, inner) in [(&target, &draft), (&draft, &draft), (&target, &other), (&other, &other)] {
                let then = DraftModelDrafter::new(draft_model(inner, &target), inner_sampling(&sampling));
                let inner = Inner { tree: Arc::new(ChainTree::new(3).unwrap()), tail: 1 };
                let model = draft_model(model, &target);
                let mut cascade = CascadeDrafter::new("cascade".into(), &model, (Box::new(then), inner), sampling);
                let tree = ChainTree::new(5).unwrap();
                let found = generate(&target, &mut cascade, (&tree, rule, transform), &prompt);
                assert_eq!(found.ids, plain, "{rule}");
            }
        }
    }
}

/// A session knows the source of its last text: the same one is not read again, another one replaces it.
#[test]
fn a_session_reads_a_source_once() {
    let (target, draft) = (decoder(TARGET, 3), decoder(DRAFT, 5));
    let limits = Limits { max_new_tokens: NEW_TOKENS, end_tokens: vec![] };
    let tree = ChainTree::new(3).unwrap();
    let rule = RuleChoice::Greedy.rule(Transform::GREEDY);
    let drafter = DraftModelDrafter::new(draft_model(&draft, &target), DraftSampling::GREEDY);
    let mut session = Session::new(DecoderTarget::new(target.clone(), 400, drafter.needs().hooks), drafter);
    let [_, short, long] = &prompts()[..] else { panic!() };
    let longer: Vec<Token> = short.iter().copied().chain([8, START]).collect();
    for (prompt, read) in [(short, 11), (short, 1), (long, 172), (&longer, 13), (short, 11), (short, 1)] {
        let method = Method { tree: &tree, rule: rule.as_ref() };
        let request = Request::new(prompt, &limits, SeededRandom::new(0));
        let found = session.generate(method, request, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(found.read, read);
        let plain =
            generate(&target, &mut NoDrafter, (&ChainTree::ROOT, RuleChoice::Greedy, Transform::GREEDY), prompt);
        assert_eq!(found.ids, plain.ids);
    }
    // Without a source there is no text.
    let request = Request::new(&[START], &limits, SeededRandom::new(0));
    let method = Method { tree: &tree, rule: rule.as_ref() };
    assert!(session.generate(method, request, &mut |_| ControlFlow::Continue(())).is_err());
}

/// All requests at once, by slot.
struct All<'a> {
    prompts: &'a [Vec<Token>],
    limits: &'a Limits,
    begun: usize,
    running: Vec<usize>,
    texts: Vec<Vec<Token>>,
}

impl<'a> Feed<'a> for All<'a> {
    type Error = gorgon_infer::DecodeError;

    fn next(&mut self, slot: usize, _: usize) -> Result<Option<Request<'a>>, Self::Error> {
        let Some(prompt) = self.prompts.get(self.begun) else { return Ok(None) };
        self.running[slot] = self.begun;
        self.begun += 1;
        Ok(Some(Request::new(prompt, self.limits, SeededRandom::new(1))))
    }

    fn event(&mut self, _: usize, _: Event) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn finished(&mut self, slot: usize, generation: Generation) -> Result<(), Self::Error> {
        self.texts[self.running[slot]] = generation.ids;
        Ok(())
    }

    fn failed(&mut self, error: Self::Error) -> Self::Error {
        error
    }
}

#[test]
fn texts_of_a_batch_are_those_of_each_source_alone() {
    let (target, draft) = (decoder(TARGET, 3), decoder(DRAFT, 5));
    let limits = Limits { max_new_tokens: NEW_TOKENS, end_tokens: vec![] };
    let prompts: Vec<Vec<Token>> = prompts().into_iter().cycle().take(7).collect();
    for (rule, transform) in exact() {
        let want: Vec<Vec<Token>> = prompts
            .iter()
            .map(|prompt| generate(&target, &mut NoDrafter, (&ChainTree::ROOT, rule, transform), prompt).ids)
            .collect();
        let sampling = DraftSampling::of(rule, transform);
        let drafter = || Box::new(DraftModelDrafter::new(draft_model(&draft, &target), sampling)) as Box<dyn Drafter>;
        for tree in trees() {
            let drafts = Drafts { drafter: &drafter, tree: tree.as_ref() };
            let mut batch = Batch::new(&target, 3, 400, Some(drafts)).unwrap();
            let (running, texts) = (vec![0; 3], vec![vec![]; prompts.len()]);
            let mut all = All { prompts: &prompts, limits: &limits, begun: 0, running, texts };
            batch.serve(rule.rule(transform).as_ref(), &mut all).unwrap();
            assert_eq!(all.texts, want, "{rule}, {:?}", tree.kind());
        }
    }
}
