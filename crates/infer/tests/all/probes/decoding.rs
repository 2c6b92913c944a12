//! Text and steps of decoding with probes.

use super::{Kind, load, probes};
use crate::planted;
use gorgon_core::Token;
use gorgon_core::accept::RuleChoice;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, OwnTree, TreeBuilder, TreeShape, TrellisTree};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::format::ProbeKind;
use gorgon_draft::probes::{ProbeDrafter, ProbeModel};
use gorgon_infer::{Generation, Limits, Method, Request, Session, decode};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::FloatFormat;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::{Inputs, PassPlan};
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target};
use std::ops::ControlFlow;
use std::sync::Arc;

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 48,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 96,
};
pub const PROMPT: [Token; 3] = [256, 72, 105];
const NEW_TOKENS: usize = 60;

pub fn decoder() -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 3).unwrap();
    load(dir.path())
}

pub fn limits(tokens: usize) -> Limits {
    Limits { max_new_tokens: tokens, end_tokens: vec![] }
}

fn drafted(
    decoder: &Arc<Decoder>,
    model: &Arc<ProbeModel>,
    tree: &dyn TreeBuilder,
    (prompt, temperature): (&[Token], f64),
) -> Generation {
    let mut target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
    let transform = Transform::new(temperature, None, None).unwrap();
    let rule = RuleChoice::Auto.resolve(&transform).rule(transform);
    let random = &mut SeededRandom::new(1);
    let mut drafter = ProbeDrafter::sharing(model.clone());
    Session::new(&mut target, &mut drafter)
        .generate(Method { tree, rule: rule.as_ref() }, Request::new(prompt, &limits(NEW_TOKENS), random), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap()
}

pub fn plain(decoder: &Arc<Decoder>, temperature: f64) -> Vec<Token> {
    let mut target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
    let transform = Transform::new(temperature, None, None).unwrap();
    let rule = RuleChoice::Auto.resolve(&transform).rule(transform);
    let (random, limits) = (&mut SeededRandom::new(1), limits(NEW_TOKENS));
    decode(&mut target, &PROMPT, rule.as_ref(), random, &limits, &mut |_| ControlFlow::Continue(())).unwrap().ids
}

fn builders() -> Vec<Box<dyn TreeBuilder>> {
    vec![
        Box::new(ChainTree::new(1).unwrap()),
        Box::new(ChainTree::new(5).unwrap()),
        Box::new(FixedTree::new(TreeShape::cartesian(&[3, 2, 2]).unwrap())),
        Box::new(DynamicTree::new(14, 3, 4).unwrap()),
        Box::new(TrellisTree::new(10, 4).unwrap()),
        Box::new(OwnTree::new(1, 3).unwrap()),
        Box::new(OwnTree::new(3, 3).unwrap()),
        Box::new(OwnTree::new(24, 3).unwrap()),
    ]
}

/// Kinds, places, members and values of a probe's embedding.
fn kinds(value: impl Fn(usize) -> f32) -> Vec<(Kind, Vec<f32>)> {
    let d = SHAPE.hidden_size;
    let of = |rows: usize| (0..rows * d).map(&value).collect::<Vec<f32>>();
    vec![
        ((ProbeKind::Ppd, 3, 1, false), of(3)),
        ((ProbeKind::Ppd, 2, 3, false), of(6)),
        ((ProbeKind::Pass, 4, 1, false), of(4)),
        ((ProbeKind::Pass, 4, 1, true), of(4)),
        ((ProbeKind::Space, 3, 1, false), of(1)),
    ]
}

#[test]
fn text_is_plain_text_whatever_probes_say() {
    let decoder = decoder();
    let wild = |i: usize| ((i * 7919 % 2003) as f32 / 1001.5 - 1.0) * 0.3;
    for value in [&wild as &dyn Fn(usize) -> f32, &|_| f32::NAN, &|i| if i % 3 == 0 { f32::INFINITY } else { 0.1 }] {
        for (kind, values) in kinds(value) {
            let model = Arc::new(probes(&decoder, kind, values));
            for tree in builders() {
                for temperature in [0.0, 0.8] {
                    let found = drafted(&decoder, &model, tree.as_ref(), (&PROMPT, temperature));
                    assert_eq!(found.ids, plain(&decoder, temperature), "{kind:?} {:?}", tree.kind());
                }
            }
        }
    }
}

/// A probe whose embedding is that of a token has the bits of a draft of that token.
#[test]
fn probes_of_tokens_are_tokens() {
    let decoder = decoder();
    let tokens: [Token; 3] = [9, 41, 200];
    let embedded = decoder.embed(&tokens).unwrap();
    let model = probes(&decoder, (ProbeKind::Ppd, 3, 1, false), embedded.into_values().into_vec());
    let mut drafter = ProbeDrafter::new(model);
    let mut target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
    target.extend(&PROMPT).unwrap();
    let chain = ChainTree::new(3).unwrap();
    let proposal = drafter.propose(7, &chain).unwrap();
    let tree = proposal.draft.tree();
    assert_eq!((tree.len(), tree.probes()), (4, 3));
    let mask = AttentionMask::in_tree(tree.parents());
    let rows = proposal.probe_rows().unwrap().unwrap();
    let inputs = Inputs::Rows { rows: &rows.rows, table: rows.table };
    let drafts = [7, 9, 41, 200];
    let probed = target.verify(&PassPlan { inputs, ..PassPlan::of_tokens(&drafts, &mask) }).unwrap().hidden;
    target.roll_back();
    let read = target.verify(&PassPlan::of_tokens(&drafts, &mask)).unwrap().hidden;
    assert_eq!(probed.into_values()[..], read.into_values()[..]);
}

/// In a text of one token over and over, whose probes are that token, everything is accepted after the first step, which
/// looks ahead. Where passes that look ahead are apart, these are every second one.
#[test]
fn a_text_of_one_token_is_accepted_whole() {
    const TOKEN: Token = 77;
    let decoder = planted::repeating(SHAPE, TOKEN);
    let embedding = decoder.embed(&[TOKEN]).unwrap().into_values();
    for (kind, values) in kinds(|i| embedding[i % SHAPE.hidden_size]) {
        let (_, places, _, two_pass) = kind;
        let model = Arc::new(probes(&decoder, kind, values));
        // A chain bounds the rows of PPD's probes, so that the last draft carries few of them.
        let tree: Box<dyn TreeBuilder> = match kind.0 {
            ProbeKind::Ppd => Box::new(OwnTree::new(24, places).unwrap()),
            _ => Box::new(ChainTree::new(places).unwrap()),
        };
        let found = drafted(&decoder, &model, tree.as_ref(), (&[TOKEN; 3], 0.0));
        assert_eq!(found.ids, [TOKEN; NEW_TOKENS], "{kind:?}");
        let wants = |step: usize| if step == 0 || two_pass && step.is_multiple_of(2) { 0 } else { places };
        let want: Vec<usize> = (0..found.accepted.len()).map(wants).collect();
        assert_eq!(found.accepted, want, "{kind:?}");
    }
}

/// Probes that are another token guess something else: the text alone does not make them right.
#[test]
fn probes_of_another_token_are_rejected() {
    const TOKEN: Token = 77;
    let decoder = planted::repeating(SHAPE, TOKEN);
    let embedding = decoder.embed(&[TOKEN]).unwrap().into_values();
    for (kind, values) in kinds(|i| -embedding[i % SHAPE.hidden_size]) {
        let model = Arc::new(probes(&decoder, kind, values));
        let found = drafted(&decoder, &model, &ChainTree::new(kind.1).unwrap(), (&[TOKEN; 3], 0.0));
        assert_eq!(found.ids, [TOKEN; NEW_TOKENS], "{kind:?}");
        assert!(found.accepted.iter().all(|&accepted| accepted == 0), "{kind:?}: {:?}", found.accepted);
    }
}

/// Looking ahead behind every candidate saves the passes that only look ahead.
#[test]
fn merged_passes_are_fewer() {
    let decoder = decoder();
    let text = plain(&decoder, 0.0);
    // Probes that name the text's commonest tokens.
    let values: Vec<f32> = decoder.embed(&text[text.len() - 4..]).unwrap().into_values().into_vec();
    let steps = |two_pass| {
        let model = Arc::new(probes(&decoder, (ProbeKind::Pass, 4, 1, two_pass), values.clone()));
        let found = drafted(&decoder, &model, &ChainTree::new(4).unwrap(), (&PROMPT, 0.0));
        assert_eq!(found.ids, text);
        found.accepted
    };
    let (merged, apart) = (steps(false), steps(true));
    assert!(merged.len() < apart.len(), "{merged:?} {apart:?}");
    // Every second pass of the published form only looks ahead.
    assert!(apart.iter().step_by(2).all(|&accepted| accepted == 0), "{apart:?}");
}

/// Rows of probes near the end of the context take no position that the model lacks.
#[test]
fn text_ends_with_the_context() {
    let decoder = decoder();
    let prompt: Vec<Token> = (0..SHAPE.max_positions as Token - 8).collect();
    let transform = Transform::new(0.0, None, None).unwrap();
    let rule = RuleChoice::Auto.resolve(&transform).rule(transform);
    let target = || DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
    let (random, limits) = (&mut SeededRandom::new(1), limits(8));
    let want = decode(&mut target(), &prompt, rule.as_ref(), random, &limits, &mut |_| ControlFlow::Continue(()));
    let want = want.unwrap().ids;
    for (kind, values) in kinds(|i| (i % 7) as f32 * 0.05) {
        let mut drafter = ProbeDrafter::new(probes(&decoder, kind, values));
        let (mut target, tree) = (target(), DynamicTree::new(14, 3, 4).unwrap());
        let request = Request::new(&prompt, &limits, &mut *random);
        let found = Session::new(&mut target, &mut drafter).generate(
            Method { tree: &tree, rule: rule.as_ref() },
            request,
            &mut |_| ControlFlow::Continue(()),
        );
        assert_eq!(found.unwrap().ids, want, "{kind:?}");
    }
}
