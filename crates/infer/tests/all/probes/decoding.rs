//! Text and steps of decoding with probes.

use super::{Kind, load, probes};
use gorgon_core::Token;
use gorgon_core::accept::RuleChoice;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, OwnTree, TreeBuilder, TreeShape, TrellisTree};
use gorgon_draft::coupled::CoupledTree;
use gorgon_draft::drafter::{DraftContext, Drafter, VerifiedPass, VerifiedTree};
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
const PROMPT: [Token; 3] = [256, 72, 105];
const NEW_TOKENS: usize = 60;

fn decoder() -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 3).unwrap();
    load(dir.path())
}

fn limits(tokens: usize) -> Limits {
    Limits { max_new_tokens: tokens, end_tokens: vec![] }
}

fn drafted(decoder: &Arc<Decoder>, model: &Arc<ProbeModel>, tree: &dyn TreeBuilder, temperature: f64) -> Generation {
    let mut target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
    let transform = Transform::new(temperature, None, None).unwrap();
    let rule = RuleChoice::Auto.resolve(&transform).rule(transform);
    let random = &mut SeededRandom::new(1);
    let mut drafter = ProbeDrafter::sharing(model.clone());
    Session::new(&mut target, &mut drafter)
        .generate(Method { tree, rule: rule.as_ref() }, Request::new(&PROMPT, &limits(NEW_TOKENS), random), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap()
}

fn plain(decoder: &Arc<Decoder>, temperature: f64) -> Vec<Token> {
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
                    let found = drafted(&decoder, &model, tree.as_ref(), temperature);
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

/// In a text of one token over and over, whose probes are that token, everything is accepted after the first step.
#[test]
fn a_text_of_one_token_is_accepted_whole() {
    let (decoder, found) = (decoder(), plain(&decoder(), 0.0));
    // The random model's greedy text ends in a loop or not: its own token is what the embedding has to say, so the
    // states at the probes are checked instead of a text of a fixed token.
    let last = found[found.len() - 1];
    let embedded: Vec<f32> = (0..3).flat_map(|_| decoder.embed(&[last]).unwrap().into_values().into_vec()).collect();
    let model = Arc::new(probes(&decoder, (ProbeKind::Pass, 3, 1, false), embedded));
    let (mut target, mut drafter) =
        (DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none()), ProbeDrafter::sharing(model));
    let text = vec![last; 20];
    target.extend(&text).unwrap();
    let tree = ChainTree::new(3).unwrap();
    let first = drafter.propose(last, &tree).unwrap();
    assert_eq!(first.draft.tree().probes(), 3);
    let mask = AttentionMask::in_tree(first.draft.tree().parents());
    let rows = first.probe_rows().unwrap().unwrap();
    let again = [last; 4];
    let plan = PassPlan::of_tokens(&again, &mask);
    let output = target.verify(&PassPlan { inputs: Inputs::Rows { rows: &rows.rows, table: rows.table }, ..plan });
    let output = output.unwrap();
    target.commit(&[0]).unwrap();
    let verified = VerifiedTree { tree: first.draft.tree(), path: &[0], next: last, target: None };
    let pass =
        VerifiedPass { tokens: &[last], output: &output, rows: &[0], verified: Some(verified), is_source: false };
    drafter.observe(pass).unwrap();
    let mut random = SeededRandom::new(0);
    let mut context = DraftContext { tree: CoupledTree::plain(&tree), random: &mut random, target: None };
    let second = drafter.draft(last, &mut context).unwrap();
    // What the target says after so many of these tokens is what it says at the probes.
    target.roll_back();
    let told = target.extend(&[last; 3]).unwrap().hidden;
    let want: Vec<Token> = (0..3)
        .map(|row| {
            target.top_tokens(&told.narrow(row, 1), &[1]).map_or_else(
                || gorgon_core::dist::Row::Logits(&target.logits(&told.narrow(row, 1))).argmax() as Token,
                |top| top[0].0,
            )
        })
        .collect();
    let tree = second.draft.tree();
    let drafts: Vec<Token> =
        (1..tree.len()).filter(|&node| !tree.is_probe(node)).map(|node| tree.token(node)).collect();
    assert_eq!(drafts, want);
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
        let found = drafted(&decoder, &model, &ChainTree::new(4).unwrap(), 0.0);
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
