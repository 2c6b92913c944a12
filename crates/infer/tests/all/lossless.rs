//! Drafts cost or save time, never change greedy text: whatever the heads say.

use crate::random_medusa;

use gorgon_core::accept::RuleChoice;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, PublishedTree, TreeBuilder, TreeShape};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::medusa::{MedusaDrafter, MedusaModel};
use gorgon_draft::oracle::OracleDrafter;
use gorgon_infer::{Generation, Limits, Method, Request, Session, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
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

fn decoder() -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 3).unwrap();
    Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap())
}

fn medusa(decoder: &Arc<Decoder>, own_lm_heads: bool, damage: Option<f32>) -> Box<dyn Drafter> {
    Box::new(MedusaDrafter::new(random_medusa::model(decoder, own_lm_heads, damage)))
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

const NEW_TOKENS: usize = 60;

fn limits() -> Limits {
    Limits { max_new_tokens: NEW_TOKENS, end_tokens: vec![] }
}

fn drafted(decoder: &Arc<Decoder>, drafter: &mut dyn Drafter, builder: &dyn TreeBuilder, prompt: &[u32]) -> Generation {
    let mut target = DecoderTarget::new(decoder.clone(), prompt.len() + NEW_TOKENS, Hooks::none());
    let rule = RuleChoice::Auto.resolve(&Transform::new(0.0, None, None).unwrap());
    let rule = rule.rule(Transform::new(0.0, None, None).unwrap());
    let random = &mut SeededRandom::new(1);
    Session::new(&mut target, drafter)
        .generate(Method { tree: builder, rule: rule.as_ref() }, Request::new(prompt, &limits(), random), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap()
}

fn plain(decoder: &Arc<Decoder>, prompt: &[u32]) -> Vec<u32> {
    let mut target = DecoderTarget::new(decoder.clone(), prompt.len() + NEW_TOKENS, Hooks::none());
    let transform = Transform::new(0.0, None, None).unwrap();
    let rule = RuleChoice::Auto.resolve(&transform).rule(transform);
    let mut go_on = |_| ControlFlow::Continue(());
    decode(&mut target, prompt, rule.as_ref(), &mut SeededRandom::new(0), &limits(), &mut go_on).unwrap().ids
}

const PROMPTS: [&[u32]; 3] = [&[256, 72, 105], &[256], &[256, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]];

/// The text is plain decoding's, at any rate of right drafts; at the higher rates drafts are accepted.
#[test]
fn drafts_do_not_change_greedy_text() {
    let decoder = decoder();
    for prompt in PROMPTS {
        let text = plain(&decoder, prompt);
        for builder in builders() {
            for rates in [vec![], vec![0.5, 0.5], vec![0.95, 0.9, 0.9, 0.9]] {
                let inner = medusa(&decoder, false, None);
                let mut oracle = OracleDrafter::new(inner, rates.clone(), SHAPE.vocab_size, 7);
                oracle.reveal(text.clone());
                let generation = drafted(&decoder, &mut oracle, builder.as_ref(), prompt);
                assert_eq!(generation.ids, text);
                let accepted: usize = generation.accepted.iter().sum();
                assert_eq!(accepted == 0, rates.is_empty(), "{rates:?}: {accepted}");
                assert!(generation.accepted.iter().all(|&n| n <= builder.max_depth().min(rates.len())));
            }
        }
    }
}

#[test]
fn untrained_and_damaged_heads_do_not_change_greedy_text() {
    let decoder = decoder();
    for prompt in PROMPTS {
        let text = plain(&decoder, prompt);
        for builder in builders() {
            for own_lm_heads in [false, true] {
                for damage in [None, Some(f32::NAN), Some(f32::INFINITY), Some(-1e30)] {
                    let mut drafter = medusa(&decoder, own_lm_heads, damage);
                    let generation = drafted(&decoder, drafter.as_mut(), builder.as_ref(), prompt);
                    assert_eq!(generation.ids, text, "{damage:?}");
                }
            }
        }
    }
}

/// A generation may fill the context to its last position: trees that reach beyond it find room.
#[test]
fn the_last_tokens_of_the_context_are_drafted_too() {
    let decoder = decoder();
    let prompt: Vec<u32> = (0..(SHAPE.max_positions - NEW_TOKENS + 1) as u32).collect();
    let text = plain(&decoder, &prompt);
    for builder in builders() {
        let mut oracle = OracleDrafter::new(medusa(&decoder, false, None), vec![1.0; 6], SHAPE.vocab_size, 0);
        oracle.reveal(text.clone());
        assert_eq!(drafted(&decoder, &mut oracle, builder.as_ref(), &prompt).ids, text);
    }
}

#[test]
fn heads_of_another_model_are_refused() {
    let decoder = decoder();
    let dir = tempfile::tempdir().unwrap();
    random_medusa::write(dir.path(), &decoder, false, None);
    let other = LlamaShape { hidden_size: 64, ..SHAPE };
    let folder = tempfile::tempdir().unwrap();
    other.write(folder.path(), FloatFormat::F32, 3).unwrap();
    let bigger = Arc::new(Decoder::load(folder.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
    let heads = HeadsFolder::open(dir.path()).unwrap();
    assert!(MedusaModel::load(&heads, bigger).unwrap_err().to_string().contains("32"));
    assert!(MedusaModel::load(&heads, decoder).is_ok());
    assert!(HeadsFolder::open(folder.path()).is_err());
}
