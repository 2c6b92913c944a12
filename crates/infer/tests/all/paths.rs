//! Drafters that know the path to a node, Hydra heads and multi-token-prediction modules, in the decode loop: no draft
//! changes greedy text, and sampled text keeps its distribution.

use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, Greedy, RuleChoice};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, PublishedTree, TreeBuilder, TreeShape};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::hydra::{HydraConfig, HydraDrafter, HydraModel, HydraShape};
use gorgon_draft::kangaroo::{KangarooConfig, KangarooDrafter, KangarooModel, KangarooShape};
use gorgon_draft::layer::LayerShape;
use gorgon_draft::mtp::{MtpConfig, MtpDrafter, MtpModel, MtpShape};
use gorgon_draft::oracle::OracleDrafter;
use gorgon_draft::parameter::{Init, ParameterSpec};
use gorgon_infer::{Generation, Limits, Method, Request, Session, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
use gorgon_runs::tensors::{self, Source, write_f32};
use safetensors::Dtype;
use serde_json::Value;
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
const NEW_TOKENS: usize = 40;
const PROMPTS: [&[Token]; 3] = [&[256, 72, 105], &[256], &[256, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]];

fn decoder() -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 3).unwrap();
    Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap())
}

/// Heads to decode with.
#[derive(Clone, Copy)]
enum Kind {
    Hydra(HydraConfig),
    Mtp(MtpConfig),
    Kangaroo(KangarooConfig),
}

fn kinds() -> Vec<Kind> {
    let plain = HydraConfig::default();
    vec![
        Kind::Hydra(plain),
        Kind::Hydra(HydraConfig { own_lm_heads: true, blocks: 2, ..plain }),
        Kind::Hydra(HydraConfig { prefix_attention: true, blocks: 4, ..plain }),
        Kind::Mtp(MtpConfig { depths: 1 }),
        Kind::Mtp(MtpConfig { depths: 3 }),
        Kind::Kangaroo(KangarooConfig { exit_layer: 1, stop: 0.02 }),
    ]
}

/// Random heads; `damage` stands in the tensors whose names hold `place`.
fn drafter(decoder: &Arc<Decoder>, kind: Kind, place: &str, damage: Option<f32>) -> Box<dyn Drafter> {
    let layer = LayerShape::of(decoder.config());
    let (specs, document): (Vec<ParameterSpec>, Value) = match kind {
        Kind::Hydra(config) => {
            let shape = HydraShape { config, layer };
            (shape.parameters(), shape.document("somewhere"))
        }
        Kind::Mtp(config) => {
            let shape = MtpShape { config, layer, first_layer: SHAPE.layers };
            (shape.parameters(), shape.document("somewhere"))
        }
        Kind::Kangaroo(config) => {
            let shape = KangarooShape { config, layer };
            (shape.parameters(), shape.document("somewhere"))
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let source = |(i, spec): (usize, ParameterSpec)| {
        let base = if spec.init == Init::One { 1.0 } else { 0.0 };
        let value = |j: usize| base + (((j * 7919 + i * 104_729) % 2003) as f32 / 1001.5 - 1.0) * 0.3;
        let bad = damage.filter(|_| spec.name.contains(place));
        let values: Vec<f32> = (0..spec.shape.iter().product()).map(|j| bad.unwrap_or_else(|| value(j))).collect();
        let fill = Box::new(move |file: &mut dyn std::io::Write| write_f32(file, &values));
        Source { name: spec.name, dtype: Dtype::F32, shape: spec.shape, fill }
    };
    let sources: Vec<Source<'_>> = specs.into_iter().enumerate().map(source).collect();
    tensors::write(&dir.path().join("model.safetensors"), &sources).unwrap();
    std::fs::write(dir.path().join("config.json"), document.to_string()).unwrap();
    let folder = HeadsFolder::open(dir.path()).unwrap();
    match kind {
        Kind::Hydra(_) => Box::new(HydraDrafter::new(HydraModel::load(&folder, decoder.clone()).unwrap())),
        Kind::Mtp(_) => Box::new(MtpDrafter::new(MtpModel::load(&folder, decoder.clone()).unwrap())),
        Kind::Kangaroo(_) => Box::new(KangarooDrafter::new(KangarooModel::load(&folder, decoder.clone()).unwrap())),
    }
}

fn builders() -> Vec<Box<dyn TreeBuilder>> {
    let published: PublishedTree = "mc_sim_7b_63".parse().unwrap();
    vec![
        Box::new(ChainTree::new(1).unwrap()),
        Box::new(ChainTree::new(6).unwrap()),
        Box::new(FixedTree::new(TreeShape::cartesian(&[3, 2, 2]).unwrap())),
        Box::new(FixedTree::new(published.shape().clone())),
        Box::new(DynamicTree::new(20, 3, 4).unwrap()),
        Box::new(DynamicTree::new(60, 5, 10).unwrap()),
    ]
}

fn run(decoder: &Arc<Decoder>, drafter: &mut dyn Drafter, builder: &dyn TreeBuilder, prompt: &[Token]) -> Generation {
    let mut target = DecoderTarget::new(decoder.clone(), prompt.len() + NEW_TOKENS, drafter.needs().hooks);
    let limits = Limits { max_new_tokens: NEW_TOKENS, end_tokens: vec![] };
    let (rule, random): (&dyn AcceptanceRule, _) = (&Greedy, &mut SeededRandom::new(1));
    Session::new(&mut target, drafter)
        .generate(Method { tree: builder, rule }, Request::new(prompt, &limits, random), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap()
}

fn plain(decoder: &Arc<Decoder>, prompt: &[Token]) -> Vec<Token> {
    let mut target = DecoderTarget::new(decoder.clone(), prompt.len() + NEW_TOKENS, Hooks::none());
    let limits = Limits { max_new_tokens: NEW_TOKENS, end_tokens: vec![] };
    let mut go_on = |_| ControlFlow::Continue(());
    decode(&mut target, prompt, &Greedy, &mut SeededRandom::new(0), &limits, &mut go_on).unwrap().ids
}

#[test]
fn untrained_and_damaged_heads_do_not_change_greedy_text() {
    let decoder = decoder();
    for prompt in PROMPTS {
        let text = plain(&decoder, prompt);
        for kind in kinds() {
            for builder in builders() {
                for (place, damage) in [
                    ("", None),
                    ("", Some(f32::NAN)),
                    ("linear", Some(f32::INFINITY)),
                    ("norm", Some(f32::NAN)),
                    ("eh_proj", Some(-1e30)),
                ] {
                    let mut drafter = drafter(&decoder, kind, place, damage);
                    let generation = run(&decoder, drafter.as_mut(), builder.as_ref(), prompt);
                    assert_eq!(generation.ids, text, "{} {place} {damage:?}", drafter.name());
                }
            }
        }
    }
}

/// Drafts that are right, at the cost of the heads: paths of every length are committed, to the end of the context.
#[test]
fn right_drafts_are_accepted_and_change_nothing() {
    let decoder = decoder();
    let long: Vec<Token> = (0..(SHAPE.max_positions - NEW_TOKENS + 1) as Token).collect();
    for prompt in [PROMPTS[0], &long] {
        let text = plain(&decoder, prompt);
        for kind in kinds() {
            for builder in builders() {
                for rates in [vec![0.6, 0.6], vec![0.95; 6]] {
                    let inner = drafter(&decoder, kind, "", None);
                    let mut oracle = OracleDrafter::new(inner, rates, SHAPE.vocab_size, 7);
                    oracle.reveal(text.clone());
                    let generation = run(&decoder, &mut oracle, builder.as_ref(), prompt);
                    assert_eq!(generation.ids, text);
                    assert!(generation.accepted.iter().sum::<usize>() > 0);
                }
            }
        }
    }
}

/// Sampled text has the target's distribution whatever is drafted: the first tokens of many short runs are counted with
/// and without drafts.
#[test]
fn sampled_text_keeps_its_law() {
    let decoder = decoder();
    let transform = Transform::new(0.5, Some(4), None).unwrap();
    let rule = RuleChoice::Auto.resolve(&transform).rule(transform);
    let runs = 1500;
    for kind in [kinds()[2], kinds()[4], kinds()[5]] {
        let mut drafter = drafter(&decoder, kind, "", None);
        let builders: [Box<dyn TreeBuilder>; 2] =
            [Box::new(ChainTree::new(0).unwrap()), Box::new(DynamicTree::new(12, 2, 4).unwrap())];
        let counts = builders.map(|builder| {
            let mut target = DecoderTarget::new(decoder.clone(), 8, drafter.needs().hooks);
            let limits = Limits { max_new_tokens: 3, end_tokens: vec![] };
            let mut counts = std::collections::BTreeMap::<Vec<Token>, f64>::new();
            for seed in 0..runs {
                let (builder, rule, random) = (builder.as_ref(), rule.as_ref(), &mut SeededRandom::new(seed));
                let mut go_on = |_| ControlFlow::Continue(());
                let ids = Session::new(&mut target, drafter.as_mut())
                    .generate(Method { tree: builder, rule }, Request::new(&[256, 9], &limits, random), &mut go_on)
                    .unwrap()
                    .ids;
                *counts.entry(ids[1..].to_vec()).or_default() += 1.0 / runs as f64;
            }
            counts
        });
        let all: std::collections::BTreeSet<&Vec<Token>> = counts.iter().flat_map(|c| c.keys()).collect();
        let of = |i: usize, text: &Vec<Token>| counts[i].get(text).copied().unwrap_or(0.0);
        let distance = all.iter().map(|text| (of(0, text) - of(1, text)).abs()).sum::<f64>() / 2.0;
        // Two samples of this size from one distribution over n texts differ by about sqrt(n / (pi · runs)) at most.
        let expected = (all.len() as f64 / (std::f64::consts::PI * runs as f64)).sqrt();
        assert!(distance < 1.3 * expected, "{distance} over {} texts, {expected} expected", all.len());
    }
}
