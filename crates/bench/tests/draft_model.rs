//! Text that a draft model's draws take part in has the plain law.

use gorgon_bench::distribution::DistributionTest;
use gorgon_bench::measure::{BenchPrompt, Comparison};
use gorgon_core::accept::{RuleChoice, SamplingScheme};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, TreeBuilder, TreeShape};
use gorgon_draft::draft_model::{DraftModel, DraftModelDrafter, DraftSampling};
use gorgon_infer::Limits;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::LlamaShape;
use std::sync::Arc;

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 16,
    intermediate_size: 24,
    layers: 1,
    heads: 2,
    kv_heads: 1,
    vocab_size: 12,
    max_positions: 160,
};

fn decoder(seed: u64) -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, seed).unwrap();
    Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap())
}

/// Target and draft model.
struct Pair(Arc<Decoder>, Arc<Decoder>);

impl Pair {
    fn test(
        &self,
        rule: &str,
        builder: &dyn TreeBuilder,
        transform: Transform,
        law: impl Fn(DraftSampling) -> DraftSampling,
    ) -> DistributionTest {
        let choice: RuleChoice = rule.parse().unwrap();
        let model = DraftModel::new("model:other".into(), self.1.clone(), self.0.config());
        let mut drafter = DraftModelDrafter::new(model, law(DraftSampling::of(choice, transform)));
        let rule = choice.rule(transform);
        let prompts: Vec<BenchPrompt> = (0..4)
            .map(|i| BenchPrompt { id: i.to_string(), category: None, ids: (0..=i).map(|t| t * 3 % 12).collect() })
            .collect();
        let limits = Limits { max_new_tokens: 100, end_tokens: vec![] };
        let mut comparison = Comparison {
            recorded: None,
            decoder: &self.0,
            drafter: &mut drafter,
            builder,
            rule: rule.as_ref(),
            limits,
            seed: 5,
        };
        let found = comparison.test_distribution(&prompts, 30, &transform, &mut || ()).unwrap();
        eprintln!("{choice}: {} tokens, {} accepted, p = {:.2e}", found.tokens, found.accepted, found.p_value);
        found
    }
}

fn builders() -> [Box<dyn TreeBuilder>; 3] {
    let paths = vec![vec![0], vec![1], vec![2], vec![0, 0], vec![0, 1], vec![0, 0, 0]];
    [
        Box::new(ChainTree::new(3).unwrap()),
        Box::new(FixedTree::new(TreeShape::new(paths).unwrap())),
        Box::new(DynamicTree::new(8, 2, 3).unwrap()),
    ]
}

#[test]
fn drafts_drawn_from_a_draft_model_leave_the_law_as_it_is() {
    let pair = Pair(decoder(11), decoder(12));
    for temperature in [0.7, 1.0] {
        let transform = Transform::new(temperature, None, None).unwrap();
        for rule in ["sampling", "k-seq"] {
            // A dynamic tree's list is a list to both rules.
            let trees = if rule == "k-seq" { 2 } else { 3 };
            for builder in &builders()[..trees] {
                let found = pair.test(rule, builder.as_ref(), transform, |law| law);
                assert!(found.passes() && found.accepted > 1000, "{rule} at {temperature}: {found:?}");
            }
        }
        let nucleus = Transform::new(temperature, None, Some(0.8)).unwrap();
        let found = pair.test("sampling", builders()[1].as_ref(), nucleus, |law| law);
        assert!(found.passes() && found.accepted > 1000, "top-p 0.8 at {temperature}: {found:?}");
    }
}

/// The test can tell: drafts from a law other than the one that is stated, and rules that are lossy.
#[test]
fn other_laws_are_noticed() {
    let pair = Pair(decoder(11), decoder(12));
    let transform = Transform::new(1.0, None, None).unwrap();
    let chain = &builders()[0];
    let cold = |law| DraftSampling { transform: Transform::new(0.3, None, None).unwrap(), ..law };
    assert!(!pair.test("sampling", chain.as_ref(), transform, cold).passes());
    let together = |law| DraftSampling { children: SamplingScheme::Independent, ..law };
    let tree = &builders()[1];
    assert!(pair.test("sampling", tree.as_ref(), transform, together).passes(), "it says what it does");
    for lossy in ["chow:1", "lossy:0.5", "bild:0,3"] {
        assert!(!pair.test(lossy, chain.as_ref(), transform, |law| law).passes(), "{lossy}");
    }
}

/// A draft model whose scores are no numbers has no law; its drafts count as a list.
#[test]
fn a_broken_draft_model_leaves_the_law_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 12).unwrap();
    let path = dir.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let broken = Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
    let pair = Pair(decoder(11), broken);
    let transform = Transform::new(1.0, None, None).unwrap();
    for builder in builders() {
        assert!(pair.test("sampling", builder.as_ref(), transform, |law| law).passes());
    }
}
