//! Sampled drafted text has the plain law, and the test that says so would notice if it had not.

use gorgon_bench::distribution::DistributionTest;
use gorgon_bench::measure::{BenchPrompt, Comparison};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{
    AcceptanceRule, DraftRows, RandomSource, RuleChoice, SamplingScheme, TargetError, TargetRows, Verdict,
};
use gorgon_core::dist::{Row, Transform, mass, normalise, residual};
use gorgon_core::tree::{
    Candidate, CandidateRows, CandidateSource, FixedTree, SourceError, TokenTree, TreeBuilder, TreeShape,
};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
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

/// Draws the children of every node independently from a law that depends on the node's token alone.
struct Drawing {
    transform: Transform,
    random: SeededRandom,
}

/// The law after a token, as logits: some tokens likelier than others, none impossible.
fn row_after(token: Token) -> Vec<f32> {
    (0..SHAPE.vocab_size).map(|i| ((i * 7 + token as usize * 5) % 12) as f32 * 0.08).collect()
}

impl CandidateSource for Drawing {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let mut row = |(&node, &width): (&usize, &usize)| {
            let law = self.transform.apply(Row::Logits(&row_after(tree.token(node))));
            let draw = |_| {
                let token = self.random.pick(&law);
                Candidate { token: token as Token, probability: law[token] }
            };
            (0..width).map(draw).collect::<Vec<_>>()
        };
        Ok(nodes.iter().zip(widths).map(&mut row).collect())
    }
}

impl Drafter for Drawing {
    fn name(&self) -> &str {
        "drawing"
    }

    fn reset(&mut self) {}

    fn observe(&mut self, _: VerifiedPass<'_>) -> Result<(), DraftError> {
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let draft = context.tree.build(root, self)?;
        let rows = draft.tree().tokens().iter().flat_map(|&token| row_after(token)).collect();
        Ok(Proposal::drawn(draft, Some(rows), SamplingScheme::Independent))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    None,
    ResidualNotRenormalised,
    DraftProbabilityIgnored,
    SiblingTriedTwice,
    BonusFromWrongNode,
}

/// Speculative sampling with a planted bug.
struct Planted {
    transform: Transform,
    bug: Bug,
}

impl AcceptanceRule for Planted {
    fn is_lossless(&self) -> bool {
        self.bug == Bug::None
    }

    fn accept(
        &self,
        tree: &TokenTree,
        _: DraftRows<'_>,
        target: TargetRows<'_>,
        random: &mut dyn RandomSource,
    ) -> Result<Verdict, TargetError> {
        let law_at = |node: usize| self.transform.apply(target.row(node).unwrap());
        let (mut path, mut law) = (vec![0], law_at(0));
        while let Some(child) = self.first_accepted(tree, path[path.len() - 1], &mut law, random) {
            path.push(child);
            law = law_at(child);
        }
        if self.bug == Bug::BonusFromWrongNode && path.len() > 1 {
            law = law_at(path[path.len() - 2]);
        }
        Ok(Verdict { bonus: random.pick(&law) as Token, path: path.into() })
    }
}

impl Planted {
    fn first_accepted(
        &self,
        tree: &TokenTree,
        node: usize,
        law: &mut Vec<f64>,
        random: &mut dyn RandomSource,
    ) -> Option<usize> {
        let q = self.transform.apply(Row::Logits(&row_after(tree.token(node))));
        for child in tree.children(node) {
            let token = tree.token(child);
            let ratio = match self.bug {
                Bug::DraftProbabilityIgnored => mass(law, token),
                _ => mass(law, token) / mass(&q, token),
            };
            let tries = if self.bug == Bug::SiblingTriedTwice { 2 } else { 1 };
            if (0..tries).any(|_| random.flip(ratio)) {
                return Some(child);
            }
            match self.bug {
                Bug::ResidualNotRenormalised => law.iter_mut().zip(&q).for_each(|(p, q)| *p = (*p - q).max(0.0)),
                _ => *law = residual(law, &q)?.into_vec(),
            }
        }
        normalise(law);
        None
    }
}

/// Equal numbers of answers for every rule.
fn test(decoder: &Arc<Decoder>, rule: &dyn AcceptanceRule, transform: Transform, seed: u64) -> DistributionTest {
    let mut drafter = Drawing { transform, random: SeededRandom::new(seed + 99) };
    let shape = TreeShape::new(vec![vec![0], vec![1], vec![2], vec![0, 0], vec![0, 1], vec![0, 0, 0]]).unwrap();
    let limits = Limits { max_new_tokens: 100, end_tokens: vec![] };
    let prompts: Vec<BenchPrompt> = (0..4)
        .map(|i| BenchPrompt { id: i.to_string(), category: None, ids: (0..=i).map(|t| t * 3 % 12).collect() })
        .collect();
    let builder = &FixedTree::new(shape);
    let mut comparison = Comparison { recorded: None, decoder, drafter: &mut drafter, builder, rule, limits, seed };
    comparison.test_distribution(&prompts, 50, &transform, &mut || ()).unwrap()
}

#[test]
fn lossless_sampling_passes_and_every_planted_bug_is_found() {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 11).unwrap();
    let decoder = Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
    for temperature in [0.7, 1.0] {
        let transform = Transform::new(temperature, None, None).unwrap();
        let lossless = RuleChoice::Auto.resolve(&transform).rule(transform);
        assert!(lossless.is_lossless());
        for seed in [1, 1000] {
            let found = test(&decoder, lossless.as_ref(), transform, seed);
            assert!(found.passes() && found.accepted > 1000, "T {temperature}: {found:?}");
        }
        let control = test(&decoder, &Planted { transform, bug: Bug::None }, transform, 1);
        assert!(control.passes(), "T {temperature}: {control:?}");
        let bugs = [
            Bug::ResidualNotRenormalised,
            Bug::DraftProbabilityIgnored,
            Bug::SiblingTriedTwice,
            Bug::BonusFromWrongNode,
        ];
        for bug in bugs {
            let found = test(&decoder, &Planted { transform, bug }, transform, 1);
            eprintln!("T {temperature} {bug:?}: {} tokens, p = {:.2e}", found.tokens, found.p_value);
            assert!(!found.passes(), "T {temperature} {bug:?} went unnoticed: p = {}", found.p_value);
        }
        eprintln!("T {temperature}: lossless p = {:.3}", test(&decoder, lossless.as_ref(), transform, 1).p_value);
    }
}

#[test]
fn a_truncated_law_is_told_from_the_whole_one() {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 11).unwrap();
    let decoder = Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
    let cut = Transform::new(0.7, Some(4), None).unwrap();
    let rule = RuleChoice::Auto.resolve(&cut).rule(cut);
    assert!(test(&decoder, rule.as_ref(), cut, 5).passes());
    let whole = Transform::new(0.7, None, None).unwrap();
    assert!(!test(&decoder, rule.as_ref(), whole, 5).passes());
}
