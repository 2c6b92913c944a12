//! EAGLE in the decode loop: recorded runs are repeated step by step, and no draft changes greedy text.

use crate::recorder;
use crate::shared;

use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, Greedy, RuleChoice};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, PublishedTree, TreeBuilder, TreeShape};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::eagle::three::{DraftVocabulary, Eagle3Model, Eagle3Shape};
use gorgon_draft::eagle::{EagleDrafter, EagleModel, EagleShape};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::format::HeadsFormat;
use gorgon_draft::oracle::OracleDrafter;
use gorgon_draft::parameter::ParameterSpec;
use gorgon_infer::{Generation, Limits, Method, Request, Session, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
use gorgon_runs::tensors::{self, Source, Stored, write_f32};
use recorder::Recorder;
use safetensors::Dtype;
use serde_json::Value;
use std::ops::ControlFlow;
use std::sync::Arc;

fn run(
    decoder: &Arc<Decoder>,
    drafter: &mut dyn Drafter,
    builder: &dyn TreeBuilder,
    rule: &dyn AcceptanceRule,
    prompt: &[Token],
    new_tokens: usize,
) -> Generation {
    let hooks = drafter.needs().hooks;
    let mut target = DecoderTarget::new(decoder.clone(), prompt.len() + new_tokens, hooks);
    let limits = Limits { max_new_tokens: new_tokens, end_tokens: vec![] };
    let random = &mut SeededRandom::new(1);
    Session::new(&mut target, drafter)
        .generate(Method { tree: builder, rule }, Request::new(prompt, &limits, random), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap()
}

fn plain(decoder: &Arc<Decoder>, prompt: &[Token], new_tokens: usize) -> Vec<Token> {
    let mut target = DecoderTarget::new(decoder.clone(), prompt.len() + new_tokens, Hooks::none());
    let limits = Limits { max_new_tokens: new_tokens, end_tokens: vec![] };
    let mut go_on = |_| ControlFlow::Continue(());
    decode(&mut target, prompt, &Greedy, &mut SeededRandom::new(0), &limits, &mut go_on).unwrap().ids
}

fn tokens(value: &Value) -> Vec<Token> {
    value.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as Token).collect()
}

#[test]
fn recorded_generations_are_reproduced_step_by_step() {
    check_generations("recorded_generations_are_reproduced_step_by_step", "eagle1_llama_mha", "llama_mha");
}

#[test]
fn recorded_generations_with_eagle3_are_reproduced_step_by_step() {
    let test = "recorded_generations_with_eagle3_are_reproduced_step_by_step";
    check_generations(test, "eagle3_llama_7layer_bf16", "llama_7layer_bf16");
}

#[test]
fn a_fitted_eagle3_layer_leaves_the_text_as_it_is_with_every_tree() {
    let test = "a_fitted_eagle3_layer_leaves_the_text_as_it_is_with_every_tree";
    let Some(dir) = shared::shared("fixtures/eagle/eagle3_llama_7layer_bf16", test) else { return };
    let Some(backbone) = shared::shared("fixtures/backbones/llama_7layer_bf16", test) else { return };
    let decoder = Arc::new(Decoder::load(&backbone, &Compute::cpu(FloatFormat::F32)).unwrap());
    let mut drafter = found(&HeadsFolder::open(&dir).unwrap(), &decoder);
    let prompt = [1, 498, 261, 57, 344, 333];
    let text = plain(&decoder, &prompt, NEW_TOKENS);
    let mut accepted = 0;
    for builder in builders() {
        let generation = run(&decoder, drafter.as_mut(), builder.as_ref(), &Greedy, &prompt, NEW_TOKENS);
        assert_eq!(generation.ids, text);
        accepted += generation.accepted.iter().sum::<usize>();
    }
    assert!(accepted > 0);
}

/// A draft layer as it is found in a folder.
fn found(folder: &HeadsFolder, decoder: &Arc<Decoder>) -> Box<dyn Drafter> {
    match folder.detected.format {
        HeadsFormat::Eagle1 => Box::new(EagleDrafter::new(EagleModel::load(folder, decoder.clone()).unwrap())),
        _ => Box::new(EagleDrafter::new(Eagle3Model::load(folder, decoder.clone()).unwrap())),
    }
}

fn check_generations(test: &str, layer: &str, backbone: &str) {
    let Some(dir) = shared::shared(&format!("fixtures/eagle/{layer}"), test) else { return };
    let Some(backbone) = shared::shared(&format!("fixtures/backbones/{backbone}"), test) else { return };
    let decoder = Arc::new(Decoder::load(&backbone, &Compute::cpu(FloatFormat::F32)).unwrap());
    let folder = HeadsFolder::open(&dir).unwrap();
    let expected: Value = serde_json::from_slice(&std::fs::read(dir.join("expected.json")).unwrap()).unwrap();
    let runs = expected["runs"].as_array().unwrap();
    assert!(!runs.is_empty());
    for (number, recorded) in runs.iter().enumerate() {
        let size = |key: &str| recorded[key].as_u64().unwrap() as usize;
        let builder = DynamicTree::new(size("total_tokens"), size("depth"), size("top_k")).unwrap();
        let mut recorder = Recorder { inner: found(&folder, &decoder), trees: Arc::default() };
        let (prompt, output) = (tokens(&recorded["prompt"]), tokens(&recorded["output"]));
        let generation = run(&decoder, &mut recorder, &builder, &Greedy, &prompt, output.len() + 1);
        // The recorded output leaves out the last step's bonus, which would be the next step's root.
        assert_eq!(generation.ids[..output.len()], output, "run {number}");
        assert_eq!(plain(&decoder, &prompt, output.len()), output, "run {number}");
        let lengths: Vec<usize> = tokens(&recorded["accept_lengths"]).into_iter().map(|n| n as usize).collect();
        if recorded["trees_stable_under_1e-5_weight_noise"] == false {
            continue;
        }
        assert_eq!(generation.accepted, lengths, "run {number}");
        for (i, step) in recorded["steps"].as_array().unwrap().iter().enumerate() {
            let Some(drafts) = step.get("draft_tokens") else { continue };
            let tree = &recorder.trees.lock().unwrap()[i];
            assert_eq!(tree.tokens(), tokens(drafts), "run {number} step {i}");
            let depths: Vec<usize> = tokens(&step["position_ids"]).into_iter().map(|d| d as usize).collect();
            assert_eq!(tree.depths(), depths, "run {number} step {i}");
            let paths = step["retrieve_indices"].as_array().unwrap().iter().map(|row| {
                row.as_array().unwrap().iter().filter_map(|node| node.as_u64().map(|n| n as usize)).collect()
            });
            assert_eq!(tree.leaf_paths(), paths.collect::<Vec<Vec<usize>>>(), "run {number} step {i}");
        }
    }
}

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 48,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 96,
};

fn decoder() -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 3).unwrap();
    Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap())
}

/// The generations of the method: parameters, what is written beside them, and the config.
fn parts(decoder: &Decoder, generation: usize) -> (Vec<ParameterSpec>, Vec<Stored>, Value) {
    if generation == 1 {
        let shape = EagleShape::of(decoder.config(), true);
        return (shape.parameters(), vec![], shape.document("somewhere"));
    }
    // Every other token can be drafted.
    let counts: Vec<u64> = (0..SHAPE.vocab_size as u64).map(|token| token % 2).collect();
    let vocabulary = DraftVocabulary::most_frequent(&counts, SHAPE.vocab_size / 2);
    let shape = Eagle3Shape::of(decoder.config(), vec![0, 1, 2], vocabulary.len());
    (shape.parameters(), vocabulary.stored(), shape.document("somewhere"))
}

/// A layer of random values; `damage` stands in the tensors whose names hold `place`.
fn eagle(decoder: &Arc<Decoder>, generation: usize, place: &str, damage: Option<f32>) -> Box<dyn Drafter> {
    let dir = tempfile::tempdir().unwrap();
    let (parameters, stored, document) = parts(decoder, generation);
    let sources = parameters.into_iter().enumerate().map(|(i, p)| {
        let value = |j: usize| (((j * 7919 + i * 104_729) % 2003) as f32 / 1001.5 - 1.0) * 0.3;
        let bad = damage.filter(|_| p.name.contains(place));
        let values: Vec<f32> = (0..p.shape.iter().product()).map(|j| bad.unwrap_or_else(|| value(j))).collect();
        let fill = Box::new(move |file: &mut dyn std::io::Write| write_f32(file, &values));
        Source { name: p.name, dtype: Dtype::F32, shape: p.shape, fill }
    });
    let sources: Vec<Source<'_>> = sources.chain(stored.iter().map(Stored::source)).collect();
    tensors::write(&dir.path().join("model.safetensors"), &sources).unwrap();
    std::fs::write(dir.path().join("config.json"), document.to_string()).unwrap();
    found(&HeadsFolder::open(dir.path()).unwrap(), decoder)
}

fn builders() -> Vec<Box<dyn TreeBuilder>> {
    let published: PublishedTree = "eagle_static".parse().unwrap();
    vec![
        Box::new(ChainTree::new(1).unwrap()),
        Box::new(ChainTree::new(6).unwrap()),
        Box::new(FixedTree::new(TreeShape::cartesian(&[3, 2, 2]).unwrap())),
        Box::new(FixedTree::new(published.shape().clone())),
        Box::new(DynamicTree::new(20, 3, 4).unwrap()),
        Box::new(DynamicTree::new(60, 5, 10).unwrap()),
    ]
}

const NEW_TOKENS: usize = 40;
const PROMPTS: [&[Token]; 3] = [&[256, 72, 105], &[256], &[256, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]];

#[test]
fn untrained_and_damaged_layers_do_not_change_greedy_text() {
    let decoder = decoder();
    for prompt in PROMPTS {
        let text = plain(&decoder, prompt, NEW_TOKENS);
        for (builder, generation) in builders().iter().flat_map(|builder| [(builder, 1), (builder, 3)]) {
            for (place, damage) in [
                ("", None),
                ("fc.weight", Some(f32::NAN)),
                ("v_proj", Some(f32::INFINITY)),
                ("down_proj", Some(-1e30)),
                ("layernorm", Some(f32::NAN)),
                ("lm_head", Some(f32::NAN)),
            ] {
                let mut drafter = eagle(&decoder, generation, place, damage);
                let found = run(&decoder, drafter.as_mut(), builder.as_ref(), &Greedy, prompt, NEW_TOKENS);
                assert_eq!(found.ids, text, "EAGLE-{generation}: {place} {damage:?}");
            }
        }
    }
}

/// Drafts that are right, at the cost of the layer: paths of every length are committed, to the end of the context.
#[test]
fn right_drafts_are_accepted_and_change_nothing() {
    let decoder = decoder();
    let long: Vec<Token> = (0..(SHAPE.max_positions - NEW_TOKENS + 1) as Token).collect();
    for prompt in [PROMPTS[0], &long] {
        let text = plain(&decoder, prompt, NEW_TOKENS);
        for (builder, generation) in builders().iter().flat_map(|builder| [(builder, 1), (builder, 3)]) {
            for rates in [vec![0.6, 0.6], vec![0.95; 6]] {
                let layer = eagle(&decoder, generation, "", None);
                let mut oracle = OracleDrafter::new(layer, rates, SHAPE.vocab_size, 7);
                oracle.reveal(text.clone());
                let found = run(&decoder, &mut oracle, builder.as_ref(), &Greedy, prompt, NEW_TOKENS);
                assert_eq!(found.ids, text, "EAGLE-{generation}");
                assert!(found.accepted.iter().sum::<usize>() > 0);
            }
        }
    }
}

/// Sampled text has the target's distribution whatever is drafted: the first tokens of many short runs are counted with
/// and without drafts.
#[test]
fn sampled_text_keeps_its_law() {
    for generation in [1, 3] {
        check_law(generation);
    }
}

fn check_law(generation: usize) {
    let decoder = decoder();
    let transform = Transform::new(0.5, Some(4), None).unwrap();
    let rule = RuleChoice::Auto.resolve(&transform).rule(transform);
    let mut drafter = eagle(&decoder, generation, "", None);
    let builders: [Box<dyn TreeBuilder>; 2] =
        [Box::new(ChainTree::new(0).unwrap()), Box::new(DynamicTree::new(12, 2, 4).unwrap())];
    let runs = 1500;
    let counts = builders.map(|builder| {
        let mut target = DecoderTarget::new(decoder.clone(), 8, drafter.needs().hooks);
        let limits = Limits { max_new_tokens: 3, end_tokens: vec![] };
        let mut counts = std::collections::BTreeMap::<Vec<Token>, f64>::new();
        for seed in 0..runs {
            let random = &mut SeededRandom::new(seed);
            let mut go_on = |_| ControlFlow::Continue(());
            let ids = Session::new(&mut target, drafter.as_mut())
                .generate(
                    Method { tree: builder.as_ref(), rule: rule.as_ref() },
                    Request::new(&[256, 9], &limits, random),
                    &mut go_on,
                )
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
