//! Trees whose shape depends on drawn tokens: exact as long as no draw is kept or dropped by its own value.

use gorgon_core::Token;
use gorgon_core::accept::random::enumerate;
use gorgon_core::accept::{
    AcceptanceRule, Coupled, DraftRows, RandomSource, Rows, Sampling, SamplingScheme, TargetRows, Traversal,
};
use gorgon_core::dist::Transform;
use gorgon_core::tree::TokenTree;

use crate::accept::settings::{VOCAB, distance, plain, random_distribution};

const HORIZON: usize = 3;
const SCHEME: SamplingScheme = SamplingScheme::WithoutReplacement;

/// The draw that decides how many children a node gets.
#[derive(Clone, Copy, Debug)]
enum Dependence {
    /// The draw on the node itself, an ancestor of the children.
    Ancestor,
    /// A child of the node's elder sibling.
    EldersChild,
    /// The draw of the node's younger sibling.
    YoungerSibling,
    /// A draw's own value: it is left out of the tree if it is token 0.
    OwnValue,
}

/// A tree with the text of each node.
struct Drawn {
    tree: TokenTree,
    texts: Vec<Vec<Token>>,
}

impl Drawn {
    fn new(seed: u64, dependence: Dependence, random: &mut dyn RandomSource) -> Self {
        let mut drawn = Self { tree: TokenTree::root(0), texts: vec![vec![]] };
        let draw = |text: &[Token], count, random: &mut dyn RandomSource| {
            SCHEME.children(&random_distribution(seed + 1000, text, VOCAB), count, random).into_vec()
        };
        let mut tops = draw(&[], 2, random);
        if matches!(dependence, Dependence::OwnValue) {
            tops.retain(|&token| token != 0);
        }
        let nodes: Vec<usize> = tops.iter().map(|&token| drawn.push(0, token)).collect();
        for (i, &node) in nodes.iter().enumerate() {
            let count = match dependence {
                Dependence::Ancestor => usize::from(tops[i] == 0) + 1,
                Dependence::EldersChild if i > 0 => {
                    drawn.tree.children(nodes[0]).map(|c| drawn.tree.token(c) as usize).min().unwrap_or(0)
                }
                Dependence::YoungerSibling if i == 0 => 2 * usize::from(tops.get(1) == Some(&0)),
                _ => 1,
            };
            let tokens = draw(&drawn.texts[node].clone(), count, random);
            for token in tokens {
                drawn.push(node, token);
            }
        }
        drawn
    }

    fn push(&mut self, parent: usize, token: Token) -> usize {
        self.texts.push([&self.texts[parent][..], &[token]].concat());
        self.tree.push(parent, token)
    }

    fn emitted(&self, seed: u64, rule: &dyn AcceptanceRule, random: &mut dyn RandomSource) -> Vec<Token> {
        let rows =
            |seed| -> Vec<f64> { self.texts.iter().flat_map(|text| random_distribution(seed, text, VOCAB)).collect() };
        let (target, draft) = (rows(seed), rows(seed + 1000));
        let draft = DraftRows::single(Some(Rows::Probabilities { data: &draft, vocab: VOCAB }), SCHEME);
        let target = TargetRows::Probabilities { data: &target, vocab: VOCAB };
        let verdict = rule.accept(&self.tree, draft, target, random).unwrap();
        verdict.path[1..].iter().map(|&node| self.tree.token(node)).chain([verdict.bonus]).collect()
    }
}

/// Adds the texts of `HORIZON` tokens that begin with `text`, of probability `mass`, to a distribution over all.
fn spread(seed: u64, text: &[Token], mass: f64, all: &mut [f64]) {
    if text.len() == HORIZON {
        all[text.iter().fold(0, |code, &token| code * VOCAB + token as usize)] += mass;
        return;
    }
    for (token, p) in (0..).zip(random_distribution(seed, text, VOCAB)) {
        spread(seed, &[text, &[token]].concat(), mass * p, all);
    }
}

fn error(seed: u64, rule: &dyn AcceptanceRule, dependence: Dependence) -> f64 {
    let mut all = vec![0.0; VOCAB.pow(HORIZON as u32)];
    for (mass, mut text) in enumerate(|random| Drawn::new(seed, dependence, random).emitted(seed, rule, random)) {
        text.truncate(HORIZON);
        spread(seed, &text, mass, &mut all);
    }
    distance(&all, &plain(HORIZON, &|text| random_distribution(seed, text, VOCAB)))
}

#[test]
fn shapes_may_depend_on_other_draws_but_not_on_a_draws_own_value() {
    let transform = Transform::IDENTITY;
    let (rounds, traversal, coupled) = (Sampling { transform }, Traversal { transform }, Coupled { transform });
    for seed in 0..12 {
        for dependence in [Dependence::Ancestor, Dependence::EldersChild, Dependence::YoungerSibling] {
            for rule in [&rounds as &dyn AcceptanceRule, &traversal, &coupled] {
                assert!(error(seed, rule, dependence) < 1e-12, "{seed} {dependence:?}");
            }
        }
        assert!(error(seed, &coupled, Dependence::OwnValue) < 1e-12, "{seed}: any tree is right for a coupled rule");
    }
    let biased =
        |rule: &dyn AcceptanceRule| (0..12).filter(|&seed| error(seed, rule, Dependence::OwnValue) > 1e-3).count();
    assert!(biased(&rounds) > 6 && biased(&traversal) > 6, "{} {}", biased(&rounds), biased(&traversal));
}
