//! The law of text while SWIFT's search runs, by enumeration. A search begins once 33 tokens of an answer are out, so
//! these come of a seed, and every outcome of the tokens behind them is tried.

use crate::composed::law;
use crate::composed::models::{TINY, decoder, generate, rule};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, RandomSource};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{OwnTree, TreeBuilder};
use gorgon_draft::swift::{Swift, SwiftDrafter};
use gorgon_infer::Generation;
use gorgon_model::decoder::Decoder;
use gorgon_model::random::LlamaShape;
use std::sync::Arc;

/// Enough layers for a search to leave some out.
const SHAPE: LlamaShape = LlamaShape { layers: 4, ..TINY };
/// Two of the four sub-layers of two layers.
const METHOD: Swift = Swift { share: 50, seed: 3, state: None };
/// Tokens that come of a seed, at least: the step during which there are as many may emit two more.
const HEAD: usize = 44;
/// Tokens of which every outcome is tried.
const NEW: usize = 3;

/// Chance of a seed in steps that begin before a position, and another source from then on.
struct Behind<'a> {
    seeded: SeededRandom,
    other: &'a mut dyn RandomSource,
    position: usize,
    /// Tokens of the answer when the other source was first asked.
    head: Option<usize>,
}

impl<'a> Behind<'a> {
    fn new(other: &'a mut dyn RandomSource) -> Self {
        Self { seeded: SeededRandom::new(5), other, position: 0, head: None }
    }

    fn source(&mut self) -> &mut dyn RandomSource {
        match self.position.checked_sub(law::PROMPT.len()).filter(|&out| out >= HEAD) {
            None => &mut self.seeded,
            Some(out) => {
                self.head.get_or_insert(out);
                &mut *self.other
            }
        }
    }
}

impl RandomSource for Behind<'_> {
    fn flip(&mut self, probability: f64) -> bool {
        self.source().flip(probability)
    }

    fn pick(&mut self, weights: &[f64]) -> usize {
        self.source().pick(weights)
    }

    fn set_position(&mut self, position: usize) {
        self.position = position;
    }
}

fn answer(
    target: &Arc<Decoder>,
    drafter: &mut SwiftDrafter,
    rule: &dyn AcceptanceRule,
    random: &mut Behind<'_>,
    tokens: usize,
) -> Generation {
    let tree = OwnTree::new(8, 2).unwrap();
    generate(target, drafter, (&tree as &dyn TreeBuilder, rule), (law::PROMPT, tokens), random)
}

/// Drafts that were accepted in steps that began with `head` tokens or more.
fn accepted_behind(found: &Generation, head: usize) -> usize {
    let (mut out, mut accepted) = (1, 0);
    for drafts in &found.accepted {
        accepted += if out < head { 0 } else { *drafts };
        out += drafts + 1;
    }
    accepted
}

/// Greatest difference between the law of text while sets are tried and plain decoding's, and the drafts that were
/// accepted in all.
fn error_of(name: &str) -> (f64, usize) {
    let target = decoder(SHAPE, 1);
    let transform = Transform::new(0.8, None, None).unwrap();
    let (rule, _) = rule(name, transform);
    let mut other = SeededRandom::new(6);
    let mut random = Behind::new(&mut other);
    let mut drafter = SwiftDrafter::new(METHOD);
    let ids = answer(&target, &mut drafter, rule.as_ref(), &mut random, HEAD + 2 + NEW).ids;
    let head = random.head.unwrap();
    let before: Vec<Token> = [law::PROMPT, &ids[..head]].concat();
    let mut accepted = 0;
    let error = law::error_behind((&target, &before[..]), &transform, NEW, &mut |random| {
        let (mut random, mut drafter) = (Behind::new(random), SwiftDrafter::new(METHOD));
        let found = answer(&target, &mut drafter, rule.as_ref(), &mut random, head + NEW);
        assert_eq!(found.ids[..head], ids[..head]);
        let search = drafter.search().unwrap();
        assert!(search.tries() > 2 && !search.has_ended(), "{name}: {} tries", search.tries());
        accepted += accepted_behind(&found, head);
        found.ids[head..].to_vec()
    });
    (error, accepted)
}

#[test]
fn text_has_the_targets_law_while_sets_are_tried() {
    for name in ["sampling", "block", "traversal", "k-seq", "coupled"] {
        let (error, accepted) = error_of(name);
        assert!(error < 1e-12, "{name}: {error:e}");
        assert!(accepted > 0, "{name}: nothing is shown");
    }
}

/// The enumeration sees a rule that is lossy.
#[test]
fn a_lossy_rule_has_another_law() {
    let (error, accepted) = error_of("lossy:0.5");
    assert!(error > 1e-3 && accepted > 0, "{error:e}, {accepted}");
}
