//! Tests of `specinfer`: the merged tree, and the law of what is emitted from it, by enumeration.

use super::*;
use crate::levels::{Children, LevelNetwork, Levels};
use gorgon_core::PooledVec;
use gorgon_core::accept::random::enumerate;
use gorgon_core::accept::{AcceptanceRule, KSeq, RandomSource, Sampling, SamplingScheme, TargetRows, Traversal};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{Candidate, ChainTree, DraftTree, OwnTree, SourceError, TokenTree};
use gorgon_model::hidden_states::HiddenStates;

const VOCAB: usize = 3;
/// Tokens of which the joint law is compared: two drafted levels and the bonus.
const HORIZON: usize = 3;
const SCHEMES: [SamplingScheme; 3] =
    [SamplingScheme::Independent, SamplingScheme::WithoutReplacement, SamplingScheme::Deterministic];

/// A number in `[0, 1)` for a text and a token.
fn hashed(seed: u64, text: &[Token], token: usize) -> f64 {
    let mix = |state: u64, word: u64| (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let text = text.iter().fold(mix(seed + 1, 77), |state, &token| mix(state, u64::from(token) + 5));
    (mix(mix(text, token as u64 + 11), 3) >> 11) as f64 * 2.0_f64.powi(-53)
}

fn target(seed: u64, text: &[Token]) -> Vec<f64> {
    let weights: Vec<f64> = (0..VOCAB).map(|token| 0.05 + hashed(seed, text, token)).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// A draft model of a few numbers. After a first token it knows two tokens only, so that there are fewer outcomes.
#[derive(Clone)]
struct Toy {
    seed: u64,
    scheme: SamplingScheme,
}

impl Toy {
    fn logits(&self, text: &[Token]) -> Vec<f32> {
        let hole = if text.is_empty() { VOCAB } else { (hashed(self.seed, text, 50) * VOCAB as f64) as usize };
        let weights: Vec<f64> = (0..VOCAB).map(|token| 0.02 + hashed(self.seed, text, token).powi(2)).collect();
        let logit = |token: usize| if token == hole { f32::NEG_INFINITY } else { weights[token].ln() as f32 };
        (0..VOCAB).map(logit).collect()
    }
}

fn text(tree: &TokenTree, node: usize) -> Vec<Token> {
    tree.path(node)[1..].iter().map(|&node| tree.token(node)).collect()
}

impl LevelNetwork for &Toy {
    fn read(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<Option<HiddenStates>, SourceError> {
        let values = nodes.iter().flat_map(|&node| self.logits(&text(tree, node))).collect();
        Ok(Some(HiddenStates::Host { values, width: VOCAB }))
    }

    fn logits(&self, states: &HiddenStates) -> PooledVec<f32> {
        states.on_host().unwrap().into()
    }

    fn columns(&self) -> usize {
        VOCAB
    }

    fn top_tokens(&self, _: &HiddenStates, _: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        None
    }
}

impl Drafter for Toy {
    fn name(&self) -> &str {
        "toy"
    }

    fn reset(&mut self) {}

    fn truncate(&mut self, length: usize) -> bool {
        length > 3
    }

    fn observe(&mut self, _: VerifiedPass<'_>) -> Result<(), DraftError> {
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let transform = Transform::IDENTITY;
        let children = match self.scheme {
            SamplingScheme::Deterministic => Children::MostLikely { stop: None },
            scheme => Children::Drawn { scheme, transform, random: &mut *context.random },
        };
        let mut levels = Levels::new(&*self, &context.tree, children, true);
        let draft = context.tree.build(root, &mut levels)?;
        let rows = levels.distributions(&draft);
        Ok(Proposal::drawn(draft, rows, self.scheme))
    }
}

fn drafter(seed: u64, schemes: [SamplingScheme; 2], widths: &[usize]) -> SpecInferDrafter<Toy> {
    let sources = [0, 1].map(|source| Toy { seed: 10 * seed + source, scheme: schemes[source as usize] });
    SpecInferDrafter::new("toys".into(), sources.into(), TreeShape::cartesian(widths).unwrap())
}

fn proposed(drafter: &mut SpecInferDrafter<Toy>, random: &mut dyn RandomSource) -> Proposal {
    let budget = OwnTree::new(64, 8).unwrap();
    drafter.draft(0, &mut DraftContext { tree: CoupledTree::plain(&budget), random, target: None }).unwrap()
}

/// A proposal with each child tried once, whoever drafted it how often.
fn deduplicated(proposal: Proposal) -> Proposal {
    let mut draft = DraftTree::root(0);
    let tree = proposal.draft.tree();
    for node in 1..tree.len() {
        let source = proposal.draft.entries().unwrap().iter().find(|entry| entry.child == node).unwrap().source;
        let child = draft.push(tree.parents()[node], Candidate { token: tree.token(node), probability: 1.0 });
        draft.push_entry(child, source);
    }
    Proposal { draft, ..proposal }
}

/// Greatest difference between the law of emitted text and the target's.
fn error(
    seed: u64,
    mut drafter: SpecInferDrafter<Toy>,
    rule: &dyn AcceptanceRule,
    change: impl Fn(Proposal) -> Proposal,
) -> f64 {
    let mut joint = vec![0.0; VOCAB.pow(HORIZON as u32)];
    for (drafted, proposal) in enumerate(|random| change(proposed(&mut drafter, random))) {
        let tree = proposal.draft.tree();
        let rows: Vec<f64> = (0..tree.len()).flat_map(|node| target(seed, &text(tree, node))).collect();
        let rows = TargetRows::Probabilities { data: &rows, vocab: VOCAB };
        let verdicts = enumerate(|random| proposal.with_draft_rows(|draft| rule.accept(tree, draft, rows, random)));
        for (probability, verdict) in verdicts {
            let verdict = verdict.unwrap();
            let accepted = verdict.path[1..].iter().map(|&node| tree.token(node));
            let text: Vec<Token> = accepted.chain([verdict.bonus]).take(HORIZON).collect();
            extend(seed, &text, drafted * probability, &mut joint);
        }
    }
    let mut plain = vec![0.0; joint.len()];
    extend(seed, &[], 1.0, &mut plain);
    joint.iter().zip(&plain).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// Adds the texts that continue one by the target.
fn extend(seed: u64, text: &[Token], probability: f64, joint: &mut [f64]) {
    if text.len() == HORIZON {
        joint[text.iter().fold(0, |index, &token| index * VOCAB + token as usize)] += probability;
        return;
    }
    for (token, p) in (0..).zip(target(seed, text)) {
        extend(seed, &[text, &[token]].concat(), probability * p, joint);
    }
}

const SAMPLING: Sampling = Sampling { transform: Transform::IDENTITY };

/// Two sources with two draws each at two levels.
#[test]
fn two_sources_emit_the_targets_law() {
    for (seed, schemes) in (0..).zip(SCHEMES.into_iter().flat_map(|a| SCHEMES.map(|b| [a, b]))) {
        let found = error(seed, drafter(seed, schemes, &[2, 2]), &SAMPLING, |proposal| proposal);
        assert!(found < 1e-12, "{schemes:?}: {found:e}");
    }
    let transform = Transform::IDENTITY;
    let rules: [&dyn AcceptanceRule; 2] = [&KSeq { transform }, &Traversal { transform }];
    for (seed, rule) in (20..).zip(rules) {
        let found = error(seed, drafter(seed, [SCHEMES[1]; 2], &[2, 2]), rule, |proposal| proposal);
        assert!(found < 1e-12, "{found:e}");
    }
}

/// The negative control. (Of three tokens, a source that has drawn two different ones leaves nothing to the next.)
#[test]
fn without_repeated_entries_the_law_is_another() {
    let of = |change: fn(Proposal) -> Proposal| {
        error(3, drafter(3, [SamplingScheme::Independent; 2], &[2, 2]), &SAMPLING, change)
    };
    assert!(of(deduplicated) > 1e-4, "{:e}", of(deduplicated));
    assert!(of(|proposal| proposal) < 1e-12);
}

#[test]
fn every_draft_is_an_entry_of_its_source_with_its_row() {
    for scheme in SCHEMES {
        let mut drafter = drafter(5, [scheme; 2], &[2, 2]);
        for (_, proposal) in enumerate(|random| proposed(&mut drafter, random)).into_iter().step_by(7) {
            let (tree, entries) = (proposal.draft.tree(), proposal.draft.entries().unwrap());
            for node in 0..tree.len() {
                let children: Vec<Token> = tree.children(node).map(|child| tree.token(child)).collect();
                let distinct: std::collections::BTreeSet<&Token> = children.iter().collect();
                assert_eq!(distinct.len(), children.len(), "a place holds a token once");
                let here = entries.iter().filter(|entry| tree.parents()[entry.child] == node && entry.child > 0);
                let by_source = [0, 1].map(|source| here.clone().filter(|entry| entry.source == source).count());
                for (source, count) in by_source.into_iter().enumerate() {
                    // Copies of a node draw two children each.
                    assert!(count % 2 == 0 && (node > 0 || count == 2), "{scheme:?}: {count} entries at {node}");
                    let rows = proposal.sources[source].rows.as_ref().unwrap();
                    let own = drafter.sources()[source].logits(&text(tree, node));
                    assert!(count == 0 || rows[node * VOCAB..][..VOCAB] == own, "{scheme:?}: row of {node}");
                }
            }
            assert!(entries.is_sorted_by_key(|entry| entry.source));
        }
    }
}

#[test]
fn named_trees_are_grown_by_every_source() {
    let mut drafter = drafter(1, [SamplingScheme::Deterministic; 2], &[2, 2]);
    let chain = drafter.propose(0, &ChainTree::new(2).unwrap()).unwrap();
    assert_eq!(chain.draft.entries().map(<[_]>::len), Some(4), "two chains of two drafts");
    assert!(drafter.truncate(4));
    assert!(!drafter.truncate(2), "one source cannot go back");
    assert_eq!((drafter.name(), drafter.needs()), ("toys", Needs::default()));
    // One source is its own tree.
    let mut one =
        SpecInferDrafter::new("one".into(), vec![drafter.sources()[0].clone()], TreeShape::cartesian(&[2]).unwrap());
    let proposal = one.propose(0, &OwnTree::new(9, 3).unwrap()).unwrap();
    assert_eq!((proposal.draft.tree().len(), proposal.sources.len()), (3, 1));
}
